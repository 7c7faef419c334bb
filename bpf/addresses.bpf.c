/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Finds addresses of kernel functions by a TCP socket of the caller that an epoll watches: it has
 * the functions that the socket of any process has. The list of symbols has them too. But it shows
 * addresses only to privileged readers, and reading it would double the time that a capture takes
 * to start.
 */
#include "own_socket.h"

/* The argument is the socket's descriptor. */
SEC("raw_tp")
int find_functions(const __u64 *arguments)
{
	const struct sock *sk = own_socket(arguments[0]);
	const struct proto *proto = BPF_CORE_READ(sk, __sk_common.skc_prot);
	const void *waiter = BPF_CORE_READ(sk, sk_wq, wait.head.next);
	if (!proto || !waiter)
		return 0;
	waiter -= bpf_core_field_offset(struct wait_queue_entry, entry);
	control.functions.epoll_callback =
		(__u64)BPF_CORE_READ((const struct wait_queue_entry *)waiter, func);
	control.functions.data_ready = (__u64)BPF_CORE_READ(sk, sk_data_ready);
	control.functions.recvmsg = (__u64)BPF_CORE_READ(proto, recvmsg);
	control.functions.sendmsg = (__u64)BPF_CORE_READ(proto, sendmsg);
	return 0;
}
