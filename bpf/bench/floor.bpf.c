/* SPDX-License-Identifier: GPL-2.0-only */
/* Empty programs on the hooks of the probes measure the cost of the call alone. On one hook, one
 * program reads the clock and one writes the smallest possible record. For benchmarks only. */
#include "../kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#define EMPTY(name, point)   \
	SEC("tp_btf/" point) \
	int name(void *ctx)  \
	{                    \
		return 0;    \
	}

EMPTY(app_send, "sock_send_length")
EMPTY(app_recv, "sock_recv_length")
EMPTY(sock_ready, "sk_data_ready")
EMPTY(dev_queue, "net_dev_queue")
EMPTY(dev_xmit, "net_dev_start_xmit")
EMPTY(dev_done, "net_dev_xmit")
EMPTY(dev_recv, "netif_receive_skb")

/* A clock reading, stored so that the compiler cannot remove it. */
__u64 last_ns;
SEC("tp_btf/net_dev_start_xmit")
int dev_xmit_clock(void *ctx)
{
	last_ns = bpf_ktime_get_ns();
	return 0;
}

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 25);
} ring SEC(".maps");

SEC("tp_btf/net_dev_start_xmit")
int dev_xmit_record(void *ctx)
{
	__u64 *record = bpf_ringbuf_reserve(&ring, 64, 0);
	if (!record)
		return 0;
	record[0] = bpf_ktime_get_ns();
	bpf_ringbuf_submit(record, BPF_RB_NO_WAKEUP);
	return 0;
}

#define EMPTY_HOOK(name)                 \
	SEC("netfilter")                 \
	int name(struct bpf_nf_ctx *ctx) \
	{                                \
		return NF_ACCEPT;        \
	}

EMPTY_HOOK(ip_out)
EMPTY_HOOK(ip_post)
EMPTY_HOOK(ip_pre)
EMPTY_HOOK(ip_in)

SEC("cgroup_skb/ingress")
int udp_recv(struct __sk_buff *ctx)
{
	return 1;
}

char LICENSE[] SEC("license") = "GPL";
