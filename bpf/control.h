/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Settings that user space changes while the programs run, in memory that both sides map. With no
 * setting active, a hit costs one load of `gate` and one of `hops`.
 *
 * A processor with weak memory order (arm64) may load two settings in either order, so no program
 * relies on the order of two loads from here. What a slot's number leads to is loaded through an
 * address computed from that number, which keeps the order. User space reuses a slot or a map only
 * after every program that began earlier has ended, which orders all of its loads.
 */
#ifndef MAGNET_CONTROL_H
#define MAGNET_CONTROL_H

#include "kernel.h"
#include "record.h"
#include <bpf/bpf_helpers.h>

#define INLINE static __always_inline

SEC(".data.control") volatile struct mag_control control = {};

/* Two slots: one active, one for the next filter. User space writes a slot only after no program
 * reads it any more. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MAG_FILTER_SLOTS);
	__type(key, __u32);
	__type(value, struct mag_filter);
} filters SEC(".maps");

/* Whether a hop's events are wanted now. A program may run while its hop is off: another program
 * may use the state that it stores. Or it stays attached because attaching it again would need
 * privileges. */
INLINE bool wanted(int hop)
{
	return control.hops & (1ULL << hop);
}

#endif
