/* SPDX-License-Identifier: GPL-2.0-only */
/* Socket layer: what a process handed over and got, and the moment a reader was told. */
#include "packet.h"

/* At the return of send: `ret` bytes were taken. Who is right only at this layer. */
SEC("tp_btf/sock_send_length")
int BPF_PROG(app_send, struct sock *sk, int ret, int flags)
{
	if (ret <= 0 || !socket_wanted(sk))
		return 0;
	__u64 now = bpf_ktime_get_ns();
	__u32 seq = 0;
	if (sk->sk_protocol == IPPROTO_TCP)
		seq = CAST(tcp_sock, sk)->write_seq - ret;
	log_socket(MAG_APP_SEND, sk, bpf_get_socket_cookie(sk), seq, ret, MAG_F_AT_RETURN, bpf_get_current_pid_tgid(),
		   now);
	return 0;
}

/* The number after the last byte that was read. A reader that came to the peer's FIN has taken its number too. */
INLINE __u32 read_up_to(const struct sock *sk)
{
	const struct tcp_sock *tp = CAST(tcp_sock, sk);
	__u32 copied = tp->copied_seq;
	bool fin = sk->__sk_common.skc_flags >> SOCK_DONE & 1 && copied == tp->rcv_nxt;
	return copied - fin;
}

/* At the return of recv. TCP has moved copied_seq past the bytes, unless they were only peeked at. */
SEC("tp_btf/sock_recv_length")
int BPF_PROG(app_recv, struct sock *sk, int ret, int flags)
{
	if (ret <= 0 || !socket_wanted(sk))
		return 0;
	__u64 now = bpf_ktime_get_ns();
	__u32 seq = 0;
	bool peek = flags & MSG_PEEK;
	if (sk->sk_protocol == IPPROTO_TCP)
		seq = peek ? CAST(tcp_sock, sk)->copied_seq : read_up_to(sk) - ret;
	log_socket(MAG_APP_RECV, sk, bpf_get_socket_cookie(sk), seq, ret, peek ? MAG_F_PEEK : 0,
		   bpf_get_current_pid_tgid(), now);
	return 0;
}

/* Bytes on their way to the reader's memory: TCP always, UDP only where the payload is not in the linear part. */
SEC("tp_btf/skb_copy_datagram_iovec")
int BPF_PROG(app_copy, const struct sk_buff *skb, int len)
{
	const struct sock *sk = skb->sk;
	if (!sk || len <= 0 || !socket_wanted(sk))
		return 0;
	__u64 now = bpf_ktime_get_ns();
	__u32 seq = 0;
	if (sk->sk_protocol == IPPROTO_TCP)
		seq = CAST(tcp_sock, sk)->copied_seq;
	log_socket(MAG_APP_COPY, sk, sk->__sk_common.skc_cookie.counter, seq, len, 0, bpf_get_current_pid_tgid(), now);
	return 0;
}

/* The socket tells its readers. Everything below rcv_nxt can be read from now on. */
SEC("tp_btf/sk_data_ready")
int BPF_PROG(sock_ready, const struct sock *sk)
{
	if (!socket_wanted(sk))
		return 0;
	__u64 now = bpf_ktime_get_ns();
	__u64 cookie = bpf_get_socket_cookie((void *)sk);
	__u32 seq = 0;
	if (sk->sk_protocol == IPPROTO_TCP)
		seq = CAST(tcp_sock, sk)->rcv_nxt;
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

/* The receive buffer of a UDP socket was full, the datagram is about to be dropped. */
SEC("tp_btf/udp_fail_queue_rcv_skb")
int BPF_PROG(sock_full, int code, struct sock *sk)
{
	if (!socket_wanted(sk))
		return 0;
	log_socket(MAG_SOCK_FULL, sk, sk->__sk_common.skc_cookie.counter, 0, 0, 0, 0, bpf_ktime_get_ns());
	return 0;
}
