/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Writes records to the rings.
 *
 * Each CPU has its own ring: two producers in one ring cost four times as much. User space orders
 * the records of all CPUs by time. A record does not wake the reader by default, because that costs
 * the traffic more than all probes together. The reader polls on a timer instead. If a ring is
 * full, the event still takes a number and is counted as lost. A loss record precedes the next
 * record that fits.
 *
 * There are two kinds of rings, chosen when the programs are loaded: rings that user space maps
 * (ring.h), and the kernel's ring buffers. With mapped rings, small ring buffers wake the reader.
 *
 * An interrupt may run one probe inside another on the same CPU. So every counter changes by one
 * atomic instruction. In a ring buffer two records may be in reverse order of their numbers.
 */
#ifndef MAGNET_EMIT_H
#define MAGNET_EMIT_H

#include "ring.h"
#include <bpf/bpf_tracing.h>

struct ring {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 16);
};
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, 1); /* user space sets the number of CPUs */
	__type(key, __u32);
	__array(values, struct ring);
} rings SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct mag_cpu);
} cpus SEC(".maps");

/* Recently announced ids: one slot per hash, which holds the id mixed with the time in steps of 8.6
 * s. Two ids that share a slot are announced more often, which is harmless. The array never grows
 * and evicts nothing. */
#define CELLS 8192
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, CELLS);
	__type(key, __u32);
	__type(value, __u64);
} announced SEC(".maps");

INLINE struct mag_cpu *this_cpu(void)
{
	__u32 zero = 0;
	return bpf_map_lookup_elem(&cpus, &zero);
}

INLINE void *this_ring(__u32 cpu)
{
	return bpf_map_lookup_elem(&rings, &cpu);
}

INLINE void head(struct mag_header *h, __u8 hop, __u32 size, __u32 cpu, __u32 number, __u64 now)
{
	h->hop = hop;
	h->words = size / 8;
	h->cpu = cpu;
	h->number = number;
	h->time_ns = now;
}

/* Counts a record of this size towards the watermarks. Returns the flags for the ring buffer. */
INLINE __u64 wake_for(struct mag_cpu *state, __u32 size)
{
	__u64 flags = BPF_RB_NO_WAKEUP;
	__u32 events = control.wake_events, bytes = control.wake_bytes;
	if (events || bytes) {
		/* An interrupt in between delays a wake-up by one record at most. */
		state->unread_events++;
		state->unread_bytes += size;
		if ((events && state->unread_events >= events) ||
		    (bytes && state->unread_bytes >= bytes)) {
			state->unread_events = 0;
			state->unread_bytes = 0;
			flags = BPF_RB_FORCE_WAKEUP;
		}
	}
	return flags;
}

/* The number of the next event. */
INLINE __u32 next_number(const struct mag_cpu *state)
{
	return HAS_MAPPED_RINGS ? state->place >> 32 : state->number;
}

/* Wakes the reader of mapped rings. A full ring buffer has woken it already. */
static __noinline int wake_reader(void)
{
	__u32 cpu = bpf_get_smp_processor_id();
	__u64 nothing = 0;
	void *ring = this_ring(cpu);
	if (ring)
		bpf_ringbuf_output(ring, &nothing, sizeof(nothing), BPF_RB_FORCE_WAKEUP);
	return 0;
}

/* Submits a record, and wakes the reader at a watermark. */
INLINE void submit(struct mag_cpu *state, const struct slot *slot, void *record, __u32 size)
{
	if (!HAS_MAPPED_RINGS) {
		bpf_ringbuf_submit(record, wake_for(state, size));
		return;
	}
	commit(slot);
	if (wake_for(state, size) == BPF_RB_FORCE_WAKEUP)
		wake_reader();
}

/* Reserves a record that takes no number. Returns NULL if the ring is full. */
INLINE void *reserve_aside(struct mag_cpu *state, struct slot *slot, __u8 kind, __u32 size,
			   __u64 now)
{
	__u32 cpu = bpf_get_smp_processor_id(), number = next_number(state);
	struct mag_header *h;
	if (HAS_MAPPED_RINGS) {
		h = take_slots(state, slot, cpu, size, 0, &number);
	} else {
		void *ring = this_ring(cpu);
		h = ring ? bpf_ringbuf_reserve(ring, size, 0) : NULL;
	}
	if (h)
		head(h, kind, size, cpu, number, now);
	return h;
}

/* Takes the lost events that no record reports yet. An interrupt amid the report finds nothing left
 * to report. Before Linux 5.12 atomic instructions return no value: there, the counter only grows,
 * and such an interrupt reports the same events again, which overstates the loss. */
#ifdef MAGNET_NO_LOOP
#define UNREPORTED(state) ((state)->lost - (state)->lost_reported)
#define TAKE_UNREPORTED(state) UNREPORTED(state)
#define PUT_BACK(state, count) ((void)(count))
#define REPORTED(state, from, count) ((state)->lost_reported = (from) + (count))
#else
#define UNREPORTED(state) ((state)->lost)
#define TAKE_UNREPORTED(state) __sync_lock_test_and_set(&(state)->lost, 0)
#define PUT_BACK(state, count) __sync_fetch_and_add(&(state)->lost, count)
#define REPORTED(state, from, count) ((void)(from), (void)(count))
#endif

INLINE void submit_loss(const struct slot *slot, struct mag_loss *loss, __u64 from_ns, __u64 count,
			__u64 cause)
{
	loss->from_ns = from_ns;
	loss->count = count;
	loss->cause = cause;
	if (HAS_MAPPED_RINGS)
		commit(slot);
	else
		bpf_ringbuf_submit(loss, BPF_RB_NO_WAKEUP);
}

/* Writes the pending loss record if the ring has room for it. */
static __noinline int report_loss(struct mag_cpu *state, __u64 now)
{
	struct slot slot;
	if (!state)
		return 0;
	__u64 reported = state->lost_reported, from_ns = state->lost_from_ns;
	__u64 count = TAKE_UNREPORTED(state);
	if (!count)
		return 0;
	struct mag_loss *loss = reserve_aside(state, &slot, MAG_KIND_LOSS, sizeof(*loss), now);
	if (!loss) {
		PUT_BACK(state, count);
		return 0;
	}
	submit_loss(&slot, loss, from_ns, count, MAG_LOST_RING_FULL);
	state->lost_from_ns = 0;
	REPORTED(state, reported, count);
	return 0;
}

/* Counts an event that became no record. */
INLINE void lose(struct mag_cpu *state, __u32 hop, __u64 now)
{
	if (!state->lost_from_ns)
		state->lost_from_ns = now;
	__sync_fetch_and_add(&state->lost, 1);
	__sync_fetch_and_add(&state->lost_by_hop[hop & (MAG_HOPS - 1)], 1);
}

/* Reports an event whose program the kernel did not run, at some time since `since_ns`. Without
 * room for the record, the event counts as one that found the ring full. */
static __noinline int miss(__u32 hop, __u64 since_ns, __u64 now)
{
	struct mag_cpu *state = this_cpu();
	struct slot slot;
	if (!state || !wanted(hop))
		return 0;
	struct mag_loss *loss = reserve_aside(state, &slot, MAG_KIND_LOSS, sizeof(*loss), now);
	if (loss) {
		submit_loss(&slot, loss, since_ns, 1, MAG_LOST_REFUSED);
		return 0;
	}
	__sync_fetch_and_add(&state->recorded[hop & (MAG_HOPS - 1)], 1);
	if (HAS_MAPPED_RINGS)
		take_number(state);
	else
		__sync_fetch_and_add(&state->number, 1);
	lose(state, hop, since_ns);
	return 0;
}

/* Takes a number and reserves a record for a hop. Returns NULL if the ring is full, and counts the
 * loss. */
INLINE void *reserve(struct mag_cpu *state, struct slot *slot, __u8 hop, __u8 kind, __u32 size,
		     __u64 now)
{
	__u32 cpu = bpf_get_smp_processor_id(), number = 0;
	struct mag_header *h;
	__sync_fetch_and_add(&state->recorded[hop & (MAG_HOPS - 1)], 1);
	if (HAS_MAPPED_RINGS) {
		if (UNREPORTED(state))
			report_loss(state, now);
		h = take_slots(state, slot, cpu, size, 1, &number);
		if (!h)
			take_number(state);
	} else {
		number = FETCH_ADD(&state->number, 1);
		if (UNREPORTED(state))
			report_loss(state, now);
		void *ring = this_ring(cpu);
		h = ring ? bpf_ringbuf_reserve(ring, size, 0) : NULL;
	}
	if (!h) {
		lose(state, hop, now);
		return NULL;
	}
	head(h, kind, size, cpu, number, now);
	return h;
}

/* Whether `id` is due for an announcement, also because its `content` has changed. The caller
 * writes `*mark` to `*cell` after it. */
INLINE bool stale(__u64 id, __u64 content, __u64 now, __u64 **cell, __u64 *mark)
{
	__u32 index = (id ^ id >> 17) & (CELLS - 1);
	*cell = bpf_map_lookup_elem(&announced, &index);
	*mark = id ^ content ^ now >> 33;
	return *cell && **cell != *mark;
}

/* Announces the current thread. Only if its process uses the socket. A thread that moved to another
 * cgroup is announced again at once: the cgroup decides which viewers may read its rows. So is one
 * with another name: a shell that has become another program. */
INLINE void announce_task(struct mag_cpu *state, __u64 pid_tgid, __u64 now)
{
	__u64 *cell, mark, cgroup = bpf_get_current_cgroup_id(), name[2] = {};
	bpf_get_current_comm(name, sizeof(name));
	__u64 content = cgroup * 0xc2b2ae3d27d4eb4fULL ^ name[0] * 0x165667b19e3779f9ULL ^
			name[1] * 0x27d4eb2f165667c5ULL;
	if (!stale((pid_tgid * 0x9e3779b97f4a7c15ULL) | 1, content, now, &cell, &mark))
		return;
	struct slot slot;
	struct mag_task *task = reserve_aside(state, &slot, MAG_KIND_TASK, sizeof(*task), now);
	if (!task)
		return;
	task->cgroup = cgroup;
	task->tgid = pid_tgid >> 32;
	task->tid = pid_tgid;
	task->uid = bpf_get_current_uid_gid();
	task->pad = 0;
	__builtin_memcpy(task->comm, name, sizeof(task->comm));
	submit(state, &slot, task, sizeof(*task));
	*cell = mark;
}

#endif
