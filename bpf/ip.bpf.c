/* SPDX-License-Identifier: GPL-2.0-only */
/* IP layer: the four netfilter hooks of a host's own packets, attached once per namespace and
 * family. Alternatively the functions around them (functions.bpf.c), attached once for all
 * namespaces. */
#include "log.h"

INLINE int log_ip(__u8 hop, enum side side, const struct net *net, const struct sock *sk,
		  const struct sk_buff *skb, const struct net_device *dev, __be16 protocol)
{
	if (!wanted(hop))
		return 0;
	__u64 now = clock_unless_gated();
	struct packet p;
	if (!parse(skb, READ(skb, head) + READ(skb, network_header), protocol, READ(net, ns.inum),
		   side, &p))
		return 0;
	__u64 cookie = 0;
	union mag_packet_detail detail = ACK_OF(p);
	__u32 tid = 0;
	if (side && sk) {
		cookie = READ(sk, __sk_common.skc_cookie.counter);
		/* UDP runs this hop inside the call of send, so the current task is the sender. TCP
		 * may run it in any context. */
		if (hop == MAG_IP_OUT && p.t.proto == IPPROTO_UDP) {
			__u64 pid_tgid = bpf_get_current_pid_tgid();
			detail.tgid = pid_tgid >> 32;
			tid = pid_tgid;
		}
	}
	log_packet(hop, &p, cookie, dev ? READ(dev, ifindex) : 0, detail, tid, now);
	return 0;
}

INLINE int log_hook(struct bpf_nf_ctx *ctx, __u8 hop, enum side side)
{
	const struct nf_hook_state *state = CAST(nf_hook_state, ctx->state);
	/* At LOCAL_OUT skb->protocol is not set yet. */
	__be16 protocol = state->pf == AF_INET ? bpf_htons(ETH_P_IP) : bpf_htons(ETH_P_IPV6);
	log_ip(hop, side, state->net, state->sk, ctx->skb, side ? state->out : state->in, protocol);
	return NF_ACCEPT;
}

SEC("netfilter")
int ip_out(struct bpf_nf_ctx *ctx)
{
	return log_hook(ctx, MAG_IP_OUT, TX);
}

SEC("netfilter")
int ip_post(struct bpf_nf_ctx *ctx)
{
	return log_hook(ctx, MAG_IP_POST, TX);
}

SEC("netfilter")
int ip_pre(struct bpf_nf_ctx *ctx)
{
	return log_hook(ctx, MAG_IP_PRE, RX);
}

SEC("netfilter")
int ip_in(struct bpf_nf_ctx *ctx)
{
	return log_hook(ctx, MAG_IP_IN, RX);
}

/* IPv4 has written all of the header but its length. */
INLINE int on_ip_out(const struct net *net, const struct sock *sk, const struct sk_buff *skb,
		     __be16 protocol)
{
	/* The device of the route. The lowest bit of the word is a reference-counting flag. */
	const struct dst_entry *route = CAST(dst_entry, READ(skb, _skb_refdst) & ~1UL);
	return log_ip(MAG_IP_OUT, UNSEALED, net, sk, skb, READ(route, dev), protocol);
}

/* IPv6 has no function before the rules that all its own packets pass. This one comes right after
 * the rules. Forwarded packets pass it too; they have an input device. */
INLINE int on_ip6_out(const struct net *net, const struct sock *sk, const struct sk_buff *skb)
{
	if (READ(skb, skb_iif))
		return 0;
	return on_ip_out(net, sk, skb, bpf_htons(ETH_P_IPV6));
}

INLINE int on_ip_hop(__u8 hop, enum side side, const struct net *net, const struct sock *sk,
		     const struct sk_buff *skb, __be16 protocol)
{
	return log_ip(hop, side, net, sk, skb, FOLLOW(sk_buff, skb, dev), protocol);
}

/* Runs before IP checks the packet, so frames for other hosts are skipped here. */
INLINE int on_ip_pre(const struct sk_buff *skb, __be16 protocol)
{
	const struct net_device *dev = FOLLOW(sk_buff, skb, dev);
	if (READ_BITFIELD(skb, pkt_type) == PACKET_OTHERHOST)
		return 0;
	return log_ip(MAG_IP_PRE, RX, FOLLOW(net_device, dev, nd_net.net), NULL, skb, dev,
		      protocol);
}
