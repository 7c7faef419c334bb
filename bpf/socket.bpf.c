/* SPDX-License-Identifier: GPL-2.0-only */
/* Socket layer: data that a process sends and receives, and the moment when a reader is notified.
 * All kinds of probes share these bodies; those at functions are in functions.bpf.c. */
#include "log.h"

/* Who uses a TCP socket whose functions are not those of a socket of a process. */
INLINE __u32 consumer_of(const struct sock *sk)
{
	const struct tcp_sock *tp = CAST(tcp_sock, sk);
	if (bpf_core_field_exists(tp->is_mptcp) && READ(tp, is_mptcp))
		return MAG_CONSUMER_MPTCP;
	const struct tcp_ulp_ops *ulp = READ(tp, inet_conn.icsk_ulp_ops);
	if (ulp) {
		/* The first letters differ between all protocols of the kernel. */
		char name[4] = {};
		bpf_probe_read_kernel(name, sizeof(name), ulp->name);
		if (name[0] == 't' && name[1] == 'l')
			return MAG_CONSUMER_TLS;
		if (name[0] == 'e' && name[1] == 's')
			return MAG_CONSUMER_ESPINTCP;
		if (name[0] == 's' && name[1] == 'm')
			return MAG_CONSUMER_SMC;
		return MAG_CONSUMER_KERNEL;
	}
	__u64 data = (__u64)FOLLOW(sock, sk, sk_user_data);
	return data & SK_USER_DATA_PSOCK ? MAG_CONSUMER_SOCKMAP : MAG_CONSUMER_KERNEL;
}

/* The consumer of a TCP socket whose recvmsg is another one than TCP's own; 0 a process. What such
 * a call returns is not the next bytes of the stream: decrypted, or of another socket. */
INLINE __u32 other_recvmsg(const struct sock *sk)
{
	__u64 own = control.functions.recvmsg;
	if (!own || (__u64)FOLLOW(sock, sk, __sk_common.skc_prot, recvmsg) == own)
		return 0;
	return consumer_of(sk);
}

INLINE __u32 other_sendmsg(const struct sock *sk)
{
	__u64 own = control.functions.sendmsg;
	if (!own || (__u64)FOLLOW(sock, sk, __sk_common.skc_prot, sendmsg) == own)
		return 0;
	return consumer_of(sk);
}

/* The consumer of a TCP socket that notifies another function than that of a process. */
INLINE __u32 consumer_at_ready(const struct sock *sk)
{
	__u64 own = control.functions.data_ready;
	if (own && (__u64)FOLLOW(sock, sk, sk_data_ready) != own)
		return consumer_of(sk);
	return other_recvmsg(sk);
}

/* Logs a call. With a consumer, its bytes are not those of the socket's stream. */
INLINE void log_call(__u8 hop, const struct sock *sk, __u64 cookie, __u32 seq, __u32 len,
		     __u16 flags, __u32 consumer, __u64 pid_tgid, __u64 now)
{
	struct mag_cpu *state = this_cpu();
	union mag_payload by = { .call = { .tgid = pid_tgid >> 32,
					   .tid = pid_tgid,
					   .detail = { .consumer = consumer } } };
	if (consumer) {
		seq = 0;
		flags |= MAG_F_PARTIAL | MAG_F_IN_KERNEL;
	}
	if (state)
		log_range(state, hop, sk, cookie, seq, len, flags, 0, by, pid_tgid, now);
}

/* A thread's current call of tcp_sendmsg: its socket, its first byte and its last. It prevents a
 * second report of the same call. Two threads that share a slot only cause repeated reports. */
struct call {
	__u64 sk;
	__u32 end;
	__u32 start;
};
#define SENDERS 4096
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, SENDERS);
	__type(key, __u32);
	__type(value, struct call);
} senders SEC(".maps");

INLINE struct call *current_call(__u64 pid_tgid)
{
	__u32 index = pid_tgid & (SENDERS - 1);
	return bpf_map_lookup_elem(&senders, &index);
}

/* Whether a TCP socket has no SYN yet. It takes no bytes, except those of TCP Fast Open, whose
 * numbers only the SYN decides. */
INLINE bool before_syn(const struct sock *sk)
{
	__u8 state = READ(sk, __sk_common.skc_state);
	/* With TCP_FASTOPEN_CONNECT, connect leaves the SYN to the first send. */
	return state == TCP_CLOSE ||
	       (state == TCP_SYN_SENT && !READ(CAST(tcp_sock, sk), packets_out));
}

/* At the call of send, which offers `len` bytes. The socket is not locked yet, so the position in
 * the stream is correct only without concurrent calls. */
INLINE int on_app_send(enum pointer_kind pointers, const struct sock *sk, __u64 len)
{
	if (!sk || !socket_wanted(sk))
		return 0;
	__u64 now = clock_now();
	__u32 seq = 0, consumer = 0;
	if (READ(sk, sk_protocol) == IPPROTO_TCP) {
		if (!len || before_syn(sk))
			return 0;
		consumer = other_sendmsg(sk);
		seq = READ(CAST(tcp_sock, sk), write_seq);
	}
	log_call(MAG_APP_SEND, sk, cookie_of(pointers, sk), seq, len, 0, consumer,
		 bpf_get_current_pid_tgid(), now);
	return 0;
}

/* At the call that offers a page of a file or a pipe. UDP makes a datagram of several pages. */
INLINE int on_app_sendpage(enum pointer_kind pointers, const struct sock *sk, __u64 len)
{
	if (!sk || READ(sk, sk_protocol) != IPPROTO_TCP)
		return 0;
	return on_app_send(pointers, sk, len);
}

/* At the function that makes a SYN. With TCP Fast Open, the call that offers the first bytes of the
 * stream runs it. */
INLINE int on_app_open(enum pointer_kind pointers, const struct sock *sk)
{
	const struct tcp_sock *tp = CAST(tcp_sock, sk);
	const struct tcp_fastopen_request *request = READ(tp, fastopen_req);
	if (!request || !socket_wanted(sk))
		return 0;
	__u64 len = READ(request, size);
	if (len)
		log_call(MAG_APP_SEND, sk, cookie_of(pointers, sk), READ(tp, write_seq) + 1, len, 0,
			 other_sendmsg(sk), bpf_get_current_pid_tgid(), clock_now());
	return 0;
}

/* At the return of send, which took `ret` bytes. The process is known for certain only at this
 * layer. */
SEC("tp_btf/sock_send_length")
int BPF_PROG(app_send, struct sock *sk, int ret, int flags)
{
	if (!socket_wanted(sk))
		return 0;
	__u64 now = clock_now(), pid_tgid = bpf_get_current_pid_tgid();
	__u32 seq = 0, consumer = 0;
	if (sk->sk_protocol == IPPROTO_TCP) {
		/* The next call may offer as many bytes at the same place, if this one failed. */
		struct call *call = current_call(pid_tgid);
		if (call && call->sk == (__u64)sk)
			call->sk = 0;
		if (ret <= 0)
			return 0;
		consumer = other_sendmsg(sk);
		seq = READ(CAST(tcp_sock, sk), write_seq) - ret;
	}
	if (ret < 0)
		return 0;
	log_call(MAG_APP_SEND, sk, cookie_of(TYPED, sk), seq, ret, MAG_F_AT_RETURN, consumer,
		 pid_tgid, now);
	return 0;
}

/* The sequence number after the last byte read. Once the reader has reached the FIN, copied_seq
 * includes its number. */
INLINE __u32 read_up_to(const struct sock *sk)
{
	const struct tcp_sock *tp = CAST(tcp_sock, sk);
	__u32 copied = READ(tp, copied_seq);
	bool fin = READ(sk, __sk_common.skc_flags) >> SOCK_DONE & 1 && copied == READ(tp, rcv_nxt);
	return copied - fin;
}

/* MAG_F_URGENT if the byte before `seq` is urgent: reads pass over it. urg_seq keeps its number. */
INLINE __u16 passed_urgent(const struct sock *sk, __u32 seq)
{
	return READ(CAST(tcp_sock, sk), urg_seq) + 1 == seq ? MAG_F_URGENT : 0;
}

/* The buffer of the first datagram in a UDP socket's queue; 0 if there is none. Readers take from
 * reader_queue, and refill it from sk_receive_queue, to which packets are added. The last buffer of
 * a queue, and an empty queue, point to the queue itself. */
INLINE __u64 first_in_queue(const struct sock *sk)
{
	const struct udp_sock *up = CAST(udp_sock, sk);
	const struct sk_buff *skb = READ(up, reader_queue.next);
	if (!skb || (__u64)skb == (__u64)&up->reader_queue) {
		skb = FOLLOW(sock, sk, sk_receive_queue.next);
		if (!skb || (__u64)skb == (__u64)&sk->sk_receive_queue)
			return 0;
	}
	return (__u64)FOLLOW(sk_buff, skb, head);
}

/* A UDP socket's queue at a time. */
struct queue_look {
	/* The buffer of the first datagram, 0 if there is none. */
	__u64 first;
	__u64 now;
	/* Whether `first` was the first at `now`. */
	bool certain;
};

/* Takes the time, and looks at the queue again: whether it is as at the look before. */
INLINE bool unchanged_around(const struct sock *sk, struct queue_look *look)
{
	__u64 before = look->first;
	look->now = clock_now();
	look->first = first_in_queue(sk);
	return look->first == before;
}

/* A datagram that arrives between the look and the time, in an interrupt or while a virtual CPU
 * stands still, would make them disagree. If both looks differ, the later begins another round. */
INLINE struct queue_look look_at_queue(const struct sock *sk)
{
	struct queue_look look = { .first = first_in_queue(sk) };
	look.certain = unchanged_around(sk, &look) || unchanged_around(sk, &look) ||
		       unchanged_around(sk, &look);
	return look;
}

/* At the return of recv. TCP has moved copied_seq past the bytes, except for MSG_PEEK. A datagram's
 * buffer is freed by then; what is left in the queue shows which one was taken. */
INLINE int on_app_recv(enum pointer_kind pointers, const struct sock *sk, int ret, int flags)
{
	/* The error queue holds time stamps and ICMP errors, no received data. */
	if (!sk || flags & MSG_ERRQUEUE || (ret < 0 && ret != -EAGAIN) || !socket_wanted(sk))
		return 0;
	bool tcp = READ(sk, sk_protocol) == IPPROTO_TCP;
	struct queue_look queue = {};
	if (tcp)
		queue.now = clock_now();
	else
		queue = look_at_queue(sk);
	if (ret < 0) {
		struct mag_cpu *state = this_cpu();
		/* A datagram that came after the kernel's look at the queue is there at `now`. */
		if (state && (tcp || (queue.certain && !queue.first))) {
			state->asked_sk = (__u64)sk;
			state->asked_ns = queue.now;
			state->asked_tid = bpf_get_current_pid_tgid();
		}
		return 0;
	}
	__u32 seq = 0;
	bool peek = flags & MSG_PEEK;
	if (tcp && !ret) /* the end of the stream; a datagram may be empty */
		return 0;
	__u16 flag = peek ? MAG_F_PEEK : 0;
	__u32 consumer = tcp ? other_recvmsg(sk) : 0;
	if (tcp && flags & MSG_OOB) {
		seq = READ(CAST(tcp_sock, sk), urg_seq);
		flag |= MAG_F_OUT_OF_BAND;
	} else if (tcp) {
		seq = peek ? READ(CAST(tcp_sock, sk), copied_seq) : read_up_to(sk) - ret;
		flag |= passed_urgent(sk, seq);
	} else if (!peek && queue.certain) {
		seq = queue.first >> 6;
		flag = queue.first ? 0 : MAG_F_QUEUE_EMPTY;
	}
	log_call(MAG_APP_RECV, sk, cookie_of(pointers, sk), seq, ret, flag, consumer,
		 bpf_get_current_pid_tgid(), queue.now);
	return 0;
}

SEC("tp_btf/sock_recv_length")
int BPF_PROG(app_recv, struct sock *sk, int ret, int flags)
{
	return on_app_recv(TYPED, sk, ret, flags);
}

/* Bytes are copied to the reader's memory: for TCP always, for UDP only if the payload is outside
 * the linear part. */
INLINE int on_app_copy(enum pointer_kind pointers, const struct sk_buff *skb, int len)
{
	const struct sock *sk = FOLLOW(sk_buff, skb, sk);
	if (!sk || len <= 0 || !socket_wanted(sk))
		return 0;
	/* The kernel marks the packets of the error queue so (skb_set_err_queue). */
	if (READ_BITFIELD(skb, pkt_type) == PACKET_OUTGOING)
		return 0;
	if (READ(sk, sk_protocol) == IPPROTO_TCP && other_recvmsg(sk))
		return 0;
	__u64 now = clock_now();
	__u32 seq = READ(sk, sk_protocol) == IPPROTO_TCP ? READ(CAST(tcp_sock, sk), copied_seq)
							 : (__u64)READ(skb, head) >> 6;
	__u64 cookie = pointers == TYPED ? READ(sk, __sk_common.skc_cookie.counter)
					 : cookie_of(pointers, sk);
	log_socket(MAG_APP_COPY, sk, cookie, seq, len, 0, bpf_get_current_pid_tgid(), now);
	return 0;
}

SEC("tp_btf/skb_copy_datagram_iovec")
int BPF_PROG(app_copy, const struct sk_buff *skb, int len)
{
	return on_app_copy(TYPED, skb, len);
}

/* The number of threads that this socket's data_ready may wake: all that poll, one of those that
 * read, one per epoll. If no thread sleeps, the next wake-up on this CPU has another cause. A
 * waiter of unknown kind counts as one thread. A global function, for which the verifier treats the
 * pointer as a number in memory. */
SUBPROGRAM int sleepers(__u64 *sk_at)
{
	if (!sk_at)
		return 0;
	const struct socket_wq *wq = FOLLOW(sock, *sk_at, sk_wq);
	if (!wq)
		return 0;
	const void *head = &wq->wait.head, *at = READ(wq, wait.head.next);
	__u32 count = 0, readers = 0;
#pragma unroll
	for (int i = 0; i < 4; i++) {
		if (!at || (__u64)at == (__u64)head)
			return count + readers;
		const struct wait_queue_entry *waiter =
			CAST(wait_queue_entry,
			     at - bpf_core_field_offset(struct wait_queue_entry, entry));
		at = READ(waiter, entry.next);
		if (!can(MAG_CAN_EPOLL) || READ(waiter, private) ||
		    (__u64)READ(waiter, func) != control.functions.epoll_callback) {
			if (READ(waiter, flags) & WQ_FLAG_EXCLUSIVE)
				readers = 1;
			else
				count++;
			continue;
		}
		const struct eppoll_entry *entry = CAST(
			eppoll_entry,
			(const void *)waiter - bpf_core_field_offset(struct eppoll_entry, wait));
		const struct eventpoll *ep = READ(entry, base, ep);
		const void *in = &ep->wq.head, *above = &ep->poll_wait.head;
		if ((__u64)READ(ep, wq.head.next) != (__u64)in ||
		    (__u64)READ(ep, poll_wait.head.next) != (__u64)above)
			count++;
	}
	return count + readers + ((__u64)at != (__u64)head);
}

/* The socket notifies its readers. Everything below rcv_nxt is readable from now on. */
INLINE int on_sock_ready(enum pointer_kind pointers, const struct sock *sk)
{
	if (!socket_wanted(sk))
		return 0;
	__u64 now = clock_now();
	__u64 cookie = cookie_of(pointers, sk);
	__u32 seq = 0, consumer = 0;
	if (READ(sk, sk_protocol) == IPPROTO_TCP) {
		seq = READ(CAST(tcp_sock, sk), rcv_nxt);
		consumer = consumer_at_ready(sk);
	}
	struct mag_cpu *state = this_cpu();
	if (state) {
		/* This call causes the next wake-up on this CPU. */
		__u64 sk_at = (__u64)sk;
		__u32 count = sleepers(&sk_at);
		state->ready_cookie = count ? cookie : 0;
		state->ready_wakes = count;
		state->ready_ns = now;
	}
	/* A thread that busy-polls receives the data from the device itself. */
	union mag_payload payload = { .ready = { .poller_tid = 0 } };
	if (bpf_core_field_exists(sk->sk_ll_usec) && READ(sk, sk_ll_usec))
		payload.ready.poller_tid = bpf_get_current_pid_tgid();
	payload.ready.consumer = consumer;
	if (state && socket_hop(MAG_SOCK_READY))
		log_range(state, MAG_SOCK_READY, sk, cookie, seq, 0, consumer ? MAG_F_IN_KERNEL : 0,
			  0, payload, 0, now);
	return 0;
}

SEC("tp_btf/sk_data_ready")
int BPF_PROG(sock_ready, const struct sock *sk)
{
	return on_sock_ready(TYPED, sk);
}

/* A TCP socket is destroyed, after its process has closed it: no read follows. Received bytes that
 * nobody has read are discarded. The FIN has taken a number. */
SEC("tp_btf/tcp_destroy_sock")
int BPF_PROG(sock_destroy, struct sock *sk)
{
	if (!socket_wanted(sk) || !READ(sk, __sk_common.skc_dport))
		return 0;
	__u64 now = clock_now();
	__u32 seq = read_up_to(sk), end = READ(CAST(tcp_sock, sk), rcv_nxt);
	__s32 unread = end - (READ(sk, __sk_common.skc_flags) >> SOCK_DONE & 1) - seq;
	struct mag_cpu *state = this_cpu();
	union mag_payload written = {
		.call = { .detail = { .write_seq = READ(CAST(tcp_sock, sk), write_seq) } }
	};
	if (state)
		log_range(state, MAG_SOCK_DESTROY, sk, cookie_of(TYPED, sk), seq,
			  unread > 0 ? unread : 0, passed_urgent(sk, seq), 0, written, 0, now);
	return 0;
}

/* The receive buffer of a UDP socket is full; the kernel is about to drop the datagram. */
SEC("tp_btf/udp_fail_queue_rcv_skb")
int BPF_PROG(sock_full, int code, struct sock *sk)
{
	if (!wanted(MAG_SOCK_FULL) || !socket_wanted(sk))
		return 0;
	log_socket(MAG_SOCK_FULL, sk, READ(sk, __sk_common.skc_cookie.counter), 0, 0, 0, 0,
		   clock_now());
	return 0;
}
