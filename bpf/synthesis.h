/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Sums made in the kernel, where event records would be too many.
 *
 * Times: the kernel stores the last hop and time of each packet, keyed by its buffer, and of each
 * call, keyed by its socket. The time since that hop is counted in the buckets of this pair of
 * hops. Buffers are reused at once, so a packet is the same one only if its wire identity is equal
 * and its hops ascend. A hop that precedes the last one starts a new passage. A hit without a
 * previous hop is counted as a start. So times to a hop plus starts at it are all of its hits.
 *
 * Rates: packets and bytes of a flow at a hop. There are two maps: the programs write one while
 * user space reads the other, so the map being read does not change. Packets that find no room are
 * added to the rest of their hop. Nothing is evicted.
 *
 * Interrupts nest. So a counter changes by one atomic instruction, and the last hop with its time
 * is one word.
 */
#ifndef MAGNET_SYNTHESIS_H
#define MAGNET_SYNTHESIS_H

#include "sample.h"

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries,
	       1); /* user space sets the number of pairs and the sizes below, where needed */
	__type(key, __u32);
	__type(value, struct mag_pair);
} pairs SEC(".maps");

/* The last hop of a packet or call. */
struct passing {
	__u64 last; /* time << 8 | hop */
	__u32 wire; /* wire identity */
	__u32 pad;
};
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1);
	__type(key, __u64); /* PACKET_KEY, CALL_KEY */
	__type(value, struct passing);
} passings SEC(".maps");

struct rates {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, struct mag_rate_key);
	__type(value, struct mag_rate);
};
struct rates rates_0 SEC(".maps"), rates_1 SEC(".maps");

#define PACKET_KEY(head) ((__u64)(__u32)((head) >> 6) << 2)
#define CALL_KEY(cookie, direction) ((cookie) << 2 | (direction))
#define MARK(hop, now) ((now) << 8 | (hop))

/* An identity of a packet that is constant between both ends of this host, unless the packet is
 * split or merged. */
INLINE __u32 wire_of(__u32 seq, __u32 len, __u16 ip_id, __u8 proto)
{
	return seq ^ (len << 16 | len >> 16) ^ (proto == IPPROTO_TCP ? 0 : (__u32)ip_id << 8) ^
	       (__u32)proto << 24;
}

/* Whether hits are added to sums, and whether sums are their only result. Called only if the gate
 * is set. */
INLINE bool adds_up(void)
{
	return can(MAG_CAN_SUM) && control.detail >= MAG_DETAIL_HISTOGRAMS;
}

INLINE bool only_adds_up(void)
{
	return can(MAG_CAN_SUM) && control.detail == MAG_DETAIL_HISTOGRAMS;
}

/* Whether only event records are wanted. */
INLINE bool scant(void)
{
	return control.detail == MAG_DETAIL_COMPACT || only_adds_up();
}

/* 1 if a is less than b, else 0; both are below 2^63. The code below counts without branches,
 * because the verifier would follow every path through them. It uses products instead of masks,
 * because newer verifiers branch on masks. */
INLINE __u64 less(__s64 a, __s64 b)
{
	__u64 difference = a - b;
	OPAQUE(difference);
	return difference >> 63;
}

INLINE __u32 step_of(__u64 ns)
{
	/* Shorter times are steps of their own; the same formula gives them. */
	__u64 rest = ns | 1 << MAG_STEP_BITS;
	__u32 log = 0;
#pragma unroll
	for (__u32 half = 32; half; half /= 2) {
		__u32 by = less(0, rest >> half) * half;
		rest >>= by;
		log += by;
	}
	log -= MAG_STEP_BITS;
	return ((log + 1) << MAG_STEP_BITS) + (__u32)(ns >> (log & 63)) - (1 << MAG_STEP_BITS);
}

/* Counts the time between two hops. Returns false for a pair that has no times. */
INLINE bool count_time(__u32 from, __u32 to, __s64 ns)
{
	__u32 low = config.rank[from & (MAG_HOPS - 1)], high = config.rank[to & (MAG_HOPS - 1)];
	if (!low || low >= high)
		return false;
	__u32 at = (high - 1) * (high - 2) / 2 + low - 1;
	struct mag_pair *pair = bpf_map_lookup_elem(&pairs, &at);
	if (!pair)
		return false;
	ns *= 1 - less(ns, 0); /* two CPUs' clocks may differ */
	__sync_fetch_and_add(&pair->sum_ns, ns);
	__u64 over = less(MAG_LONGEST_NS, ns);
	ns = ns * (1 - over) + MAG_LONGEST_NS * over;
	__u32 bucket = step_of(ns) & (MAG_STEPS_OF_TIME - 1);
	__u32 below = config.bounds_below[bucket];
	/* At most one bound is within a step. */
	bucket += below + less(config.bounds_ns[below & (MAG_BOUND_SLOTS - 1)], ns);
	if (bucket < MAG_BUCKETS)
		__sync_fetch_and_add(&pair->buckets[bucket], 1);
	return true;
}

/* Adds packets and bytes to the rate of a flow, a cgroup or a drop reason. */
SUBPROGRAM int count_rate(__u64 id, __u32 kind, __u32 hop, __u32 packets, __u32 bytes)
{
	if (!can(MAG_CAN_SUM))
		return 0;
	struct mag_rate_key key = { .id = id, .kind = kind, .hop = hop };
	/* Read once, so that both lookups use the same map. */
	bool second = control.rate_slot & 1;
	struct mag_rate *rate =
		second ? bpf_map_lookup_elem(&rates_1, &key) : bpf_map_lookup_elem(&rates_0, &key);
	if (!rate) {
		struct mag_rate none = {};
		if (second) {
			bpf_map_update_elem(&rates_1, &key, &none, BPF_NOEXIST);
			rate = bpf_map_lookup_elem(&rates_1, &key);
		} else {
			bpf_map_update_elem(&rates_0, &key, &none, BPF_NOEXIST);
			rate = bpf_map_lookup_elem(&rates_0, &key);
		}
	}
	if (rate) {
		__sync_fetch_and_add(&rate->packets, packets);
		__sync_fetch_and_add(&rate->bytes, bytes);
		return 0;
	}
	struct mag_cpu *state = this_cpu();
	if (state) {
		__sync_fetch_and_add(&state->rest_packets[hop & (MAG_HOPS - 1)], packets);
		__sync_fetch_and_add(&state->rest_bytes[hop & (MAG_HOPS - 1)], bytes);
	}
	return 0;
}

/* Stores the current hop. Returns the previous hop of the same passage, 0 if none. */
SUBPROGRAM __u64 move_on(__u64 key, __u32 wire, __u64 mark)
{
	if (!can(MAG_CAN_SUM))
		return 0;
	struct passing *p = bpf_map_lookup_elem(&passings, &key);
	if (!p) {
		struct passing fresh = { .last = mark, .wire = wire };
		bpf_map_update_elem(&passings, &key, &fresh, BPF_ANY);
		return 0;
	}
	__u64 last = p->last;
	if (p->wire != wire || (last & 0xff) >= (mark & 0xff))
		last = 0;
	p->last = mark;
	p->wire = wire;
	return last;
}

/* Counts the time since the previous hop, or a start at this hop. */
SUBPROGRAM int arrive(__u64 last, __u32 hop, __u64 now)
{
	if (!can(MAG_CAN_SUM) || (last && count_time(last & 0xff, hop, now - (last >> 8))))
		return 0;
	struct mag_cpu *state = this_cpu();
	if (state)
		__sync_fetch_and_add(&state->began[hop & (MAG_HOPS - 1)], 1);
	return 0;
}

/* Adds a call of the socket layer, or a task woken for a socket. `alone` is set if the previous hop
 * is unknown. */
SUBPROGRAM int pass_socket(__u64 cookie, __u32 hop, __u32 alone, __u64 now)
{
	if (!can(MAG_CAN_SUM))
		return 0;
	__u64 last = 0;
	__u32 direction = direction_of(hop);
	bool on_path = 1ULL << (hop & (MAG_HOPS - 1)) & MAG_PATH_HOPS;

	if (cookie && !alone && on_path && direction)
		last = move_on(CALL_KEY(cookie, direction), cookie, MARK(hop, now));
	arrive(last, hop, now);
	return 0;
}

#endif
