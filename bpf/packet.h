/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Reads the flow and the byte range of packets and sockets.
 *
 * This code also serves hops with untyped pointers, so it reads everything through READ and HEADER.
 */
#ifndef MAGNET_PACKET_H
#define MAGNET_PACKET_H

#include "clock.h"
#include "read.h"
#include <bpf/bpf_endian.h>

/* A flow as seen from one end. An IPv4 address is in the first four bytes. */
struct tuple {
	union {
		__u64 q[4];
		__u32 w[8];
	} addr; /* local: q[0..2], remote: q[2..4] */
	__u16 local_port;
	__u16 remote_port;
	__u32 netns;
	__u8 proto;
	__u8 ipv6;
	__u8 pad[6]; /* explicit: older verifiers reject functions that get uninitialised bytes */
};

/* A packet as the hop sees it. */
struct packet {
	struct tuple t;
	__u64 skb_at; /* the packet, its IP header and its payload; 0 if unreadable */
	__u64 ip_at;
	__u64 payload_at;
	__u64 head; /* of its buffer; 64 bits, because the verifier forbids storing part of a
		       pointer */
	__u64 before; /* the previous hop, as MARK, if this hop knows it */
	union mag_extent extent;
	__u32 len;
	__u32 ack;
	__u16 ip_id;
	__u16 segs;
	__u8 flags;
	__u8 tcp_flags;
	__u8 ttl;
	__u8 tos;
	__u8 order; /* the order of its socket depends on it, even if its flow is sampled out;
		       opaque to the verifier, as in parse() */
	__u8 pad[3];
};

INLINE bool netns_wanted(__u32 netns)
{
	/* The configuration is constant to the verifier, which removes unneeded comparisons. */
	if (!config.netns_count)
		return true;
#pragma unroll
	for (int i = 0; i < MAG_MAX_NETNS; i++)
		if (i < config.netns_count && config.netns[i] == netns)
			return true;
	return false;
}

INLINE __u64 flow_id(const struct tuple *t)
{
	__u64 h = (__u64)t->netns << 32 | (__u64)t->proto << 8 | t->ipv6;
	h = (h ^ t->addr.q[0]) * 0xff51afd7ed558ccdULL;
	h = (h ^ h >> 32 ^ t->addr.q[1]) * 0xc4ceb9fe1a85ec53ULL;
	h = (h ^ h >> 29 ^ t->addr.q[2]) * 0x9e3779b97f4a7c15ULL;
	h = (h ^ h >> 32 ^ t->addr.q[3]) * 0xbf58476d1ce4e5b9ULL;
	h = (h ^ h >> 29 ^ ((__u64)t->local_port << 16 | t->remote_port)) * 0x94d049bb133111ebULL;
	h ^= h >> 32;
	return h ? h : 1;
}

/* The number of wire segments of a packet, at least 1. */
INLINE __u16 segments_of(const struct sk_buff *skb)
{
	const struct skb_shared_info *shared =
		CAST(skb_shared_info, READ(skb, head) + READ(skb, end));
	__u16 segs = READ(shared, gso_segs);
	return segs > 1 ? segs : 1;
}

/* The network namespaces of a device and of a socket. */
INLINE __u32 netns_of_device(const struct net_device *dev)
{
	return FOLLOW(net_device, dev, nd_net.net, ns.inum);
}

INLINE __u32 netns_of_socket(const struct sock *sk)
{
	return FOLLOW(sock, sk, __sk_common.skc_net.net, ns.inum);
}

/* The side of a packet: received, sent, or sent before IPv4 has written its length (UNSEALED). */
enum side { RX, TX, UNSEALED };

/* The extension headers between IPv6 and the transport protocol. */
struct extensions {
	__u64 at;
	__s64 linear; /* bytes of the linear part from `at` on */
	__u32 bytes; /* of all headers that were skipped */
	__u16 fragment; /* offset and flags of the fragment header; 0 none */
	__u16 ip_id; /* the low half of its identification */
	__u8 proto; /* the header after them */
	__u8 pad[7];
};

INLINE bool is_extension(__u8 proto)
{
	return proto == IPPROTO_HOPOPTS || proto == IPPROTO_ROUTING || proto == IPPROTO_FRAGMENT ||
	       proto == IPPROTO_AH || proto == IPPROTO_DSTOPTS;
}

/* The kernel accepts each kind once, destination options twice. */
#define MAX_EXTENSIONS 6

/* Skips extension headers. What follows the header of a later fragment is payload. A global
 * function, so that the verifier follows these branches once and not in each program. */
SUBPROGRAM int skip_extensions(struct extensions *e)
{
	if (!e)
		return 0;
	for (int i = 0; i < MAX_EXTENSIONS; i++) {
		__u8 proto = e->proto;
		if (!is_extension(proto) || e->linear < (__s64)sizeof(struct udphdr))
			return 0;
		HEADER(udphdr, extension, e->at);
		__u16 start = bpf_ntohs(extension->source); /* next header and length */
		__u32 bytes = ((start & 0xff) + 1) * 8;
		if (proto == IPPROTO_AH)
			bytes = ((start & 0xff) + 2) * 4;
		if (proto == IPPROTO_FRAGMENT) {
			bytes = sizeof(*extension);
			e->fragment = bpf_ntohs(extension->dest);
			e->ip_id = bpf_ntohs(extension->check);
		}
		e->proto = start >> 8;
		e->at += bytes;
		e->bytes += bytes;
		e->linear -= bytes;
		if (e->fragment & 0xfff8)
			return 0;
	}
	return 0;
}

/* Reads the packet whose IP header is at `at`. The local end is the source when sending, the
 * destination when receiving. Returns false if it is no IP packet. Ports are set for TCP and UDP.
 * An ICMP echo has its identifier as both ports; other protocols have 0. */
INLINE bool read_packet(const struct sk_buff *skb, const void *at, __be16 protocol, __u32 netns,
			enum side tx, struct packet *p)
{
	struct tuple *t = &p->t;
	const void *l4;
	__u32 l4_len, zero = control.zero;
	t->netns = netns;
	t->local_port = zero;
	t->remote_port = zero;
	__builtin_memset(t->pad, 0, sizeof(t->pad));
	p->flags = zero;
	p->extent.seq = zero;
	p->len = zero;
	p->ack = zero;
	p->tcp_flags = zero;
	p->ip_id = zero;
	p->head = (__u64)READ(skb, head);
	p->before = 0;
	p->order = 0;
	__builtin_memset(p->pad, 0, sizeof(p->pad));
	p->skb_at = (__u64)skb;
	p->ip_at = (__u64)at;
	p->payload_at = zero;
	__u32 offset = 0;
	if (tx == RX) {
		__u8 type = READ_BITFIELD(skb, pkt_type);
		if (type == PACKET_BROADCAST || type == PACKET_MULTICAST || type == PACKET_LOOPBACK)
			p->flags = MAG_F_GROUP;
	}
	/* Bytes of the linear part from the IP header on. */
	__s64 linear = (__s64)((__u64)READ(skb, head) + READ(skb, tail)) - (__s64)(__u64)at;

	if (protocol == bpf_htons(ETH_P_IP)) {
		HEADER(iphdr, ip, at);
		if (linear < (__s64)sizeof(*ip))
			return false;
		/* Version and length, type of service, total length, identification, fragment; then
		 * time to live, protocol, checksum, source. */
		__u64 first = HEADER_U64(ip, at, 0), second = HEADER_U64(ip, at, 8);
		__u32 source = second >> 32, dest = ip->daddr;
		t->proto = second >> 8;
		t->ipv6 = zero;
		t->addr.q[0] = tx ? source : dest;
		t->addr.q[1] = zero;
		t->addr.q[2] = tx ? dest : source;
		t->addr.q[3] = zero;
		p->ip_id = bpf_ntohs((__u16)(first >> 32));
		p->ttl = second;
		p->tos = first >> 8;
		__u32 header = (first & 15) * 4;
		__u32 total = bpf_ntohs((__u16)(first >> 16));
		if (!total || tx == UNSEALED) /* a packet over 64 kB exceeds its own length field */
			total = READ(skb, len) - (__u32)((__u64)at - (__u64)READ(skb, data));
		l4 = at + header;
		l4_len = total - header;
		linear -= header;
		__u16 fragment = bpf_ntohs((__u16)(first >> 48));
		offset = (fragment & 0x1fff) * 8;
		if (fragment & 0x2000)
			p->flags |= MAG_F_MORE;
		if (fragment & 0x4000)
			p->flags |= MAG_F_WHOLE;
	} else if (protocol == bpf_htons(ETH_P_IPV6)) {
		HEADER(ipv6hdr, ip, at);
		if (linear < (__s64)sizeof(*ip))
			return false;
		/* Version, traffic class and flow label, length, next header, hop limit. */
		__u64 first = HEADER_U64(ip, at, 0);
		t->proto = first >> 48;
		t->ipv6 = 1;
		p->ttl = first >> 56;
		p->tos = bpf_ntohs((__u16)first) >> 4; /* between version and flow label */
		p->flags |= MAG_F_IPV6;
		const __u64 *source = (const __u64 *)&ip->saddr, *dest = (const __u64 *)&ip->daddr;
		if (tx) {
			t->addr.q[0] = source[0];
			t->addr.q[1] = source[1];
			t->addr.q[2] = dest[0];
			t->addr.q[3] = dest[1];
		} else {
			t->addr.q[0] = dest[0];
			t->addr.q[1] = dest[1];
			t->addr.q[2] = source[0];
			t->addr.q[3] = source[1];
		}
		l4 = at + sizeof(*ip);
		linear -= sizeof(*ip);
		l4_len = bpf_ntohs((__u16)(first >> 32));
		if (!l4_len)
			l4_len = READ(skb, len) - (__u32)((__u64)at - (__u64)READ(skb, data)) -
				 sizeof(*ip);
		if (is_extension(t->proto)) {
			struct extensions e = { .at = (__u64)l4,
						.linear = linear,
						.proto = t->proto };
			skip_extensions(&e);
			t->proto = e.proto;
			offset = e.fragment & 0xfff8;
			if (e.fragment & 1)
				p->flags |= MAG_F_MORE;
			p->ip_id = e.ip_id;
			l4 += e.bytes;
			l4_len -= e.bytes;
			linear -= e.bytes;
		}
	} else {
		return false;
	}

	p->segs = segments_of(skb);
	p->payload_at = (__u64)l4;
	if (offset) {
		p->flags |= MAG_F_FRAGMENT;
		p->extent.fragment_offset = offset;
		p->len = l4_len;
		return true;
	}
	bool ports = t->proto == IPPROTO_TCP || t->proto == IPPROTO_UDP;
	if (!ports && t->proto != IPPROTO_ICMP && t->proto != IPPROTO_ICMPV6) {
		p->extent.fragment_bytes = p->flags & MAG_F_MORE ? l4_len : zero;
		p->len = l4_len;
		return true;
	}
	if (linear <
	    (__s64)(t->proto == IPPROTO_TCP ? sizeof(struct tcphdr) : sizeof(struct udphdr))) {
		p->flags |= MAG_F_PARTIAL;
		p->payload_at = zero;
		return true;
	}
	/* TCP and UDP have the ports at the same offset. ICMP's header is as long as UDP's. */
	HEADER(udphdr, udp, l4);
	__u64 words = HEADER_U64(udp, l4, 0);
	__u16 source = bpf_ntohs((__u16)words), dest = bpf_ntohs((__u16)(words >> 16));
	p->payload_at += sizeof(*udp);
	if (!ports) {
		__u8 type = source >> 8;
		p->len = l4_len - sizeof(*udp);
		if (t->proto == IPPROTO_ICMP ? type == 8 || type == 0
					     : type == 128 || type == 129) {
			t->local_port = t->remote_port = bpf_ntohs((__u16)(words >> 32));
			p->extent.echo_number = bpf_ntohs((__u16)(words >> 48));
		}
		if (p->flags & MAG_F_MORE)
			p->extent.fragment_bytes = l4_len;
		return true;
	}
	t->local_port = tx ? source : dest;
	t->remote_port = tx ? dest : source;
	if (t->proto == IPPROTO_UDP) {
		__u32 length = bpf_ntohs((__u16)(words >> 32));
		p->len = (length ? length : l4_len) - sizeof(*udp);
		if (p->flags & MAG_F_MORE) {
			p->extent.fragment_bytes = l4_len;
		} else if (p->segs > 1) {
			const struct skb_shared_info *shared =
				CAST(skb_shared_info, READ(skb, head) + READ(skb, end));
			p->extent.segment_bytes = READ(shared, gso_size);
		}
		return true;
	}
	HEADER(tcphdr, tcp, l4);
	__u64 last = HEADER_U64(tcp, l4, 8); /* acknowledgement, data offset, flags, window */
	__u64 middle = (__u16)(last >> 32);
	p->tcp_flags = middle >> 8;
	p->len = l4_len - ((middle >> 4) & 15) * 4;
	p->payload_at = (__u64)l4 + ((middle >> 4) & 15) * 4;
	p->extent.seq =
		bpf_ntohl((__u32)(words >> 32)) +
		(p->tcp_flags >> 1 & 1); /* a SYN takes a sequence number but carries no byte */
	p->ack = bpf_ntohl((__u32)last);
	return true;
}

/* As read_packet, and false if the namespace is unwanted. */
INLINE bool parse(const struct sk_buff *skb, const void *at, __be16 protocol, __u32 netns,
		  enum side side, struct packet *p)
{
	if (!netns_wanted(netns) || !read_packet(skb, at, protocol, netns, side, p))
		return false;
	/* The verifier tracks the values that each path through the headers leaves in these two
	 * fields, and follows the later code for each path. OR with an opaque zero makes the values
	 * unknown and merges the paths. */
	p->flags |= control.zero;
	p->t.proto |= control.zero;
	return true;
}

/* The flow of a socket, or of what begins like one, seen from this end. Returns false without a
 * peer, or without a port of its own. */
INLINE bool tuple_of(const struct sock *sk, __u16 local_port, __u8 proto, struct tuple *t)
{
	__u16 family = READ(sk, __sk_common.skc_family);
	t->local_port = local_port;
	t->remote_port = bpf_ntohs(READ(sk, __sk_common.skc_dport));
	t->netns = netns_of_socket(sk);
	t->proto = proto;
	t->ipv6 = 0;
	__builtin_memset(t->pad, 0, sizeof(t->pad));
	if (family == AF_INET6) {
		MEMBER(in6_addr, remote, &sk->__sk_common.skc_v6_daddr);
		const __u64 *to = (const __u64 *)remote;
		/* An IPv6 socket with an IPv4 peer sends IPv4. */
		if (to[0] || (to[1] & 0xffffffff) != bpf_htonl(0xffff)) {
			MEMBER(in6_addr, local, &sk->__sk_common.skc_v6_rcv_saddr);
			const __u64 *from = (const __u64 *)local;
			t->ipv6 = 1;
			t->addr.q[0] = from[0];
			t->addr.q[1] = from[1];
			t->addr.q[2] = to[0];
			t->addr.q[3] = to[1];
		}
	}
	if (!t->ipv6) {
		t->addr.q[0] = READ(sk, __sk_common.skc_rcv_saddr);
		t->addr.q[1] = 0;
		t->addr.q[2] = READ(sk, __sk_common.skc_daddr);
		t->addr.q[3] = 0;
	}
	/* One product, because the verifier would follow two branches in each program. */
	return (__u32)t->remote_port * t->local_port != 0;
}

/* The flow of a socket, as tuple_of.
 *
 * The local port is inet_sport and not skc_num: the kernel clears skc_num when it closes a TCP
 * socket (inet_put_port), while the received bytes still wait for their reader. The addresses, the
 * peer's port and inet_sport stay until the socket connects again or is freed. */
INLINE bool socket_tuple(const struct sock *sk, struct tuple *t)
{
	return tuple_of(sk, bpf_ntohs(READ(CAST(inet_sock, sk), inet_sport)), READ(sk, sk_protocol),
			t);
}

/* The abstract id of a socket. Programs without typed pointers cannot create a cookie. There, a
 * socket without a cookie is identified by its scrambled address, which is unique while the socket
 * lives. */
INLINE __u64 cookie_of(enum pointer_kind pointers, const struct sock *sk)
{
#ifndef MAGNET_NO_LOOP
	if (pointers == TYPED)
		return bpf_get_socket_cookie((void *)sk);
#endif
	__u64 cookie = READ(sk, __sk_common.skc_cookie.counter), address = 0;
	if (cookie)
		return cookie;
	/* The verifier forbids arithmetic on a pointer. A copy read from memory is a number. */
	bpf_probe_read_kernel(&address, sizeof(address), &sk);
	return address * 0x9e3779b97f4a7c15ULL | 1ULL << 63;
}

/* Whether the capture covers a socket: TCP or UDP, in a wanted namespace. */
INLINE bool socket_wanted(const struct sock *sk)
{
	__u16 family = READ(sk, __sk_common.skc_family), protocol = READ(sk, sk_protocol);
	if (family != AF_INET && family != AF_INET6)
		return false;
	if (protocol != IPPROTO_TCP && protocol != IPPROTO_UDP)
		return false;
	return netns_wanted(netns_of_socket(sk));
}

#endif
