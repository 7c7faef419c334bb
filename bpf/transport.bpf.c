/* SPDX-License-Identifier: GPL-2.0-only */
/* Transport layer: TCP's queues and state, UDP's demultiplexing. */
#include "log.h"

extern void *bpf_cast_to_kern_ctx(void *obj) __ksym __weak;

/* Fires for every chunk that sendmsg copies, under the socket lock. The first chunk of a call gives
 * its start. */
SEC("tp_btf/tcp_sendmsg_locked")
int BPF_PROG(tcp_send, const struct sock *sk, const struct msghdr *msg, const struct sk_buff *skb,
	     int size_goal)
{
	if (!socket_hop(MAG_TCP_SEND) || !socket_wanted(sk))
		return 0;
	__u64 now = clock_now(), pid_tgid = bpf_get_current_pid_tgid();
	__u32 seq = READ(CAST(tcp_sock, sk), write_seq);
	__u32 left = READ(msg, msg_iter.count);
	struct call *call = current_call(pid_tgid);
	if (!call)
		return 0;
	/* After a short write (a full buffer, a signal) the next call has the same last byte. The
	 * return of a call removes it (app_send). Without that, it is another one if it begins at
	 * its buffer's first byte, and not where the last one began. */
	__u8 ubuf = bpf_core_enum_value(enum iter_type, ITER_UBUF);
	bool begins = READ(msg, msg_iter.iter_type) == ubuf && !READ(msg, msg_iter.iov_offset);
	bool is_next = begins && call->start != seq;
	if (call->sk == (__u64)sk && call->end == seq + left && left && !is_next)
		return 0;
	call->sk = (__u64)sk;
	call->end = seq + left;
	call->start = seq;
	log_socket(MAG_TCP_SEND, sk, cookie_of(TYPED, sk), seq, left, 0, pid_tgid, now);
	return 0;
}

/* At the function itself, which runs once per call, with the socket locked. */
INLINE int on_tcp_send(enum pointer_kind pointers, const struct sock *sk, __u64 len)
{
	if (!len || !socket_wanted(sk) || before_syn(sk))
		return 0;
	__u64 now = clock_now();
	__u32 seq = READ(CAST(tcp_sock, sk), write_seq);
	log_socket(MAG_TCP_SEND, sk, cookie_of(pointers, sk), seq, len, 0,
		   bpf_get_current_pid_tgid(), now);
	return 0;
}

/* At udp_sendmsg and udpv6_sendmsg. The second calls the first for IPv4 peers, and is then not
 * reported. */
INLINE int on_udp_send(enum pointer_kind pointers, const struct sock *sk, __u64 len, __u16 family)
{
	if (READ(sk, __sk_common.skc_family) != family || !socket_wanted(sk))
		return 0;
	__u64 now = clock_now();
	log_socket(MAG_UDP_SEND, sk, cookie_of(pointers, sk), 0, len, 0, bpf_get_current_pid_tgid(),
		   now);
	return 0;
}

/* Samples the connection's state, at most once in 4 ms per socket, as long as sockets do not share
 * a slot. With `has_peer`, `t` is the socket's flow already. Its caller's stack has no room for
 * another before Linux 6.3. */
INLINE void log_state(const struct sock *sk, struct tuple *t, bool has_peer, __u64 cookie,
		      __u8 tcp_flags, __u64 now)
{
	__u64 *cell, mark, id = cookie * 0xd6e8feb86659fd93ULL | 1;
	__u32 index = (id >> 20) & (CELLS - 1);
	cell = bpf_map_lookup_elem(&announced, &index);
	mark = id ^ now >> 22;
	if (!cell || *cell == mark)
		return;
	struct mag_cpu *state = this_cpu();
	if (!state)
		return;
	bool peer = has_peer || socket_tuple(sk, t);
	if (control.gate & MAG_GATE_CHOOSE) {
		struct subject subject;
		subject_of(&subject, MAG_TCP_STATE, t, cookie, true);
		subject.flow = peer ? flow_id(t) : 0;
		if (!admit(state, &subject, NULL, now)) {
			*cell = mark;
			return;
		}
	}
	__u64 flow = peer ? flow_of(state, t, now) : 0;
	struct slot slot;
	struct mag_tcp *s = reserve(state, &slot, MAG_TCP_STATE, MAG_KIND_TCP, sizeof(*s), now);
	if (!s)
		return;
	const struct tcp_sock *tp = CAST(tcp_sock, sk);
	s->cookie = cookie;
	s->flow = flow;
	s->cwnd = READ(tp, snd_cwnd);
	s->ssthresh = READ(tp, snd_ssthresh);
	s->srtt_us = READ(tp, srtt_us) >> 3;
	s->rttvar_us = READ(tp, mdev_us) >> 2; /* rttvar in TCP_INFO */
	s->rto_us = READ(tp, inet_conn.icsk_rto) * config.jiffy_us;
	s->packets_out = READ(tp, packets_out);
	s->total_retrans = READ(tp, total_retrans);
	s->snd_wnd = READ(tp, snd_wnd);
	s->rcv_wnd = READ(tp, rcv_wnd);
	s->snd_una = READ(tp, snd_una);
	s->snd_nxt = READ(tp, snd_nxt);
	s->write_seq = READ(tp, write_seq);
	s->rcv_nxt = READ(tp, rcv_nxt);
	s->copied_seq = READ(tp, copied_seq);
	s->state = READ(sk, __sk_common.skc_state);
	s->ca_state = READ_BITFIELD(&tp->inet_conn, icsk_ca_state);
	s->tcp_flags = tcp_flags;
	s->pad = 0;
	s->retrans_out = READ(tp, retrans_out);
	submit(state, &slot, s, sizeof(*s));
	*cell = mark;
}

/* The byte range that TCP stores in a segment of its own queues. SYN and FIN take a number but
 * carry no byte. */
INLINE bool tcp_segment(const struct sock *sk, const struct sk_buff *skb, struct packet *p)
{
	const struct tcp_skb_cb *tcb = CAST(tcp_skb_cb, skb->cb);
	if (!socket_tuple(sk, &p->t))
		return false;
	__u8 flags = READ(tcb, tcp_flags);
	p->tcp_flags = flags;
	p->extent.seq = READ(tcb, seq) + (flags >> 1 & 1);
	p->len = READ(tcb, end_seq) - p->extent.seq - (flags & 1);
	p->head = (__u64)READ(skb, head);
	p->flags = p->t.ipv6 ? MAG_F_IPV6 : 0;
	return true;
}

/* TCP sends a segment, perhaps again. The segment stores its packet count, which TCP passes to the
 * layers below only after this point. */
INLINE int on_tcp_xmit(enum pointer_kind pointers, const struct sock *sk, const struct sk_buff *skb)
{
	if (!socket_wanted(sk))
		return 0;
	__u64 now = clock_unless_gated();
	struct packet p = {};
	if (!tcp_segment(sk, skb, &p))
		return 0;
	/* There is no header yet. */
	p.skb_at = (__u64)skb;
	p.payload_at = (__u64)READ(skb, data);
	const struct tcp_skb_cb *tcb = CAST(tcp_skb_cb, skb->cb);
	__u16 segs = READ(tcb, tcp_gso_segs);
	p.segs = segs > 1 ? segs : 1;
	log_packet(MAG_TCP_XMIT, &p, cookie_of(pointers, sk), 0, NO_DETAIL, 0, now);
	return 0;
}

/* tcp_rcv_established gets the segment, with its range as TCP sees it. */
INLINE int on_tcp_recv(enum pointer_kind pointers, const struct sock *sk, const struct sk_buff *skb)
{
	if (!socket_wanted(sk))
		return 0;
	__u64 now = clock_now();
	__u64 cookie = cookie_of(pointers, sk);
	struct packet p = {};
	bool has_peer = false;
	if (wanted(MAG_TCP_RECV)) {
		has_peer = tcp_segment(sk, skb, &p);
		if (has_peer) {
			p.segs = segments_of(skb);
			if ((can(MAG_CAN_PCAP) && control.pcap) ||
			    (can(MAG_CAN_PAYLOAD) && control.snap[MAG_TCP_RECV])) {
				/* The data starts at the TCP header. The IP header still precedes
				 * it. */
				__u8 offset = 0;
				__u64 data = (__u64)READ(skb, data);
				bpf_probe_read_kernel(&offset, 1, (const void *)(data + 12));
				p.skb_at = (__u64)skb;
				p.ip_at = (__u64)READ(skb, head) + READ(skb, network_header);
				p.payload_at = data + (offset >> 4) * 4;
			}
			log_packet(MAG_TCP_RECV, &p, cookie, 0, NO_DETAIL, 0, now);
		}
	}
	/* Samples are records, which only the modes with full records write. */
	if (wanted(MAG_TCP_STATE) && !(control.gate & MAG_GATE_DETAIL && scant()))
		log_state(sk, &p.t, has_peer, cookie, READ(CAST(tcp_skb_cb, skb->cb), tcp_flags),
			  now);
	return 0;
}

SEC("tp_btf/tcp_probe")
int BPF_PROG(tcp_recv, struct sock *sk, const struct sk_buff *skb)
{
	return on_tcp_recv(TYPED, sk, skb);
}

/* While a tail loss probe is due, its timer is the pending one. But that timer is also pending
 * before a loss is found, so the state takes precedence. */
INLINE __u32 why_again(const struct sock *sk)
{
	const struct inet_connection_sock *icsk = CAST(inet_connection_sock, sk);
	switch (READ_BITFIELD(icsk, icsk_ca_state)) {
	case TCP_CA_RECOVERY:
		return MAG_RESEND_FAST;
	case TCP_CA_LOSS:
		return MAG_RESEND_TIMEOUT;
	}
	return READ(icsk, icsk_pending) == ICSK_TIME_LOSS_PROBE ? MAG_RESEND_PROBE
								: MAG_RESEND_UNKNOWN;
}

/* TCP retransmits a range. Fires after the device got it. Newer kernels (6.18, not 6.12) also fire
 * if nothing was sent, most often because the first copy is still in the device's queue. A third
 * argument reports that. */
SEC("tp_btf/tcp_retransmit_skb")
int BPF_PROG(tcp_retransmit, const struct sock *sk, const struct sk_buff *skb)
{
	struct mag_cpu *state = this_cpu();
	/* `volatile` keeps the compiler from reading the argument before the check. */
	if (bpf_core_type_exists(btf_trace_tcp_retransmit_skb) && (int)*(volatile __u64 *)&ctx[2])
		return 0;
	if (!state || !wanted(MAG_TCP_RETRANSMIT) || !socket_wanted(sk))
		return 0;
	const struct tcp_skb_cb *tcb = CAST(tcp_skb_cb, skb->cb);
	__u8 flags = READ(tcb, tcp_flags);
	__u32 seq = READ(tcb, seq) + (flags >> 1 & 1);
	union mag_payload why = { .resend = { .reason = why_again(sk) } };
	log_range(state, MAG_TCP_RETRANSMIT, sk, READ(sk, __sk_common.skc_cookie.counter), seq,
		  READ(tcb, end_seq) - seq - (flags & 1), 0, flags, why, 0, clock_now());
	return 0;
}

/* A datagram has reached its socket. */
INLINE void log_udp_recv(const struct sock *sk, __u64 cookie, const struct sk_buff *skb)
{
	__u64 now = clock_unless_gated();
	const struct net_device *dev = FOLLOW(sk_buff, skb, dev);
	struct packet p;
	if (parse(skb, READ(skb, head) + READ(skb, network_header), READ(skb, protocol),
		  netns_of_socket(sk), false, &p)) {
		p.order = !READ(sk, __sk_common.skc_dport) | control.zero;
		log_packet(MAG_UDP_RECV, &p, cookie, dev ? READ(dev, ifindex) : 0, NO_DETAIL, 0,
			   now);
	}
}

INLINE int on_udp_recv(enum pointer_kind pointers, const struct sock *sk, const struct sk_buff *skb)
{
	if (READ(sk, sk_protocol) == IPPROTO_UDP && socket_wanted(sk))
		log_udp_recv(sk, cookie_of(pointers, sk), skb);
	return 0;
}

/* The only hook without kprobes that has both a UDP datagram and its receiving socket. */
SEC("cgroup_skb/ingress")
int udp_recv(struct __sk_buff *ctx)
{
	const struct sk_buff *skb = bpf_cast_to_kern_ctx(ctx);
	const struct sock *sk = FOLLOW(sk_buff, skb, sk);
	if (sk && READ(sk, sk_protocol) == IPPROTO_UDP)
		log_udp_recv(sk, bpf_get_socket_cookie(ctx), skb);
	return 1;
}

/* The start of a UDP send at the system calls, for kernels where no function can be probed. Off by
 * default: while it is on, every system call of the machine takes the slow path. */
struct syscall_enter {
	__u64 common;
	__u64 id;
	__u64 args[6];
};

#define S_IFMT 0170000
#define S_IFSOCK 0140000

INLINE const struct sock *socket_of(__u64 fd)
{
	const struct task_struct *task = CURRENT_TASK;
	const struct fdtable *table = READ(task, files, fdt);
	if (fd >= READ(table, max_fds))
		return NULL;
	void *opened = NULL;
	bpf_probe_read_kernel(&opened, sizeof(opened), READ(table, fd) + fd);
	if (!opened)
		return NULL;
	const struct file *file = CAST(file, opened);
	if ((READ(file, f_inode, i_mode) & S_IFMT) != S_IFSOCK)
		return NULL;
	const struct socket *socket = CAST(socket, READ(file, private_data));
	return READ(socket, sk);
}

INLINE int log_udp_send(const struct syscall_enter *call, __u32 len)
{
	if (!socket_hop(MAG_UDP_SEND))
		return 0;
	__u64 now = clock_now();
	const struct sock *sk = socket_of(call->args[0]);
	if (sk && READ(sk, sk_protocol) == IPPROTO_UDP && socket_wanted(sk))
		log_socket(MAG_UDP_SEND, sk, READ(sk, __sk_common.skc_cookie.counter), 0, len, 0,
			   bpf_get_current_pid_tgid(), now);
	return 0;
}

SEC("tracepoint/syscalls/sys_enter_sendto")
int udp_send(struct syscall_enter *call)
{
	return log_udp_send(call, call->args[2]);
}

/* The number of bytes in the message's vector is unknown here. */
SEC("tracepoint/syscalls/sys_enter_sendmsg")
int udp_sendmsg(struct syscall_enter *call)
{
	return log_udp_send(call, 0);
}
