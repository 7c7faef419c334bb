/* SPDX-License-Identifier: GPL-2.0-only */
/* Looks up addresses of kernel symbols. Reading /proc/kallsyms would double the time that a
 * capture takes to start. */
#include "control.h"

/* Stays unchanged if the lookup fails. */
#define FIND(member, symbol)                                                  \
	({                                                                    \
		static const char name[] = symbol;                            \
		__u64 found = 0;                                              \
		if (!bpf_kallsyms_lookup_name(name, sizeof(name), 0, &found)) \
			functions->member = found;                            \
	})

/* The function that epoll puts into a socket's wait queue, and those of a TCP socket that a process
 * uses. */
SEC("syscall")
int find_functions(struct mag_functions *functions)
{
	FIND(epoll_callback, "ep_poll_callback");
	FIND(data_ready, "sock_def_readable");
	FIND(recvmsg, "tcp_recvmsg");
	FIND(sendmsg, "tcp_sendmsg");
	return 0;
}
