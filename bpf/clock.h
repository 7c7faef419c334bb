/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The clock that events carry: CLOCK_MONOTONIC, or the CPU's time stamp counter.
 *
 * A program cannot execute RDTSC; it can read the counter `msr/tsc` of the CPU that it runs on, which counts from when user
 * space opened it. How far that is from the first cycle of the capture is known for each CPU.
 */
#ifndef MAGNET_CLOCK_H
#define MAGNET_CLOCK_H

#include "control.h"

/* In a section of its own, so that user space finds nothing else in that map. */
SEC(".rodata.config") const volatile struct mag_config config = {};

struct {
	__uint(type, BPF_MAP_TYPE_PERF_EVENT_ARRAY);
	__uint(max_entries, 1); /* user space sets the number of CPUs, here and below */
	__type(key, __u32);
	__type(value, __u32);
} tsc_counters SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} tsc_bases SEC(".maps");

/* Whether an ability is there. The verifier knows the configuration, and does not look at what is behind a missing one. A global function
 * is verified alone, so each asks by itself. */
INLINE bool can(__u32 ability)
{
#ifdef MAGNET_NO_LOOP
	if (ability & (MAG_CAN_PAGES | MAG_CAN_FILTER | MAG_CAN_PCAP))
		return false;
#endif
	return !(config.without & ability);
}

/* Whether sockets are remembered for the filter. */
#define LEARNS (can(MAG_CAN_FILTER) && control.learn)

INLINE __u64 clock_now(void)
{
	/* known when the program is loaded: what is not asked for is not there, and so not refused where it may not be called */
	if (!config.tsc_mult)
		return bpf_ktime_get_ns();
	struct bpf_perf_event_value count = {};
	__u32 cpu = bpf_get_smp_processor_id();
	__u64 *base = bpf_map_lookup_elem(&tsc_bases, &cpu);
	/* a CPU that was not there when the capture began: the two clocks began together and are not far apart yet */
	if (!base || bpf_perf_event_read_value(&tsc_counters, BPF_F_CURRENT_CPU, &count, sizeof(count)))
		return bpf_ktime_get_ns();
	__u64 cycles = *base + count.counter, mult = config.tsc_mult;
	__u32 shift = config.tsc_shift & 31;
	return config.tsc_origin_ns + (((cycles >> 32) * mult) << (32 - shift)) + (((__u32)cycles * mult) >> shift);
}

#endif
