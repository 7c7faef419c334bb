/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Custom probes: one program per kind of attachment. It reads what its plan names. The plan is
 * read-only data of the object, so each probe is an object of its own. All objects share rings,
 * counters and controls. A capture needs no compiler.
 */
#include "log.h"

SEC(".rodata.plan") const volatile struct mag_plan plan = {};

/* Where a program of each kind finds its arguments. */
enum call { CALL_TRAMPOLINE, CALL_REGISTERS, CALL_RAW, CALL_RECORD };

/* Assembly, because the verifier requires constant offsets into a context; the compiler would
 * compute them. */
#define LOAD(n, offset)                                                                       \
	case n:                                                                               \
		asm volatile("%0 = *(u64 *)(%1 + %2)" : "=r"(value) : "r"(ctx), "i"(offset)); \
		break

INLINE __u64 from_registers(void *ctx, __u32 n)
{
	__u64 value = 0;
	switch (n) { /* the calling conventions; the last is the return value */
#ifdef __TARGET_ARCH_x86
		LOAD(0, 112);
		LOAD(1, 104);
		LOAD(2, 96);
		LOAD(3, 88);
		LOAD(4, 72);
		LOAD(5, 64);
		LOAD(16, 80);
#else
		LOAD(0, 0);
		LOAD(1, 8);
		LOAD(2, 16);
		LOAD(3, 24);
		LOAD(4, 32);
		LOAD(5, 40);
		LOAD(6, 48);
		LOAD(7, 56);
		LOAD(16, 0);
#endif
	}
	return value;
}

INLINE __u64 from_raw(void *ctx, __u32 n)
{
	__u64 value = 0;
	switch (n) {
		LOAD(0, 0);
		LOAD(1, 8);
		LOAD(2, 16);
		LOAD(3, 24);
		LOAD(4, 32);
		LOAD(5, 40);
		LOAD(6, 48);
		LOAD(7, 56);
		LOAD(8, 64);
		LOAD(9, 72);
		LOAD(10, 80);
		LOAD(11, 88);
	}
	return value;
}

INLINE __u64 base_of(enum call call, void *ctx, const volatile struct mag_read *read)
{
	__u64 value = 0;
	__u8 base = read->base, arg = read->arg;
	if (call == CALL_TRAMPOLINE) {
		if (base == MAG_BASE_RETURN)
			bpf_get_func_ret(ctx, &value);
		else
			bpf_get_func_arg(ctx, arg, &value);
	} else if (call == CALL_REGISTERS) {
		value = from_registers(ctx, base == MAG_BASE_RETURN ? 16 : arg);
	} else if (call == CALL_RAW) {
		value = from_raw(ctx, arg);
	}
	return value;
}

/* Follows the steps of a plan. Returns false if an address on the path is NULL or unreadable. */
INLINE bool follow(enum call call, void *ctx, const volatile struct mag_read *read, __u64 *out)
{
	__u8 steps = read->steps, bytes = read->bytes;
	__u64 at = 0;
	if (call == CALL_RECORD) {
		/* The context is the record. Its fields are one step away. */
		const void *from = ctx + read->offset[0];
		if (bytes == 1   ? bpf_probe_read_kernel(&at, 1, from)
		    : bytes == 2 ? bpf_probe_read_kernel(&at, 2, from)
		    : bytes == 4 ? bpf_probe_read_kernel(&at, 4, from)
				 : bpf_probe_read_kernel(&at, 8, from))
			return false;
	} else {
		at = base_of(call, ctx, read);
#pragma unroll
		for (int i = 0; i < MAG_STEPS; i++) {
			if (i >= steps)
				break;
			const void *from = (const void *)(at + (__s64)read->offset[i]);
			__u32 size = i + 1 < steps ? 8 : bytes;
			if (!at)
				return false;
			at = 0;
			if (size == 1   ? bpf_probe_read_kernel(&at, 1, from)
			    : size == 2 ? bpf_probe_read_kernel(&at, 2, from)
			    : size == 4 ? bpf_probe_read_kernel(&at, 4, from)
					: bpf_probe_read_kernel(&at, 8, from))
				return false;
		}
	}
	__u32 bits = read->bits ? read->bits : bytes * 8;
	at >>= read->shift & 63;
	if (bits < 64) {
		__u32 spare = (64 - bits) & 63;
		at <<= spare;
		at = read->sign ? (__u64)((__s64)at >> spare) : at >> spare;
	}
	*out = at;
	return true;
}

/* The packet or socket of a hit. */
struct about {
	struct packet packet;
	__u64 cookie;
	__u32 ifindex;
	bool flow; /* the tuple is valid */
	bool netns; /* the namespace is valid */
	bool range; /* the packet's byte range is valid */
};

/* Parses the IP header of a packet of any layer. The header is at the network header if that is
 * set, else at the data. A packet above IP has no header yet. */
INLINE bool parse_anywhere(const struct sk_buff *skb, __u32 netns, struct packet *p)
{
	__u8 first = 0;
	const void *head = READ(skb, head), *data = READ(skb, data);
	__u16 network = READ(skb, network_header);
	const void *at = network && network != 0xffff ? head + network : data;
	bpf_probe_read_kernel(&first, 1, at);
	__be16 protocol = first >> 4 == 4   ? bpf_htons(ETH_P_IP)
			  : first >> 4 == 6 ? bpf_htons(ETH_P_IPV6)
					    : 0;
	__be16 declared = READ(skb, protocol);
	if (!protocol || (declared && declared != protocol))
		return false;
	__u8 side = plan.side;
	bool tx = side ? side == MAG_SIDE_TX : READ(skb, skb_iif) == 0;
	return tx ? parse(skb, at, protocol, netns, TX, p) : parse(skb, at, protocol, netns, RX, p);
}

/* Returns false for an event of an unwanted namespace. */
INLINE bool learn_about(__u64 skb_at, __u64 sk_at, __u64 dev_at, struct about *a)
{
	const struct sk_buff *skb = (const void *)skb_at;
	const struct sock *sk = (const void *)sk_at;
	const struct net_device *dev = (const void *)dev_at;
	__u32 netns = 0;
	if (skb) {
		__u8 side = plan.side;
		if (!dev)
			dev = READ(skb, dev);
		/* On receive, a packet may still carry its sender's socket. */
		if (!sk && (side ? side == MAG_SIDE_TX : READ(skb, skb_iif) == 0))
			sk = READ(skb, sk);
	}
	__u16 family = sk ? READ(sk, __sk_common.skc_family) : 0;
	if (family != AF_INET && family != AF_INET6)
		sk = NULL;
	if (sk)
		netns = netns_of_socket(sk);
	else if (dev)
		netns = netns_of_device(dev);
	if (dev)
		a->ifindex = READ(dev, ifindex);
	a->netns = netns != 0;
	if (a->netns && !netns_wanted(netns))
		return false;
	a->packet.t.netns = netns;
	if (sk)
		a->cookie = cookie_of(UNTYPED, sk);
	if (skb && a->netns && parse_anywhere(skb, netns, &a->packet)) {
		a->flow = a->range = true;
	} else if (sk) {
		__builtin_memset(&a->packet, 0, sizeof(a->packet));
		a->flow = socket_tuple(sk, &a->packet.t);
	}
	return true;
}

/* The namespace of the current task, for probes whose task is the subject. */
INLINE __u32 netns_of_task(void)
{
	const struct task_struct *task = CURRENT_TASK;
	return READ(task, nsproxy, net_ns, ns.inum);
}

/* The filter's input, assembled in the scratch map: all callers together have 512 bytes of
 * stack. */
struct asked {
	struct subject s;
	struct mag_who who;
};

static __noinline int assemble(const struct about *a, struct asked *asked)
{
	if (!a || !asked)
		return 0;
	struct subject *s = &asked->s;
	__u32 hop = MAG_CUSTOM + (plan.number & (MAG_CUSTOMS - 1));
	subject_of(s, hop, &a->packet.t, a->cookie,
		   !(a->packet.flags & (MAG_F_FRAGMENT | MAG_F_PARTIAL)));
	s->direction = plan.side == MAG_SIDE_TX   ? DIRECTION_TX
		       : plan.side == MAG_SIDE_RX ? DIRECTION_RX
						  : DIRECTION_UNKNOWN;
	s->flow = a->flow ? flow_id(&a->packet.t) : 0;
	s->ifindex = a->ifindex;
	s->len = a->packet.len;
	if (a->range) {
		s->skb = a->packet.skb_at;
		s->ip = a->packet.ip_at;
		s->ends |= LENGTH;
	}
	if (plan.process)
		who_is(&asked->who, CURRENT_TASK);
	return 0;
}

static __noinline int admitted(struct about *a, __u64 now)
{
	struct mag_cpu *state = this_cpu();
	if (!a || !state)
		return 0;
	__u32 level;
	struct asked *asked = (void *)take_scratch(state, &level);
	int answer = 0;
	if (asked) {
		assemble(a, asked);
		answer = plan.process ? admit(state, &asked->s, &asked->who, now)
				      : admit(state, &asked->s, NULL, now);
	}
	give_back(state);
	return answer;
}

INLINE int on_hit(enum call call, void *ctx)
{
	__u32 number = plan.number & (MAG_CUSTOMS - 1), hop = MAG_CUSTOM + number;
	struct mag_cpu *state = this_cpu();
	if (!state || !wanted(hop))
		return 0;
	__u64 now = clock_now(), skb = 0, sk = 0, dev = 0, pid_tgid = bpf_get_current_pid_tgid();
	struct about a = {};
	if (plan.has_skb)
		follow(call, ctx, &plan.skb, &skb);
	if (plan.has_sock)
		follow(call, ctx, &plan.sock, &sk);
	if (plan.has_dev)
		follow(call, ctx, &plan.dev, &dev);
	if ((skb || sk || dev) && !learn_about(skb, sk, dev, &a))
		return 0;
	if (plan.process) {
		a.packet.t.netns = netns_of_task();
		if (!netns_wanted(a.packet.t.netns))
			return 0;
	}
	if (control.gate & MAG_GATE_CHOOSE && !admitted(&a, now))
		return 0;
	__u64 flow = a.flow ? flow_of(state, &a.packet.t, now) : 0;
	if (plan.process)
		announce_task(state, pid_tgid, now);
	struct slot slot;
	struct mag_hit *h = reserve(state, &slot, hop, MAG_KIND_HIT, sizeof(*h), now);
	if (!h)
		return 0;
	h->cookie = a.cookie;
	h->flow = flow;
	h->seq = a.range ? a.packet.extent.seq : 0;
	h->len = a.range ? a.packet.len : 0;
	h->tgid = pid_tgid >> 32;
	h->tid = pid_tgid;
	h->ip_id = a.packet.ip_id;
	h->probe = number;
	h->proto = a.packet.t.proto;
	h->pad[0] = h->pad[1] = h->pad[2] = 0;
	__u8 readable = 0;
#pragma unroll
	for (int i = 0; i < MAG_VALUES; i++) {
		__u64 value = 0;
		if (i < plan.values && follow(call, ctx, &plan.value[i], &value))
			readable |= 1 << i;
		h->value[i] = value;
	}
	h->readable = readable;
	submit(state, &slot, h, sizeof(*h));
	return 0;
}

SEC("fentry")
int custom_fentry(void *ctx)
{
	return on_hit(CALL_TRAMPOLINE, ctx);
}

SEC("fexit")
int custom_fexit(void *ctx)
{
	return on_hit(CALL_TRAMPOLINE, ctx);
}

/* kprobe, kretprobe, uprobe and uretprobe: breakpoints, which all provide registers. */
SEC("kprobe")
int custom_breakpoint(void *ctx)
{
	return on_hit(CALL_REGISTERS, ctx);
}

SEC("raw_tp")
int custom_raw(void *ctx)
{
	return on_hit(CALL_RAW, ctx);
}

SEC("tp")
int custom_tracepoint(void *ctx)
{
	return on_hit(CALL_RECORD, ctx);
}

char LICENSE[] SEC("license") = "GPL";
