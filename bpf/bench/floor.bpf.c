/* SPDX-License-Identifier: GPL-2.0-only */
/* Empty programs on the hooks of the probes: what being called costs, before anything is done. Benchmarks only. */
#include "../kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#define EMPTY(name, point)                                                                                             \
	SEC("tp_btf/" point)                                                                                           \
	int name(void *ctx)                                                                                            \
	{                                                                                                              \
		return 0;                                                                                              \
	}

EMPTY(app_send, "sock_send_length")
EMPTY(app_recv, "sock_recv_length")
EMPTY(sock_ready, "sk_data_ready")
EMPTY(dev_queue, "net_dev_queue")
EMPTY(dev_xmit, "net_dev_start_xmit")
EMPTY(dev_done, "net_dev_xmit")
EMPTY(dev_recv, "netif_receive_skb")

#define EMPTY_HOOK(name)                                                                                               \
	SEC("netfilter")                                                                                               \
	int name(struct bpf_nf_ctx *ctx)                                                                               \
	{                                                                                                              \
		return NF_ACCEPT;                                                                                      \
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
