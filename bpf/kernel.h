/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The kernel types that the probes read, reduced by hand. CO-RE relocates each field to its offset
 * in the running kernel (`preserve_access_index`). So only members in use are listed, and their
 * order is free.
 */
#ifndef MAGNET_KERNEL_H
#define MAGNET_KERNEL_H

typedef unsigned char __u8;
typedef signed char __s8;
typedef unsigned short __u16;
typedef short __s16;
typedef unsigned int __u32;
typedef int __s32;
typedef unsigned long long __u64;
typedef long long __s64;
typedef __u16 __be16;
typedef __u32 __be32;
typedef __u64 __be64;
typedef __u32 __wsum;
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef _Bool bool;
#define true 1
#define false 0
#define NULL ((void *)0)

enum bpf_map_type {
	BPF_MAP_TYPE_HASH = 1,
	BPF_MAP_TYPE_ARRAY = 2,
	BPF_MAP_TYPE_PERF_EVENT_ARRAY = 4,
	BPF_MAP_TYPE_PERCPU_ARRAY = 6,
	BPF_MAP_TYPE_LRU_HASH = 9,
	BPF_MAP_TYPE_ARRAY_OF_MAPS = 12,
	BPF_MAP_TYPE_RINGBUF = 27,
};

/* Reasons for dropping a packet. CO-RE takes the numbers from the running kernel; only the names
 * count here. */
enum skb_drop_reason {
	SKB_DROP_REASON_SOCKET_RCVBUFF = 6,
	SKB_DROP_REASON_PROTO_MEM = 7,
	SKB_DROP_REASON_SOCKET_FILTER = 8,
};

enum { BPF_ANY = 0, BPF_NOEXIST = 1, BPF_RB_NO_WAKEUP = 1, BPF_RB_FORCE_WAKEUP = 2 };
#define BPF_F_CURRENT_CPU 0xffffffffULL
#define BPF_F_MMAPABLE 1024
struct bpf_perf_event_value {
	__u64 counter;
	__u64 enabled;
	__u64 running;
};
enum { NF_ACCEPT = 1 };
enum { AF_INET = 2, AF_INET6 = 10 };
enum {
	IPPROTO_HOPOPTS = 0,
	IPPROTO_ICMP = 1,
	IPPROTO_TCP = 6,
	IPPROTO_UDP = 17,
	IPPROTO_ROUTING = 43,
	IPPROTO_FRAGMENT = 44,
	IPPROTO_AH = 51,
	IPPROTO_ICMPV6 = 58,
	IPPROTO_DSTOPTS = 60
};
enum { EAGAIN = 11 };
enum { PACKET_BROADCAST = 1, PACKET_MULTICAST = 2, PACKET_OUTGOING = 4, PACKET_LOOPBACK = 5 };
enum { WQ_FLAG_EXCLUSIVE = 1 };
enum { MSG_OOB = 1, MSG_PEEK = 2, MSG_ERRQUEUE = 0x2000 };
enum { PACKET_OTHERHOST = 3 };
enum { TCP_CA_RECOVERY = 3, TCP_CA_LOSS = 4 }; /* icsk_ca_state */
enum { ICSK_TIME_LOSS_PROBE = 5 }; /* icsk_pending */
enum { TCP_ESTABLISHED = 1, TCP_SYN_SENT = 2, TCP_SYN_RECV = 3, TCP_CLOSE = 7 }; /* skc_state */
enum { SK_USER_DATA_PSOCK = 4 }; /* bit of sk_user_data, since Linux 6.0 */
enum { SOCK_DONE = 1 }; /* bit of skc_flags: the peer's FIN has arrived */
#define ETH_P_IP 0x0800
#define ETH_P_IPV6 0x86dd

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

/* Registers of a function's arguments. With __VMLINUX_H__ defined, libbpf's headers use these
 * kernel names. */
#define __VMLINUX_H__
#ifdef __TARGET_ARCH_x86
struct pt_regs {
	unsigned long di, si, dx, cx, r8, r9, ax;
};
#else
struct user_pt_regs {
	__u64 regs[31];
};
#endif

struct ns_common {
	unsigned int inum;
};
struct net {
	struct ns_common ns;
};
typedef struct {
	struct net *net;
} possible_net_t;

struct in6_addr {
	union {
		__u8 u6_addr8[16];
		__be32 u6_addr32[4];
	} in6_u;
};

typedef struct {
	__s64 counter;
} atomic64_t;

struct list_head {
	struct list_head *next;
};

/* Types for finding pages (pages.bpf.c). */
struct page {
	unsigned long flags;
};
struct slab {
	struct list_head slab_list;
	void *freelist;
};
struct kmem_cache_order_objects {
	unsigned int x;
};
struct kmem_cache_node {
	struct list_head partial;
};
struct kmem_cache {
	struct kmem_cache_order_objects oo;
	struct list_head list;
	struct kmem_cache_node *node[1];
};
/* Since Linux 7.1. */
struct kmem_cache_per_node_ptrs {
	struct kmem_cache_node *node;
};
struct kmem_cache___per_node {
	struct kmem_cache_per_node_ptrs per_node[1];
};
struct proto {
	struct kmem_cache *slab;
	void *recvmsg;
	void *sendmsg;
};

struct sock_common {
	__be32 skc_daddr;
	__be32 skc_rcv_saddr;
	__be16 skc_dport;
	__u16 skc_num;
	unsigned short skc_family;
	volatile unsigned char skc_state;
	possible_net_t skc_net;
	struct in6_addr skc_v6_daddr;
	struct in6_addr skc_v6_rcv_saddr;
	atomic64_t skc_cookie;
	unsigned long skc_flags;
	struct proto *skc_prot;
};
typedef struct wait_queue_head {
	struct list_head head;
} wait_queue_head_t;
typedef struct wait_queue_entry {
	unsigned int flags;
	void *private;
	void *func;
	struct list_head entry;
} wait_queue_entry_t;
struct socket_wq {
	wait_queue_head_t wait;
};
struct eventpoll {
	wait_queue_head_t wq;
	wait_queue_head_t poll_wait;
};
struct epitem {
	struct eventpoll *ep;
};
struct eppoll_entry {
	struct epitem *base;
	wait_queue_entry_t wait;
};

struct bpf_prog_aux {
	u32 id;
};
struct bpf_prog {
	struct bpf_prog_aux *aux;
};
struct sk_filter {
	struct bpf_prog *prog;
};

struct sk_buff;
struct sk_buff_head {
	struct sk_buff *next;
};
struct sock {
	struct sock_common __sk_common;
	struct sk_buff_head sk_receive_queue;
	u16 sk_protocol;
	int sk_err;
	struct socket_wq *sk_wq;
	struct sk_filter *sk_filter;
	unsigned int sk_ll_usec;
	void *sk_data_ready;
	void *sk_user_data;
};
struct tcp_ulp_ops {
	char name[16];
};
struct inet_sock {
	struct sock sk;
	__be16 inet_sport;
};
struct udp_sock {
	struct inet_sock inet;
	struct sk_buff_head reader_queue;
};
struct request_sock {
	struct sock_common __req_common;
	__u8 num_retrans;
};
struct inet_connection_sock {
	struct inet_sock icsk_inet;
	__u32 icsk_rto;
	__u8 icsk_ca_state : 5;
	__u8 icsk_pending;
	const struct tcp_ulp_ops *icsk_ulp_ops;
};
struct tcp_fastopen_request {
	unsigned long size;
};
struct tcp_sock {
	struct inet_connection_sock inet_conn;
	u32 snd_wnd;
	u32 snd_cwnd;
	u32 snd_ssthresh;
	u32 srtt_us;
	u32 mdev_us;
	u32 packets_out;
	u32 retrans_out;
	u32 total_retrans;
	u32 rcv_wnd;
	u32 snd_una;
	u32 snd_nxt;
	u32 write_seq;
	u32 rcv_nxt;
	u32 copied_seq;
	u32 urg_seq;
	bool is_mptcp;
	struct tcp_fastopen_request *fastopen_req;
};
struct tcp_skb_cb {
	__u32 seq;
	__u32 end_seq;
	__u8 tcp_flags;
	__u16 tcp_gso_segs;
};

struct net_device {
	int ifindex;
	possible_net_t nd_net;
};
struct dst_entry {
	struct net_device *dev;
};
struct skb_piece {
	unsigned int len;
};
struct skb_shared_info {
	__u8 nr_frags;
	unsigned short gso_size;
	unsigned short gso_segs;
	struct skb_piece frags[17];
};
struct sk_buff {
	struct net_device *dev;
	struct sock *sk;
	unsigned long _skb_refdst;
	char cb[48];
	unsigned int len;
	unsigned int data_len;
	int skb_iif;
	__u8 pkt_type : 3;
	__be16 protocol;
	__u16 transport_header;
	__u16 network_header;
	__u32 tail;
	__u32 end;
	unsigned char *head;
	unsigned char *data;
};

/* Arguments of the tracepoint kfree_skb; `rx_sk` since Linux 6.11. */
struct trace_event_raw_kfree_skb {
	void *rx_sk;
};

struct nf_hook_state {
	u8 pf;
	struct net_device *in;
	struct net_device *out;
	struct sock *sk;
	struct net *net;
};
struct bpf_nf_ctx {
	const struct nf_hook_state *state;
	struct sk_buff *skb;
};

enum iter_type {
	ITER_UBUF = 0,
};
struct iov_iter {
	__u8 iter_type;
	unsigned long iov_offset;
	unsigned long count;
};
struct msghdr {
	struct iov_iter msg_iter;
};

struct inode {
	unsigned short i_mode;
};
struct file {
	void *private_data;
	struct inode *f_inode;
};
struct fdtable {
	unsigned int max_fds;
	struct file **fd;
};
struct files_struct {
	struct fdtable *fdt;
};
struct socket {
	struct sock *sk;
};

struct kernfs_node {
	u64 id;
};
struct cgroup {
	int level;
	struct kernfs_node *kn;
	struct cgroup *ancestors[];
};
struct cgroup___numbers {
	u64 ancestor_ids[1];
};
struct css_set {
	struct cgroup *dfl_cgrp;
};
typedef struct {
	unsigned int val;
} kuid_t;
struct cred {
	kuid_t uid;
};

struct nsproxy {
	struct net *net_ns;
};

struct task_struct {
	struct nsproxy *nsproxy;
	struct files_struct *files;
	const struct cred *cred;
	struct css_set *cgroups;
	int pid;
	int tgid;
	char comm[16];
};

#pragma clang attribute pop

/* Layouts fixed by the wire or by the kernel's user interface, without relocation. */
struct iphdr {
	__u8 ihl : 4, version : 4;
	__u8 tos;
	__be16 tot_len;
	__be16 id;
	__be16 frag_off;
	__u8 ttl;
	__u8 protocol;
	__u16 check;
	__be32 saddr;
	__be32 daddr;
};
struct ipv6hdr {
	__u8 priority : 4, version : 4;
	__u8 flow_lbl[3];
	__be16 payload_len;
	__u8 nexthdr;
	__u8 hop_limit;
	struct in6_addr saddr;
	struct in6_addr daddr;
};
struct tcphdr {
	__be16 source;
	__be16 dest;
	__be32 seq;
	__be32 ack_seq;
	__u8 res1 : 4, doff : 4;
	__u8 flags;
	__be16 window;
	__u16 check;
	__be16 urg_ptr;
};
struct udphdr {
	__be16 source;
	__be16 dest;
	__be16 len;
	__u16 check;
};
struct __sk_buff {
	__u32 len;
};

/* Used only to check whether this kernel's tracepoint has the third argument. */
typedef void (*btf_trace_tcp_retransmit_skb)(void *, const struct sock *, const struct sk_buff *,
					     int);

/* Since Linux 6.10, when tcp_send_reset got its third argument. */
enum sk_rst_reason { SK_RST_REASON_NOT_SPECIFIED };

#endif
