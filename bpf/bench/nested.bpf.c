/* SPDX-License-Identifier: GPL-2.0-only */
/* Writers of records that interrupt each other, for tests of the rings. One runs for a test of the
 * kernel's own, and one at the interrupts of a timer. Every word of a record repeats its number. */
#include "../emit.h"

/* The hops of the records of the two programs. */
enum { OUTER = 1, INNER = 2 };

/* Fills all words behind a record's header. */
#define FILL(record, hop)                                                                          \
	do {                                                                                       \
		volatile __u64 *word = (void *)(record);                                           \
		__u64 value = (__u64)(hop) << 32 | (record)->h.number;                             \
		_Pragma("unroll") for (int i = 2; i < sizeof(*(record)) / 8; i++) word[i] = value; \
	} while (0)

/* Writes a record of one slot or of two. */
static __noinline int write_record(__u32 hop, __u32 is_long)
{
	struct mag_cpu *state = this_cpu();
	struct slot slot;
	if (!state)
		return 0;
	if (is_long) {
		struct mag_hit *h = reserve(state, &slot, hop, MAG_KIND_HIT, sizeof(*h), 1);
		if (h) {
			FILL(h, hop);
			submit(state, &slot, h, sizeof(*h));
		}
		return 0;
	}
	struct mag_event *e = reserve(state, &slot, hop, hop, sizeof(*e), 1);
	if (e) {
		FILL(e, hop);
		submit(state, &slot, e, sizeof(*e));
	}
	return 0;
}

static long one(__u64 i, void *nothing)
{
	write_record(OUTER, i % 3 == 0);
	return 0;
}

SEC("syscall")
int write_many(__u32 *count)
{
	bpf_loop(*count, one, NULL, 0);
	return 0;
}

SEC("perf_event")
int write_at_interrupt(void *ctx)
{
	for (int i = 0; i < 4; i++)
		write_record(INNER, i & 1);
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
