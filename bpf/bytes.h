/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Bytes of a packet, wherever they lie: in its linear part, or in pages behind it.
 *
 * A page has no address of its own to read at. But the kernel's map of all memory and its array of `struct page` run side
 * by side, so the address of a page is that of its `struct page`, scaled, and a constant that find_pages (pages.bpf.c) finds.
 */
#ifndef MAGNET_BYTES_H
#define MAGNET_BYTES_H

#include "emit.h"

#define PAGE_BYTES 4096
#define MAX_FRAGS 17

/* Room to put bytes together in. An interrupt may need some while the program that it interrupts still does. */
#define NESTING 4
#define SCRATCH_BYTES (2 * MAG_SNAP_MAX + 256)
/* What copy_bytes is doing. */
struct gather {
	__u64 frags;
	__u64 base;
	__u32 count;
	__u32 offset;
	__u32 want;
	__u32 done;
	__u32 length; /* of the packet from there on */
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

/* Keeps a compiler from knowing a bound better than the verifier does. */
#define OPAQUE(x) asm volatile("" : "+r"(x))

/* Takes a place; NULL where all are taken. Either way it is given back. */
INLINE __u8 *take_scratch(struct mag_cpu *state, __u32 *at)
{
	__u32 zero = 0;
	__u64 level = FETCH_ADD(&state->nested, 1);
	*at = level;
	struct scratch *s = bpf_map_lookup_elem(&scratches, &zero);
	if (!s)
		return NULL;
	/* only now: older verifiers want the pointer checked before anything is added to it */
	OPAQUE(level);
	return level < NESTING ? s->bytes[level & (NESTING - 1)] : NULL;
}

INLINE void give_back(struct mag_cpu *state)
{
	__sync_fetch_and_add(&state->nested, -1);
}

/* So since Linux 5.4, whatever its members are called. */
struct frag {
	__u64 page;
	__u32 len;
	__u32 offset;
};

/* A record's header is shorter. A mask, because older verifiers forget the bounds of what was kept on the stack meanwhile. */
#define OFFSET_MASK 63
_Static_assert(sizeof(struct mag_head) <= OFFSET_MASK, "a header before the bytes");

/* One page more; 1 after the last. */
static long gather_frag(__u64 i, __u32 *at)
{
	__u32 zero = 0, level = *at & (NESTING - 1);
	struct scratch *scratch = bpf_map_lookup_elem(&scratches, &zero);
	if (!scratch)
		return 1;
	struct gather *g = &scratch->gathers[level];
	struct frag f;
	__u32 want = g->want, done = g->done, offset = g->offset;
	if (i >= g->count || done >= want || bpf_probe_read_kernel(&f, sizeof(f), (void *)g->frags + i * sizeof(f)))
		return 1;
	/* memory of a device has no page */
	if (!f.page || f.page & 1)
		return 1;
	__u32 more = want - done < f.len ? want - done : f.len;
	OPAQUE(more);
	OPAQUE(done);
	OPAQUE(offset);
	if (more > MAG_SNAP_MAX || done > MAG_SNAP_MAX)
		return 1;
	__u64 from = g->base + f.page / bpf_core_type_size(struct page) * PAGE_BYTES + f.offset;
	if (bpf_probe_read_kernel(scratch->bytes[level] + (offset & OFFSET_MASK) + done, more, (const void *)from))
		return 1;
	g->done = done + more;
	return 0;
}

/* One place on the stack for all fields that are read. */
#define PEEK(t, from, field)                                                                              \
	({                                                                                                \
		t = 0;                                                                                    \
		bpf_core_read(&t, bpf_core_field_size((from)->field), &(from)->field);                    \
		t;                                                                                        \
	})

/* Copies what lies from `at` on in the linear part, and prepares what is left to gather. A function of its own to the verifier
 * too: it would follow it for every way that leads here. */
SUBPROGRAM int copy_linear(__u64 skb_at, __u64 at, __u32 level, __u32 offset, __u32 want)
{
	__u32 zero = 0;
	__u64 t;
	struct scratch *scratch = bpf_map_lookup_elem(&scratches, &zero);
	const struct sk_buff *skb = (const void *)skb_at;
	if ((!can(MAG_CAN_PAYLOAD) && !can(MAG_CAN_PCAP)) || !scratch || !skb || !at)
		return 0;
	struct gather *g = &scratch->gathers[level & (NESTING - 1)];
	/* what is needed again stands there and not on the stack, of which all callers together have 512 bytes */
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

/* Copies what lies from `at` (in the linear part, or at its end) on into the scratch of this level, behind `offset` bytes that
 * a record's header needs. Says how many bytes could be read, at most MAG_SNAP_MAX. A loop by helper, because the verifier
 * would go through all rounds of a plain one. */
INLINE const struct gather *copy_bytes(__u64 skb_at, __u64 at, __u32 *level, __u32 offset, __u32 want)
{
	__u32 zero = 0;
	copy_linear(skb_at, at, *level, offset, want);
	if (can(MAG_CAN_PAGES))
		LOOP(MAX_FRAGS, gather_frag, level);
	struct scratch *scratch = bpf_map_lookup_elem(&scratches, &zero);
	return scratch ? &scratch->gathers[*level & (NESTING - 1)] : NULL;
}

#endif
