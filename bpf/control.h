/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What user space changes while the programs run: memory that both sides see. With nothing set, a hit costs one load of
 * `gate` and one of `hops` more.
 */
#ifndef MAGNET_CONTROL_H
#define MAGNET_CONTROL_H

#include "kernel.h"
#include "record.h"
#include <bpf/bpf_helpers.h>

#define INLINE static __always_inline

SEC(".data.control") volatile struct mag_control control = {};

/* Two slots: one in force, one to be written. User space waits until no program reads the old one any more. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MAG_FILTER_SLOTS);
	__type(key, __u32);
	__type(value, struct mag_filter);
} filters SEC(".maps");

/* Whether events of a hop are wanted now. A program can run with its hop off, because another one lives on what it
 * leaves behind, or because it cannot be detached and attached again without privileges. */
INLINE bool wanted(int hop)
{
	return control.hops & (1ULL << hop);
}

#endif
