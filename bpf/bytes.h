/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Reads bytes of a packet from its linear part and from the pages behind it.
 *
 * A page has no virtual address in its `struct page`. The kernel maps all memory linearly, and
 * keeps an array of `struct page` in the same order. So the address of a page is the address of its
 * `struct page`, scaled, plus a constant. find_pages (pages.bpf.c) finds that constant.
 */
#ifndef MAGNET_BYTES_H
#define MAGNET_BYTES_H

#include "emit.h"

#define PAGE_BYTES 4096
#define MAX_FRAGS 17

/* Buffers to assemble bytes in. An interrupt may need one while the interrupted program uses
 * another. */
#define NESTING 4
#define SCRATCH_BYTES (2 * MAG_SNAP_MAX + 256)
/* State of copy_bytes. */
struct gather {
	__u64 frags;
	__u64 base;
	__u32 count;
	__u32 offset;
	__u32 want;
	__u32 done;
	__u32 length; /* bytes of the packet from the start address on */
	__u32 pad;
};
struct scratch {
	__u8 bytes[NESTING][SCRATCH_BYTES];
	struct gather gathers[NESTING];
};
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct scratch);
} scratches SEC(".maps");

/* Hides a value from the compiler, which would otherwise remove bounds checks that the verifier
 * needs. */
#define OPAQUE(x) asm volatile("" : "+r"(x))

/* Takes a buffer. Returns NULL if all are in use; the caller calls give_back in both cases. */
INLINE __u8 *take_scratch(struct mag_cpu *state, __u32 *at)
{
	__u32 zero = 0;
	__u64 level = FETCH_ADD(&state->nested, 1);
	*at = level;
	struct scratch *s = bpf_map_lookup_elem(&scratches, &zero);
	if (!s)
		return NULL;
	/* Only after the NULL check: older verifiers reject arithmetic on an unchecked pointer. */
	OPAQUE(level);
	return level < NESTING ? s->bytes[level & (NESTING - 1)] : NULL;
}

INLINE void give_back(struct mag_cpu *state)
{
	__sync_fetch_and_add(&state->nested, -1);
}

/* The layout of a fragment since Linux 5.4. The names of its members differ between kernels. */
struct frag {
	__u64 page;
	__u32 len;
	__u32 offset;
};

/* A mask for the length of a record's header. Older verifiers lose the bounds of values that they
 * spill to the stack; a mask restores them. */
#define OFFSET_MASK 63
_Static_assert(sizeof(struct mag_head) <= OFFSET_MASK, "a header before the bytes");

/* Copies one fragment. Returns 1 after the last. */
static long gather_frag(__u64 i, __u32 *at)
{
	__u32 zero = 0, level = *at & (NESTING - 1);
	struct scratch *scratch = bpf_map_lookup_elem(&scratches, &zero);
	if (!scratch)
		return 1;
	struct gather *g = &scratch->gathers[level];
	struct frag f;
	__u32 want = g->want, done = g->done, offset = g->offset;
	if (i >= g->count || done >= want ||
	    bpf_probe_read_kernel(&f, sizeof(f), (void *)g->frags + i * sizeof(f)))
		return 1;
	/* Device memory has no page. */
	if (!f.page || f.page & 1)
		return 1;
	__u32 more = want - done < f.len ? want - done : f.len;
	OPAQUE(more);
	OPAQUE(done);
	OPAQUE(offset);
	if (more > MAG_SNAP_MAX || done > MAG_SNAP_MAX)
		return 1;
	__u64 from = g->base + f.page / bpf_core_type_size(struct page) * PAGE_BYTES + f.offset;
	if (bpf_probe_read_kernel(scratch->bytes[level] + (offset & OFFSET_MASK) + done, more,
				  (const void *)from))
		return 1;
	g->done = done + more;
	return 0;
}

/* Reads a field through one stack slot that all fields share. */
#define PEEK(t, from, field)                                                           \
	({                                                                             \
		t = 0;                                                                 \
		bpf_core_read(&t, bpf_core_field_size((from)->field), &(from)->field); \
		t;                                                                     \
	})

/* Copies bytes from `at` on out of the linear part, and sets up the rest for gather_frag. The
 * verifier checks a global function once, instead of once per path to each call. */
SUBPROGRAM int copy_linear(__u64 skb_at, __u64 at, __u32 level, __u32 offset, __u32 want)
{
	__u32 zero = 0;
	__u64 t;
	struct scratch *scratch = bpf_map_lookup_elem(&scratches, &zero);
	const struct sk_buff *skb = (const void *)skb_at;
	if ((!can(MAG_CAN_PAYLOAD) && !can(MAG_CAN_PCAP)) || !scratch || !skb || !at)
		return 0;
	struct gather *g = &scratch->gathers[level & (NESTING - 1)];
	/* Values needed later go to the scratch map: all callers together have 512 bytes of
	 * stack. */
	g->done = g->count = 0;
	g->offset = offset;
	g->want = want > MAG_SNAP_MAX ? MAG_SNAP_MAX : want;
	g->base = control.page_base;
	g->length = PEEK(t, skb, data) - at;
	g->length += PEEK(t, skb, len);
	g->frags = PEEK(t, skb, head);
	if (at < g->frags)
		return 0;
	__u64 left = g->frags + PEEK(t, skb, tail) - at;
	if (left >> 32)
		return 0;
	__u32 done = left < g->want ? left : g->want;
	OPAQUE(done);
	if (done > MAG_SNAP_MAX)
		return 0;
	g->done = done;
	OPAQUE(offset);
	__u8 *to = scratch->bytes[level & (NESTING - 1)] + (offset & OFFSET_MASK);
	if (done && bpf_probe_read_kernel(to, done, (const void *)at)) {
		g->done = 0;
		return 0;
	}
	if (g->done >= g->want || !g->base || !PEEK(t, skb, data_len))
		return 0;
	g->frags += PEEK(t, skb, end);
	const struct skb_shared_info *shared = (const void *)g->frags;
	if (!can(MAG_CAN_PAGES))
		return 0;
	g->frags += bpf_core_field_offset(struct skb_shared_info, frags);
	g->count = PEEK(t, shared, nr_frags);
	return 0;
}

/* Copies bytes from `at` on (in the linear part, or at its end) to the scratch buffer of this
 * level. The first `offset` bytes remain free for the record's header. Returns the state of the
 * copy, of which `done` is at most MAG_SNAP_MAX bytes. A plain loop would make the verifier walk
 * every round, so bpf_loop does it. */
INLINE const struct gather *copy_bytes(__u64 skb_at, __u64 at, __u32 *level, __u32 offset,
				       __u32 want)
{
	__u32 zero = 0;
	copy_linear(skb_at, at, *level, offset, want);
	if (can(MAG_CAN_PAGES))
		LOOP(MAX_FRAGS, gather_frag, level);
	struct scratch *scratch = bpf_map_lookup_elem(&scratches, &zero);
	return scratch ? &scratch->gathers[*level & (NESTING - 1)] : NULL;
}

#endif
