//! The table of candidates: every program that can serve a hop. A plan chooses from this table.

use magscope_core::Hop;
use magscope_core::node::Backend;

/// A program of `bpf/` and the place where it serves a hop.
#[derive(Clone, Copy, Debug)]
pub struct Candidate {
    /// Name of the program in the object.
    pub program: &'static str,
    /// The hop that the program serves. A program that serves two hops has two entries.
    pub hop: Hop,
    /// Kind of probe.
    pub backend: Backend,
    /// Tracepoint, netfilter hook, cgroup hook or function.
    pub point: &'static str,
    /// A limit worth saying.
    pub note: &'static str,
    /// The event is recorded when the function returns.
    pub at_return: bool,
    /// Used only if no other candidate works, regardless of cost.
    pub last_resort: bool,
    /// A kprobe on a compiler-generated clone (`.constprop.0`, `.isra.0`) also works, because the program reads
    /// only leading arguments that every clone keeps.
    pub copies_do: bool,
    /// Programs that serve the hop together with this one, mostly of the same kind. Examples are IPv6 variants
    /// and the entry probe that belongs to a return probe.
    pub twins: &'static [Candidate],
}

impl Candidate {
    /// The candidate and its twins.
    pub fn parts(&self) -> impl Iterator<Item = Candidate> + use<> {
        let twins: &'static [Candidate] = self.twins;
        std::iter::once(*self).chain(twins.iter().copied())
    }

    /// Rank by cost of a hit, measured by attaching and detaching (docs/performance.md). Lower is cheaper.
    pub fn cost_rank(&self) -> u8 {
        if self.last_resort {
            return u8::MAX;
        }
        let breakpoints = 1 + u8::from(self.at_return);
        match self.backend {
            Backend::TpBtf | Backend::Fentry | Backend::Fexit => 0,
            Backend::Netfilter | Backend::CgroupSkb => 1,
            Backend::Tracepoint => 2,
            Backend::KprobeMulti => 3 * breakpoints,
            Backend::Kprobe | Backend::Generator => 3 * breakpoints + 1,
        }
    }
}

const fn candidate(program: &'static str, hop: Hop, backend: Backend, point: &'static str) -> Candidate {
    Candidate {
        program,
        hop,
        backend,
        point,
        note: "",
        at_return: false,
        last_resort: false,
        copies_do: false,
        twins: &[],
    }
}

const fn tracepoint(program: &'static str, hop: Hop, point: &'static str, note: &'static str) -> Candidate {
    Candidate { note, ..candidate(program, hop, Backend::TpBtf, point) }
}

const fn netfilter(program: &'static str, hop: Hop, point: &'static str) -> Candidate {
    candidate(program, hop, Backend::Netfilter, point)
}

const SYSCALLS: &str =
    "at the call of send, sendto and sendmsg, not write; slows every system call while it is on";

const fn syscall(
    program: &'static str,
    point: &'static str,
    twins: &'static [Candidate],
    note: &'static str,
) -> Candidate {
    Candidate { note, twins, last_resort: true, ..candidate(program, Hop::UdpSend, Backend::Tracepoint, point) }
}

/// Function entry by fentry, kprobe.multi and kprobe; `and` names further functions of the hop, as that of IPv6.
macro_rules! entry {
    ($hop:ident $name:literal at $function:literal $(and $twin:literal at $second:literal)* $(, $note:literal)? $(; copies $copies:literal)?) => {{
        const FENTRY: Candidate = Candidate {
            $(note: $note,)?
            twins: &[$(candidate(concat!("fentry_", $twin), Hop::$hop, Backend::Fentry, $second)),*],
            ..candidate(concat!("fentry_", $name), Hop::$hop, Backend::Fentry, $function)
        };
        const MULTI: Candidate = Candidate {
            $(note: $note,)?
            twins: &[$(candidate(concat!("kprobe_", $twin), Hop::$hop, Backend::KprobeMulti, $second)),*],
            $(copies_do: $copies,)?
            ..candidate(concat!("kprobe_", $name), Hop::$hop, Backend::KprobeMulti, $function)
        };
        const KPROBE: Candidate = Candidate {
            $(note: $note,)?
            twins: &[$(candidate(concat!("kprobe_", $twin), Hop::$hop, Backend::Kprobe, $second)),*],
            $(copies_do: $copies,)?
            ..candidate(concat!("kprobe_", $name), Hop::$hop, Backend::Kprobe, $function)
        };
        &[FENTRY, MULTI, KPROBE]
    }};
}

const SPLICE: &str = "splice does not come here";

const fn recv_by_breakpoint(backend: Backend, twins: &'static [Candidate]) -> Candidate {
    Candidate {
        at_return: true,
        note: SPLICE,
        twins,
        ..candidate("kprobe_app_recv", Hop::AppRecv, backend, "inet_recvmsg")
    }
}

const fn recv6_return(backend: Backend) -> Candidate {
    Candidate { at_return: true, ..candidate("kprobe_app_recv6", Hop::AppRecv, backend, "inet6_recvmsg") }
}

const fn recv_call(backend: Backend) -> Candidate {
    candidate("kprobe_app_recv_call", Hop::AppRecv, backend, "inet_recvmsg")
}

const fn recv6_call(backend: Backend) -> Candidate {
    candidate("kprobe_app_recv_call6", Hop::AppRecv, backend, "inet6_recvmsg")
}

const SWITCH_CHOSEN: Candidate = tracepoint("sched_chosen", Hop::SchedSwitched, "sched_switch", "");
const SWITCH_BEGINS: &[Candidate] =
    &[tracepoint("sched_begins_rcu", Hop::SchedSwitched, "rcu_utilization", ""), SWITCH_CHOSEN];

const fn switched_by_breakpoint(backend: Backend) -> Candidate {
    Candidate {
        copies_do: true, // the program reads only the current task
        twins: SWITCH_BEGINS,
        note: "the time is from where the scheduler tells RCU that it was entered",
        ..candidate("kprobe_sched_switched", Hop::SchedSwitched, backend, "finish_task_switch")
    }
}

/// Candidates grouped by hop. The plan prefers the cheapest; among equals, the first.
pub const CANDIDATES: &[&[Candidate]] = &[
    // Before Linux 6.5, `sendfile` and `splice` have functions of their own; a kernel without them has no such candidate.
    entry!(AppSend "app_send" at "inet_sendmsg" and "app_send6" at "inet6_sendmsg" and "app_open" at "tcp_connect"
        and "app_sendpage" at "inet_sendpage",
        "bytes offered; the range is right while one thread at a time sends on a socket"),
    entry!(AppSend "app_send" at "inet_sendmsg" and "app_send6" at "inet6_sendmsg" and "app_open" at "tcp_connect",
        "bytes offered; the range is right while one thread at a time sends on a socket"),
    &[Candidate {
        last_resort: true,
        ..tracepoint(
            "app_send",
            Hop::AppSend,
            "sock_send_length",
            "taken when send returns: names process and bytes, but is no start time",
        )
    }],
    entry!(TcpSend "tcp_send" at "tcp_sendmsg_locked" and "tcp_sendpage" at "do_tcp_sendpages"),
    entry!(TcpSend "tcp_send" at "tcp_sendmsg_locked"),
    &[tracepoint("tcp_send", Hop::TcpSend, "tcp_sendmsg_locked", "")],
    entry!(UdpSend "udp_send" at "udp_sendmsg" and "udp_send6" at "udpv6_sendmsg"),
    &[
        syscall(
            "udp_send",
            "sys_enter_sendto",
            &[syscall("udp_sendmsg", "sys_enter_sendmsg", &[], "")],
            SYSCALLS,
        ),
        syscall("udp_sendmsg", "sys_enter_sendmsg", &[], SYSCALLS),
    ],
    entry!(TcpXmit "tcp_xmit" at "__tcp_transmit_skb"; copies true),
    entry!(IpOut "ip_out" at "__ip_local_out" and "ip_out6" at "ip6_output", "IPv6 after the rules of LOCAL_OUT"),
    &[netfilter("ip_out", Hop::IpOut, "LOCAL_OUT")],
    entry!(IpPost "ip_post" at "ip_finish_output" and "ip_post6" at "ip6_finish_output"),
    &[netfilter("ip_post", Hop::IpPost, "POST_ROUTING")],
    &[tracepoint("dev_queue", Hop::DevQueue, "net_dev_queue", "")],
    entry!(DevQueue "dev_queue" at "__dev_queue_xmit"),
    &[
        tracepoint("dev_xmit", Hop::DevXmit, "net_dev_start_xmit", ""),
        tracepoint("dev_done", Hop::DevDone, "net_dev_xmit", "of devices stacked on others, the innermost"),
        tracepoint(
            "napi_poll",
            Hop::NapiPoll,
            "napi_gro_receive_entry",
            "drivers that pass packets in page fragments (napi_gro_frags) do not come here, nor do devices without GRO",
        ),
    ],
    &[
        tracepoint("dev_recv", Hop::DevRecv, "netif_receive_skb", "after GRO has merged"),
        Candidate {
            copies_do: true,
            note: "after GRO has merged",
            ..candidate("kprobe_dev_recv", Hop::DevRecv, Backend::KprobeMulti, "__netif_receive_skb_core")
        },
        Candidate {
            copies_do: true,
            note: "after GRO has merged",
            ..candidate("kprobe_dev_recv", Hop::DevRecv, Backend::Kprobe, "__netif_receive_skb_core")
        },
    ],
    entry!(IpPre "ip_pre" at "ip_rcv_core" and "ip_pre6" at "ip6_rcv_core", "before IP has checked the packet"),
    &[netfilter("ip_pre", Hop::IpPre, "PRE_ROUTING")],
    entry!(IpIn "ip_in" at "ip_local_deliver_finish" and "ip_in6" at "ip6_protocol_deliver_rcu"),
    &[
        netfilter("ip_in", Hop::IpIn, "LOCAL_IN"),
        tracepoint("tcp_recv", Hop::TcpRecv, "tcp_probe", "established connections"),
    ],
    entry!(TcpRecv "tcp_recv" at "tcp_rcv_established", "established connections"),
    entry!(UdpRecv "udp_recv" at "__udp_enqueue_schedule_skb"),
    entry!(UdpRecv "udp_recv" at "udp_queue_rcv_one_skb" and "udp_recv6" at "udpv6_queue_rcv_one_skb"; copies true),
    &[
        Candidate {
            note: "sockets below the cgroup v2 root",
            ..candidate("udp_recv", Hop::UdpRecv, Backend::CgroupSkb, "cgroup_skb/ingress")
        },
        tracepoint("sock_ready", Hop::SockReady, "sk_data_ready", ""),
    ],
    entry!(SockReady "sock_ready" at "sock_def_readable"),
    &[
        tracepoint("task_wake", Hop::TaskWake, "sched_waking", "threads that a socket has woken before or now"),
        tracepoint("task_run", Hop::TaskRun, "sched_switch", "the first run after such a wake-up"),
        tracepoint(
            "app_copy",
            Hop::AppCopy,
            "skb_copy_datagram_iovec",
            "UDP only where the payload is not linear",
        ),
    ],
    entry!(AppCopy "app_copy" at "skb_copy_datagram_iter", "UDP only where the payload is not linear"),
    &[
        tracepoint("app_recv", Hop::AppRecv, "sock_recv_length", SPLICE),
        Candidate {
            at_return: true,
            note: SPLICE,
            twins: &[Candidate {
                at_return: true,
                ..candidate("fexit_app_recv6", Hop::AppRecv, Backend::Fexit, "inet6_recvmsg")
            }],
            ..candidate("fexit_app_recv", Hop::AppRecv, Backend::Fexit, "inet_recvmsg")
        },
        recv_by_breakpoint(
            Backend::KprobeMulti,
            &[
                recv_call(Backend::KprobeMulti),
                recv6_call(Backend::KprobeMulti),
                recv6_return(Backend::KprobeMulti),
            ],
        ),
        recv_by_breakpoint(
            Backend::Kprobe,
            &[recv_call(Backend::Kprobe), recv6_call(Backend::Kprobe), recv6_return(Backend::Kprobe)],
        ),
        tracepoint(
            "tcp_retransmit",
            Hop::TcpRetransmit,
            "tcp_retransmit_skb",
            "fires after the device hops of that packet",
        ),
        tracepoint("tcp_recv", Hop::TcpState, "tcp_probe", "at most one sample in 4 ms a socket"),
    ],
    entry!(TcpState "tcp_recv" at "tcp_rcv_established", "at most one sample in 4 ms a socket"),
    entry!(TcpChallengeAck "tcp_challenge_ack" at "tcp_send_challenge_ack", "the kernel's limit may suppress the answer"; copies true),
    &[
        tracepoint("skb_drop", Hop::SkbDrop, "kfree_skb", ""),
        tracepoint("sock_destroy", Hop::SockDestroy, "tcp_destroy_sock", "TCP"),
        tracepoint("sock_full", Hop::SockFull, "udp_fail_queue_rcv_skb", "UDP"),
        tracepoint("tcp_send_reset", Hop::TcpSendReset, "tcp_send_reset", ""),
        tracepoint("tcp_recv_reset", Hop::TcpRecvReset, "tcp_receive_reset", ""),
        tracepoint("tcp_open", Hop::TcpOpen, "inet_sock_set_state", ""),
        tracepoint("tcp_synack", Hop::TcpSynack, "tcp_retransmit_synack", ""),
        tracepoint("sched_switch", Hop::SchedSwitch, "sched_switch", ""),
        tracepoint("sched_wakeup", Hop::SchedWakeup, "sched_wakeup", ""),
        tracepoint("sched_fork", Hop::SchedFork, "sched_process_fork", ""),
        tracepoint("sched_exit", Hop::SchedExit, "sched_process_exit", ""),
        Candidate {
            twins: &[tracepoint("sched_begins", Hop::SchedSwitched, "sched_entry_tp", ""), SWITCH_CHOSEN],
            ..tracepoint(
                "sched_switched",
                Hop::SchedSwitched,
                "sched_exit_tp",
                "not the first run of a new task; the time is from where the scheduler is entered",
            )
        },
        switched_by_breakpoint(Backend::KprobeMulti),
        switched_by_breakpoint(Backend::Kprobe),
    ],
];

/// The candidates of a hop, cheapest first.
pub fn candidates_of(hop: Hop) -> Vec<Candidate> {
    let mut candidates: Vec<Candidate> =
        CANDIDATES.iter().copied().flatten().filter(|candidate| candidate.hop == hop).copied().collect();
    candidates.sort_by_key(Candidate::cost_rank);
    candidates
}

/// Attach points: raw tracepoints if `wanted` accepts [`Backend::TpBtf`], otherwise functions.
fn points(wanted: impl Fn(Backend) -> bool) -> impl Iterator<Item = &'static str> {
    let parts = CANDIDATES.iter().copied().flatten().flat_map(Candidate::parts);
    parts.filter(move |candidate| wanted(candidate.backend)).map(|candidate| candidate.point)
}

/// Raw tracepoints that a plan could use.
pub fn tracepoints() -> impl Iterator<Item = &'static str> {
    points(|backend| backend == Backend::TpBtf)
}

/// Functions that a plan could use.
pub fn functions() -> impl Iterator<Item = &'static str> {
    points(is_at_function)
}

/// True if this kind of probe attaches to a function.
pub fn is_at_function(backend: Backend) -> bool {
    matches!(backend, Backend::Fentry | Backend::Fexit | Backend::KprobeMulti | Backend::Kprobe)
}
