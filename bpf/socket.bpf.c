/* SPDX-License-Identifier: GPL-2.0-only */
/* Socket layer: what a process handed over and got, and the moment a reader was told.
 * The bodies are shared by all that can call them; those that stand at functions are in functions.bpf.c. */
#include "packet.h"

/* At the call of send: `len` bytes are offered. The place in the stream is that of a call which has the socket to itself:
 * its lock is not held yet. */
INLINE int on_app_send(enum how how, const struct sock *sk, __u64 len)
{
	if (!sk || !len || !socket_wanted(sk))
		return 0;
	__u64 now = bpf_ktime_get_ns();
	__u32 seq = 0;
	if (READ(sk, sk_protocol) == IPPROTO_TCP)
		seq = READ(CAST(tcp_sock, sk), write_seq);
	log_socket(MAG_APP_SEND, sk, cookie_of(how, sk), seq, len, 0, bpf_get_current_pid_tgid(), now);
	return 0;
}

/* At the return of send: `ret` bytes were taken. Who is right only at this layer. */
SEC("tp_btf/sock_send_length")
int BPF_PROG(app_send, struct sock *sk, int ret, int flags)
{
	if (ret <= 0 || !socket_wanted(sk))
		return 0;
	__u64 now = bpf_ktime_get_ns();
	__u32 seq = 0;
	if (sk->sk_protocol == IPPROTO_TCP)
		seq = READ(CAST(tcp_sock, sk), write_seq) - ret;
	log_socket(MAG_APP_SEND, sk, bpf_get_socket_cookie(sk), seq, ret, MAG_F_AT_RETURN, bpf_get_current_pid_tgid(),
		   now);
	return 0;
}

/* The number after the last byte that was read. A reader that came to the peer's FIN has taken its number too. */
INLINE __u32 read_up_to(const struct sock *sk)
{
	const struct tcp_sock *tp = CAST(tcp_sock, sk);
	__u32 copied = READ(tp, copied_seq);
	bool fin = READ(sk, __sk_common.skc_flags) >> SOCK_DONE & 1 && copied == READ(tp, rcv_nxt);
	return copied - fin;
}

/* At the return of recv. TCP has moved copied_seq past the bytes, unless they were only peeked at. */
INLINE int on_app_recv(enum how how, const struct sock *sk, int ret, int flags)
{
	if (!sk || ret <= 0 || !socket_wanted(sk))
		return 0;
	__u64 now = bpf_ktime_get_ns();
	__u32 seq = 0;
	bool peek = flags & MSG_PEEK;
	if (READ(sk, sk_protocol) == IPPROTO_TCP)
		seq = peek ? READ(CAST(tcp_sock, sk), copied_seq) : read_up_to(sk) - ret;
	log_socket(MAG_APP_RECV, sk, cookie_of(how, sk), seq, ret, peek ? MAG_F_PEEK : 0, bpf_get_current_pid_tgid(),
		   now);
	return 0;
}

SEC("tp_btf/sock_recv_length")
int BPF_PROG(app_recv, struct sock *sk, int ret, int flags)
{
	return on_app_recv(TYPED, sk, ret, flags);
}

/* Bytes on their way to the reader's memory: TCP always, UDP only where the payload is not in the linear part. */
INLINE int on_app_copy(enum how how, const struct sk_buff *skb, int len)
{
	const struct sock *sk = READ(skb, sk);
	if (!sk || len <= 0 || !socket_wanted(sk))
		return 0;
	__u64 now = bpf_ktime_get_ns();
	__u32 seq = 0;
	if (READ(sk, sk_protocol) == IPPROTO_TCP)
		seq = READ(CAST(tcp_sock, sk), copied_seq);
	__u64 cookie = how == TYPED ? READ(sk, __sk_common.skc_cookie.counter) : cookie_of(how, sk);
	log_socket(MAG_APP_COPY, sk, cookie, seq, len, 0, bpf_get_current_pid_tgid(), now);
	return 0;
}

SEC("tp_btf/skb_copy_datagram_iovec")
int BPF_PROG(app_copy, const struct sk_buff *skb, int len)
{
	return on_app_copy(TYPED, skb, len);
}

/* The socket tells its readers. Everything below rcv_nxt can be read from now on. */
INLINE int on_sock_ready(enum how how, const struct sock *sk)
{
	if (!socket_wanted(sk))
		return 0;
	__u64 now = bpf_ktime_get_ns();
	__u64 cookie = cookie_of(how, sk);
	__u32 seq = 0;
	if (READ(sk, sk_protocol) == IPPROTO_TCP)
		seq = READ(CAST(tcp_sock, sk), rcv_nxt);
	struct mag_cpu *state = this_cpu();
	if (state) {
		/* whoever is woken next on this CPU, is woken by this */
		state->ready_cookie = cookie;
		state->ready_ns = now;
	}
	if (wanted(MAG_SOCK_READY))
		log_socket(MAG_SOCK_READY, sk, cookie, seq, 0, 0, 0, now);
	return 0;
}

SEC("tp_btf/sk_data_ready")
int BPF_PROG(sock_ready, const struct sock *sk)
{
	return on_sock_ready(TYPED, sk);
}

/* The receive buffer of a UDP socket was full, the datagram is about to be dropped. */
SEC("tp_btf/udp_fail_queue_rcv_skb")
int BPF_PROG(sock_full, int code, struct sock *sk)
{
	if (!socket_wanted(sk))
		return 0;
	log_socket(MAG_SOCK_FULL, sk, READ(sk, __sk_common.skc_cookie.counter), 0, 0, 0, 0, bpf_ktime_get_ns());
	return 0;
}
