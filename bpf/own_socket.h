/* SPDX-License-Identifier: GPL-2.0-only */
/* The kernel's side of a socket that user space opened for a helper program. */
#ifndef MAGNET_OWN_SOCKET_H
#define MAGNET_OWN_SOCKET_H

#include "control.h"
#include <bpf/bpf_core_read.h>

/* The socket of a descriptor of the current task; NULL if it has none. */
INLINE const struct sock *own_socket(__u64 fd)
{
	const struct task_struct *task = (const void *)bpf_get_current_task();
	struct file **fds = BPF_CORE_READ(task, files, fdt, fd), *opened = NULL;
	bpf_probe_read_kernel(&opened, sizeof(opened), fds + fd);
	const struct socket *socket = BPF_CORE_READ(opened, private_data);
	return BPF_CORE_READ(socket, sk);
}

#endif
