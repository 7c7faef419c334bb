/* SPDX-License-Identifier: GPL-2.0-only */
/* All layers are one object, because they share rings and counters. */
#include "socket.bpf.c"
#include "transport.bpf.c"
#include "points.bpf.c"
#include "ip.bpf.c"
#include "device.bpf.c"
#include "sched.bpf.c"
#include "functions.bpf.c"
#include "pages.bpf.c"
#include "addresses.bpf.c"

char LICENSE[] SEC("license") = "GPL";
