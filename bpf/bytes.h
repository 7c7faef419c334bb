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
struct scratch {
	__u8 bytes[NESTING][SCRATCH_BYTES];
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
	__u64 level = __sync_fetch_and_add(&state->nested, 1);
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

/* Copies what lies from `at` (in the linear part, or at its end) on to `to`, where there is room for 2 * MAG_SNAP_MAX
 * bytes. Returns how many bytes could be read, at most MAG_SNAP_MAX. */
static __noinline __u32 copy_bytes(__u64 skb_at, __u64 at, __u8 *to, __u32 want)
{
	const struct sk_buff *skb = (const void *)skb_at;
	if (!to || !skb || !at)
		return 0;
	__u64 head = (__u64)BPF_CORE_READ(skb, head), tail = head + BPF_CORE_READ(skb, tail);
	if (at > tail || at < head)
		return 0;
	if (want > MAG_SNAP_MAX)
		want = MAG_SNAP_MAX;
	__u32 done = tail - at < want ? tail - at : want;
	OPAQUE(done);
	if (done > MAG_SNAP_MAX)
		return 0;
	if (done && bpf_probe_read_kernel(to, done, (const void *)at))
		return 0;
	__u64 base = control.page_base, page_struct = bpf_core_type_size(struct page);
	if (done >= want || !base || !BPF_CORE_READ(skb, data_len))
		return done;
	const struct skb_shared_info *shared = (const void *)(head + BPF_CORE_READ(skb, end));
	const void *frags = (const void *)shared + bpf_core_field_offset(struct skb_shared_info, frags);
	__u32 count = BPF_CORE_READ(shared, nr_frags);
	for (__u32 i = 0; i < MAX_FRAGS; i++) {
		struct frag f;
		if (i >= count || done >= want || bpf_probe_read_kernel(&f, sizeof(f), frags + i * sizeof(f)))
			break;
		/* memory of a device has no page */
		if (!f.page || f.page & 1)
			break;
		__u32 more = want - done < f.len ? want - done : f.len;
		OPAQUE(more);
		OPAQUE(done);
		if (more > MAG_SNAP_MAX || done > MAG_SNAP_MAX)
			break;
		__u64 from = base + f.page / page_struct * PAGE_BYTES + f.offset;
		if (bpf_probe_read_kernel(to + done, more, (const void *)from))
			break;
		done += more;
	}
	return done;
}

#endif
