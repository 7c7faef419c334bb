/* SPDX-License-Identifier: GPL-2.0-only */
/* Transport layer: TCP's queues and state, UDP's demultiplexing. */
#include "packet.h"

extern void *bpf_cast_to_kern_ctx(void *obj) __ksym;

/* Fires for every piece that sendmsg copies, under the socket lock; the first of a call says where it begins. */
SEC("tp_btf/tcp_sendmsg_locked")
int BPF_PROG(tcp_send, const struct sock *sk, const struct msghdr *msg, const struct sk_buff *skb, int size_goal)
{
	if (!socket_wanted(sk))
		return 0;
	struct mag_cpu *state = this_cpu();
	if (!state)
		return 0;
	__u64 now = bpf_ktime_get_ns();
	__u32 seq = CAST(tcp_sock, sk)->write_seq;
	__u32 left = msg->msg_iter.count;
	/* a call that moves to another CPU half-way is reported twice, with the bytes that are left: no harm */
	if (state->send_sk == (__u64)sk && state->send_end == seq + left && left)
		return 0;
	state->send_sk = (__u64)sk;
	state->send_end = seq + left;
	log_socket(MAG_TCP_SEND, sk, bpf_get_socket_cookie((void *)sk), seq, left, 0, bpf_get_current_pid_tgid(), now);
	return 0;
}

/* A sample of the connection's state, at most one in 4 ms a socket (as far as sockets do not share a cell). */
INLINE void log_state(const struct sock *sk, __u64 cookie, __u64 now)
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
	struct tuple t;
	__u64 flow = socket_tuple(sk, &t) ? flow_of(state, &t, now) : 0;
	struct mag_tcp *s = reserve(state, MAG_TCP_STATE, MAG_KIND_TCP, sizeof(*s), now);
	if (!s)
		return;
	const struct tcp_sock *tp = CAST(tcp_sock, sk);
	s->cookie = cookie;
	s->flow = flow;
	s->cwnd = tp->snd_cwnd;
	s->ssthresh = tp->snd_ssthresh;
	s->srtt_us = tp->srtt_us >> 3;
	s->rttvar_us = tp->rttvar_us >> 2;
	s->rto_us = tp->inet_conn.icsk_rto * config.jiffy_us;
	s->packets_out = tp->packets_out;
	s->total_retrans = tp->total_retrans;
	s->snd_wnd = tp->snd_wnd;
	s->rcv_wnd = tp->rcv_wnd;
	s->snd_una = tp->snd_una;
	s->snd_nxt = tp->snd_nxt;
	s->write_seq = tp->write_seq;
	s->rcv_nxt = tp->rcv_nxt;
	s->copied_seq = tp->copied_seq;
	s->state = sk->__sk_common.skc_state;
	s->ca_state = BPF_CORE_READ_BITFIELD(&tp->inet_conn, icsk_ca_state);
	s->pad = 0;
	s->pad2 = 0;
	bpf_ringbuf_submit(s, BPF_RB_NO_WAKEUP);
	*cell = mark;
}

/* tcp_rcv_established has the segment: its range as TCP itself sees it. */
SEC("tp_btf/tcp_probe")
int BPF_PROG(tcp_recv, struct sock *sk, const struct sk_buff *skb)
{
	if (!socket_wanted(sk))
		return 0;
	__u64 now = bpf_ktime_get_ns();
	__u64 cookie = bpf_get_socket_cookie(sk);
	if (wanted(MAG_TCP_RECV)) {
		const struct tcp_skb_cb *tcb = CAST(tcp_skb_cb, skb->cb);
		struct mag_cpu *state = this_cpu();
		struct packet p = {};
		if (state && socket_tuple(sk, &p.t)) {
			p.tcp_flags = tcb->tcp_flags;
			p.seq = tcb->seq;
			/* a FIN takes a number but carries no byte; a SYN does not come here */
			p.len = tcb->end_seq - tcb->seq - (p.tcp_flags & 1);
			p.skb = buffer_of(skb);
			const struct skb_shared_info *shared = CAST(skb_shared_info, skb->head + skb->end);
			p.segs = shared->gso_segs > 1 ? shared->gso_segs : 1;
			p.flags = p.t.ipv6 ? MAG_F_IPV6 : 0;
			log_packet(MAG_TCP_RECV, &p, cookie, 0, 0, 0, now);
		}
	}
	if (wanted(MAG_TCP_STATE))
		log_state(sk, cookie, now);
	return 0;
}

/* The range goes out again; fires after the device has seen it. Newer kernels (6.18 does, 6.12 does not) fire as well
 * where nothing went out, most often because the first copy is still in the device's queue, and say so in a third argument. */
SEC("tp_btf/tcp_retransmit_skb")
int BPF_PROG(tcp_retransmit, const struct sock *sk, const struct sk_buff *skb)
{
	/* volatile, so that it is not read before it is known to be there */
	if (bpf_core_type_exists(btf_trace_tcp_retransmit_skb) && (int)*(volatile __u64 *)&ctx[2])
		return 0;
	if (!socket_wanted(sk))
		return 0;
	const struct tcp_skb_cb *tcb = CAST(tcp_skb_cb, skb->cb);
	__u8 flags = tcb->tcp_flags;
	__u32 seq = tcb->seq + (flags >> 1 & 1);
	log_socket(MAG_TCP_RETRANSMIT, sk, sk->__sk_common.skc_cookie.counter, seq,
		   tcb->end_seq - seq - (flags & 1), 0, 0, bpf_ktime_get_ns());
	return 0;
}

/* The only hook without kprobes that has a UDP datagram and its receiving socket together. */
SEC("cgroup_skb/ingress")
int udp_recv(struct __sk_buff *ctx)
{
	const struct sk_buff *skb = bpf_cast_to_kern_ctx(ctx);
	const struct sock *sk = skb->sk;
	if (!sk || sk->sk_protocol != IPPROTO_UDP)
		return 1;
	__u64 now = bpf_ktime_get_ns();
	struct packet p;
	__u32 netns = sk->__sk_common.skc_net.net->ns.inum;
	if (parse(skb, skb->head + skb->network_header, skb->protocol, netns, false, &p))
		log_packet(MAG_UDP_RECV, &p, bpf_get_socket_cookie(ctx), skb->dev ? skb->dev->ifindex : 0, 0, 0, now);
	return 1;
}

/* The last resort for the start of a UDP send, where no function can be probed: the system calls themselves. Off unless
 * asked for, because while it is on every system call of the machine takes the slow way in. */
struct syscall_enter {
	__u64 common;
	__u64 id;
	__u64 args[6];
};

#define S_IFMT 0170000
#define S_IFSOCK 0140000

INLINE const struct sock *socket_of(__u64 fd)
{
	const struct task_struct *task = bpf_get_current_task_btf();
	const struct fdtable *table = task->files->fdt;
	if (fd >= table->max_fds)
		return NULL;
	void *opened = NULL;
	bpf_probe_read_kernel(&opened, sizeof(opened), table->fd + fd);
	if (!opened)
		return NULL;
	const struct file *file = CAST(file, opened);
	if ((file->f_inode->i_mode & S_IFMT) != S_IFSOCK)
		return NULL;
	return CAST(socket, file->private_data)->sk;
}

INLINE int log_udp_send(const struct syscall_enter *call, __u32 len)
{
	__u64 now = bpf_ktime_get_ns();
	const struct sock *sk = socket_of(call->args[0]);
	if (sk && sk->sk_protocol == IPPROTO_UDP && socket_wanted(sk))
		log_socket(MAG_UDP_SEND, sk, sk->__sk_common.skc_cookie.counter, 0, len, 0, bpf_get_current_pid_tgid(), now);
	return 0;
}

SEC("tracepoint/syscalls/sys_enter_sendto")
int udp_send(struct syscall_enter *call)
{
	return log_udp_send(call, call->args[2]);
}

/* How many bytes stand behind the message's vector is not known at this point. */
SEC("tracepoint/syscalls/sys_enter_sendmsg")
int udp_sendmsg(struct syscall_enter *call)
{
	return log_udp_send(call, 0);
}
