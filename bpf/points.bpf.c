/* SPDX-License-Identifier: GPL-2.0-only */
/* Points of TCP connections: attempts to connect that end, SYN-ACKs that are sent again, resets. */
#include "log.h"

/* The arguments of tcp_send_reset. Either pointer may be null, which older verifiers do not know;
 * behind memory they are numbers. */
struct reset {
	__u64 sk;
	__u64 skb;
	__u64 reason;
};

/* The packet that a reset answers. With those of its callees the stack has no room for it before
 * Linux 6.3. No CPU runs the program again while it runs it. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct packet);
} answered SEC(".maps");

/* A reset answers the received packet `skb`, or without one it ends the connection of `sk`. The
 * socket is a full one only without a packet. */
SUBPROGRAM int log_reset_sent(struct reset *reset)
{
	__u32 zero = 0;
	struct packet *p = bpf_map_lookup_elem(&answered, &zero);
	if (!reset || !p)
		return 0;
	const struct sock *sk = CAST(sock, reset->sk);
	__u64 cookie = 0;
	if (reset->skb) {
		const struct sk_buff *skb = CAST(sk_buff, reset->skb);
		const struct net_device *dev = READ(skb, dev);
		__u32 netns = reset->sk ? READ(sk, __sk_common.skc_net.net, ns.inum)
			      : dev     ? READ(dev, nd_net.net, ns.inum)
					: 0;
		if (!parse(skb, READ(skb, head) + READ(skb, network_header), READ(skb, protocol),
			   netns, RX, p))
			return 0;
	} else {
		if (!reset->sk || !socket_wanted(sk) || !socket_tuple(sk, &p->t))
			return 0;
		cookie = cookie_of(UNTYPED, sk);
	}
	log_point(MAG_TCP_SEND_RESET, &p->t, cookie, reset->reason, 0);
	return 0;
}

SEC("tp_btf/tcp_send_reset")
int tcp_send_reset(__u64 *ctx)
{
	struct reset reset = { .sk = ctx[0], .skb = ctx[1] };
	if (!wanted(MAG_TCP_SEND_RESET))
		return 0;
	/* `volatile` keeps the compiler from reading the argument before the check. */
	if (bpf_core_type_exists(enum sk_rst_reason))
		reset.reason = (__u32) * (volatile __u64 *)&ctx[2];
	return log_reset_sent(&reset);
}

/* A received reset ends the connection. */
SEC("tp_btf/tcp_receive_reset")
int BPF_PROG(tcp_recv_reset, const struct sock *sk)
{
	struct tuple t;
	if (wanted(MAG_TCP_RECV_RESET) && socket_wanted(sk) && socket_tuple(sk, &t))
		log_point(MAG_TCP_RECV_RESET, &t, cookie_of(TYPED, sk), 0, 0);
	return 0;
}

/* A segment that may be forged is answered, unless the kernel's limit suppresses it. */
INLINE int on_challenge_ack(enum pointer_kind pointers, const struct sock *sk)
{
	struct tuple t;
	if (wanted(MAG_TCP_CHALLENGE_ACK) && socket_wanted(sk) && socket_tuple(sk, &t))
		log_point(MAG_TCP_CHALLENGE_ACK, &t, cookie_of(pointers, sk), 0, 0);
	return 0;
}

/* An attempt to connect ends: the connection is established, or the socket is closed. The error
 * number is set before that. */
SEC("tp_btf/inet_sock_set_state")
int BPF_PROG(tcp_open, const struct sock *sk, int old_state, int new_state)
{
	bool was_opening = old_state == TCP_SYN_SENT || old_state == TCP_SYN_RECV;
	struct tuple t;
	if (!was_opening || new_state == TCP_SYN_RECV || !wanted(MAG_TCP_OPEN))
		return 0;
	if (READ(sk, sk_protocol) == IPPROTO_TCP && socket_wanted(sk) && socket_tuple(sk, &t))
		log_point(MAG_TCP_OPEN, &t, cookie_of(TYPED, sk), new_state, READ(sk, sk_err));
	return 0;
}

/* A SYN-ACK was sent again, because its acknowledgement has not come. There is no socket of the
 * connection yet. */
SEC("tp_btf/tcp_retransmit_synack")
int BPF_PROG(tcp_synack, const struct sock *sk, const struct request_sock *req)
{
	struct tuple t;
	const struct sock *half_open = CAST(sock, req);
	if (wanted(MAG_TCP_SYNACK) && socket_wanted(sk) &&
	    tuple_of(half_open, READ(half_open, __sk_common.skc_num), IPPROTO_TCP, &t))
		log_point(MAG_TCP_SYNACK, &t, 0, READ(req, num_retrans) + 1, 0);
	return 0;
}
