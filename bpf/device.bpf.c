/* SPDX-License-Identifier: GPL-2.0-only */
/* Device layer: queue, driver, completion of the driver's call, and packet drops. */
#include "log.h"

/* The packet that this CPU is passing to a driver. After the driver returns, the skb may be freed
 * or reused. So dev.done reports the values read at dev.xmit; the pointer is compared, never
 * dereferenced. */
struct handover {
	__u64 skb;
	__u64 cookie;
	__u32 ifindex;
	struct packet packet;
};
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct handover);
} handovers SEC(".maps");

INLINE bool parse_tx(const struct sk_buff *skb, const struct net_device *dev, struct packet *p)
{
	return parse(skb, READ(skb, head) + READ(skb, network_header), READ(skb, protocol),
		     netns_of_device(dev), TX, p);
}

INLINE __u64 sender_of(const struct sk_buff *skb)
{
	const struct sock *sk = FOLLOW(sk_buff, skb, sk);
	return sk ? READ(sk, __sk_common.skc_cookie.counter) : 0;
}

INLINE int on_dev_queue(const struct sk_buff *skb)
{
	if (!wanted(MAG_DEV_QUEUE))
		return 0;
	__u64 now = clock_unless_gated();
	const struct net_device *dev = FOLLOW(sk_buff, skb, dev);
	struct packet p;
	if (parse_tx(skb, dev, &p))
		log_packet(MAG_DEV_QUEUE, &p, sender_of(skb), READ(dev, ifindex), ACK_OF(p), 0,
			   now);
	return 0;
}

SEC("tp_btf/net_dev_queue")
int BPF_PROG(dev_queue, struct sk_buff *skb)
{
	return on_dev_queue(skb);
}

SEC("tp_btf/net_dev_start_xmit")
int BPF_PROG(dev_xmit, const struct sk_buff *skb, const struct net_device *dev)
{
	__u64 now = clock_unless_gated();
	struct packet p;
	if (!parse_tx(skb, dev, &p))
		return 0;
	__u64 cookie = sender_of(skb);
	if (wanted(MAG_DEV_XMIT)) {
		now = log_packet(MAG_DEV_XMIT, &p, cookie, dev->ifindex, ACK_OF(p), 0, now);
		/* The receiver may process the packet before the driver returns. */
		p.before = now ? MARK(MAG_DEV_XMIT, now) : 0;
	}
	__u32 zero = 0;
	struct handover *h = wanted(MAG_DEV_DONE) ? bpf_map_lookup_elem(&handovers, &zero) : NULL;
	if (h) {
		/* By dev.done the packet may be freed. */
		p.skb_at = p.ip_at = p.payload_at = 0;
		h->skb = (__u64)skb;
		h->cookie = cookie;
		h->ifindex = dev->ifindex;
		h->packet = p;
	}
	return 0;
}

/* A stacked device calls the transmit function of another device. Only the innermost call reports
 * dev.done. */
SEC("tp_btf/net_dev_xmit")
int BPF_PROG(dev_done, struct sk_buff *skb, int code, struct net_device *dev, unsigned int len)
{
	if (!wanted(MAG_DEV_DONE))
		return 0;
	__u64 now = clock_unless_gated();
	__u32 zero = 0;
	struct handover *h = bpf_map_lookup_elem(&handovers, &zero);
	if (!h || h->skb != (__u64)skb)
		return 0;
	h->skb = 0;
	log_packet(MAG_DEV_DONE, &h->packet, h->cookie, h->ifindex,
		   (union mag_packet_detail){ .driver_code = code }, 0, now);
	return 0;
}

/* A received packet whose IP header is at the data, because the stack sets the network header only
 * after these hooks. The direction comes from the device alone, since skb->sk may still be the
 * sender's. */
INLINE int on_received(const struct sk_buff *skb, int hop)
{
	if (!wanted(hop))
		return 0;
	__u64 now = clock_unless_gated();
	const struct net_device *dev = FOLLOW(sk_buff, skb, dev);
	struct packet p;
	if (parse(skb, READ(skb, data), READ(skb, protocol), netns_of_device(dev), RX, &p))
		log_packet(hop, &p, 0, READ(dev, ifindex), ACK_OF(p), 0, now);
	return 0;
}

/* The driver's poll has the packet, and GRO may merge it with others. Drivers that pass packets in
 * page fragments (napi_gro_frags) do not come here: their IP headers are not linear yet. */
SEC("tp_btf/napi_gro_receive_entry")
int BPF_PROG(napi_poll, struct sk_buff *skb)
{
	return on_received(skb, MAG_NAPI_POLL);
}

/* The packet leaves the driver. */
SEC("tp_btf/netif_receive_skb")
int BPF_PROG(dev_recv, struct sk_buff *skb)
{
	return on_received(skb, MAG_DEV_RECV);
}

/* Whether the reason of a drop is a socket without buffer space. */
INLINE bool no_room(int reason)
{
	return (bpf_core_enum_value_exists(enum skb_drop_reason, SKB_DROP_REASON_SOCKET_RCVBUFF) &&
		reason == bpf_core_enum_value(enum skb_drop_reason,
					      SKB_DROP_REASON_SOCKET_RCVBUFF)) ||
	       (bpf_core_enum_value_exists(enum skb_drop_reason, SKB_DROP_REASON_PROTO_MEM) &&
		reason == bpf_core_enum_value(enum skb_drop_reason, SKB_DROP_REASON_PROTO_MEM));
}

/* Whether the reason of a drop is a filter: of the socket itself, or of its cgroup. */
INLINE bool by_filter(int reason)
{
	return bpf_core_enum_value_exists(enum skb_drop_reason, SKB_DROP_REASON_SOCKET_FILTER) &&
	       reason == bpf_core_enum_value(enum skb_drop_reason, SKB_DROP_REASON_SOCKET_FILTER);
}

/* The filter of the socket that a packet was for: its program, or a number of enum mag_filter_id.
 * A classic filter is a program without an id. */
INLINE __u32 filter_of(const struct sock *sk)
{
	if (!sk)
		return MAG_FILTER_UNKNOWN;
	const struct sk_filter *filter = READ(sk, sk_filter);
	if (!filter)
		return MAG_FILTER_NONE;
	__u32 id = FOLLOW(sk_filter, filter, prog, aux, id);
	if (!id)
		return MAG_FILTER_CLASSIC;
	return id < MAG_FILTER_NONE ? id : MAG_FILTER_UNKNOWN;
}

/* The kernel frees a dropped packet. A packet that came in by an interface is a received one. */
SEC("tp_btf/kfree_skb")
int BPF_PROG(skb_drop, struct sk_buff *skb, void *location)
{
	int reason = 0;
	/* Kernels with drop reasons pass them as third argument. `volatile` keeps the compiler from
	 * reading it before the check. */
	if (can(MAG_CAN_DROP_REASON) && bpf_core_type_exists(enum skb_drop_reason))
		reason = *(volatile __u64 *)&ctx[2];
	if (!wanted(MAG_SKB_DROP))
		return 0;
	__u64 now = clock_unless_gated();
	__be16 protocol = skb->protocol;
	if (protocol != bpf_htons(ETH_P_IP) && protocol != bpf_htons(ETH_P_IPV6))
		return 0;
	if (!skb->network_header || skb->network_header == 0xffff)
		return 0;
	const struct net_device *dev = FOLLOW(sk_buff, skb, dev);
	const struct sock *sk = FOLLOW(sk_buff, skb, sk);
	__u32 netns = 0, asked;
	if (sk)
		netns = netns_of_socket(sk);
	else if (dev)
		netns = netns_of_device(dev);
	else
		return 0;
	/* A datagram from a receive queue has neither: UDP stores other facts in the field of the
	 * device. Its namespace is unknown, and so is its flow. User space knows its buffer. Only
	 * the choice of namespaces uses that of the current task, which reads the socket or closes
	 * it. */
	asked = netns;
	if (!netns) {
		const struct task_struct *task = CURRENT_TASK;
		asked = READ(task, nsproxy, net_ns, ns.inum);
	}
	/* For the verifier both paths continue alike, as in parse(). */
	netns |= control.zero;
	asked |= control.zero;
	struct packet p;
	if (parse(skb, skb->head + skb->network_header, protocol, asked,
		  skb->skb_iif == 0 ? TX : RX, &p)) {
		p.t.netns = netns;
		p.order = (p.t.proto == IPPROTO_UDP && no_room(reason)) | control.zero;
		__u32 filter = MAG_FILTER_UNKNOWN;
		/* The packet has left its socket, which is the fourth argument since Linux 6.11. */
		if (by_filter(reason) &&
		    bpf_core_field_exists(struct trace_event_raw_kfree_skb, rx_sk))
			filter = filter_of(CAST(sock, *(volatile __u64 *)&ctx[3]));
		log_packet(MAG_SKB_DROP, &p, 0, dev ? READ(dev, ifindex) : 0,
			   (union mag_packet_detail){ .drop_reason = reason }, filter, now);
	}
	return 0;
}
