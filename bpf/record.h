/* SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0 */
/*
 * The record contract between kernel and user space: the one definition of every byte that crosses.
 *
 * The kernel side includes this file; user space reads it through bindgen. Little-endian, every record a multiple
 * of 8 bytes and starting with `struct mag_header`. A number, once given, never changes its meaning; a change of
 * layout raises MAG_RECORD_VERSION.
 */
#ifndef MAGNET_RECORD_H
#define MAGNET_RECORD_H

#define MAG_RECORD_VERSION 1

/* Hops. Below 32 they are on a packet's path, in stack order; the rest are off it. */
enum mag_hop {
	MAG_APP_SEND = 1,
	MAG_TCP_SEND = 2,
	MAG_UDP_SEND = 3,
	MAG_TCP_XMIT = 4,
	MAG_IP_OUT = 5,
	MAG_IP_POST = 6,
	MAG_DEV_QUEUE = 7,
	MAG_DEV_XMIT = 8,
	MAG_DEV_DONE = 9,
	MAG_DEV_RECV = 10,
	MAG_IP_PRE = 11,
	MAG_IP_IN = 12,
	MAG_TCP_RECV = 13,
	MAG_UDP_RECV = 14,
	MAG_SOCK_READY = 15,
	MAG_TASK_WAKE = 16,
	MAG_TASK_RUN = 17,
	MAG_APP_COPY = 18,
	MAG_APP_RECV = 19,
	MAG_TCP_RETRANSMIT = 32,
	MAG_TCP_STATE = 33,
	MAG_SKB_DROP = 34,
	MAG_SOCK_FULL = 35,
	MAG_SCHED_SWITCH = 36,
	MAG_SCHED_WAKEUP = 37,
	MAG_SCHED_FORK = 38,
	MAG_SCHED_EXIT = 39,
	MAG_SCHED_SWITCHED = 40,
	MAG_HEADS = 47,	 /* no hop: the place where payload heads are counted */
	MAG_CUSTOM = 48, /* no hop either: from here on custom probes, by their number */
	MAG_HOPS = 64,
};

/* What is not a plain event has a kind of its own in the place of the hop. */
enum mag_kind {
	MAG_KIND_LOSS = 128,
	MAG_KIND_FLOW = 129,
	MAG_KIND_TASK = 130,
	MAG_KIND_TCP = 131,
	MAG_KIND_HIT = 132,
	MAG_KIND_HEAD = 133,
};

enum mag_flag {
	MAG_F_IPV6 = 1,      /* packet or socket is IPv6 */
	MAG_F_AT_RETURN = 2, /* taken when the call returned */
	MAG_F_PEEK = 4,      /* MSG_PEEK: the bytes stay in the queue */
	MAG_F_ORDER = 4,     /* of a packet: its flow is left out, and this is told for the order of its socket alone */
	MAG_F_FRAGMENT = 8,  /* a later fragment: no ports, no range */
	MAG_F_PARTIAL = 16,  /* a header was not in the linear part: range unknown */
	MAG_F_MORE = 32,     /* more fragments follow; without MAG_F_FRAGMENT this is the first */
	MAG_F_GROUP = 64,    /* came as multicast or broadcast: others may have got it too */
	MAG_F_WHOLE = 128,   /* IPv4: must not be fragmented */
};

/* Why TCP sent again. */
enum mag_resend {
	MAG_RESEND_UNKNOWN = 0,
	MAG_RESEND_FAST = 1,    /* in TCP_CA_Recovery */
	MAG_RESEND_TIMEOUT = 2, /* in TCP_CA_Loss: the timer ran out, or the slow start after that */
	MAG_RESEND_PROBE = 3,   /* by the timer of the tail loss probe */
};

/* Every record begins so. Events, TCP samples, hits and heads are numbered per CPU whether or not they found room, so that a
 * step of more than one is a loss; the other kinds carry the number of the event that follows them. */
struct mag_header {
	unsigned char hop;   /* enum mag_hop, or enum mag_kind */
	unsigned char words; /* size of the record in 8-byte words */
	unsigned short cpu;
	unsigned int number;
	unsigned long long time_ns; /* CLOCK_MONOTONIC */
};

/* A plain event, 64 bytes. */
struct mag_event {
	struct mag_header h;
	unsigned long long cookie; /* socket cookie: the abstract id; 0 unknown */
	unsigned long long flow;   /* see mag_flow; 0 none */
	unsigned int seq;          /* first byte of the TCP range; UDP super-packet: bytes a segment; ICMP echo: its
				    * number; first fragment: its bytes; later fragment: its offset; sched.switched: ns
				    * that the switch took */
	unsigned int len;          /* payload bytes; of the whole datagram where this is its first fragment */
	unsigned int skb;          /* bits 6..38 of skb->head; 0 none. app.recv: ns since this thread asked in vain */
	unsigned int ifindex;
	unsigned short ip_id; /* IPv4 identification, host order; of an IPv6 fragment the low half of its own */
	unsigned short segs;  /* gso_segs, at least 1 where there is a packet */
	unsigned char flags;  /* enum mag_flag */
	unsigned char tcp_flags;
	unsigned char proto;
	unsigned char ttl; /* time to live, hop limit; 0 where there is no IP header */
	/* Where the process is known (socket and sched layers, and ip.out for UDP) its tgid and tid; at the other
	 * packet hops `a` is the hop's detail: acknowledgement number, drop reason, driver's return code, at
	 * tcp.retransmit an enum mag_resend, at sock.ready the thread in whose busy poll the data came. At packet hops the
	 * upper byte of `b` is the type of service, or traffic class: threads have numbers below 2^22. */
	unsigned int a;
	unsigned int b;
};

/* Records that found no room in this CPU's ring, written at the first place where there was room again. */
struct mag_loss {
	struct mag_header h;
	unsigned long long from_ns; /* time of the first one lost */
	unsigned long long count;
};

/* What a flow id stands for. Addresses in network order, ports in host order; IPv4 in the first four bytes. */
struct mag_flow {
	struct mag_header h;
	unsigned long long flow;
	unsigned char local[16];
	unsigned char remote[16];
	unsigned short local_port;
	unsigned short remote_port;
	unsigned char proto;
	unsigned char ipv6;
	unsigned short pad;
	unsigned int netns; /* inode number of the network namespace */
	unsigned int pad2;
};

/* Who a thread is. */
struct mag_task {
	struct mag_header h;
	unsigned long long cgroup;
	unsigned int tgid;
	unsigned int tid;
	unsigned int uid;
	unsigned int pad;
	char comm[16];
};

/* State of a TCP connection, from struct tcp_sock. */
struct mag_tcp {
	struct mag_header h;
	unsigned long long cookie;
	unsigned long long flow;
	unsigned int cwnd;
	unsigned int ssthresh;
	unsigned int srtt_us;
	unsigned int rttvar_us;
	unsigned int rto_us;
	unsigned int packets_out;
	unsigned int total_retrans;
	unsigned int snd_wnd;
	unsigned int rcv_wnd;
	unsigned int snd_una;
	unsigned int snd_nxt;
	unsigned int write_seq;
	unsigned int rcv_nxt;
	unsigned int copied_seq;
	unsigned char state;
	unsigned char ca_state;
	unsigned char tcp_flags; /* of the segment that came */
	unsigned char pad;
	unsigned int retrans_out;
};

/* A custom probe was passed. What could not be learnt is 0. */
#define MAG_VALUES 4
#define MAG_CUSTOMS 16
struct mag_hit {
	struct mag_header h;
	unsigned long long cookie;
	unsigned long long flow;
	unsigned int seq; /* as in mag_event */
	unsigned int len;
	unsigned int tgid; /* who ran; in the kernel perhaps only whom an interrupt stopped */
	unsigned int tid;
	unsigned short ip_id;
	unsigned char probe; /* which */
	unsigned char known; /* a bit a value that could be read */
	unsigned char proto;
	unsigned char pad[3];
	unsigned long long value[MAG_VALUES];
};

/*
 * What is added up where events would be too many: times between two hops, and packets of a flow at a hop.
 *
 * A time is counted in a cell: its step, of which there are sixteen to each doubling, plus the number of bounds below it. Both grow with
 * the time, so that a cell knows one step and between which bounds; where steps and bounds are is core's (magscope_core::steps).
 */
#define MAG_STEP_BITS 4
#define MAG_STEPS_OF_TIME 1024 /* a power of two above the longest time's step */
#define MAG_BOUND_SLOTS 32 /* a power of two above their number; the rest is longer than any time */
#define MAG_CELLS 560
#define MAG_LONGEST_NS 100000000000ULL
struct mag_pair {
	unsigned long long sum_ns;
	unsigned int cells[MAG_CELLS]; /* they may wrap: they are read often enough to tell how far they came */
};
enum mag_rate_kind {
	MAG_RATE_FLOW = 1,
	MAG_RATE_CGROUP = 2,
	MAG_RATE_REASON = 3, /* of drops */
};
struct mag_rate_key {
	unsigned long long id;
	unsigned int kind; /* enum mag_rate_kind */
	unsigned int hop;
};
struct mag_rate {
	unsigned long long packets; /* segments on the wire; at the socket layer calls */
	unsigned long long bytes;
};

/* What becomes of a hit. */
enum mag_detail {
	MAG_DETAIL_FULL = 0,
	MAG_DETAIL_COMPACT = 1,    /* records of events and nothing beside them */
	MAG_DETAIL_HISTOGRAMS = 2, /* no record, only sums */
	MAG_DETAIL_BOTH = 3,       /* a full record and the sums, to hold them against each other */
};

/* How a custom probe's program comes by its values: user space looks the types up and writes down where to go. It is
 * read-only once the program is loaded, so the verifier knows every step and drops what is not there. */
#define MAG_STEPS 8
enum mag_base {
	MAG_BASE_ARG = 0,    /* an argument, by `arg` */
	MAG_BASE_RETURN = 1, /* what the function returns */
	MAG_BASE_RECORD = 2, /* the tracepoint's record */
};
struct mag_read {
	unsigned char base;  /* enum mag_base */
	unsigned char arg;
	unsigned char steps; /* of `offset`: each is added to an address, and what stands there is read: an address, or at last the value */
	unsigned char bytes; /* of the value: 1, 2, 4, 8 */
	unsigned char sign;  /* whether it has one */
	unsigned char shift; /* a bit-field: its first bit in those bytes, and how many; 0 for all */
	unsigned char bits;
	unsigned char pad;
	int offset[MAG_STEPS];
};
enum mag_side { MAG_SIDE_UNKNOWN = 0, MAG_SIDE_TX = 1, MAG_SIDE_RX = 2 };
struct mag_plan {
	unsigned char number; /* of the probe */
	unsigned char values;
	unsigned char side;    /* enum mag_side: which way packets go here */
	unsigned char process; /* whether whoever runs is whose doing it is */
	unsigned char has_skb; /* what there is to learn identity from, each with how to come by it */
	unsigned char has_sock;
	unsigned char has_dev;
	unsigned char pad;
	struct mag_read skb;
	struct mag_read sock;
	struct mag_read dev;
	struct mag_read value[MAG_VALUES];
};

/* The first bytes of the payload of an event's packet: those bytes follow. */
#define MAG_SNAP_MAX 1024
struct mag_head {
	struct mag_header h;
	unsigned long long flow;
	unsigned int event; /* number of the event */
	unsigned int seq;
	unsigned int of_bytes; /* payload bytes of the packet */
	unsigned int bytes;    /* that follow, and zeros up to a whole word */
	unsigned short ip_id;
	unsigned char hop;
	unsigned char proto;
	unsigned int pad;
};

/* Abilities that no hop needs. Each can be compiled out when the programs are loaded. */
enum mag_ability {
	MAG_CAN_PAYLOAD = 1,
	MAG_CAN_PAGES = 2,
	MAG_CAN_FILTER = 4,
	MAG_CAN_PCAP = 8,
	MAG_CAN_SAMPLE = 16,
	MAG_CAN_SUM = 32,
	MAG_CAN_DROP_REASON = 64,
};

/* What user space sets before load. Read-only after it, so the verifier removes what is switched off. What can change
 * later is in mag_control. */
#define MAG_MAX_NETNS 8
struct mag_config {
	unsigned long long hops;           /* bit per enum mag_hop */
	unsigned int netns[MAG_MAX_NETNS]; /* inode numbers to keep */
	unsigned int netns_count;          /* 0 keeps every namespace */
	unsigned int jiffy_us;             /* the unit of icsk_rto; 0 where it is not known */
	unsigned int without;              /* abilities that this kernel lacks, a bit per enum mag_ability */
	unsigned int pad;
	unsigned int tsc_mult;             /* events carry the TSC: nanoseconds are cycles * mult >> shift; 0: MONOTONIC */
	unsigned int tsc_shift;
	unsigned long long tsc_origin_ns;  /* what the first cycle counted stands for */
	unsigned long long bounds_ns[MAG_BOUND_SLOTS];
	unsigned char bounds_below[MAG_STEPS_OF_TIME]; /* how many bounds are below the shortest time of a step */
	unsigned char rank[MAG_HOPS]; /* of those hops that times are taken between, from 1 on; 0 for others */
};

/*
 * The filter, as user space makes it of a person's words: tests that each lead on to a later one, or to the end. No test
 * is made twice and none leads back, so a program of n tests ends after at most n.
 */
#define MAG_TESTS 64
#define MAG_FILTER_SLOTS 2
#define MAG_CGROUP_LEVELS 8
enum mag_verdict {
	MAG_KEEP = 254, /* where a test leads that is the last one */
	MAG_DROP = 255,
};
enum mag_field {
	MAG_FIELD_CPU = 1,    /* numbers: from value[0] to value[1] */
	MAG_FIELD_PROTO = 2,
	MAG_FIELD_NETNS = 3,
	MAG_FIELD_IFINDEX = 4,
	MAG_FIELD_SOCKET = 5,
	MAG_FIELD_PORT = 6,   /* of either end */
	MAG_FIELD_SPORT = 7,
	MAG_FIELD_DPORT = 8,
	MAG_FIELD_TGID = 9,
	MAG_FIELD_UID = 10,
	MAG_FIELD_CGROUP = 11, /* the ancestor at level `arg` */
	MAG_FIELD_HOP = 12,    /* a bit of value[0] a hop */
	MAG_FIELD_HOST = 13,   /* addresses of either end: masked with mask, equal to value; `arg` says IPv6 */
	MAG_FIELD_SRC = 14,
	MAG_FIELD_DST = 15,
	MAG_FIELD_COMM = 16, /* 16 bytes, equal */
	MAG_FIELD_LEN = 17,
	MAG_FIELDS = 18,
};
struct mag_test {
	unsigned char field;     /* enum mag_field */
	/* the next test, or enum mag_verdict, in the order of the answers: */
	unsigned char otherwise; /* where it does not hold */
	unsigned char then;      /* where it holds */
	unsigned char unknown;   /* where the hop cannot know */
	unsigned int arg;
	unsigned long long value[2];
	unsigned long long mask[2];
};
/* What every event that the filter keeps has to fulfil: looked at first, and before anything else is known of the event than its
 * ends. Never stricter than the tests are. */
struct mag_need {
	unsigned long long hops;  /* at one of these */
	unsigned char proto;      /* of this protocol; 0 of any */
	unsigned char addr;       /* whether one of its addresses has to be so, */
	unsigned char ipv6;       /* of this version */
	unsigned char pad;
	unsigned short port_from; /* with a port of these */
	unsigned short port_to;   /* 0: any */
	unsigned long long value[2];
	unsigned long long mask[2];
};
struct mag_filter {
	unsigned int count;
	unsigned int pad;
	struct mag_need need;
	struct mag_test tests[MAG_TESTS];
};

/* A pcap filter expression, as libpcap compiles it: classic BPF (linux/filter.h) over a packet from its IP header on. */
#define MAG_PCAP_INSNS 512
struct mag_insn {
	unsigned short code;
	unsigned char jt;
	unsigned char jf;
	unsigned int k;
};
struct mag_pcap {
	struct mag_insn insns[MAG_PCAP_INSNS];
};

/* Of the events of one hop that passed the filter, which become records. 0 is no limit. */
struct mag_sampler {
	unsigned long long interval_ns; /* at most one in so long, over all CPUs */
	unsigned int one_in;            /* the first of so many, of each CPU */
	unsigned int pad;
};

/* What a hit has to look at. */
enum mag_gate {
	MAG_GATE_CHOOSE = 1, /* filter and samplers */
	MAG_GATE_DETAIL = 2, /* what becomes of those that are let through */
};

/* What user space sets while the programs run. */
struct mag_control {
	unsigned long long hops; /* bit per enum mag_hop: those switched on */
	unsigned int gate;       /* bits of enum mag_gate: whether anything of what follows is to be looked at */
	unsigned int filter;     /* slot of the filter in force, plus 1; 0 for none */
	unsigned int learn;      /* whether sockets are to be remembered, because the filter asks what lower hops cannot see */
	unsigned int flow_limit; /* keep flows whose hash is below or equal; all ones keeps every one */
	unsigned int wake_events; /* wake the reader after so many records of a CPU; 0 never */
	unsigned int wake_bytes;  /* ... or so many bytes */
	struct mag_sampler samplers[MAG_HOPS];
	unsigned long long last_ns[MAG_HOPS]; /* when the last event in an interval was kept */
	unsigned int snap[MAG_HOPS];	      /* bytes of payload to keep at a hop */
	unsigned int pcap;		      /* slot of the pcap program in force, plus 1; 0 for none */
	unsigned int detail;		      /* enum mag_detail; looked at behind the gate */
	unsigned long long rated;	      /* bit per enum mag_hop: where packets are added up by flow, cgroup or reason */
	unsigned int rate_slot;		      /* which of the two maps of rates is written to */
	unsigned int zero;		      /* always */
	unsigned long long page_base; /* from a struct page to its memory; 0 where that was not found */
	unsigned long long epoll_callback; /* address of ep_poll_callback; 0 where it is not known */
};

/* Who uses a socket. */
struct mag_who {
	unsigned int tgid;
	unsigned int uid;
	unsigned long long comm[2];
	unsigned long long cgroups[MAG_CGROUP_LEVELS]; /* ids from the root down; 0 below the process's own */
};

/* Counters of one CPU. `number` counts every event that should have become a record, so that
 * events seen + events lost = number, to the last one. */
struct mag_cpu {
	unsigned long long number; /* next event's number */
	unsigned long long lost;   /* not yet reported by a loss record */
	unsigned long long lost_from_ns;
	unsigned long long ready_cookie; /* socket whose reader is about to be woken on this CPU */
	unsigned long long ready_ns;
	unsigned int ready_wakes; /* threads that it may yet wake */
	unsigned int unread_events; /* since the reader was woken last */
	unsigned long long asked_sk; /* the last read that found nothing: which socket, when, which thread */
	unsigned long long asked_ns;
	unsigned int asked_tid;
	unsigned int switch_from; /* the task that this CPU is leaving, and since when; 0 none */
	unsigned long long switch_ns;
	unsigned int switch_to; /* who was chosen, plus 1; 0 not yet */
	unsigned int pad;
	unsigned long long unread_bytes;
	unsigned long long nested; /* programs on this CPU that are putting bytes together, one inside the other */
	unsigned long long lost_by_hop[MAG_HOPS];
	/* Every hit of a hop that is on is counted in one of these five: kept (records, lost ones too), left out by the
	 * filter, left out because something that it takes could not be known here, left out by a sampler, added up without a
	 * record. */
	unsigned long long kept[MAG_HOPS];
	unsigned long long filtered[MAG_HOPS];
	unsigned long long undecided[MAG_HOPS];
	unsigned long long sampled[MAG_HOPS];
	unsigned long long synthesised[MAG_HOPS];
	/* Where sums are made: hits that nothing of theirs came before, and packets for which the map of rates had no room. */
	unsigned long long began[MAG_HOPS];
	unsigned long long rest_packets[MAG_HOPS];
	unsigned long long rest_bytes[MAG_HOPS];
	unsigned long long turn[MAG_HOPS]; /* hits that came to the sampler */
};

#endif
