/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Probes at functions. The bodies are those of the layers, called from a trampoline (fentry, fexit)
 * or from a breakpoint (kprobe and kprobe.multi, which run the same program). User space picks the
 * function by what the kernel has; a program here knows the arguments only. IPv4 and IPv6 have
 * separate functions, so a hop may have two programs.
 */
#define UNPACK(...) __VA_ARGS__
#define ENTRY(name, params, call)                                  \
	SEC("fentry") int BPF_PROG(fentry_##name, UNPACK params)   \
	{                                                          \
		const enum pointer_kind pointers = TYPED;          \
		return call;                                       \
	}                                                          \
	SEC("kprobe") int BPF_KPROBE(kprobe_##name, UNPACK params) \
	{                                                          \
		const enum pointer_kind pointers = UNTYPED;        \
		return call;                                       \
	}

/* A typed pointer is dereferenced directly, so that the verifier knows the socket's type. */
#define SK(sock) (pointers == TYPED ? (sock)->sk : READ(CAST(socket, sock), sk))
#define IPV4 bpf_htons(ETH_P_IP)
#define IPV6 bpf_htons(ETH_P_IPV6)
#define SEND_CALL (struct socket * sock, struct msghdr * msg, unsigned long size)
#define PAGE_CALL (struct socket * sock, struct page * page, int offset, unsigned long size)
#define SOCKET_PAGE_CALL (struct sock * sk, struct page * page, int offset, unsigned long size)
#define SOCKET_CALL (struct sock * sk, struct msghdr * msg, unsigned long size)
#define SEGMENT_CALL (struct sock * sk, struct sk_buff * skb)
#define IP_CALL (struct net * net, struct sock * sk, struct sk_buff * skb)

/* inet_sendmsg, inet6_sendmsg */
ENTRY(app_send, SEND_CALL, on_app_send(pointers, SK(sock), size))
ENTRY(app_send6, SEND_CALL, on_app_send(pointers, SK(sock), size))
/* tcp_connect */
ENTRY(app_open, (struct sock * sk), on_app_open(pointers, AS(sock, sk)))
/* inet_sendpage and do_tcp_sendpages, once per page of sendfile and splice before Linux 6.5 */
ENTRY(app_sendpage, PAGE_CALL, on_app_sendpage(pointers, SK(sock), size))
ENTRY(tcp_sendpage, SOCKET_PAGE_CALL, on_tcp_send(pointers, AS(sock, sk), size))
/* tcp_sendmsg_locked */
ENTRY(tcp_send, SOCKET_CALL, on_tcp_send(pointers, AS(sock, sk), size))
/* udp_sendmsg, udpv6_sendmsg */
ENTRY(udp_send, SOCKET_CALL, on_udp_send(pointers, AS(sock, sk), size, AF_INET))
ENTRY(udp_send6, SOCKET_CALL, on_udp_send(pointers, AS(sock, sk), size, AF_INET6))
/* __tcp_transmit_skb */
ENTRY(tcp_xmit, SEGMENT_CALL, on_tcp_xmit(pointers, AS(sock, sk), AS(sk_buff, skb)))
/* __ip_local_out, ip6_output */
ENTRY(ip_out, IP_CALL, on_ip_out(AS(net, net), AS(sock, sk), AS(sk_buff, skb), IPV4))
ENTRY(ip_out6, IP_CALL, on_ip6_out(AS(net, net), AS(sock, sk), AS(sk_buff, skb)))
/* ip_finish_output, ip6_finish_output */
ENTRY(ip_post, IP_CALL,
      on_ip_hop(MAG_IP_POST, TX, AS(net, net), AS(sock, sk), AS(sk_buff, skb), IPV4))
ENTRY(ip_post6, IP_CALL,
      on_ip_hop(MAG_IP_POST, TX, AS(net, net), AS(sock, sk), AS(sk_buff, skb), IPV6))
/* __dev_queue_xmit */
ENTRY(dev_queue, (struct sk_buff * skb), on_dev_queue(AS(sk_buff, skb)))
/* ip_rcv_core, ip6_rcv_core */
ENTRY(ip_pre, (struct sk_buff * skb), on_ip_pre(AS(sk_buff, skb), IPV4))
ENTRY(ip_pre6, (struct sk_buff * skb), on_ip_pre(AS(sk_buff, skb), IPV6))
/* ip_local_deliver_finish, ip6_protocol_deliver_rcu. The latter is called by ip6_input_finish,
 * which some compilers merge with its caller. A packet that UDP has decapsulated is delivered
 * again, with a next header. */
ENTRY(ip_in, IP_CALL, on_ip_hop(MAG_IP_IN, RX, AS(net, net), NULL, AS(sk_buff, skb), IPV4))
ENTRY(ip_in6, (struct net * net, struct sk_buff *skb, int next_header),
      next_header ? 0 : on_ip_hop(MAG_IP_IN, RX, AS(net, net), NULL, AS(sk_buff, skb), IPV6))
/* tcp_rcv_established */
ENTRY(tcp_recv, SEGMENT_CALL, on_tcp_recv(pointers, AS(sock, sk), AS(sk_buff, skb)))
/* __udp_enqueue_schedule_skb; or udp_queue_rcv_one_skb, udpv6_queue_rcv_one_skb */
ENTRY(udp_recv, SEGMENT_CALL, on_udp_recv(pointers, AS(sock, sk), AS(sk_buff, skb)))
ENTRY(udp_recv6, SEGMENT_CALL, on_udp_recv(pointers, AS(sock, sk), AS(sk_buff, skb)))
/* sock_def_readable */
ENTRY(sock_ready, (struct sock * sk), on_sock_ready(pointers, AS(sock, sk)))
/* skb_copy_datagram_iter */
ENTRY(app_copy, (struct sk_buff * skb, int offset, struct iov_iter *to, int len),
      on_app_copy(pointers, AS(sk_buff, skb), len))

/* tcp_send_challenge_ack */
ENTRY(tcp_challenge_ack, (struct sock * sk), on_challenge_ack(pointers, AS(sock, sk)))

/* __netif_receive_skb_core. Compilers make copies of it with fewer arguments. The first argument
 * points to the packet's pointer. */
SEC("kprobe")
int BPF_KPROBE(kprobe_dev_recv, void **at)
{
	void *skb = NULL;
	bpf_probe_read_kernel(&skb, sizeof(skb), at);
	return skb ? on_received(CAST(sk_buff, skb), MAG_DEV_RECV) : 0;
}

/* inet_recvmsg, inet6_recvmsg. A trampoline still has the arguments at the return. */
SEC("fexit")
int BPF_PROG(fexit_app_recv, struct socket *sock, struct msghdr *msg, unsigned long size, int flags,
	     int ret)
{
	return on_app_recv(TYPED, sock->sk, ret, flags);
}

SEC("fexit")
int BPF_PROG(fexit_app_recv6, struct socket *sock, struct msghdr *msg, unsigned long size,
	     int flags, int ret)
{
	return on_app_recv(TYPED, sock->sk, ret, flags);
}

/* A breakpoint at the return has no arguments, so a second one at the call stores them per thread.
 * The kernel reports the returns of some dozens of calls at once, and no others: where many threads
 * wait, a thread's next call finds that it missed one. A return misses its call if too many threads
 * have stored theirs since. */
struct recv_call {
	__u64 sk;
	__u64 flags;
	__u64 since_ns;
};
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 16384);
	__type(key, __u64);
	__type(value, struct recv_call);
} recv_calls SEC(".maps");

INLINE int keep_recv_call(struct socket *sock, int flags)
{
	__u64 thread = bpf_get_current_pid_tgid();
	const struct socket *socket = CAST(socket, sock);
	struct recv_call call = { .sk = (__u64)READ(socket, sk),
				  .flags = flags,
				  .since_ns = clock_now() };
	const struct recv_call *missed = bpf_map_lookup_elem(&recv_calls, &thread);
	if (missed)
		miss(MAG_APP_RECV, missed->since_ns, call.since_ns);
	bpf_map_update_elem(&recv_calls, &thread, &call, BPF_ANY);
	return 0;
}

INLINE int on_recv_return(int ret)
{
	__u64 thread = bpf_get_current_pid_tgid();
	struct recv_call *call = bpf_map_lookup_elem(&recv_calls, &thread);
	if (!call) {
		__u64 now = clock_now();
		if (ret > 0)
			miss(MAG_APP_RECV, now, now);
		return 0;
	}
	const struct sock *sk = CAST(sock, call->sk);
	int flags = call->flags;
	bpf_map_delete_elem(&recv_calls, &thread);
	return on_app_recv(UNTYPED, sk, ret, flags);
}

#define RETURN(name)                                                                        \
	SEC("kprobe")                                                                       \
	int BPF_KPROBE(kprobe_app_recv_call##name, struct socket *sock, struct msghdr *msg, \
		       unsigned long size, int flags)                                       \
	{                                                                                   \
		return keep_recv_call(sock, flags);                                         \
	}                                                                                   \
	SEC("kretprobe") int BPF_KRETPROBE(kprobe_app_recv##name, int ret)                  \
	{                                                                                   \
		return on_recv_return(ret);                                                 \
	}

RETURN()
RETURN(6)
