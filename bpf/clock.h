/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The clock of the events: CLOCK_MONOTONIC, or the CPU's time stamp counter.
 *
 * A BPF program cannot execute RDTSC. It can read the perf counter `msr/tsc` of its own CPU, which
 * counts from the moment when user space opened it. User space stores the offset of each CPU's
 * counter to the first cycle of the capture.
 */
#ifndef MAGNET_CLOCK_H
#define MAGNET_CLOCK_H

#include "control.h"

/* A separate section, so that the map holds nothing but this variable. */
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

/* Whether an ability is available. The verifier reads the configuration as constants and skips the
 * code behind a missing ability. It verifies a global function on its own, so each one calls can()
 * itself. */
INLINE bool can(__u32 ability)
{
#ifdef MAGNET_NO_LOOP
	if (ability & (MAG_CAN_PAGES | MAG_CAN_FILTER | MAG_CAN_PCAP))
		return false;
#endif
	return !(config.without & ability);
}

/* Whether the programs store sockets for the filter. */
#define LEARNS (can(MAG_CAN_FILTER) && control.learn)

INLINE __u64 clock_now(void)
{
	/* A constant at load time. Without the TSC, the verifier skips the helper call below, which
	 * some kernels refuse. */
	if (!config.tsc_mult)
		return bpf_ktime_get_ns();
	struct bpf_perf_event_value count = {};
	__u32 cpu = bpf_get_smp_processor_id();
	__u64 *base = bpf_map_lookup_elem(&tsc_bases, &cpu);
	/* A CPU that came online after the start of the capture. Both clocks started together, so
	 * they differ little. */
	if (!base ||
	    bpf_perf_event_read_value(&tsc_counters, BPF_F_CURRENT_CPU, &count, sizeof(count)))
		return bpf_ktime_get_ns();
	__u64 cycles = *base + count.counter, mult = config.tsc_mult;
	__u32 shift = config.tsc_shift & 31;
	return config.tsc_origin_ns + (((cycles >> 32) * mult) << (32 - shift)) +
	       (((__u32)cycles * mult) >> shift);
}

#endif
