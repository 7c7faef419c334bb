/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * How kernel memory is read, in the two ways that the sources are compiled for.
 *
 * With typed casts (Linux 6.2) every field is a direct load, also behind a pointer that came without a type: a third of
 * the cost of probe reads field by field. Older kernels run the object compiled with MAGNET_PROBE_READ, where the same
 * expressions are probe reads. User space picks the object, so neither pays for the other.
 */
#ifndef MAGNET_READ_H
#define MAGNET_READ_H

#include "kernel.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>

#ifdef MAGNET_PROBE_READ

/* A pointer of no type, or of another, as one to a kernel structure. */
#define CAST(type, ptr) ((const struct type *)(ptr))
/* READ(sk, a.b, c) is sk->a.b->c. */
#define READ(src, ...) BPF_CORE_READ(src, __VA_ARGS__)
#define READ_BITFIELD(src, field) BPF_CORE_READ_BITFIELD_PROBED(src, field)
/* Makes `name` point to what stands at `at`: a header, whose layout the wire has fixed. */
#define HEADER(type, name, at)                                                                     \
	struct type name##_copy;                                                                   \
	bpf_probe_read_kernel(&name##_copy, sizeof(name##_copy), at);                              \
	const struct type *name = &name##_copy
/* The same for a member of a kernel structure, to be looked at as a whole. */
#define MEMBER(type, name, at) HEADER(type, name, at)

#else

extern void *bpf_rdonly_cast(const void *obj, __u32 btf_id) __ksym __weak;
#define CAST(type, ptr) ((const struct type *)bpf_rdonly_cast((const void *)(ptr), bpf_core_type_id_kernel(struct type)))
#define READ(src, ...) ___arrow(src, __VA_ARGS__)
#define READ_BITFIELD(src, field) BPF_CORE_READ_BITFIELD(src, field)
#define HEADER(type, name, at) const struct type *name = CAST(type, at)
#define MEMBER(type, name, at) const struct type *name = (at)

#endif

/*
 * The same for a pointer that stands in a structure which the verifier trusts, as it does the arguments of a tracepoint. Read from there
 * it would ask whether the member can be trusted as well, and go through all names of the kernel's types for that, several
 * times a member: once that took a third of loading. Behind a cast nothing is trusted, and it does not ask.
 */
#define FOLLOW(type, ptr, ...) READ(CAST(type, ptr), __VA_ARGS__)

/*
 * Kernels before Linux 5.17 run the object compiled with MAGNET_NO_LOOP. They have no bpf_loop; before 5.13 no program may refer to a
 * callback; before 5.12 no atomic instruction returns a value, no socket cookie is made in tracing programs, and a global function takes
 * no pointer to memory.
 */
#ifdef MAGNET_NO_LOOP
#define SUBPROGRAM static __noinline
#define LOOP(rounds, callback, context) ((void)(callback), (void)(context))
#define CURRENT_TASK CAST(task_struct, bpf_get_current_task())
/* An interrupt between the two instructions gives two records one number. */
#define FETCH_ADD(at, by)                                                                          \
	({                                                                                         \
		__u64 before_it = *(at);                                                           \
		__sync_fetch_and_add(at, by);                                                      \
		before_it;                                                                         \
	})
#else
#define SUBPROGRAM __noinline
#define LOOP(rounds, callback, context) bpf_loop(rounds, callback, context, 0)
#define CURRENT_TASK bpf_get_current_task_btf()
#define FETCH_ADD(at, by) __sync_fetch_and_add(at, by)
#endif

/* How a program came by its pointers: from a hook that gives them types, or from registers. */
enum pointer_kind { TYPED, UNTYPED };
#define AS(type, ptr) (pointers == TYPED ? (const struct type *)(ptr) : CAST(type, ptr))

#endif
