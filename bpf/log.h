/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Decides the result of a hit: left out, added to sums, or a record. Announces flows, and writes
 * the first bytes of payloads where wanted.
 */
#ifndef MAGNET_LOG_H
#define MAGNET_LOG_H

#include "packet.h"
#include "synthesis.h"

/* Returns the flow's id, and announces the flow if that is due. Returns 0 without a namespace. A
 * global function, which the verifier checks once for its many callers. */
SUBPROGRAM __u64 flow_of(struct mag_cpu *state, struct tuple *t, __u64 now)
{
	if (!t || !state || !t->netns)
		return 0;
	__u64 *cell, mark, id = flow_id(t);
	if (!stale(id, 0, now, &cell, &mark))
		return id;
	struct slot slot;
	struct mag_flow *flow = reserve_aside(state, &slot, MAG_KIND_FLOW, sizeof(*flow), now);
	if (!flow)
		return id;
	flow->flow = id;
	__builtin_memcpy(flow->local, &t->addr.q[0], 16);
	__builtin_memcpy(flow->remote, &t->addr.q[2], 16);
	flow->local_port = t->local_port;
	flow->remote_port = t->remote_port;
	flow->proto = t->proto;
	flow->ipv6 = t->ipv6;
	flow->pad = 0;
	flow->netns = t->netns;
	flow->pad2 = 0;
	submit(state, &slot, flow, sizeof(*flow));
	*cell = mark;
	return id;
}

/* The detail of a packet hop. */
#define ACK_OF(p) ((union mag_packet_detail){ .ack = (p).ack })
#define NO_DETAIL ((union mag_packet_detail){ .ack = 0 })

/* Fills the body of a packet event. */
INLINE void fill_packet(struct mag_event *e, const struct packet *p, __u64 flow, __u64 cookie,
			__u32 ifindex, union mag_packet_detail detail, __u32 tid)
{
	e->cookie = cookie;
	e->flow = flow;
	e->extent = p->extent;
	e->len = p->len;
	e->ifindex = ifindex;
	e->ip_id = p->ip_id;
	e->segs = p->segs;
	e->flags = p->flags;
	e->tcp_flags = p->tcp_flags;
	e->proto = p->t.proto;
	e->u.ttl = p->ttl;
	e->payload.packet.skb = p->head >> 6;
	e->payload.packet.detail = detail;
	e->payload.packet.tid_tos = tid | (__u32)p->tos << 24;
}

/* Fills the filter's input from a flow. Unknown fields are zero, and so is the address of a socket
 * bound to any address. */
INLINE void subject_of(struct subject *s, __u8 hop, const struct tuple *t, __u64 cookie, bool ports)
{
	__builtin_memset(s, 0, sizeof(*s));
	s->cookie = cookie;
	s->addr[0] = t->addr.q[0];
	s->addr[1] = t->addr.q[1];
	s->addr[2] = t->addr.q[2];
	s->addr[3] = t->addr.q[3];
	s->netns = t->netns;
	s->local_port = t->local_port;
	s->remote_port = t->remote_port;
	s->hop = hop;
	s->proto = t->proto;
	s->ipv6 = t->ipv6;
	s->direction = direction_of(hop);
	s->ends = (t->addr.q[0] | t->addr.q[1] ? LOCAL_ADDR : 0) |
		  (t->addr.q[2] | t->addr.q[3] ? REMOTE_ADDR : 0);
	if (ports && (t->proto == IPPROTO_TCP || t->proto == IPPROTO_UDP))
		s->ends |= (t->local_port ? LOCAL_PORT : 0) | (t->remote_port ? REMOTE_PORT : 0);
}

enum prefilter_result { PREFILTER_OPEN, PREFILTER_REJECT, PREFILTER_ACCEPT };

/* Decides an event by its ends alone. PREFILTER_REJECT if the filter certainly rejects it, or if
 * without a filter the sampler skips it; both are counted. PREFILTER_ACCEPT if without a filter the
 * sampler keeps it. PREFILTER_OPEN if the event needs the full check. */
SUBPROGRAM int prefilter(struct mag_cpu *state, struct tuple *t, __u32 hop, __u32 ports)
{
	if (!t || !state)
		return PREFILTER_OPEN;
	hop &= MAG_HOPS - 1;
	struct mag_filter *filter = filter_now();
	if (filter) {
		if (!needless(&filter->need, hop, t->addr.q, t->local_port, t->remote_port,
			      t->proto, t->ipv6, ports))
			return PREFILTER_OPEN;
		__sync_fetch_and_add(&state->filtered[hop], 1);
		return PREFILTER_REJECT;
	}
	if ((can(MAG_CAN_PCAP) && control.pcap) || !can(MAG_CAN_SAMPLE) ||
	    control.flow_limit != 0xffffffff || control.samplers[hop].interval_ns)
		return PREFILTER_OPEN;
	if (!hop_sampled_out(state, hop, 0))
		return PREFILTER_ACCEPT;
	__sync_fetch_and_add(&state->sampled[hop], 1);
	return PREFILTER_REJECT;
}

/* Whether a program has work: its hop is on, or the filter needs its sockets. */
INLINE bool socket_hop(int hop)
{
	return wanted(hop) || LEARNS;
}

/* Writes a record of payload, which is complete but for its number. With the kernel's rings it has
 * the number already. */
INLINE bool write_head(struct mag_cpu *state, struct mag_head *r, __u32 size)
{
	__u32 cpu = bpf_get_smp_processor_id(), number;
	if (!HAS_MAPPED_RINGS) {
		void *ring = this_ring(cpu);
		return ring && !bpf_ringbuf_output(ring, r, size, wake_for(state, size));
	}
	struct slot slot;
	void *at = take_slots(state, &slot, cpu, size, 1, &number);
	if (!at)
		return false;
	r->h.number = number;
	bpf_probe_read_kernel(at, size, r);
	submit(state, &slot, at, size);
	return true;
}

/* Writes the first payload bytes of an event, up to the limit set for its hop. */
SUBPROGRAM int log_head(struct packet *p, __u64 flow, __u32 event, __u32 hop, __u64 now)
{
	struct mag_cpu *state = this_cpu();
	if (!can(MAG_CAN_PAYLOAD) || !state || !p || !p->len || !p->payload_at)
		return 0;
	__u32 cpu = bpf_get_smp_processor_id(), want = control.snap[hop & (MAG_HOPS - 1)];
	__u64 number = HAS_MAPPED_RINGS ? 0 : FETCH_ADD(&state->number, 1);
	__sync_fetch_and_add(&state->recorded[MAG_HEADS], 1);
	if (UNREPORTED(state))
		report_loss(state, now);
	if (want > p->len)
		want = p->len;
	bool written = false;
	__u32 level;
	__u8 *to = take_scratch(state, &level);
	if (to) {
		struct mag_head *r = (void *)to;
		const struct gather *copied =
			copy_bytes(p->skb_at, p->payload_at, &level, sizeof(*r), want);
		__u32 got = copied ? copied->done : 0;
		OPAQUE(got);
		if (got > MAG_SNAP_MAX)
			got = MAG_SNAP_MAX;
		/* Pads the last word with zeros instead of bytes of an earlier packet. */
		__builtin_memset(to + sizeof(*r) + got, 0, 8);
		__u32 size = (sizeof(*r) + got + 7) & ~7;
		head(&r->h, MAG_KIND_HEAD, size, cpu, number, now);
		r->flow = flow;
		r->event = event;
		r->seq = p->extent.seq;
		r->of_bytes = p->len;
		r->bytes = got;
		r->ip_id = p->ip_id;
		r->hop = hop;
		r->proto = p->t.proto;
		r->pad = 0;
		OPAQUE(size);
		if (size <= sizeof(*r) + MAG_SNAP_MAX)
			written = write_head(state, r, size);
	}
	give_back(state);
	if (!written) {
		if (HAS_MAPPED_RINGS)
			take_number(state);
		lose(state, MAG_HEADS, now);
	}
	return 0;
}

/* The payload of a packet as sums count it. The first fragment of UDP has the length of its
 * datagram, so later ones have none. */
INLINE __u32 counted_bytes(const struct packet *p)
{
	return p->flags & MAG_F_FRAGMENT && p->t.proto == IPPROTO_UDP ? 0 : p->len;
}

/* Fills the filter's input from a packet. */
SUBPROGRAM int subject_of_packet(struct subject *s, struct packet *p, __u64 cookie, __u32 hop,
				 __u32 ifindex)
{
	if (!s || !p)
		return 0;
	subject_of(s, hop, &p->t, cookie, !(p->flags & (MAG_F_FRAGMENT | MAG_F_PARTIAL)));
	s->flow = flow_id(&p->t);
	s->skb = p->skb_at;
	s->ip = p->ip_at;
	s->ifindex = ifindex;
	s->len = p->len;
	s->ends |= LENGTH;
	s->order = p->order;
	return 0;
}

/* Adds a packet's passage of a hop to the sums. For a packet of this host, the previous hop is its
 * socket's last call. */
SUBPROGRAM int pass_packet(struct packet *p, __u64 cookie, __u32 hop, __u64 now)
{
	if (!can(MAG_CAN_SUM) || !p)
		return 0;
	__u32 direction = direction_of(hop),
	      wire = wire_of(p->extent.seq, p->len, p->ip_id, p->t.proto);
	__u64 last = p->before, mark = MARK(hop, now);
	if (hop != MAG_DEV_DONE && hop != MAG_TCP_RETRANSMIT)
		last = move_on(PACKET_KEY(p->head), wire, mark);
	if (!last && cookie && p->len && direction == DIRECTION_TX) {
		__u64 key = CALL_KEY(cookie, DIRECTION_TX);
		struct passing *call = bpf_map_lookup_elem(&passings, &key);
		if (call && call->wire == (__u32)cookie)
			last = call->last;
	}
	if (cookie && (hop == MAG_TCP_RECV || hop == MAG_UDP_RECV))
		move_on(CALL_KEY(cookie, DIRECTION_RX), cookie, mark);
	arrive(last, hop, now);
	return 0;
}

/* Logs a packet at a hop. Returns its time, or 0 if it was left out. */
INLINE __u64 log_packet(__u8 hop, struct packet *p, __u64 cookie, __u32 ifindex,
			union mag_packet_detail detail, __u32 tid, __u64 now)
{
	struct mag_cpu *state = this_cpu();
	if (!state || !socket_hop(hop))
		return 0;
	__u32 gates = control.gate;
	bool gate = gates & MAG_GATE_CHOOSE, detailed = gates & MAG_GATE_DETAIL;
	/* With a filter that needs sockets, two hops store facts even of events that are left
	 * out. */
	bool remembers = LEARNS && (!wanted(hop) || hop == MAG_IP_OUT || hop == MAG_UDP_RECV);
	int prefilter_result = PREFILTER_OPEN;
	if (gate && !remembers)
		prefilter_result = prefilter(state, &p->t, hop,
					     !(p->flags & (MAG_F_FRAGMENT | MAG_F_PARTIAL)));
	if (prefilter_result == PREFILTER_REJECT)
		return 0;
	if (!now)
		now = clock_now();
	if (gate && prefilter_result == PREFILTER_OPEN) {
		struct subject s = {};
		subject_of_packet(&s, p, cookie, hop, ifindex);
		if (LEARNS && hop == MAG_IP_OUT && detail.tgid && p->t.proto == IPPROTO_UDP)
			remember(&s, 1); /* the only packet hop inside the sender's call */
		if (!wanted(hop)) {
			recall(&s);
			return 0;
		}
		int as = admit(state, &s, NULL, now);
		if (as == REJECTED)
			return 0;
		if ((hop == MAG_UDP_RECV || hop == MAG_SKB_DROP) && as == ORDER) {
			/* Without event records, order-only records are useless. */
			if (detailed && only_adds_up()) {
				__sync_fetch_and_add(&state->sampled[hop & (MAG_HOPS - 1)], 1);
				return 0;
			}
			p->flags |= MAG_F_ORDER;
			detailed = false;
		}
	}
	__u64 flow = 0;
	if (detailed && adds_up()) {
		pass_packet(p, cookie, hop, now);
		if (control.rated >> hop & 1) {
			bool drop = hop == MAG_SKB_DROP;
			if (!drop)
				flow = flow_of(state, &p->t, now);
			count_rate(drop ? detail.drop_reason : flow,
				   drop ? MAG_RATE_REASON : MAG_RATE_FLOW, hop, p->segs,
				   counted_bytes(p));
		}
		if (only_adds_up()) {
			__sync_fetch_and_add(&state->synthesised[hop & (MAG_HOPS - 1)], 1);
			return now;
		}
	}
	if (!flow)
		flow = flow_of(state, &p->t, now);
	struct slot slot;
	struct mag_event *e = reserve(state, &slot, hop, hop, sizeof(*e), now);
	if (!e)
		return now;
	fill_packet(e, p, flow, cookie, ifindex, detail, tid);
	__u32 number = e->h.number;
	submit(state, &slot, e, sizeof(*e));
	if (can(MAG_CAN_PAYLOAD) && control.snap[hop & (MAG_HOPS - 1)] &&
	    !(p->order && p->flags & MAG_F_ORDER) && !(detailed && scant()))
		log_head(p, flow, number, hop, now);
	return now;
}

/* Logs a range or a point of a flow. `flow` is 0 without a peer; `sk` is 0 without a socket.
 * `pid_tgid` is 0 if the current process is not the socket's user. */
INLINE void log_flow(struct mag_cpu *state, __u8 hop, struct tuple *t, bool peer, __u64 sk,
		     __u64 cookie, union mag_extent extent, __u32 len, __u16 flags, __u8 tcp_flags,
		     union mag_payload payload, __u64 pid_tgid, __u64 now)
{
	__u64 flow = 0;
	__u32 gates = control.gate;
	bool gate = gates & MAG_GATE_CHOOSE, detailed = gates & MAG_GATE_DETAIL;
	int prefilter_result = gate && !LEARNS ? prefilter(state, t, hop, true) : PREFILTER_OPEN;
	if (prefilter_result == PREFILTER_REJECT)
		return;
	if (gate && prefilter_result == PREFILTER_OPEN) {
		struct subject s;
		subject_of(&s, hop, t, cookie, true);
		s.flow = peer ? flow_id(t) : 0;
		s.len = len;
		if (hop != MAG_SOCK_READY && hop != MAG_SOCK_FULL)
			s.ends |= LENGTH;
		if (LEARNS)
			remember(&s, pid_tgid != 0);
		if (!wanted(hop) || !admit(state, &s, NULL, now))
			return;
	}
	if (detailed && adds_up()) {
		pass_socket(cookie, hop, flags & MAG_F_AT_RETURN, now);
		/* The current process owns these bytes. */
		if (pid_tgid && control.rated >> hop & 1)
			count_rate(bpf_get_current_cgroup_id(), MAG_RATE_CGROUP, hop, 1,
				   flags & MAG_F_PEEK ? 0 : len);
		if (only_adds_up()) {
			__sync_fetch_and_add(&state->synthesised[hop & (MAG_HOPS - 1)], 1);
			return;
		}
	}
	if (peer)
		flow = flow_of(state, t, now);
	if (pid_tgid)
		announce_task(state, pid_tgid, now);
	struct slot slot;
	struct mag_event *e = reserve(state, &slot, hop, hop, sizeof(*e), now);
	if (!e)
		return;
	e->cookie = cookie;
	e->flow = flow;
	e->extent = extent;
	e->len = len;
	e->payload = payload;
	/* A thread that polls repeatedly was running already when the data arrived. */
	if (hop == MAG_APP_RECV && !(flags & MAG_F_IN_KERNEL) && state->asked_sk == sk &&
	    state->asked_tid == payload.call.tid) {
		__u64 ago = now - state->asked_ns;
		e->payload.call.detail.empty_read_ns = ago < 0xffffffff ? ago : 0;
	}
	e->ifindex = 0;
	e->ip_id = 0;
	e->segs = 0;
	e->flags = flags | (t->ipv6 ? MAG_F_IPV6 : 0);
	e->tcp_flags = tcp_flags;
	e->proto = t->proto;
	e->u.call_flags = flags >> 8;
	submit(state, &slot, e, sizeof(*e));
}

/* Logs a range of a socket's stream. */
INLINE void log_range(struct mag_cpu *state, __u8 hop, const struct sock *sk, __u64 cookie,
		      __u32 seq, __u32 len, __u16 flags, __u8 tcp_flags, union mag_payload payload,
		      __u64 pid_tgid, __u64 now)
{
	if (!socket_hop(hop))
		return;
	struct tuple t;
	bool peer = socket_tuple(sk, &t);
	union mag_extent extent = { .seq = seq };
	log_flow(state, hop, &t, peer, (__u64)sk, cookie, extent, len, flags, tcp_flags, payload,
		 pid_tgid, now);
}

/* Logs a point of a connection. */
INLINE void log_point(__u8 hop, struct tuple *t, __u64 cookie, __u32 number, __u32 open_error)
{
	struct mag_cpu *state = this_cpu();
	union mag_payload payload = { .point = { .number = number } };
	union mag_extent extent = { .open_error = open_error };
	if (state && wanted(hop))
		log_flow(state, hop, t, true, 0, cookie, extent, 0, 0, 0, payload, 0, clock_now());
}

/* Logs a range at a hop of the socket layer, where the process is known. */
INLINE void log_socket(__u8 hop, const struct sock *sk, __u64 cookie, __u32 seq, __u32 len,
		       __u16 flags, __u64 pid_tgid, __u64 now)
{
	struct mag_cpu *state = this_cpu();
	union mag_payload by = { .call = { .tgid = pid_tgid >> 32, .tid = pid_tgid } };
	if (state)
		log_range(state, hop, sk, cookie, seq, len, flags, 0, by, pid_tgid, now);
}

#endif
