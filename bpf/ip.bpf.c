/* SPDX-License-Identifier: GPL-2.0-only */
/* IP layer: the four netfilter hooks that a host's own packets pass. Attached once a namespace and family. */
#include "packet.h"

INLINE int log_hook(struct bpf_nf_ctx *ctx, __u8 hop, bool tx)
{
	__u64 now = bpf_ktime_get_ns();
	const struct sk_buff *skb = ctx->skb;
	const struct nf_hook_state *state = ctx->state;
	struct packet p;
	/* skb->protocol is not set yet at LOCAL_OUT */
	__be16 protocol = state->pf == AF_INET ? bpf_htons(ETH_P_IP) : bpf_htons(ETH_P_IPV6);
	if (!parse(skb, skb->head + skb->network_header, protocol, state->net->ns.inum, tx, &p))
		return NF_ACCEPT;
	const struct net_device *dev = tx ? state->out : state->in;
	__u64 cookie = 0;
	__u32 a = p.ack, b = 0;
	if (tx && state->sk) {
		cookie = state->sk->__sk_common.skc_cookie.counter;
		/* UDP comes here within the call of send, so the task is the sender; TCP may come from anywhere */
		if (hop == MAG_IP_OUT && p.t.proto == IPPROTO_UDP) {
			const struct task_struct *task = bpf_get_current_task_btf();
			a = task->tgid;
			b = task->pid;
		}
	}
	log_packet(hop, &p, cookie, dev ? dev->ifindex : 0, a, b, now);
	return NF_ACCEPT;
}

SEC("netfilter")
int ip_out(struct bpf_nf_ctx *ctx)
{
	return log_hook(ctx, MAG_IP_OUT, true);
}

SEC("netfilter")
int ip_post(struct bpf_nf_ctx *ctx)
{
	return log_hook(ctx, MAG_IP_POST, true);
}

SEC("netfilter")
int ip_pre(struct bpf_nf_ctx *ctx)
{
	return log_hook(ctx, MAG_IP_PRE, false);
}

SEC("netfilter")
int ip_in(struct bpf_nf_ctx *ctx)
{
	return log_hook(ctx, MAG_IP_IN, false);
}
