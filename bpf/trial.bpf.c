/* SPDX-License-Identifier: GPL-2.0-only */
/* Some kernels have trampolines but refuse to load programs that use them. This program is loaded,
 * never attached. */
#include "kernel.h"
#include <bpf/bpf_helpers.h>

SEC("fentry/bpf_fentry_test1")
int trial(void *ctx)
{
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
