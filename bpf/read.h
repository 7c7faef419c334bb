/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Two ways of reading kernel memory, chosen at compile time.
 *
 * With typed casts (Linux 6.2), every field is a direct load, even behind an untyped pointer. That
 * costs a third of probe reads field by field. Older kernels run the object compiled with
 * MAGNET_PROBE_READ, where the same expressions are probe reads. User space selects the object, so
 * neither has the other's cost.
 */
#ifndef MAGNET_READ_H
#define MAGNET_READ_H

#include "kernel.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>

#ifdef MAGNET_PROBE_READ

/* Casts a pointer of another type, or of none, to a kernel structure. */
#define CAST(type, ptr) ((const struct type *)(ptr))
/* READ(sk, a.b, c) is sk->a.b->c. */
#define READ(src, ...) BPF_CORE_READ(src, __VA_ARGS__)
#define READ_BITFIELD(src, field) BPF_CORE_READ_BITFIELD_PROBED(src, field)
/* Makes `name` point to a header at `at`, whose layout the wire fixes. */
#define HEADER(type, name, at)                                        \
	struct type name##_copy;                                      \
	bpf_probe_read_kernel(&name##_copy, sizeof(name##_copy), at); \
	const struct type *name = &name##_copy
/* Eight bytes of a header that HEADER has made, in the order of memory. */
#define HEADER_U64(name, at, offset)                         \
	(*(const __u32 *)((const void *)(name) + (offset)) | \
	 (__u64) * (const __u32 *)((const void *)(name) + (offset) + 4) << 32)
/* The same for a member of a kernel structure that is read as a whole. */
#define MEMBER(type, name, at) HEADER(type, name, at)

#else

extern void *bpf_rdonly_cast(const void *obj, __u32 btf_id) __ksym __weak;
#define CAST(type, ptr)                                            \
	((const struct type *)bpf_rdonly_cast((const void *)(ptr), \
					      bpf_core_type_id_kernel(struct type)))
#define READ(src, ...) ___arrow(src, __VA_ARGS__)
#define READ_BITFIELD(src, field) BPF_CORE_READ_BITFIELD(src, field)
#define HEADER(type, name, at) const struct type *name = CAST(type, at)
/* The verifier guards each load behind a cast by eight instructions, so a header is read by few
 * large loads. A load has to be within one member, such as this address. */
#define HEADER_U64(name, at, offset) (*(const __u64 *)CAST(in6_addr, (const void *)(at) + (offset)))
#define MEMBER(type, name, at) const struct type *name = (at)

#endif

/* Reads through a pointer from a trusted structure, such as a tracepoint's argument. For a plain
 * read the verifier checks whether the member is trusted too. That check searches all names of the
 * kernel's types several times per member, and took a third of the load time. Behind a cast nothing
 * is trusted, so the verifier skips the search. */
#define FOLLOW(type, ptr, ...) READ(CAST(type, ptr), __VA_ARGS__)

/* Kernels before Linux 5.17 run the object compiled with MAGNET_NO_LOOP, because they lack
 * bpf_loop. Before 5.13 programs cannot refer to callbacks. Before 5.12 atomic instructions return
 * no value, tracing programs cannot create socket cookies, and global functions take no pointers to
 * memory. */
#ifdef MAGNET_NO_LOOP
#define SUBPROGRAM static __noinline
#define LOOP(rounds, callback, context) ((void)(callback), (void)(context))
#define CURRENT_TASK CAST(task_struct, bpf_get_current_task())
/* An interrupt between the two instructions gives two records the same number. */
#define FETCH_ADD(at, by)                     \
	({                                    \
		__u64 before_it = *(at);      \
		__sync_fetch_and_add(at, by); \
		before_it;                    \
	})
#else
#define SUBPROGRAM __noinline
#define LOOP(rounds, callback, context) bpf_loop(rounds, callback, context, 0)
#define CURRENT_TASK bpf_get_current_task_btf()
#define FETCH_ADD(at, by) __sync_fetch_and_add(at, by)
#endif

/* Whether the hook gives a program typed pointers, or registers hold untyped ones. */
enum pointer_kind { TYPED, UNTYPED };
#define AS(type, ptr) (pointers == TYPED ? (const struct type *)(ptr) : CAST(type, ptr))

#endif
