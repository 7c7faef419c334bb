//! Which probe serves which hop on this host: a table, and a pure function over it.

use crate::facts::{CAP_BPF, CAP_NET_ADMIN, CAP_PERFMON, CAP_SYS_ADMIN, HostFacts};
use magscope_core::hop::HopSet;
use magscope_core::node::{Backend, Coverage, HopService, Service};
use magscope_core::{Hop, Layer};

/// A program of `bpf/` and how it serves hops.
#[derive(Clone, Copy, Debug)]
pub struct Candidate {
    /// Name of the program in the object.
    pub program: &'static str,
    /// The hop it serves. A program that serves two stands in the table twice.
    pub hop: Hop,
    /// Kind of probe.
    pub backend: Backend,
    /// Tracepoint, netfilter hook or cgroup hook.
    pub point: &'static str,
    /// A limit worth saying.
    pub note: &'static str,
    /// Programs that have to run along, because this one needs what they leave behind.
    pub needs: &'static [&'static str],
}

const fn tracepoint(program: &'static str, hop: Hop, point: &'static str, note: &'static str) -> Candidate {
    Candidate { program, hop, backend: Backend::TpBtf, point, note, needs: needs(hop) }
}

const SYSCALLS: &str =
    "at the call of send, sendto and sendmsg, not write; slows every system call while it is on";

const fn syscall(program: &'static str, point: &'static str, needs: &'static [&'static str]) -> Candidate {
    Candidate { program, hop: Hop::UdpSend, backend: Backend::Tracepoint, point, note: SYSCALLS, needs }
}

const fn netfilter(program: &'static str, hop: Hop, point: &'static str) -> Candidate {
    Candidate { program, hop, backend: Backend::Netfilter, point, note: "", needs: &[] }
}

/// A packet is read before the driver has it; a reader is followed from the moment that its socket has data.
const fn needs(hop: Hop) -> &'static [&'static str] {
    match hop {
        Hop::DevDone => &["dev_xmit"],
        Hop::TaskWake => &["sock_ready"],
        Hop::TaskRun => &["sock_ready", "task_wake"],
        _ => &[],
    }
}

/// Every way there is to serve a hop, the cheapest first. Other backends slot in as further rows.
pub const CANDIDATES: &[Candidate] = &[
    tracepoint(
        "app_send",
        Hop::AppSend,
        "sock_send_length",
        "taken when send returns: names process and bytes, but is no start time",
    ),
    tracepoint("tcp_send", Hop::TcpSend, "tcp_sendmsg_locked", ""),
    syscall("udp_send", "sys_enter_sendto", &["udp_sendmsg"]),
    syscall("udp_sendmsg", "sys_enter_sendmsg", &[]),
    netfilter("ip_out", Hop::IpOut, "LOCAL_OUT"),
    netfilter("ip_post", Hop::IpPost, "POST_ROUTING"),
    tracepoint("dev_queue", Hop::DevQueue, "net_dev_queue", ""),
    tracepoint("dev_xmit", Hop::DevXmit, "net_dev_start_xmit", ""),
    tracepoint("dev_done", Hop::DevDone, "net_dev_xmit", "of devices stacked on others, the innermost"),
    tracepoint("dev_recv", Hop::DevRecv, "netif_receive_skb", "after GRO has merged"),
    netfilter("ip_pre", Hop::IpPre, "PRE_ROUTING"),
    netfilter("ip_in", Hop::IpIn, "LOCAL_IN"),
    tracepoint("tcp_recv", Hop::TcpRecv, "tcp_probe", "established connections"),
    Candidate {
        program: "udp_recv",
        hop: Hop::UdpRecv,
        backend: Backend::CgroupSkb,
        point: "cgroup_skb/ingress",
        note: "sockets below the cgroup v2 root",
        needs: &[],
    },
    tracepoint("sock_ready", Hop::SockReady, "sk_data_ready", ""),
    tracepoint("task_wake", Hop::TaskWake, "sched_waking", "threads that a socket has woken before or now"),
    tracepoint("task_run", Hop::TaskRun, "sched_switch", "the first run after such a wake-up"),
    tracepoint("app_copy", Hop::AppCopy, "skb_copy_datagram_iovec", "UDP only where the payload is not linear"),
    tracepoint("app_recv", Hop::AppRecv, "sock_recv_length", "splice does not come here"),
    tracepoint(
        "tcp_retransmit",
        Hop::TcpRetransmit,
        "tcp_retransmit_skb",
        "fires after the device hops of that packet",
    ),
    tracepoint("tcp_recv", Hop::TcpState, "tcp_probe", "at most one sample in 4 ms a socket"),
    tracepoint("skb_drop", Hop::SkbDrop, "kfree_skb", ""),
    tracepoint("sock_full", Hop::SockFull, "udp_fail_queue_rcv_skb", "UDP"),
    tracepoint("sched_switch", Hop::SchedSwitch, "sched_switch", ""),
    tracepoint("sched_wakeup", Hop::SchedWakeup, "sched_wakeup", ""),
    tracepoint("sched_fork", Hop::SchedFork, "sched_process_fork", ""),
    tracepoint("sched_exit", Hop::SchedExit, "sched_process_exit", ""),
];

/// The fewest hops that place blame by layer: four a packet (two on each side), and those of the socket layer that a
/// call passes once.
pub fn default_hops() -> HopSet {
    [
        Hop::AppSend,
        Hop::TcpSend,
        Hop::IpOut,
        Hop::DevXmit,
        Hop::DevRecv,
        Hop::TcpRecv,
        Hop::UdpRecv,
        Hop::SockReady,
        Hop::TaskWake,
        Hop::TaskRun,
        Hop::AppRecv,
        Hop::TcpRetransmit,
        Hop::TcpState,
        Hop::SkbDrop,
        Hop::SockFull,
    ]
    .into_iter()
    .collect()
}

/// Every hop but the scheduler's unfiltered ones, which tell of all tasks and not of packets, and the one that would slow
/// every system call.
pub fn full_hops() -> HopSet {
    let mut hops = HopSet::all();
    for hop in [Hop::UdpSend, Hop::SchedSwitch, Hop::SchedWakeup, Hop::SchedFork, Hop::SchedExit] {
        hops.remove(hop);
    }
    hops
}

/// What will be attached.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// One row a hop that is served.
    pub probes: Vec<Candidate>,
    /// The table for people and sessions.
    pub coverage: Coverage,
}

impl Plan {
    /// The hops that will be served.
    pub fn served(&self) -> HopSet {
        self.probes.iter().map(|p| p.hop).collect()
    }

    /// The programs to load and attach, each once: those that serve a hop and those that they need.
    pub fn programs(&self) -> Vec<Candidate> {
        let needed = self.probes.iter().flat_map(|probe| probe.needs.iter().filter_map(|name| row_of(name)));
        let mut programs: Vec<Candidate> = self.probes.iter().copied().chain(needed).collect();
        let mut seen = Vec::new();
        programs.retain(|way| {
            let fresh = !seen.contains(&way.program);
            seen.push(way.program);
            fresh
        });
        programs
    }
}

fn row_of(program: &str) -> Option<Candidate> {
    CANDIDATES.iter().find(|way| way.program == program).copied()
}

/// Chooses for every wanted hop the first backend that works here.
pub fn plan(facts: &HostFacts, wanted: HopSet) -> Plan {
    let mut plan = Plan::default();
    for hop in Hop::ALL {
        let mut ways = CANDIDATES.iter().filter(|c| c.hop == *hop).peekable();
        let service = if ways.peek().is_none() {
            Service::Missing { because: no_candidate(facts, *hop) }
        } else {
            let mut because = String::new();
            let working = ways.find(|way| match obstacle(facts, way) {
                None => true,
                Some(reason) => {
                    because = reason;
                    false
                }
            });
            match working {
                None => Service::Missing { because },
                Some(_) if !wanted.contains(*hop) => Service::Off,
                Some(way) => {
                    plan.probes.push(*way);
                    Service::Served {
                        backend: way.backend,
                        point: way.point.to_owned(),
                        note: way.note.to_owned(),
                    }
                }
            }
        };
        plan.coverage.hops.push(HopService { hop: *hop, service });
    }
    plan
}

/// What stands in the way of a candidate here, in words; `None` if nothing does.
fn obstacle(facts: &HostFacts, way: &Candidate) -> Option<String> {
    let own = own_obstacle(facts, way);
    own.or_else(|| {
        way.needs.iter().filter_map(|name| row_of(name)).find_map(|needed| own_obstacle(facts, &needed))
    })
}

fn own_obstacle(facts: &HostFacts, way: &Candidate) -> Option<String> {
    if !facts.btf {
        return Some("the kernel has no BTF".to_owned());
    }
    if !facts.typed_casts {
        return Some(format!("kernel {} has no bpf_rdonly_cast (Linux 6.2)", facts.kernel));
    }
    let root = facts.has(CAP_SYS_ADMIN);
    for (number, name) in [(CAP_BPF, "CAP_BPF"), (CAP_PERFMON, "CAP_PERFMON"), (CAP_NET_ADMIN, "CAP_NET_ADMIN")]
    {
        if !facts.has(number) && (!root || number == CAP_NET_ADMIN) {
            return Some(format!("{name} is missing"));
        }
    }
    if facts.lockdown.as_deref() == Some("confidentiality") {
        return Some("kernel lockdown is `confidentiality`, which forbids reading kernel memory".to_owned());
    }
    match way.backend {
        Backend::TpBtf if !facts.tracepoints.contains(way.point) => {
            Some(format!("kernel {} has no tracepoint {}", facts.kernel, way.point))
        }
        Backend::Netfilter if !facts.netfilter_link => {
            Some(format!("kernel {} cannot attach to netfilter by link (Linux 6.4)", facts.kernel))
        }
        Backend::Tracepoint if !facts.syscall_tracepoints => {
            Some("no tracefs with system call tracepoints can be read (/sys/kernel/tracing)".to_owned())
        }
        Backend::CgroupSkb if facts.cgroup2.is_none() => Some("no cgroup v2 hierarchy is mounted".to_owned()),
        _ => None,
    }
}

fn no_candidate(facts: &HostFacts, hop: Hop) -> String {
    let function = match hop {
        Hop::TcpXmit => "__tcp_transmit_skb",
        _ => "its function",
    };
    let kprobes = if facts.kprobes { "no kprobe backend yet" } else { "this kernel has no kprobes" };
    format!("no tracepoint at {function}; needs kprobe or fentry ({kprobes})")
}

/// What cannot be concluded while a hop is not served.
pub fn consequence(hop: Hop) -> &'static str {
    match hop {
        Hop::AppSend => "which process sent what, and how many bytes its calls took",
        Hop::TcpSend => "how long bytes wait in TCP's send queue",
        Hop::UdpSend => "time inside UDP before the packet is made",
        Hop::TcpXmit => "whether TCP held a segment back or IP did; ip.out stands one call below it",
        Hop::IpOut => "time between TCP or UDP and the device; the start of a UDP journey",
        Hop::IpPost => "time in routing and packet filters on the way out",
        Hop::DevQueue => "time in the queueing discipline",
        Hop::DevXmit => "when a packet left; nothing can be said about the wire",
        Hop::DevDone => "time inside the driver's transmit call",
        Hop::DevRecv => "when a packet arrived; nothing can be said about the wire",
        Hop::IpPre => "time from the driver to IP",
        Hop::IpIn => "time in packet filters and routing on the way in",
        Hop::TcpRecv => "time from IP to TCP, and the ranges as TCP saw them",
        Hop::UdpRecv => "which socket got a datagram; the end of UDP journeys is then matched by order alone",
        Hop::SockReady => "when data was there to be read: stack and reader cannot be told apart",
        Hop::TaskWake | Hop::TaskRun => "whether a late reader waited for a CPU or was busy elsewhere",
        Hop::AppCopy => "time between the copy and the return of recv",
        Hop::AppRecv => "when the application had its bytes: journeys end at the socket",
        Hop::TcpRetransmit => "retransmissions as TCP names them; they still show as repeated ranges",
        Hop::TcpState => "congestion window, round-trip time and queues",
        Hop::SkbDrop => "why packets were dropped; losses show only as ranges that never arrive",
        Hop::SockFull => "whether drops came from a full receive buffer",
        Hop::SchedSwitch | Hop::SchedWakeup | Hop::SchedFork | Hop::SchedExit => {
            "what other tasks did meanwhile"
        }
    }
}

/// Whether a hop is passed once a packet (and not once a call or a wake-up): these are what a stream pays for.
pub fn is_per_packet(hop: Hop) -> bool {
    matches!(hop.layer(), Layer::Ip | Layer::Device) && hop.path_index().is_some()
        || matches!(hop, Hop::TcpXmit | Hop::TcpRecv | Hop::UdpRecv | Hop::SockReady)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::TRACEPOINTS;
    use std::path::PathBuf;

    /// A host like Debian 13 or later, with all rights.
    fn modern() -> HostFacts {
        HostFacts {
            kernel: "6.18.0".to_owned(),
            version: (6, 18),
            btf: true,
            tracepoints: TRACEPOINTS.iter().map(|t| (*t).to_owned()).collect(),
            netfilter_link: true,
            typed_casts: true,
            syscall_tracepoints: true,
            cgroup2: Some(PathBuf::from("/sys/fs/cgroup")),
            capabilities: u64::MAX,
            ..HostFacts::default()
        }
    }

    fn missing(plan: &Plan) -> Vec<(Hop, String)> {
        let rows = plan.coverage.hops.iter();
        rows.filter_map(|row| match &row.service {
            Service::Missing { because } => Some((row.hop, because.clone())),
            _ => None,
        })
        .collect()
    }

    #[test]
    fn a_modern_kernel_without_kprobes_misses_one_hop_and_says_why() {
        let plan = plan(&modern(), HopSet::all());
        let gone = missing(&plan);
        assert_eq!(gone.iter().map(|(hop, _)| *hop).collect::<Vec<_>>(), [Hop::TcpXmit]);
        assert!(gone[0].1.contains("__tcp_transmit_skb"));
        assert_eq!(plan.coverage.hops.len(), Hop::ALL.len());
    }

    #[test]
    fn an_older_kernel_loses_what_it_lacks_and_nothing_else() {
        let mut facts = modern();
        facts.kernel = "6.12.9".to_owned();
        facts.tracepoints.remove("tcp_sendmsg_locked");
        let gone: Vec<_> = missing(&plan(&facts, HopSet::all())).into_iter().map(|(hop, _)| hop).collect();
        assert_eq!(gone, [Hop::TcpSend, Hop::TcpXmit]);
        facts.syscall_tracepoints = false;
        let gone: Vec<_> = missing(&plan(&facts, HopSet::all())).into_iter().map(|(hop, _)| hop).collect();
        assert_eq!(gone, [Hop::TcpSend, Hop::UdpSend, Hop::TcpXmit]);
        facts.netfilter_link = false;
        let gone: Vec<_> = missing(&plan(&facts, HopSet::all())).into_iter().map(|(hop, _)| hop).collect();
        assert!([Hop::IpOut, Hop::IpPost, Hop::IpPre, Hop::IpIn].iter().all(|hop| gone.contains(hop)));
    }

    #[test]
    fn without_btf_or_rights_nothing_is_served_and_each_hop_says_why() {
        let no_btf = plan(&HostFacts { btf: false, ..modern() }, HopSet::all());
        assert!(no_btf.probes.is_empty());
        assert!(missing(&no_btf).iter().any(|(_, because)| because.contains("BTF")));
        let no_rights = plan(&HostFacts { capabilities: 0, ..modern() }, HopSet::all());
        assert!(missing(&no_rights).iter().any(|(_, because)| because.contains("CAP_BPF")));
    }

    #[test]
    fn what_is_not_wanted_is_off_and_not_missing() {
        let plan = plan(&modern(), [Hop::DevXmit].into_iter().collect());
        assert_eq!(plan.programs().iter().map(|p| p.program).collect::<Vec<_>>(), ["dev_xmit"]);
        assert_eq!(plan.coverage.of(Hop::DevRecv), Some(&Service::Off));
    }

    #[test]
    fn a_hop_brings_along_what_it_lives_on() {
        let programs = |hop: Hop| -> Vec<&str> {
            plan(&modern(), [hop].into_iter().collect()).programs().iter().map(|p| p.program).collect()
        };
        assert_eq!(programs(Hop::DevDone), ["dev_done", "dev_xmit"]);
        assert_eq!(programs(Hop::TaskRun), ["task_run", "sock_ready", "task_wake"]);
        let mut facts = modern();
        facts.tracepoints.remove("sk_data_ready");
        let gone: Vec<_> = missing(&plan(&facts, HopSet::all())).into_iter().map(|(hop, _)| hop).collect();
        assert!([Hop::SockReady, Hop::TaskWake, Hop::TaskRun].iter().all(|hop| gone.contains(hop)), "{gone:?}");
        for way in CANDIDATES {
            assert!(way.needs.iter().all(|name| row_of(name).is_some()), "{}", way.program);
        }
    }

    #[test]
    fn the_default_set_is_served_and_passes_four_hops_a_packet_on_each_path() {
        let plan = plan(&modern(), default_hops());
        assert_eq!(plan.served(), default_hops());
        let a_packet = |hop: &Hop| is_per_packet(*hop) && *hop != Hop::UdpRecv && *hop != Hop::SockReady;
        assert_eq!(default_hops().iter().filter(a_packet).count(), 4);
    }
}
