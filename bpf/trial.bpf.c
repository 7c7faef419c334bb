/* SPDX-License-Identifier: GPL-2.0-only */
/* A kernel may have trampolines and yet refuse to load what would use them. Loaded, never attached. */
#include "kernel.h"
#include <bpf/bpf_helpers.h>

SEC("fentry/bpf_fentry_test1")
int trial(void *ctx)
{
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
