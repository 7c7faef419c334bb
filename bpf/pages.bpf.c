/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Finds the constant between the address of a `struct page` and the address of its memory. Kernels
 * randomise their layout and do not export it. A slab gives both addresses: the slab itself is in
 * the array of pages, and its list of free objects points to its memory. One slab of one page gives
 * the constant; several slabs must agree.
 */
#include "bytes.h"
#include "own_socket.h"

#define CACHES 1024
#define SLABS 4

struct page_query {
	__u64 fd; /* any TCP socket of the caller */
	__u64 base; /* the constant */
	__u64 votes; /* slabs that agree, minus those that do not */
};

struct walk_caches {
	__u64 at;
	__u64 first;
	__u64 base;
	__u64 votes;
};

static long one_cache(__u64 round, struct walk_caches *w)
{
	const struct kmem_cache *cache =
		(const void *)(w->at - bpf_core_field_offset(struct kmem_cache, list));
	w->at = (__u64)BPF_CORE_READ(cache, list.next);
	if (!w->at || w->at == w->first)
		return 1;
	/* Only slabs of one page: the upper half of the word is the binary logarithm of the page
	 * count. */
	if (BPF_CORE_READ(cache, oo.x) >> 16)
		return 0;
	const void *nodes = cache;
	if (bpf_core_field_exists(struct kmem_cache___per_node, per_node))
		nodes += bpf_core_field_offset(struct kmem_cache___per_node, per_node) +
			 bpf_core_field_offset(struct kmem_cache_per_node_ptrs, node);
	else
		nodes += bpf_core_field_offset(struct kmem_cache, node);
	const struct kmem_cache_node *node = NULL;
	bpf_probe_read_kernel(&node, sizeof(node), nodes);
	if (!node)
		return 0;
	__u64 list = (__u64)node + bpf_core_field_offset(struct kmem_cache_node, partial);
	__u64 at = (__u64)BPF_CORE_READ(node, partial.next);
	for (int i = 0; i < SLABS; i++) {
		if (!at || at == list)
			return 0;
		const struct slab *slab =
			(const void *)(at - bpf_core_field_offset(struct slab, slab_list));
		__u64 object = (__u64)BPF_CORE_READ(slab, freelist);
		at = (__u64)BPF_CORE_READ(slab, slab_list.next);
		if (!object)
			continue;
		__u64 base = (object & ~(PAGE_BYTES - 1ULL)) -
			     (__u64)slab / bpf_core_type_size(struct page) * PAGE_BYTES;
		if (w->base == base) {
			w->votes++;
		} else if (!w->votes) {
			w->base = base;
			w->votes = 1;
		} else {
			w->votes--;
		}
	}
	return 0;
}

SEC("syscall")
int find_pages(struct page_query *query)
{
	const struct sock *sk = own_socket(query->fd);
	const struct kmem_cache *cache = BPF_CORE_READ(sk, __sk_common.skc_prot, slab);
	if (!cache)
		return 0;
	struct walk_caches w = {};
	w.first = w.at = (__u64)cache + bpf_core_field_offset(struct kmem_cache, list);
	LOOP(CACHES, one_cache, &w);
	query->base = w.base;
	query->votes = w.votes;
	return 0;
}
