/* SPDX-License-Identifier: GPL-2.0-only */
/* Sampling, and the gate that every event passes while a filter or a sampler is set. */
#ifndef MAGNET_SAMPLE_H
#define MAGNET_SAMPLE_H

#include "pcap.h"

INLINE __u64 mixed(__u64 x)
{
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ULL;
	x = (x ^ x >> 27) * 0x94d049bb133111ebULL;
	return x ^ x >> 31;
}

/* A hash that is equal for both directions and on every host. It adds the two ends, and uses
 * neither namespace nor seed. */
INLINE __u32 flow_hash(const struct subject *s)
{
	__u64 local =
		mixed(mixed(s->addr[0] + 0x9e3779b97f4a7c15ULL) + s->addr[1] * 3 + s->local_port);
	__u64 remote =
		mixed(mixed(s->addr[2] + 0x9e3779b97f4a7c15ULL) + s->addr[3] * 3 + s->remote_port);
	return mixed(local + remote + s->proto) >> 32;
}

#define BOTH_ENDS (LOCAL_ADDR | REMOTE_ADDR | LOCAL_PORT | REMOTE_PORT)

/* Events without a flow (a UDP socket without a peer, a task) are not sampled by flow. So a kept
 * journey stays whole. */
SUBPROGRAM int flow_sampled_out(struct subject *s)
{
	__u32 limit = control.flow_limit;
	return can(MAG_CAN_SAMPLE) && s && limit != 0xffffffff &&
	       (s->ends & BOTH_ENDS) == BOTH_ENDS && flow_hash(s) > limit;
}

INLINE bool hop_sampled_out(struct mag_cpu *state, __u32 hop, __u64 now)
{
	if (!can(MAG_CAN_SAMPLE))
		return false;
	__u32 one_in = control.samplers[hop].one_in;
	__u64 interval_ns = control.samplers[hop].interval_ns;
	if (one_in > 1 && (__u32)FETCH_ADD(&state->turn[hop], 1) % one_in)
		return true;
	if (!interval_ns)
		return false;
	__u64 last = control.last_ns[hop];
	if (last && (__s64)(now - last) < (__s64)interval_ns)
		return true;
#ifdef MAGNET_NO_LOOP
	/* Two CPUs may both take the same turn. */
	control.last_ns[hop] = now;
	return false;
#else
	return __sync_val_compare_and_swap(&control.last_ns[hop], last, now) != last;
#endif
}

/* The time of an event. With a filter or sampler set, 0: the clock is then read after the checks
 * that need no time, because a reading costs more than all of them. Such times are some
 * instructions later. */
INLINE __u64 clock_unless_gated(void)
{
	return control.gate & MAG_GATE_CHOOSE ? 0 : clock_now();
}

/* A socket without a peer receives datagrams of sampled flows and of other flows, and its reads do
 * not name the flow. So all datagrams that it receives, or has no room for, are reported. Those of
 * other flows become order-only records (ORDER). */
enum admitted { REJECTED, ACCEPTED, ORDER };

/* Decides whether an event becomes a record, and counts it if not. */
SUBPROGRAM int admit(struct mag_cpu *state, struct subject *s, struct mag_who *who, __u64 now)
{
	if (!s || !state)
		return REJECTED;
	__u32 hop = s->hop & (MAG_HOPS - 1), slot;
	struct socket_info *info = NULL;
	if (LEARNS) {
		info = recall(s);
		/* A hop of a task knows its socket by cookie alone. */
		if (info && !s->proto) {
			__builtin_memcpy(s->addr, info->addr, sizeof(s->addr));
			s->netns = info->netns;
			s->local_port = info->local_port;
			s->remote_port = info->remote_port;
			s->proto = info->proto;
			s->ipv6 = info->ipv6;
			s->ends |= info->ends;
		}
		if (!who && info && info->has_who)
			who = &info->who;
	}
	int answer = YES;
	struct mag_filter *filter = filter_now();
	if (filter)
		answer = decide(filter, s, who);
	slot = can(MAG_CAN_PCAP) ? control.pcap : 0;
	if (slot-- && answer != NO) {
		int other = pcap_holds(state, s, slot);
		if (other != YES)
			answer = other;
	}
	if (answer != YES) {
		__sync_fetch_and_add(answer == NO ? &state->filtered[hop] : &state->undecided[hop],
				     1);
		return REJECTED;
	}
	__u32 left_out = flow_sampled_out(s);
	if (left_out > s->order || hop_sampled_out(state, hop, now)) {
		__sync_fetch_and_add(&state->sampled[hop], 1);
		return REJECTED;
	}
	return ACCEPTED + left_out;
}

#endif
