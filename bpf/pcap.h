/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A pcap filter expression: the classic BPF that libpcap made of it, walked over the packet from its IP header on.
 *
 * Where there is no packet, the headers that a packet of this flow has are made up as far as they are known, and what the
 * expression asks for beyond that is unknown, as it is beyond the bytes that were looked at: such an answer is none.
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

/* Bytes of a packet that are looked at; behind them, in the same scratch, stand the machine's own 16 words, and the machine:
 * programs have little stack. */
#define LOOKED_AT 256
#define WORDS 16
#define MACHINE_AT (MAG_SNAP_MAX + 4 * WORDS)

struct machine {
	__u64 made_up; /* a bit a byte that is known, where the headers are made up; else 0 */
	__u32 slot; /* of the program */
	__u32 pad;
	__u32 have;    /* bytes there are to look at */
	__u32 length;  /* of the packet */
	__u32 a;
	__u32 x;
	__u32 at;
	__u32 answer;
};

enum { RUNNING = 3 };

/* Whether `size` bytes at `from` can be looked at: YES, NO where the packet ends before, UNKNOWN. */
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

/* One instruction; 1 after the last. The codes are those of linux/bpf_common.h. A function of its own to the verifier too, for
 * which it has to find what it works on by itself. */
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
	case 0: /* to A */
	case 1: { /* to X */
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
		case 0x00: a += operand; break;
		case 0x10: a -= operand; break;
		case 0x20: a *= operand; break;
		case 0x30:
		case 0x90:
			if (!operand) {
				m->answer = NO;
				return 1;
			}
			a = (code & 0xf0) == 0x30 ? a / operand : a % operand;
			break;
		case 0x40: a |= operand; break;
		case 0x50: a &= operand; break;
		case 0x60: a = operand < 32 ? a << (operand & 31) : 0; break;
		case 0x70: a = operand < 32 ? a >> (operand & 31) : 0; break;
		case 0x80: a = -a; break;
		case 0xa0: a ^= operand; break;
		}
		m->a = a;
		return 0;
	}
	case 5: { /* jumps, which lead forward only */
		__u32 a = m->a, op = code & 0xf0;
		if (op == 0) {
			m->at += k;
			return 0;
		}
		bool yes = op == 0x10 ? a == operand : op == 0x20 ? a > operand : op == 0x30 ? a >= operand : (a & operand) != 0;
		m->at += yes ? i->jt : i->jf;
		return 0;
	}
	case 6: /* how many bytes to keep of the packet: none, or it is wanted */
		m->answer = ((code & 0x18) == 0x10 ? m->a : k) ? YES : NO;
		return 1;
	}
	if (code & 0x80) /* X to A, or A to X */
		m->a = m->x;
	else
		m->x = m->a;
	return 0;
}

static long execute(__u64 round, __u32 *level)
{
	return run_insn(*level) ? 1 : 0;
}

/* The headers of a packet of this flow, as far as they are known; a bit a byte that is. 0 where too little is known. A
 * function of its own, because the stack of all callers together is 512 bytes; it finds its scratch by itself as run_insn does. */
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
	bool tx = s->direction == DIRECTION_TX, ports = (has & (LOCAL_PORT | REMOTE_PORT)) == (LOCAL_PORT | REMOTE_PORT);
	__u32 both = tx ? s->local_port | (__u32)s->remote_port << 16 : s->remote_port | (__u32)s->local_port << 16;
	/* each of the two in the order of the wire */
	both = (both & 0x00ff00ff) << 8 | (both >> 8 & 0x00ff00ff);
	/* the scratch begins at a whole word */
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
		/* version, next header, addresses, ports */
		return 1 | 1 << 6 | 0xffffffffULL << 8 | (ports ? 0xfULL << 40 : 0);
	}
	bytes[0] = 0x45;
	bytes[9] = s->proto;
	words[3] = tx ? s->addr[0] : s->addr[2];
	words[4] = tx ? s->addr[2] : s->addr[0];
	words[5] = both;
	/* version and length, fragmentation (a whole one), protocol, addresses, ports */
	return 1 | 3 << 6 | 1 << 9 | 0xffULL << 12 | (ports ? 0xfULL << 20 : 0);
}

/* What the expression in force says of an event. */
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
		if (s->ip) {
			const struct gather *got = copy_bytes(s->skb, s->ip, &level, 0, LOOKED_AT);
			m->have = got ? got->done : 0;
			m->length = got ? got->length : 0;
		} else {
			m->made_up = make_up(s, level);
		}
		if (s->ip || m->made_up) {
			LOOP(MAG_PCAP_INSNS, execute, &level);
			answer = m->answer == RUNNING ? NO : m->answer;
		}
	}
	give_back(state);
	return answer;
}

#endif
