/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Rings in memory that user space maps: one for each CPU. The layout is in record.h, the reader and
 * the argument for the order of memory accesses in crates/probe/src/ring.rs.
 *
 * A writer takes slots and, for an event, a number by one compare-and-exchange of the CPU's
 * `place`. Only a program that interrupts it between the load and the exchange makes that fail. An
 * unconditional addition would be as fast, but it takes slots before the writer knows that they are
 * free: an interrupt may take the slots behind them, so nobody can give them back, and the reader
 * would wait for them for ever.
 *
 * A writer then fills its slots and writes the commit word of the first one. The reader takes
 * nothing behind a slot whose word is missing, so a slot never belongs to two writers: the writer
 * that was interrupted in between still has it.
 */
#ifndef MAGNET_RING_H
#define MAGNET_RING_H

#include "clock.h"
#include "read.h"

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1); /* user space sets the number of CPUs, and the size of a ring */
	__uint(key_size, sizeof(__u32));
	__uint(value_size, MAG_RING_COMMITS_AT);
	__uint(map_flags, BPF_F_MMAPABLE);
} slots SEC(".maps");

/* Whether records go to mapped rings. A constant at load time. Kernels without bpf_loop have the
 * kernel's rings: the oldest of them lack the instruction that takes a place. */
#ifdef MAGNET_NO_LOOP
#define HAS_MAPPED_RINGS false
#else
#define HAS_MAPPED_RINGS (config.ring_mask != 0)
#endif

/* The commit word of a record that is being written, and its final value. */
struct slot {
	__u64 *commit;
	__u64 turn;
};

/* What an attempt to take a place found. */
enum attempt { TAKEN, FULL, INTERRUPTED };

/* Takes slots and numbers of a ring. `*place` is the value before. */
INLINE enum attempt take_place(struct mag_cpu *state, const void *ring, __u32 mask, __u32 count,
			       __u32 numbers, __u64 *place)
{
	__u32 all = mask + 1;
	*place = *(volatile __u64 *)&state->place;
	__u32 position = *place;
	__u32 room = *(volatile __u32 *)ring + all - position;
	/* More room than all of it: the two loads are of different times, because an interrupt
	 * wrote in between, and the reader read that. */
	if (room - count > all - count)
		return room > all ? INTERRUPTED : FULL;
	__u64 next = ((*place >> 32) + numbers) << 32 | (__u32)(position + count);
	if (__sync_val_compare_and_swap(&state->place, *place, next) != *place)
		return INTERRUPTED;
	return TAKEN;
}

/* Three more attempts after an interrupt, each of which fails by an interrupt within some
 * instructions. Not a loop: compilers lay it out with its end above its head, and the verifier of
 * Linux 6.1 takes no program that falls back into a loop. A function, so that the usual case keeps
 * its registers. */
static __noinline enum attempt take_place_again(struct mag_cpu *state, const void *ring,
						__u32 count, __u32 numbers, __u64 *place)
{
	__u32 mask = config.ring_mask;
	enum attempt attempt = take_place(state, ring, mask, count, numbers, place);
	if (attempt == INTERRUPTED)
		attempt = take_place(state, ring, mask, count, numbers, place);
	if (attempt == INTERRUPTED)
		attempt = take_place(state, ring, mask, count, numbers, place);
	return attempt;
}

/* Takes the slots of a record, and `numbers` numbers, of which `*number` is the first. Returns NULL
 * if the ring has no room; then it has taken nothing. */
INLINE void *take_slots(struct mag_cpu *state, struct slot *slot, __u32 cpu, __u32 size,
			__u32 numbers, __u32 *number)
{
#ifndef MAGNET_NO_LOOP
	__u8 *ring = bpf_map_lookup_elem(&slots, &cpu);
	__u32 mask = config.ring_mask, count = (size + MAG_SLOT_BYTES - 1) / MAG_SLOT_BYTES;
	__u64 place;
	if (!ring)
		return NULL;
	enum attempt attempt = take_place(state, ring, mask, count, numbers, &place);
	if (attempt == INTERRUPTED) {
		/* A variable of its own, so that `place` needs no memory. */
		__u64 later = 0;
		attempt = take_place_again(state, ring, count, numbers, &later);
		place = later;
	}
	if (attempt == TAKEN) {
		__u32 index = (__u32)place & mask;
		*number = place >> 32;
		slot->turn = (__u64)size << 32 | (__u32)place;
		slot->commit = (__u64 *)(ring + MAG_RING_COMMITS_AT + index * sizeof(__u64));
		return ring + MAG_RING_COMMITS_AT + (mask + 1) * sizeof(__u64) +
		       index * MAG_SLOT_BYTES;
	}
#endif
	return NULL;
}

/* Takes the number of an event that found no room. */
INLINE void take_number(struct mag_cpu *state)
{
	__sync_fetch_and_add(&state->place, 1ULL << 32);
}

/* Publishes a record. Its bytes are visible before its commit word is. */
INLINE void commit(const struct slot *slot)
{
#ifdef __TARGET_ARCH_x86
	/* This architecture keeps the order of stores, so only the compiler has to. */
	asm volatile("" ::: "memory");
	*(volatile __u64 *)slot->commit = slot->turn;
#elif !defined(MAGNET_NO_LOOP)
	/* An exchange is a release: BPF has no cheaper one before Linux 6.15. */
	__sync_lock_test_and_set(slot->commit, slot->turn);
#endif
}

#endif
