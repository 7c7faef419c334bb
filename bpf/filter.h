/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The filter. It runs before a record is reserved, on the hop's own values and on stored facts
 * about the socket.
 *
 * Process, user and cgroup are known only in the context of the process. So the socket layer stores
 * the user of a socket under the socket's cookie and under its flow. Packet hops look it up there.
 * The filter never guesses: it keeps an event only if the expression certainly holds. Events left
 * out for lack of knowledge have a counter of their own.
 */
#ifndef MAGNET_FILTER_H
#define MAGNET_FILTER_H

#include "emit.h"

enum direction { DIRECTION_UNKNOWN, DIRECTION_TX, DIRECTION_RX };
enum { LOCAL_ADDR = 1, REMOTE_ADDR = 2, LOCAL_PORT = 4, REMOTE_PORT = 8, LENGTH = 16 };

/* An event as the filter and the samplers see it. Addresses as in struct tuple. A number of 0 is
 * unknown. */
struct subject {
	__u64 cookie;
	__u64 flow;
	__u64 addr[4];
	__u64 skb; /* the packet, 0 if none */
	__u64 ip; /* its IP header */
	__u32 netns;
	__u32 ifindex;
	__u32 len;
	__u16 local_port;
	__u16 remote_port;
	__u8 hop;
	__u8 proto;
	__u8 ipv6;
	__u8 ends; /* which of the fields above are valid */
	__u8 direction; /* enum direction */
	__u8 order; /* as in struct packet */
	__u8 pad[2];
};

/* A socket that the socket layer has seen. */
struct socket_info {
	struct mag_who who;
	__u64 addr[4];
	__u64 learnt_ns;
	__u64 flow;
	__u32 netns;
	__u16 local_port;
	__u16 remote_port;
	__u8 proto;
	__u8 ipv6;
	__u8 ends;
	__u8 has_who;
	__u32 pad;
};
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 16384);
	__type(key, __u64); /* cookie, or flow with the top bit set */
	__type(value, struct socket_info);
} socket_infos SEC(".maps");

#define FLOW_KEY(flow) ((flow) | 1ULL << 63)
/* The name or cgroup of a process can change, so an entry is refreshed after this time. */
#define FRESH_NS 1000000000ULL

/* The direction of packets at a hop, if the hop alone determines it. */
INLINE __u8 direction_of(__u8 hop)
{
	__u64 bit = 1ULL << (hop & (MAG_HOPS - 1));

	if (bit & MAG_TX_HOPS)
		return DIRECTION_TX;
	return bit & MAG_RX_HOPS ? DIRECTION_RX : DIRECTION_UNKNOWN;
}

INLINE void who_is(struct mag_who *who, const struct task_struct *task)
{
	who->tgid = READ(task, tgid);
	who->uid = FOLLOW(task_struct, task, cred, uid.val);
	bpf_probe_read_kernel(who->comm, sizeof(who->comm), task->comm);
	const struct cgroup *group = FOLLOW(task_struct, task, cgroups, dfl_cgrp);
	/* Before Linux 6.1 a cgroup stores its ancestors' ids. */
	const struct cgroup___numbers *numbers = (const void *)group;
	bool has_numbers = bpf_core_field_exists(numbers->ancestor_ids);
	const void *ancestors = has_numbers ? (const void *)&numbers->ancestor_ids
					    : (const void *)&group->ancestors;
	int level = READ(group, level);
#pragma unroll
	for (int i = 0; i < MAG_CGROUP_LEVELS; i++) {
		const void *ancestor = NULL;
		who->cgroups[i] = 0;
		if (i > level)
			continue;
		bpf_probe_read_kernel(&ancestor, sizeof(ancestor), ancestors + i * sizeof(void *));
		if (has_numbers)
			who->cgroups[i] = (__u64)ancestor;
		else if (ancestor)
			who->cgroups[i] = READ(CAST(cgroup, ancestor), kn, id);
	}
}

/* Stores a socket, and the current process as its user if `uses` is set. */
SUBPROGRAM int remember(struct subject *s, int uses)
{
	if (!can(MAG_CAN_FILTER) || !s)
		return 0;
	__u64 now = clock_now(), key = s->cookie;
	const struct task_struct *task = CURRENT_TASK;
	if (!key)
		key = s->flow ? FLOW_KEY(s->flow) : 0;
	if (!key)
		return 0;
	struct socket_info *old = bpf_map_lookup_elem(&socket_infos, &key);
	if (old && now - old->learnt_ns < FRESH_NS && old->flow == s->flow &&
	    (!uses || (old->has_who && old->who.tgid == READ(task, tgid))))
		return 0;
	struct socket_info fresh = {};
	if (uses) {
		who_is(&fresh.who, task);
		fresh.has_who = 1;
	} else if (old) {
		fresh.who = old->who;
		fresh.has_who = old->has_who;
	}
	__builtin_memcpy(fresh.addr, s->addr, sizeof(fresh.addr));
	fresh.learnt_ns = now;
	fresh.flow = s->flow;
	fresh.netns = s->netns;
	fresh.local_port = s->local_port;
	fresh.remote_port = s->remote_port;
	fresh.proto = s->proto;
	fresh.ipv6 = s->ipv6;
	fresh.ends = s->ends;
	bpf_map_update_elem(&socket_infos, &key, &fresh, BPF_ANY);
	if (s->cookie && s->flow) {
		key = FLOW_KEY(s->flow);
		bpf_map_update_elem(&socket_infos, &key, &fresh, BPF_ANY);
	}
	return 0;
}

/* The stored facts about an event's socket. A received packet has no socket cookie; its flow may
 * lead to one. */
INLINE struct socket_info *recall(const struct subject *s)
{
	__u64 key = s->cookie;
	struct socket_info *by_cookie = key ? bpf_map_lookup_elem(&socket_infos, &key) : NULL;
	if (by_cookie && !s->flow)
		return by_cookie;
	key = FLOW_KEY(s->flow);
	struct socket_info *by_flow = s->flow ? bpf_map_lookup_elem(&socket_infos, &key) : NULL;
	/* Here alone a datagram and its receiver's socket without a peer are known at once. The
	 * flow is stored for later hops. */
	if (by_cookie && s->hop == MAG_UDP_RECV &&
	    (!by_flow || by_flow->who.tgid != by_cookie->who.tgid))
		bpf_map_update_elem(&socket_infos, &key, by_cookie, BPF_ANY);
	return by_cookie ? by_cookie : by_flow;
}

enum { NO = 0, YES = 1, UNKNOWN = 2 };

INLINE int within(const struct mag_test *t, __u64 value)
{
	return value >= t->value[0] && value <= t->value[1];
}

/* A protocol without ports never matches. That differs from ports that are unknown at a hop. */
INLINE int port_within(const struct mag_test *t, const struct subject *s, bool local)
{
	if (s->proto && s->proto != IPPROTO_TCP && s->proto != IPPROTO_UDP)
		return NO;
	if (!(s->ends & (local ? LOCAL_PORT : REMOTE_PORT)))
		return UNKNOWN;
	return within(t, local ? s->local_port : s->remote_port);
}

INLINE int address_within(const struct mag_test *t, const struct subject *s, bool local)
{
	if (!(s->ends & (local ? LOCAL_ADDR : REMOTE_ADDR)))
		return UNKNOWN;
	if (s->ipv6 != t->arg)
		return NO;
	__u64 a = local ? s->addr[0] : s->addr[2], b = local ? s->addr[1] : s->addr[3];
	return (a & t->mask[0]) == t->value[0] && (b & t->mask[1]) == t->value[1];
}

/* Which end of the flow a test asks for. EITHER holds if one end matches; if none does, an unknown
 * end makes it UNKNOWN. */
enum { EITHER, SOURCE, DESTINATION };
_Static_assert(MAG_FIELD_SPORT == MAG_FIELD_PORT + SOURCE &&
		       MAG_FIELD_DPORT == MAG_FIELD_PORT + DESTINATION,
	       "in that order");
_Static_assert(MAG_FIELD_SRC == MAG_FIELD_HOST + SOURCE &&
		       MAG_FIELD_DST == MAG_FIELD_HOST + DESTINATION,
	       "in that order");
INLINE int of_ends(__u32 which, __u32 direction, __u32 local, __u32 remote)
{
	if (which == EITHER)
		return local == YES || remote == YES ? YES : local | remote;
	if (direction == DIRECTION_UNKNOWN)
		return UNKNOWN;
	return (direction == DIRECTION_TX) == (which == SOURCE) ? local : remote;
}

/* Evaluates one test. The verifier checks a global function once; inlined, its branches would
 * multiply with the rounds of the loop. */
SUBPROGRAM int holds(struct mag_test *t, struct subject *s, struct mag_who *who)
{
	if (!can(MAG_CAN_FILTER) || !t || !s)
		return UNKNOWN;
	switch (t->field) {
	case MAG_FIELD_CPU:
		return within(t, bpf_get_smp_processor_id());
	case MAG_FIELD_HOP:
		return t->value[0] >> (s->hop & 63) & 1;
	case MAG_FIELD_PROTO:
		return s->proto ? within(t, s->proto) : UNKNOWN;
	case MAG_FIELD_NETNS:
		return s->netns ? within(t, s->netns) : UNKNOWN;
	case MAG_FIELD_IFINDEX:
		return s->ifindex ? within(t, s->ifindex) : UNKNOWN;
	case MAG_FIELD_SOCKET:
		return s->cookie ? within(t, s->cookie) : UNKNOWN;
	case MAG_FIELD_LEN:
		return s->ends & LENGTH ? within(t, s->len) : UNKNOWN;
	case MAG_FIELD_PORT:
	case MAG_FIELD_SPORT:
	case MAG_FIELD_DPORT:
		return of_ends(t->field - MAG_FIELD_PORT, s->direction, port_within(t, s, true),
			       port_within(t, s, false));
	case MAG_FIELD_HOST:
	case MAG_FIELD_SRC:
	case MAG_FIELD_DST:
		return of_ends(t->field - MAG_FIELD_HOST, s->direction, address_within(t, s, true),
			       address_within(t, s, false));
	case MAG_FIELD_TGID:
		return who ? within(t, who->tgid) : UNKNOWN;
	case MAG_FIELD_UID:
		return who ? within(t, who->uid) : UNKNOWN;
	case MAG_FIELD_COMM:
		return who ? who->comm[0] == t->value[0] && who->comm[1] == t->value[1] : UNKNOWN;
	case MAG_FIELD_CGROUP:
		return who ? within(t, who->cgroups[t->arg & (MAG_CGROUP_LEVELS - 1)]) : UNKNOWN;
	}
	return UNKNOWN;
}

/* Whether the filter certainly rejects an event with these ends. */
INLINE bool needless(const struct mag_need *need, __u8 hop, const __u64 addr[4], __u16 local_port,
		     __u16 remote_port, __u8 proto, __u8 ipv6, bool ports)
{
	if (!(need->hops >> (hop & 63) & 1))
		return true;
	if (need->proto && proto && need->proto != proto)
		return true;
	if (need->port_to && proto) {
		if (proto != IPPROTO_TCP && proto != IPPROTO_UDP)
			return true;
		if (ports && local_port && remote_port &&
		    (local_port < need->port_from || local_port > need->port_to) &&
		    (remote_port < need->port_from || remote_port > need->port_to))
			return true;
	}
	if (!need->addr || !(addr[0] | addr[1]) || !(addr[2] | addr[3]))
		return false;
	if (ipv6 != need->ipv6)
		return true;
	__u64 local = ((addr[0] & need->mask[0]) ^ need->value[0]) |
		      ((addr[1] & need->mask[1]) ^ need->value[1]);
	__u64 remote = ((addr[2] & need->mask[0]) ^ need->value[0]) |
		       ((addr[3] & need->mask[1]) ^ need->value[1]);
	return local && remote;
}

/* The active filter, or NULL. */
INLINE struct mag_filter *filter_now(void)
{
	__u32 slot = can(MAG_CAN_FILTER) ? control.filter : 0;
	return slot-- ? bpf_map_lookup_elem(&filters, &slot) : NULL;
}

struct walk {
	struct mag_filter *filter;
	struct subject *s;
	struct mag_who *who;
	__u32 at;
	__u32 doubt;
};

static long step(__u64 round, struct walk *w)
{
	__u32 at = w->at;
	if (at >= MAG_TESTS)
		return 1;
	struct mag_test *t = &w->filter->tests[at];
	/* No branches here: the verifier would follow each of them in each round. */
	__u32 answer = holds(t, w->s, w->who) & 3;
	const __u8 *next = &t->otherwise;
	w->at = next[answer];
	w->doubt |= answer & UNKNOWN;
	return 0;
}

/* Returns YES to keep the event. NO and UNKNOWN reject it, UNKNOWN if a test on the path had an
 * unknown input. A plain loop would make the verifier walk every round, so bpf_loop does it. */
SUBPROGRAM int decide(struct mag_filter *filter, struct subject *s, struct mag_who *who)
{
	if (!can(MAG_CAN_FILTER) || !filter || !s)
		return UNKNOWN;
	struct walk w = { .filter = filter, .s = s, .who = who };
	LOOP(MAG_TESTS, step, &w);
	return w.at == MAG_KEEP ? YES : w.doubt ? UNKNOWN : NO;
}

#endif
