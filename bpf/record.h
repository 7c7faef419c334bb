/* SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0 */
/*
 * The record contract between kernel and user space. It defines every byte that crosses.
 *
 * The kernel side includes this file; user space reads it through bindgen. All fields are
 * little-endian. Every record is a multiple of 8 bytes and starts with `struct mag_header`. A
 * number never changes its meaning. A change of layout increments MAG_RECORD_VERSION.
 */
#ifndef MAGNET_RECORD_H
#define MAGNET_RECORD_H

#define MAG_RECORD_VERSION 1

/* enum mag_hop, MAG_TX_HOPS, MAG_RX_HOPS and MAG_PATH_HOPS. The build script writes this file from
 * the table of hops, crates/core/src/hop/table.rs. The number of a hop is no position. */
#include "hops.h"

/* Places that share the arrays by hop with the hops. */
enum mag_slot {
	MAG_HEADS = 47, /* the counter index of payload heads */
	MAG_CUSTOM = 48, /* custom probes, from here on by their number */
	MAG_HOPS = 64,
};

/* Kinds of records other than plain events. The kind takes the place of the hop. */
enum mag_kind {
	MAG_KIND_LOSS = 128,
	MAG_KIND_FLOW = 129,
	MAG_KIND_TASK = 130,
	MAG_KIND_TCP = 131,
	MAG_KIND_HIT = 132,
	MAG_KIND_HEAD = 133,
};

enum mag_flag {
	MAG_F_IPV6 = 1, /* the packet or socket is IPv6 */
	MAG_F_ORDER = 2, /* packets: order-only record of a flow that is sampled out; carries no
			    sampling weight */
	/* 4 is a flag of user space: the packet is ambiguous in the log that a recording is from */
	MAG_F_FRAGMENT = 8, /* a later fragment: no ports, no range */
	MAG_F_PARTIAL = 16, /* a header was outside the linear part: range unknown */
	MAG_F_MORE = 32, /* more fragments follow; without MAG_F_FRAGMENT, the first fragment */
	MAG_F_GROUP = 64, /* received as multicast or broadcast: others may receive it too */
	MAG_F_WHOLE = 128, /* IPv4: must not be fragmented */
	/* Of sockets alone: `call_flags` has their upper byte. */
	MAG_F_AT_RETURN = 256, /* taken at the return of the call */
	MAG_F_PEEK = 512, /* MSG_PEEK: the bytes stay in the queue */
	MAG_F_QUEUE_EMPTY = 1024, /* app.recv of UDP: the socket's queue has no further datagram */
	MAG_F_URGENT = 2048, /* app.recv and sock.destroy of TCP: the byte before the range was
				urgent, and reads passed over it */
	MAG_F_OUT_OF_BAND = 4096, /* app.recv of TCP: MSG_OOB, of the urgent byte alone */
	MAG_F_IN_KERNEL = 8192, /* TCP: sock.ready: no process reads these bytes from this socket;
				   app.send, app.recv: the call's bytes are not those of the stream,
				   so there is no range (MAG_F_PARTIAL) */
};

/* Why TCP sent a range again. */
enum mag_resend {
	MAG_RESEND_UNKNOWN = 0,
	MAG_RESEND_FAST = 1, /* in TCP_CA_Recovery */
	MAG_RESEND_TIMEOUT = 2, /* in TCP_CA_Loss: timeout, or the slow start after it */
	MAG_RESEND_PROBE = 3, /* by the timer of the tail loss probe */
};

/* What uses a TCP socket in the kernel, in place of a process. */
enum mag_consumer {
	MAG_CONSUMER_KERNEL = 1, /* other code of the kernel */
	MAG_CONSUMER_SOCKMAP = 2,
	MAG_CONSUMER_MPTCP = 3,
	MAG_CONSUMER_TLS = 4,
	MAG_CONSUMER_ESPINTCP = 5,
	MAG_CONSUMER_SMC = 6,
};

/* The start of every record. Events, TCP samples, hits and heads have numbers per CPU, even if the
 * ring had no room for them. So a step of more than one is a loss. Other kinds carry the number of
 * the event that follows. */
struct mag_header {
	unsigned char hop; /* enum mag_hop, or enum mag_kind */
	unsigned char words; /* size of the record in 8-byte words */
	unsigned short cpu;
	unsigned int number;
	unsigned long long time_ns; /* CLOCK_MONOTONIC */
};

/* The position of an event's bytes, or its duration. The protocol and the flags of the event say
 * which member it has. */
union mag_extent {
	unsigned int seq; /* TCP: first byte; sock.ready: after the last byte that can be read */
	unsigned int segment_bytes; /* UDP super-packet: payload bytes of each segment */
	unsigned int echo_number; /* ICMP echo */
	unsigned int fragment_bytes; /* first fragment: its bytes after the IP header */
	unsigned int
		fragment_offset; /* later fragment: offset of its first byte after the IP header */
	unsigned int switch_ns; /* sched.switched: duration of the switch */
	unsigned int
		copied_buffer; /* UDP at app.copy: buffer of the datagram, as `skb` of a packet */
	unsigned int open_error; /* tcp.open: error number of the socket (errno); 0 none */
	unsigned int next_buffer; /* UDP at app.recv: buffer of the first datagram that is left in
				     the socket's queue; 0 unknown, or MAG_F_QUEUE_EMPTY */
};

/* What a hop of packets adds. The table of hops says which member a hop has. */
union mag_packet_detail {
	unsigned int ack; /* TCP acknowledgement number */
	unsigned int drop_reason; /* skb.drop */
	unsigned int driver_code; /* dev.done: return code */
	unsigned int tgid; /* ip.out of UDP: the sender */
};

/* A packet hop and skb.drop. */
struct mag_of_packet {
	unsigned int skb; /* bits 6..38 of skb->head; 0 none */
	union mag_packet_detail detail;
	unsigned int tid_tos; /* upper byte: type of service or traffic class; below it, at ip.out
				 of UDP, the sender's thread, and at skb.drop the filter of the
				 socket. Thread ids are below 2^22. */
};

/* The filter of the socket that a dropped packet was for. Other numbers are ids of programs. */
enum mag_filter_id {
	MAG_FILTER_UNKNOWN = 0, /* another reason, an older kernel, or an id that is too large */
	MAG_FILTER_NONE = 0xfffffe, /* the socket has no filter: that of its cgroup dropped it */
	MAG_FILTER_CLASSIC = 0xffffff, /* a classic filter, which has no id */
};

/* What a call on a socket adds. */
union mag_call_detail {
	unsigned int empty_read_ns; /* app.recv: time since this thread's last read without data; 0
				       none */
	unsigned int consumer; /* MAG_F_IN_KERNEL: enum mag_consumer */
	unsigned int write_seq; /* sock.destroy: behind the last byte that the socket accepted for
				   sending, and behind its FIN */
};

/* A call on a socket, and its end. */
struct mag_of_call {
	unsigned int tgid;
	unsigned int tid;
	union mag_call_detail detail;
};

/* A scheduler hop. */
struct mag_of_task {
	unsigned int tgid;
	unsigned int tid;
	unsigned int other_tid; /* the waker, the new thread, or the one that had the CPU before */
};

/* tcp.retransmit. */
struct mag_of_resend {
	unsigned int reason; /* enum mag_resend */
	unsigned int pad[2];
};

/* A point of a connection: tcp.send_reset, tcp.recv_reset, tcp.open, tcp.synack. */
struct mag_of_point {
	unsigned int number; /* tcp.send_reset: the kernel's reason (enum sk_rst_reason). tcp.open:
				the new state (TCP_ESTABLISHED, TCP_CLOSE). tcp.synack: how many
				times the SYN-ACK was sent again */
	unsigned int pad[2];
};

/* sock.ready. */
struct mag_of_ready {
	unsigned int poller_tid; /* thread whose busy poll received the data; 0 none */
	unsigned int pad;
	unsigned int consumer; /* MAG_F_IN_KERNEL: enum mag_consumer */
};

/* What the kind of hop adds. */
union mag_payload {
	struct mag_of_packet packet;
	struct mag_of_call call;
	struct mag_of_task task;
	struct mag_of_resend resend;
	struct mag_of_point point;
	struct mag_of_ready ready;
};

/* A field that packets and calls share. */
union mag_ttl_or_flags {
	unsigned char ttl; /* packets: time to live or hop limit */
	unsigned char call_flags; /* calls and sockets: upper byte of enum mag_flag */
};

/* A plain event, 64 bytes. */
struct mag_event {
	struct mag_header h;
	unsigned long long cookie; /* socket cookie: the abstract id; 0 unknown */
	unsigned long long flow; /* see mag_flow; 0 none */
	union mag_extent extent;
	unsigned int len; /* payload bytes; first fragment: those of the whole datagram */
	unsigned int ifindex;
	unsigned short ip_id; /* IPv4 identification, host order; IPv6 fragment: low half of its
				 identification */
	unsigned short segs; /* gso_segs; at least 1 with a packet */
	unsigned char flags; /* lower byte of enum mag_flag */
	unsigned char tcp_flags;
	unsigned char proto;
	union mag_ttl_or_flags u;
	union mag_payload payload;
};

/* Why events have no record. */
enum mag_loss_cause {
	MAG_LOST_RING_FULL = 0, /* written as soon as the ring has room again */
	MAG_LOST_REFUSED = 1, /* the kernel did not run the program */
};

/* Events of this CPU without records. */
struct mag_loss {
	struct mag_header h;
	unsigned long long from_ns; /* not before this */
	unsigned long long count;
	unsigned long long cause; /* enum mag_loss_cause */
};

/* The meaning of a flow id. Addresses in network order, ports in host order, IPv4 in the first four
 * bytes. */
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

/* The identity of a thread. */
struct mag_task {
	struct mag_header h;
	unsigned long long cgroup;
	unsigned int tgid;
	unsigned int tid;
	unsigned int uid;
	unsigned int pad;
	char comm[16];
};

/* The state of a TCP connection, from struct tcp_sock. */
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
	unsigned char tcp_flags; /* of the received segment */
	unsigned char pad;
	unsigned int retrans_out;
};

/* A hit of a custom probe. Unknown fields are 0. */
#define MAG_VALUES 4
#define MAG_CUSTOMS 16
struct mag_hit {
	struct mag_header h;
	unsigned long long cookie;
	unsigned long long flow;
	unsigned int seq; /* number of the packet's union mag_extent */
	unsigned int len;
	unsigned int tgid; /* the current task; in the kernel possibly an interrupted one */
	unsigned int tid;
	unsigned short ip_id;
	unsigned char probe; /* number of the probe */
	unsigned char readable; /* a bit per value that could be read */
	unsigned char proto;
	unsigned char pad[3];
	unsigned long long value[MAG_VALUES];
};

/*
 * Sums, used where events would be too many: times between two hops, and packets of a flow at a
 * hop.
 *
 * A time is counted in a bucket. Its index is a step plus the number of bounds below the time;
 * there are sixteen steps per doubling. Steps and bounds both grow with the time, so an index
 * determines one step and one interval of bounds. magscope-core defines steps and bounds.
 */
#define MAG_STEP_BITS 4
#define MAG_STEPS_OF_TIME 1024 /* power of two above the step of the longest time */
#define MAG_BOUND_SLOTS 32 /* power of two above the bounds; unused: above any time */
#define MAG_BUCKETS 560
#define MAG_LONGEST_NS 100000000000ULL
struct mag_pair {
	unsigned long long sum_ns;
	/* They may wrap: the reader reads often enough to extend them. */
	unsigned int buckets[MAG_BUCKETS];
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
	unsigned long long packets; /* segments on the wire; socket layer: calls */
	unsigned long long bytes;
};

/* The result of a hit. */
enum mag_detail {
	MAG_DETAIL_FULL = 0,
	MAG_DETAIL_COMPACT = 1, /* records of events only */
	MAG_DETAIL_HISTOGRAMS = 2, /* sums only */
	MAG_DETAIL_BOTH = 3, /* full records and sums, to compare them */
};

/* The plan of one value of a custom probe. User space resolves the types and writes the path to the
 * value. The plan is read-only after loading, so the verifier treats each step as a constant and
 * removes unused ones. */
#define MAG_STEPS 8
enum mag_base {
	MAG_BASE_ARG = 0, /* the argument numbered `arg` */
	MAG_BASE_RETURN = 1, /* the return value */
	MAG_BASE_RECORD = 2, /* the tracepoint's record */
};
struct mag_read {
	unsigned char base; /* enum mag_base */
	unsigned char arg;
	unsigned char steps; /* number of offsets: each is added to an address and read; the last
				read gives the value */
	unsigned char bytes; /* size of the value: 1, 2, 4, 8 */
	unsigned char sign; /* whether the value is signed */
	unsigned char shift; /* bit-field: its first bit and its bits; 0 bits for the whole value */
	unsigned char bits;
	unsigned char pad;
	int offset[MAG_STEPS];
};
enum mag_side { MAG_SIDE_UNKNOWN = 0, MAG_SIDE_TX = 1, MAG_SIDE_RX = 2 };
struct mag_plan {
	unsigned char number; /* of the probe */
	unsigned char values;
	unsigned char side; /* enum mag_side: the direction of packets here */
	unsigned char process; /* whether the current process is the subject */
	unsigned char has_skb; /* sources of the identity; the path to each follows */
	unsigned char has_sock;
	unsigned char has_dev;
	unsigned char pad;
	struct mag_read skb;
	struct mag_read sock;
	struct mag_read dev;
	struct mag_read value[MAG_VALUES];
};

/* The first payload bytes of an event's packet. The bytes follow the structure. */
#define MAG_SNAP_MAX 1024
struct mag_head {
	struct mag_header h;
	unsigned long long flow;
	unsigned int event; /* number of the event */
	unsigned int seq; /* number of the packet's union mag_extent */
	unsigned int of_bytes; /* payload bytes of the packet */
	unsigned int bytes; /* bytes that follow, then zeros up to a whole word */
	unsigned short ip_id;
	unsigned char hop;
	unsigned char proto;
	unsigned int pad;
};

/* Optional abilities. User space can remove each one when it loads the programs. */
enum mag_ability {
	MAG_CAN_PAYLOAD = 1,
	MAG_CAN_PAGES = 2,
	MAG_CAN_FILTER = 4,
	MAG_CAN_PCAP = 8,
	MAG_CAN_SAMPLE = 16,
	MAG_CAN_SUM = 32,
	MAG_CAN_DROP_REASON = 64,
	MAG_CAN_EPOLL = 128,
};

/*
 * A ring that user space maps. Each CPU has one, in an element of an array:
 *
 *   position of the reader, 4 bytes, then nothing up to MAG_RING_COMMITS_AT
 *   a commit word of 8 bytes for each slot
 *   the slots of 64 bytes each
 *   room for the rest of a record that begins in the last slot
 *
 * The number of slots is a power of two. A position is a number of slots since the start, modulo
 * 2^32. A record begins at a slot and its bytes are contiguous. The commit word of its first slot
 * is its size in bytes times 2^32, plus its position. The reader sets the words of its other slots
 * to 0.
 */
#define MAG_SLOT_BYTES 64
#define MAG_RING_COMMITS_AT 4096
/* Most slots of a ring. The verifier allows no larger offsets. */
#define MAG_RING_SLOTS_MAX 4194304

/* Settings that user space writes before loading. They are read-only afterwards, so the verifier
 * removes disabled code. mag_control has the settings that can change later. */
#define MAG_MAX_NETNS 8
struct mag_config {
	unsigned long long hops; /* bit per enum mag_hop */
	unsigned int netns[MAG_MAX_NETNS]; /* inode numbers of the wanted namespaces */
	unsigned int netns_count; /* 0: every namespace */
	unsigned int jiffy_us; /* unit of icsk_rto; 0 unknown */
	unsigned int without; /* abilities that this kernel lacks, a bit per enum mag_ability */
	unsigned int ring_mask; /* slots of a mapped ring, minus 1; 0: the kernel's rings */
	unsigned int tsc_mult; /* events carry the TSC: ns = cycles * mult >> shift; 0:
				  CLOCK_MONOTONIC */
	unsigned int tsc_shift;
	unsigned long long tsc_origin_ns; /* time of the first counted cycle */
	unsigned long long bounds_ns[MAG_BOUND_SLOTS];
	unsigned char bounds_below[MAG_STEPS_OF_TIME]; /* number of bounds below the shortest time
							  of each step */
	unsigned char rank[MAG_HOPS]; /* hops between which times are taken, from 1 on; 0 for other
					 hops */
};

/* The filter, compiled by user space. Each test leads to a later one, or to a verdict. No test
 * repeats and none leads back, so a program of n tests ends after at most n. */
#define MAG_TESTS 64
#define MAG_FILTER_SLOTS 2
#define MAG_CGROUP_LEVELS 8
enum mag_verdict {
	MAG_KEEP = 254, /* the verdict of a last test */
	MAG_DROP = 255,
};
enum mag_field {
	MAG_FIELD_CPU = 1, /* numbers: from value[0] to value[1] */
	MAG_FIELD_PROTO = 2,
	MAG_FIELD_NETNS = 3,
	MAG_FIELD_IFINDEX = 4,
	MAG_FIELD_SOCKET = 5,
	MAG_FIELD_PORT = 6, /* of either end */
	MAG_FIELD_SPORT = 7,
	MAG_FIELD_DPORT = 8,
	MAG_FIELD_TGID = 9,
	MAG_FIELD_UID = 10,
	MAG_FIELD_CGROUP = 11, /* the ancestor at level `arg` */
	MAG_FIELD_HOP = 12, /* a bit of value[0] per hop */
	MAG_FIELD_HOST = 13, /* addresses of either end: masked with mask, equal to value; `arg` is
				1 for IPv6 */
	MAG_FIELD_SRC = 14,
	MAG_FIELD_DST = 15,
	MAG_FIELD_COMM = 16, /* 16 bytes, equal */
	MAG_FIELD_LEN = 17,
	MAG_FIELDS = 18,
};
struct mag_test {
	unsigned char field; /* enum mag_field */
	/* The next test, or enum mag_verdict, in the order of the results: */
	unsigned char otherwise; /* the test fails */
	unsigned char then; /* the test holds */
	unsigned char unknown; /* the hop cannot know */
	unsigned int arg;
	unsigned long long value[2];
	unsigned long long mask[2];
};
/* Conditions that every event kept by the filter fulfils. They are checked first, when only the
 * ends of the event are known. They are never stricter than the tests. */
struct mag_need {
	unsigned long long hops; /* a bit per accepted hop */
	unsigned char proto; /* protocol; 0 any */
	unsigned char addr; /* whether one of the addresses has to match */
	unsigned char ipv6; /* whether that is an IPv6 address */
	unsigned char pad;
	unsigned short port_from; /* range of ports, one of which has to match */
	unsigned short port_to; /* 0: any */
	unsigned long long value[2];
	unsigned long long mask[2];
};
struct mag_filter {
	unsigned int count;
	unsigned int pad;
	struct mag_need need;
	struct mag_test tests[MAG_TESTS];
};

/* A pcap filter expression as libpcap compiles it: classic BPF (linux/filter.h) over a packet from
 * its IP header on. */
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

/* Limits on the events of one hop after the filter. 0 is no limit. */
struct mag_sampler {
	unsigned long long interval_ns; /* at most one event per interval, over all CPUs */
	unsigned int one_in; /* the first of every `one_in` events, per CPU */
	unsigned int pad;
};

/* The checks that a hit has to make. */
enum mag_gate {
	MAG_GATE_CHOOSE = 1, /* filter and samplers */
	MAG_GATE_DETAIL = 2, /* the result of accepted hits */
};

/* Addresses of the kernel's functions of a process's TCP socket; 0 unknown. */
struct mag_functions {
	unsigned long long epoll_callback; /* ep_poll_callback */
	unsigned long long data_ready; /* sock_def_readable */
	unsigned long long recvmsg; /* tcp_recvmsg */
	unsigned long long sendmsg; /* tcp_sendmsg */
};

/* Settings that user space writes while the programs run. */
struct mag_control {
	unsigned long long hops; /* bit per enum mag_hop: active hops */
	unsigned int gate; /* bits of enum mag_gate: which of the settings below are in use */
	unsigned int filter; /* slot of the active filter, plus 1; 0 none */
	unsigned int learn; /* whether to store sockets: the filter asks for facts that lower hops
			       lack */
	unsigned int flow_limit; /* keep flows with a hash up to this; all ones keeps every flow */
	unsigned int wake_events; /* wake the reader after this many records of a CPU; 0 never */
	unsigned int wake_bytes; /* ... or after this many bytes */
	struct mag_sampler samplers[MAG_HOPS];
	unsigned long long last_ns[MAG_HOPS]; /* time of the last event kept in an interval */
	unsigned int snap[MAG_HOPS]; /* payload bytes to keep at a hop */
	unsigned int pcap; /* slot of the active pcap program, plus 1; 0 none */
	unsigned int detail; /* enum mag_detail; read only if the gate is set */
	unsigned long long
		rated; /* bit per enum mag_hop: hops that sum packets by flow, cgroup or reason */
	unsigned int rate_slot; /* which of the two maps of rates is written */
	unsigned int zero; /* always 0 */
	unsigned long long page_base; /* from a struct page to its memory; 0 unknown */
	struct mag_functions functions;
};

/* The user of a socket. */
struct mag_who {
	unsigned int tgid;
	unsigned int uid;
	unsigned long long comm[2];
	unsigned long long cgroups[MAG_CGROUP_LEVELS]; /* ids from the root down; 0 below the
							  process's own cgroup */
};

/* Counters of one CPU. The number counts every event that should become a record, so events seen +
 * events lost = number, exactly. */
struct mag_cpu {
	unsigned long long number; /* number of the next event, with the kernel's rings */
	unsigned long long place; /* with mapped rings: that number times 2^32, plus the position of
				     the next record */
	unsigned long long lost; /* not yet reported by a loss record */
	unsigned long long lost_reported; /* without bpf_loop: how many of them are reported */
	unsigned long long lost_from_ns;
	unsigned long long ready_cookie; /* socket whose reader this CPU is about to wake */
	unsigned long long ready_ns;
	unsigned int ready_wakes; /* threads that it may still wake */
	unsigned int unread_events; /* since the last wake-up of the reader */
	unsigned long long asked_sk; /* the last read without data: socket, time, thread */
	unsigned long long asked_ns;
	unsigned int asked_tid;
	unsigned int switch_from; /* the task that this CPU is leaving, and since when; 0 none */
	unsigned long long switch_ns;
	unsigned int switch_to; /* the chosen task, plus 1; 0 not chosen yet */
	unsigned int pad;
	unsigned long long unread_bytes;
	unsigned long long
		nested; /* nesting depth of programs that use scratch buffers on this CPU */
	unsigned long long lost_by_hop[MAG_HOPS];
	/* Every hit of an active hop increments exactly one of these five. They count: records
	 * (lost ones included); rejected by the filter; rejected because an input was unknown;
	 * skipped by a sampler; added to sums without a record. */
	unsigned long long recorded[MAG_HOPS];
	unsigned long long filtered[MAG_HOPS];
	unsigned long long undecided[MAG_HOPS];
	unsigned long long sampled[MAG_HOPS];
	unsigned long long synthesised[MAG_HOPS];
	/* With sums: hits without a previous hop, and packets that the map of rates had no room
	 * for. */
	unsigned long long began[MAG_HOPS];
	unsigned long long rest_packets[MAG_HOPS];
	unsigned long long rest_bytes[MAG_HOPS];
	unsigned long long turn[MAG_HOPS]; /* hits that reached the sampler */
};

#endif
