/* SPDX-License-Identifier: GPL-2.0-only */
/* What a kernel says it has and what it lets be attached are two things. These try it, at a function that does nothing and
 * that nothing calls. */
#include "kernel.h"
#include <bpf/bpf_helpers.h>

SEC("fentry/bpf_fentry_test1")
int trial_fentry(void *ctx)
{
	return 0;
}

SEC("kprobe/bpf_fentry_test1")
int trial_kprobe(void *ctx)
{
	return 0;
}

SEC("kprobe.multi/bpf_fentry_test1")
int trial_kprobe_multi(void *ctx)
{
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
