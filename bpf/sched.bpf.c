/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Scheduler layer: the time from data in the socket to a running reader.
 *
 * Following every task would cost more than the network does. So a thread is followed from the
 * first time that a socket's data_ready wakes it. Of its switches, only the first after each
 * wake-up is reported.
 */
#include "log.h"

struct reader {
	__u64 cookie; /* the socket that woke it; 0 if something else did */
	__u32 woken;
	__u32 pad;
};
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 16384);
	__type(key, __u32);
	__type(value, struct reader);
} readers SEC(".maps");

/* The longest time from data_ready to a wake-up that it causes. Both are in one chain of calls on
 * one CPU. */
#define READY_SPAN_NS 50000

/* The filter for events of a task. The task is the process; the socket that woke it, if any, gives
 * the rest. */
static __noinline int admit_task(struct mag_cpu *state, const struct task_struct *task,
				 __u64 cookie, __u32 hop, __u64 now)
{
	struct subject s = { .cookie = cookie, .hop = hop, .direction = direction_of(hop) };
	struct mag_who who;
	if (!can(MAG_CAN_FILTER))
		return admit(state, &s, NULL, now);
	who_is(&who, task);
	return admit(state, &s, &who, now);
}

/* The same for a switch, which is an event of both tasks: without those from a process, its time
 * on a CPU would have no end. */
static __noinline int admit_switch(struct mag_cpu *state, const struct task_struct *prev,
				   const struct task_struct *next, __u64 now)
{
	struct subject s = { .hop = MAG_SCHED_SWITCH, .direction = direction_of(MAG_SCHED_SWITCH) };
	struct mag_who who;
	if (!can(MAG_CAN_FILTER))
		return admit(state, &s, NULL, now);
	struct mag_filter *filter = filter_now();
	bool leaves = false;
	/* The idle task is of no process. */
	if (filter && READ(prev, pid)) {
		who_is(&who, prev);
		leaves = decide(filter, &s, &who) == YES;
	}
	if (!leaves)
		who_is(&who, next);
	return admit(state, &s, &who, now);
}

INLINE void log_task(__u8 hop, __u64 cookie, const struct task_struct *task,
		     const struct task_struct *prev, __u32 other, __u32 took_ns, __u64 now)
{
	struct mag_cpu *state = this_cpu();
	if (!state || !wanted(hop))
		return;
	__u32 gates = control.gate;
	int admitted = ACCEPTED;
	if (gates & MAG_GATE_CHOOSE)
		admitted = hop == MAG_SCHED_SWITCH ? admit_switch(state, prev, task, now)
						   : admit_task(state, task, cookie, hop, now);
	if (!admitted)
		return;
	if (gates & MAG_GATE_DETAIL) {
		if (adds_up())
			pass_socket(cookie, hop, 0, now);
		if (only_adds_up()) {
			__sync_fetch_and_add(&state->synthesised[hop & (MAG_HOPS - 1)], 1);
			return;
		}
	}
	struct slot slot;
	struct mag_event *e = reserve(state, &slot, hop, hop, sizeof(*e), now);
	if (!e)
		return;
	__builtin_memset((void *)e + sizeof(e->h), 0, sizeof(*e) - sizeof(e->h));
	e->cookie = cookie;
	e->extent.switch_ns = took_ns;
	e->payload.task.tgid = READ(task, tgid);
	e->payload.task.tid = READ(task, pid);
	e->payload.task.other_tid = other;
	submit(state, &slot, e, sizeof(*e));
}

/* sched_waking runs on the waker's CPU, right below data_ready. sched_wakeup may run on the
 * reader's CPU. */
SEC("tp_btf/sched_waking")
int BPF_PROG(task_wake, struct task_struct *task)
{
	struct mag_cpu *state = this_cpu();
	if (!state)
		return 0;
	__u64 now = clock_now(), cookie = 0;
	__u32 tid = task->pid;
	if (state->ready_cookie) {
		if (now - state->ready_ns < READY_SPAN_NS)
			cookie = state->ready_cookie;
		if (!cookie || state->ready_wakes <= 1)
			state->ready_cookie = 0;
		else
			state->ready_wakes--;
	}
	struct reader *reader = bpf_map_lookup_elem(&readers, &tid);
	if (reader) {
		reader->cookie = cookie;
		reader->woken = 1;
	} else if (cookie) {
		struct reader fresh = { .cookie = cookie, .woken = 1 };
		bpf_map_update_elem(&readers, &tid, &fresh, BPF_ANY);
	} else {
		return 0;
	}
	log_task(MAG_TASK_WAKE, cookie, task, NULL, bpf_get_current_pid_tgid(), 0, now);
	return 0;
}

SEC("tp_btf/sched_switch")
int BPF_PROG(task_run, bool preempt, struct task_struct *prev, struct task_struct *next)
{
	/* data_ready and its wake-ups are one chain of calls, in which no task switch occurs. */
	struct mag_cpu *state = this_cpu();
	if (state)
		state->ready_cookie = 0;
	__u32 tid = next->pid;
	if (!tid)
		return 0;
	struct reader *reader = bpf_map_lookup_elem(&readers, &tid);
	if (!reader || !reader->woken)
		return 0;
	reader->woken = 0;
	log_task(MAG_TASK_RUN, reader->cookie, next, NULL, prev->pid, 0, clock_now());
	return 0;
}

/* Scheduler events of every task. They show which other tasks ran; latencies do not use them. */
SEC("tp_btf/sched_switch")
int BPF_PROG(sched_switch, bool preempt, struct task_struct *prev, struct task_struct *next)
{
	log_task(MAG_SCHED_SWITCH, 0, next, prev, prev->pid, 0, clock_now());
	return 0;
}

SEC("tp_btf/sched_wakeup")
int BPF_PROG(sched_wakeup, struct task_struct *task)
{
	log_task(MAG_SCHED_WAKEUP, 0, task, NULL, bpf_get_current_pid_tgid(), 0, clock_now());
	return 0;
}

SEC("tp_btf/sched_process_fork")
int BPF_PROG(sched_fork, struct task_struct *parent, struct task_struct *child)
{
	log_task(MAG_SCHED_FORK, 0, parent, NULL, child->pid, 0, clock_now());
	return 0;
}

SEC("tp_btf/sched_process_exit")
int BPF_PROG(sched_exit, struct task_struct *task)
{
	__u32 tid = task->pid;
	bpf_map_delete_elem(&readers, &tid);
	log_task(MAG_SCHED_EXIT, 0, task, NULL, 0, 0, clock_now());
	return 0;
}

/* Duration of a task switch: from the scheduler's search for the next task to the start of that
 * task. Another switch of the same CPU cannot occur in between, so one mark per CPU is enough. If
 * the search finds the same task again, there is no end, and the next start overwrites the mark.
 * Some kernels do not trace certain tasks, such as those of a sandbox; after such a task the mark
 * belongs to an older switch. So the mark also holds the chosen task. An end that does not match it
 * is counted, but not measured. */
INLINE int switch_begins(void)
{
	struct mag_cpu *state = this_cpu();
	if (!state || !wanted(MAG_SCHED_SWITCHED))
		return 0;
	state->switch_from = bpf_get_current_pid_tgid();
	state->switch_to = 0;
	state->switch_ns = clock_now();
	return 0;
}

SEC("tp_btf/sched_switch")
int BPF_PROG(sched_chosen, bool preempt, struct task_struct *prev, struct task_struct *next)
{
	struct mag_cpu *state = this_cpu();
	/* The idle task of every CPU has number 0. */
	if (state)
		state->switch_to = next->pid + 1;
	return 0;
}

INLINE int switch_ends(void)
{
	struct mag_cpu *state = this_cpu();
	if (!state || !wanted(MAG_SCHED_SWITCHED))
		return 0;
	__u64 now = clock_now(), took_ns = now - state->switch_ns;
	__u32 runs = bpf_get_current_pid_tgid();
	bool has_start = state->switch_ns && state->switch_to == runs + 1;
	state->switch_ns = 0;
	if (!has_start) {
		__sync_fetch_and_add(&state->undecided[MAG_SCHED_SWITCHED], 1);
		return 0;
	}
	announce_task(state, bpf_get_current_pid_tgid(), now);
	log_task(MAG_SCHED_SWITCHED, 0, CURRENT_TASK, NULL, state->switch_from,
		 took_ns < 0xffffffff ? took_ns : 0xffffffff, now);
	return 0;
}

/* Linux 6.16 has tracepoints at both ends. A task that runs for the first time does not pass the
 * second one. */
SEC("tp_btf/sched_entry_tp")
int BPF_PROG(sched_begins, bool preempt)
{
	return switch_begins();
}

SEC("tp_btf/sched_exit_tp")
int BPF_PROG(sched_switched, bool switched)
{
	return switched ? switch_ends() : 0;
}

/* Older kernels: the scheduler first calls RCU, whose tracepoint has several meanings. Its text
 * distinguishes them. */
SEC("tp_btf/rcu_utilization")
int BPF_PROG(sched_begins_rcu, const char *what)
{
	static const char begin[] = "Start context";
	char text[sizeof(begin)] = {};
	bpf_probe_read_kernel(text, sizeof(text) - 1, what);
	return bpf_strncmp(text, sizeof(text), begin) ? 0 : switch_begins();
}

/* The first function that runs on behalf of the next task, even of a new one. */
SEC("kprobe")
int kprobe_sched_switched(struct pt_regs *ctx)
{
	return switch_ends();
}
