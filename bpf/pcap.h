/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A pcap filter expression: classic BPF compiled by libpcap, interpreted over the packet from its
 * IP header on.
 *
 * At a hop without a packet, the headers are built from the known parts of the flow. Other bytes
 * are unknown, and so are bytes beyond those copied. An expression that reads an unknown byte has
 * the result UNKNOWN.
 */
#ifndef MAGNET_PCAP_H
#define MAGNET_PCAP_H

#include "bytes.h"
#include "filter.h"
#include <bpf/bpf_endian.h>

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MAG_FILTER_SLOTS);
	__type(key, __u32);
	__type(value, struct mag_pcap);
} pcaps SEC(".maps");

/* Bytes of a packet that an expression can read. The interpreter's 16 words and its state follow in
 * the same scratch buffer, because the stack is small. */
#define LOOKED_AT 256
#define WORDS 16
#define MACHINE_AT (MAG_SNAP_MAX + 4 * WORDS)

struct machine {
	__u64 made_up; /* built headers: a bit per known byte; else 0 */
	__u32 slot; /* slot of the expression */
	__u32 pad;
	__u32 have; /* bytes that can be read */
	__u32 length; /* bytes of the packet */
	__u32 a;
	__u32 x;
	__u32 at;
	__u32 answer;
};

enum { RUNNING = 3 };

/* Whether the interpreter can read `size` bytes at `from`: YES, NO beyond the packet's end, else
 * UNKNOWN. */
INLINE int reachable(const struct machine *m, __u32 from, __u32 size)
{
	__u64 end = (__u64)from + size;
	if (m->made_up) {
		if (end > 64)
			return UNKNOWN;
		__u64 asked = ((1ULL << size) - 1) << (from & 63);
		return (m->made_up & asked) == asked ? YES : UNKNOWN;
	}
	return end <= m->have ? YES : end > m->length ? NO : UNKNOWN;
}

INLINE __u32 load(const __u8 *packet, __u32 from, __u32 size)
{
	const __u8 *bytes = packet + (from & (LOOKED_AT - 1));
	__u32 four = (__u32)bytes[0] << 24 | bytes[1] << 16 | bytes[2] << 8 | bytes[3];
	return four >> ((32 - 8 * size) & 31);
}

INLINE __u32 *word(__u8 *bytes, __u32 k)
{
	return (__u32 *)(bytes + MAG_SNAP_MAX) + (k & (WORDS - 1));
}

/* Executes one instruction. Returns 1 after the last. The codes are those of linux/bpf_common.h. A
 * global function for the verifier, so it looks up its state itself. */
SUBPROGRAM int run_insn(__u32 level)
{
	__u32 zero = 0;
	struct scratch *scratch = bpf_map_lookup_elem(&scratches, &zero);
	if (!can(MAG_CAN_PCAP) || !scratch)
		return 1;
	__u8 *bytes = scratch->bytes[level & (NESTING - 1)];
	struct machine *m = (void *)(bytes + MACHINE_AT);
	__u32 at = m->at, slot = m->slot;
	struct mag_pcap *program = bpf_map_lookup_elem(&pcaps, &slot);
	if (!program || at >= MAG_PCAP_INSNS) {
		m->answer = NO;
		return 1;
	}
	const struct mag_insn *i = &program->insns[at];
	__u16 code = i->code;
	__u32 k = i->k, kind = code & 7, mode = code & 0xe0, operand = code & 8 ? m->x : k;
	m->at = at + 1;
	switch (kind) {
	case 0: /* load A */
	case 1: { /* load X */
		__u32 value = k, size = 4 >> (code >> 3 & 3);
		if (mode == 0x20 || mode == 0x40 || mode == 0xa0) {
			__u32 from = mode == 0x40 ? m->x + k : k;
			if (mode == 0x40 && from < k) {
				m->answer = NO;
				return 1;
			}
			int can = reachable(m, from, mode == 0xa0 ? 1 : size);
			if (can != YES) {
				m->answer = can;
				return 1;
			}
			value = load(bytes, from, mode == 0xa0 ? 1 : size);
			if (mode == 0xa0)
				value = (value & 15) * 4;
		} else if (mode == 0x60) {
			value = *word(bytes, k);
		} else if (mode == 0x80) {
			if (m->made_up) {
				m->answer = UNKNOWN;
				return 1;
			}
			value = m->length;
		}
		if (kind)
			m->x = value;
		else
			m->a = value;
		return 0;
	}
	case 2:
		*word(bytes, k) = m->a;
		return 0;
	case 3:
		*word(bytes, k) = m->x;
		return 0;
	case 4: { /* arithmetic */
		__u32 a = m->a;
		switch (code & 0xf0) {
		case 0x00:
			a += operand;
			break;
		case 0x10:
			a -= operand;
			break;
		case 0x20:
			a *= operand;
			break;
		case 0x30:
		case 0x90:
			if (!operand) {
				m->answer = NO;
				return 1;
			}
			a = (code & 0xf0) == 0x30 ? a / operand : a % operand;
			break;
		case 0x40:
			a |= operand;
			break;
		case 0x50:
			a &= operand;
			break;
		case 0x60:
			a = operand < 32 ? a << (operand & 31) : 0;
			break;
		case 0x70:
			a = operand < 32 ? a >> (operand & 31) : 0;
			break;
		case 0x80:
			a = -a;
			break;
		case 0xa0:
			a ^= operand;
			break;
		}
		m->a = a;
		return 0;
	}
	case 5: { /* jumps, always forward */
		__u32 a = m->a, op = code & 0xf0;
		if (op == 0) {
			m->at += k;
			return 0;
		}
		bool yes = op == 0x10   ? a == operand
			   : op == 0x20 ? a > operand
			   : op == 0x30 ? a >= operand
					: (a & operand) != 0;
		m->at += yes ? i->jt : i->jf;
		return 0;
	}
	case 6: /* return: the bytes to keep; 0 rejects the packet */
		m->answer = ((code & 0x18) == 0x10 ? m->a : k) ? YES : NO;
		return 1;
	}
	if (code & 0x80) /* A = X, or X = A */
		m->a = m->x;
	else
		m->x = m->a;
	return 0;
}

static long execute(__u64 round, __u32 *level)
{
	return run_insn(*level) ? 1 : 0;
}

/* Builds the headers of a packet of this flow, and returns a bit per known byte; 0 if too little is
 * known. A separate function, because all callers together have 512 bytes of stack. It looks up its
 * scratch buffer itself, as run_insn does. */
SUBPROGRAM __u64 make_up(struct subject *s, __u32 level)
{
	__u32 zero = 0;
	struct scratch *scratch = bpf_map_lookup_elem(&scratches, &zero);
	if (!can(MAG_CAN_PCAP) || !s || !scratch)
		return 0;
	__u8 *bytes = scratch->bytes[level & (NESTING - 1)];
	__u8 ends = LOCAL_ADDR | REMOTE_ADDR, has = s->ends;
	if (!s->direction || !s->proto || (has & ends) != ends)
		return 0;
	bool tx = s->direction == DIRECTION_TX,
	     ports = (has & (LOCAL_PORT | REMOTE_PORT)) == (LOCAL_PORT | REMOTE_PORT);
	__u32 both = tx ? s->local_port | (__u32)s->remote_port << 16
			: s->remote_port | (__u32)s->local_port << 16;
	/* Both ports in network byte order. */
	both = (both & 0x00ff00ff) << 8 | (both >> 8 & 0x00ff00ff);
	/* The scratch buffer is aligned to words. */
	__u64 *longs = (__u64 *)bytes;
	__u32 *words = (__u32 *)bytes;
	longs[0] = longs[1] = longs[2] = 0;
	if (s->ipv6) {
		bytes[0] = 0x60;
		bytes[6] = s->proto;
		longs[1] = tx ? s->addr[0] : s->addr[2];
		longs[2] = tx ? s->addr[1] : s->addr[3];
		longs[3] = tx ? s->addr[2] : s->addr[0];
		longs[4] = tx ? s->addr[3] : s->addr[1];
		words[10] = both;
		/* Known: version, next header, addresses, ports. */
		return 1 | 1 << 6 | 0xffffffffULL << 8 | (ports ? 0xfULL << 40 : 0);
	}
	bytes[0] = 0x45;
	bytes[9] = s->proto;
	words[3] = tx ? s->addr[0] : s->addr[2];
	words[4] = tx ? s->addr[2] : s->addr[0];
	words[5] = both;
	/* Known: version and header length, fragment fields (unfragmented), protocol, addresses,
	 * ports. */
	return 1 | 3 << 6 | 1 << 9 | 0xffULL << 12 | (ports ? 0xfULL << 20 : 0);
}

/* Evaluates the active expression for an event. */
SUBPROGRAM int pcap_holds(struct mag_cpu *state, struct subject *s, __u32 slot)
{
	if (!can(MAG_CAN_PCAP) || !s || !state)
		return UNKNOWN;
	__u32 level = 0;
	__u8 *bytes = take_scratch(state, &level);
	int answer = UNKNOWN;
	if (bytes) {
		struct machine *m = (void *)(bytes + MACHINE_AT);
		__builtin_memset(m, 0, sizeof(*m));
		m->slot = slot;
		m->answer = RUNNING;
		bool runs = true;
		if (s->ip) {
			const struct gather *got = copy_bytes(s->skb, s->ip, &level, 0, LOOKED_AT);
			m->have = got ? got->done : 0;
			m->length = got ? got->length : 0;
		} else {
			m->made_up = make_up(s, level);
			runs = m->made_up;
		}
		if (runs) {
			LOOP(MAG_PCAP_INSNS, execute, &level);
			answer = m->answer == RUNNING ? NO : m->answer;
		}
	}
	give_back(state);
	return answer;
}

#endif
