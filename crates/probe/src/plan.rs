//! Chooses the probe of each hop on this host: a pure function over the table of candidates.

use crate::candidates::{Candidate, candidates_of, is_at_function};
use crate::facts::{
    CAP_BPF, CAP_NET_ADMIN, CAP_PERFMON, CAP_SYS_ADMIN, FORBIDDING_LOCKDOWN, HostFacts, Mechanism,
};
use magscope_core::Hop;
use magscope_core::hop::{Frequency, HopSet};
use magscope_core::node::{Backend, Coverage, HopService, LeftOut, Service};

/// The fewest hops that allow blame by layer: four per packet (two on each side), and the socket-layer hops
/// that a call hits once.
pub fn default_hops() -> HopSet {
    HopSet::with(|hop| hop.default)
}

/// All hops, except the scheduler's unfiltered ones, which cover all tasks, and one that would slow every
/// system call.
pub fn full_hops() -> HopSet {
    HopSet::with(|hop| hop.full)
}

/// The probes to attach.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// One row per served hop.
    pub probes: Vec<Candidate>,
    /// Programs without events of their own that store state for other programs.
    pub along: Vec<Candidate>,
    /// The coverage for users and sessions.
    pub coverage: Coverage,
}

impl Plan {
    /// Hops that have a probe.
    pub fn served(&self) -> HopSet {
        self.probes.iter().map(|p| p.hop).collect()
    }

    /// The programs to load and attach, each once.
    pub fn programs(&self) -> Vec<Candidate> {
        let mut programs: Vec<Candidate> =
            self.probes.iter().chain(&self.along).flat_map(Candidate::parts).collect();
        let mut seen = Vec::new();
        programs.retain(|candidate| {
            let fresh = !seen.contains(&candidate.program);
            seen.push(candidate.program);
            fresh
        });
        programs
    }
}

/// Chooses the cheapest working backend for every wanted hop.
pub fn plan(facts: &HostFacts, wanted: HopSet) -> Plan {
    plan_by(facts, wanted, None)
}

/// As [`plan`], with one backend only; the coverage lists hops that it cannot serve as missing.
pub fn plan_by(facts: &HostFacts, wanted: HopSet, only: Option<Backend>) -> Plan {
    let mut plan = Plan::default();
    for hop in Hop::ALL {
        let chosen = choose(facts, *hop, only).and_then(|candidate| {
            let along: Result<Vec<_>, _> =
                hop.spec().needs.iter().map(|hop| choose(facts, *hop, only)).collect();
            along.map(|along| (candidate, along))
        });
        let service = match chosen {
            Err(unserved) => Service::Missing { because: unserved.because },
            Ok(_) if !wanted.contains(*hop) => Service::Off,
            Ok((candidate, along)) => {
                plan.probes.push(candidate);
                plan.along.extend(along);
                served(facts, &candidate)
            }
        };
        plan.coverage.hops.push(HopService { hop: *hop, service });
    }
    let left_out = facts.left_out.iter();
    plan.coverage.left_out =
        left_out.map(|(ability, because)| LeftOut { ability: *ability, because: because.clone() }).collect();
    plan
}

/// The cause that the user can remove, as by a mount, if a hop lacks nothing else; `None` if there is no such
/// cause. `only` as in [`plan_by`].
pub fn mendable(facts: &HostFacts, hop: Hop, only: Option<Backend>) -> Option<String> {
    choose(facts, hop, only).err().filter(|unserved| unserved.is_mendable).map(|unserved| unserved.because)
}

fn served(facts: &HostFacts, candidate: &Candidate) -> Service {
    let mut points: Vec<&str> = Vec::new();
    for part in candidate.parts() {
        let point = if is_at_function(candidate.backend) { facts.symbol(&part) } else { part.point };
        if !points.contains(&point) {
            points.push(point);
        }
    }
    Service::Served { backend: candidate.backend, point: points.join(", "), note: candidate.note.to_owned() }
}

/// Why nothing serves a hop.
struct Unserved {
    because: String,
    /// The user can remove the cause on this kernel.
    is_mendable: bool,
}

/// The cheapest candidate without an obstacle. Otherwise the reason: the mount that is all that a candidate lacks,
/// because the user can make it, or else the obstacle of the best candidate. Where the mount may not suffice, both.
fn choose(facts: &HostFacts, hop: Hop, only: Option<Backend>) -> Result<Candidate, Unserved> {
    let (mut mount, mut because) = (None, None);
    for candidate in candidates_of(hop) {
        if only.is_some_and(|only| !is_kind(candidate.backend, only)) {
            continue;
        }
        if let Some(reason) = candidate.parts().find_map(|part| obstacle(facts, &part)) {
            because = because.or(Some(reason));
        } else if let Some(reason) = candidate.parts().find_map(|part| unmounted(facts, &part)) {
            mount = mount.or(Some((reason, candidate.backend)));
        } else {
            return Ok(candidate);
        }
    }
    let is_mendable = mount.is_some();
    let mount = mount.map(|(mount, backend)| match &because {
        // Without a mount nobody sees whether the kernel has these tracepoints.
        Some(other) if backend == Backend::Tracepoint => {
            format!("{mount}; that does not help a kernel without CONFIG_FTRACE_SYSCALLS, where {other}")
        }
        _ => mount,
    });
    let because = mount.or(because).unwrap_or_else(|| match only {
        Some(only) => format!("{only} does not serve it: there is no such place where it can be read whole"),
        None => "nothing serves it".to_owned(),
    });
    Err(Unserved { because, is_mendable })
}

/// True if a probe is of the requested kind; fexit counts as fentry.
fn is_kind(backend: Backend, asked: Backend) -> bool {
    backend == asked || asked == Backend::Fentry && backend == Backend::Fexit
}

/// The mount that a candidate lacks; `None` if it lacks none.
fn unmounted(facts: &HostFacts, candidate: &Candidate) -> Option<String> {
    let (what, mount) = match candidate.backend {
        Backend::CgroupSkb if facts.cgroup2.is_none() => {
            ("cgroup v2 hierarchy", "mount -t cgroup2 none /sys/fs/cgroup")
        }
        Backend::Tracepoint if !facts.syscall_tracepoints => {
            ("tracefs", "mount -t tracefs none /sys/kernel/tracing")
        }
        _ => return None,
    };
    Some(format!(
        "no {what} is mounted here (`ip netns exec` mounts a /sys without it): use `nsenter --net=/run/netns/NAME` \
         instead, or `{mount}`"
    ))
}

/// The obstacle to a candidate on this host, other than a mount that the user can make; `None` if there is none.
fn obstacle(facts: &HostFacts, candidate: &Candidate) -> Option<String> {
    if !facts.btf {
        return Some("the kernel has no BTF".to_owned());
    }
    if let Some(because) = &facts.btf_damage {
        return Some(format!("the kernel's BTF cannot be read: {because}"));
    }
    let root = facts.has(CAP_SYS_ADMIN);
    for (number, name) in [(CAP_BPF, "CAP_BPF"), (CAP_PERFMON, "CAP_PERFMON"), (CAP_NET_ADMIN, "CAP_NET_ADMIN")]
    {
        if !facts.has(number) && (!root || number == CAP_NET_ADMIN) {
            return Some(format!("{name} is missing"));
        }
    }
    if facts.lockdown.as_deref() == Some(FORBIDDING_LOCKDOWN) {
        return Some("kernel lockdown is `confidentiality`, which forbids reading kernel memory".to_owned());
    }
    if let Some(cause) = facts.refused.get(&(candidate.backend, candidate.point.to_owned())) {
        return Some(format!("{} at {} was refused: {cause}", candidate.backend, candidate.point));
    }
    if let Some(cause) = facts.unloadable.get(candidate.program) {
        return Some(format!("{} at {} does not load: {cause}", candidate.backend, candidate.point));
    }
    if !facts.ring_buffers {
        return Some(format!("kernel {} has no ring buffers for programs (Linux 5.8)", facts.kernel));
    }
    match candidate.backend {
        Backend::TpBtf if !facts.tracepoints.contains(candidate.point) => {
            Some(format!("kernel {} has no tracepoint {}", facts.kernel, candidate.point))
        }
        Backend::Netfilter if !facts.netfilter_link => Some(format!(
            "kernel {} cannot attach to netfilter by link (Linux 6.4 with CONFIG_NETFILTER_BPF_LINK)",
            facts.kernel
        )),
        Backend::Tracepoint if !facts.syscall_tracepoints && !facts.tracefs_mountable => {
            Some("no tracefs with system call tracepoints can be read (/sys/kernel/tracing)".to_owned())
        }
        Backend::CgroupSkb if facts.cgroup2.is_none() && !facts.cgroups => {
            Some(format!("kernel {} was built without cgroup v2 (CONFIG_CGROUPS)", facts.kernel))
        }
        Backend::CgroupSkb if !facts.typed_casts => {
            Some(format!("kernel {} has no bpf_cast_to_kern_ctx (Linux 6.2)", facts.kernel))
        }
        Backend::Fentry | Backend::Fexit => {
            no_mechanism(facts, "fentry", &facts.fentry, candidate).or_else(|| {
                (!facts.functions.contains(candidate.point))
                    .then(|| format!("the kernel's BTF has no function {}", candidate.point))
            })
        }
        Backend::KprobeMulti => no_mechanism(facts, "kprobe.multi", &facts.kprobe_multi, candidate)
            .or_else(|| no_symbol(facts, candidate)),
        Backend::Kprobe => {
            no_mechanism(facts, "kprobes", &facts.kprobe, candidate).or_else(|| no_symbol(facts, candidate))
        }
        _ => None,
    }
}

fn no_mechanism(facts: &HostFacts, name: &str, mechanism: &Mechanism, candidate: &Candidate) -> Option<String> {
    match mechanism {
        Mechanism::Works => None,
        Mechanism::Absent => {
            Some(format!("kernel {} has no {name}, which a probe at {} needs", facts.kernel, candidate.point))
        }
        Mechanism::Refused(cause) => {
            Some(format!("this kernel refuses {name}, which a probe at {} needs: {cause}", candidate.point))
        }
    }
}

fn no_symbol(facts: &HostFacts, candidate: &Candidate) -> Option<String> {
    match facts.symbols.get(candidate.point) {
        None => Some(format!("the kernel has no function {} (/proc/kallsyms)", candidate.point)),
        Some(symbol) if symbol != candidate.point && !candidate.copies_do => Some(format!(
            "of the function {} the kernel has only {symbol}, whose arguments may differ",
            candidate.point
        )),
        Some(_) => None,
    }
}

/// True if a hop is hit once per packet, not per call or wake-up: these hops slow a stream.
pub fn is_per_packet(hop: Hop) -> bool {
    hop.spec().frequency == Frequency::PerPacket
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::candidates::{functions, tracepoints};
    use std::path::PathBuf;

    /// A host like Debian 13 or later, with all rights.
    fn modern() -> HostFacts {
        HostFacts {
            kernel: "6.18.0".to_owned(),
            version: (6, 18),
            btf: true,
            tracepoints: tracepoints().map(str::to_owned).collect(),
            netfilter_link: true,
            typed_casts: true,
            loops: true,
            ring_buffers: true,
            syscall_tracepoints: true,
            cgroup2: Some(PathBuf::from("/sys/fs/cgroup")),
            capabilities: u64::MAX,
            ..HostFacts::default()
        }
    }

    /// A distribution's kernel, as Debian's 6.12: probes at functions, but no tracepoint of later kernels.
    fn stock() -> HostFacts {
        let mut facts = HostFacts {
            kernel: "6.12.1".to_owned(),
            functions: functions()
                .filter(|f| *f != "__netif_receive_skb_core" && !is_old(f))
                .map(str::to_owned)
                .collect(),
            symbols: functions().filter(|f| !is_old(f)).map(|f| (f.to_owned(), f.to_owned())).collect(),
            fentry: Mechanism::Works,
            kprobe: Mechanism::Works,
            kprobe_multi: Mechanism::Works,
            ..modern()
        };
        facts.tracepoints.remove("tcp_sendmsg_locked");
        let copy = "__netif_receive_skb_core.constprop.0".to_owned();
        facts.symbols.insert("__netif_receive_skb_core".to_owned(), copy);
        facts
    }

    /// True for a function that Linux 6.5 has removed.
    fn is_old(function: &str) -> bool {
        function.contains("sendpage")
    }

    fn backend_of(plan: &Plan, hop: Hop) -> Option<Backend> {
        plan.probes.iter().find(|candidate| candidate.hop == hop).map(|candidate| candidate.backend)
    }

    #[test]
    fn a_stock_kernel_serves_every_hop_by_its_cheapest_way() {
        let plan = plan(&stock(), HopSet::all());
        assert_eq!(missing(&plan), []);
        for hop in [Hop::AppSend, Hop::TcpSend, Hop::UdpSend, Hop::TcpXmit, Hop::IpOut, Hop::IpIn, Hop::UdpRecv]
        {
            assert_eq!(backend_of(&plan, hop), Some(Backend::Fentry), "{hop}");
        }
        for hop in [Hop::DevXmit, Hop::TcpRecv, Hop::SockReady, Hop::AppRecv, Hop::TaskRun] {
            assert_eq!(backend_of(&plan, hop), Some(Backend::TpBtf), "{hop}");
        }
        let programs: Vec<_> = plan.programs().iter().map(|candidate| candidate.program).collect();
        assert!(programs.contains(&"fentry_ip_out") && programs.contains(&"fentry_ip_out6"), "both families");
        let Some(Service::Served { point, .. }) = plan.coverage.of(Hop::IpOut) else { panic!("served") };
        assert_eq!(point, "__ip_local_out, ip6_output");
    }

    #[test]
    fn an_old_kernel_has_functions_where_it_lacks_tracepoints() {
        let mut facts = HostFacts { typed_casts: false, netfilter_link: false, ..stock() };
        for name in ["sock_send_length", "sock_recv_length", "sk_data_ready"] {
            facts.tracepoints.remove(name);
        }
        facts.functions.extend(functions().filter(|f| is_old(f)).map(str::to_owned));
        let plan = plan(&facts, HopSet::all());
        assert_eq!(missing(&plan), []);
        assert_eq!(backend_of(&plan, Hop::SockReady), Some(Backend::Fentry));
        assert_eq!(backend_of(&plan, Hop::AppRecv), Some(Backend::Fexit));
        for (hop, points) in [
            (Hop::AppSend, "inet_sendmsg, inet6_sendmsg, tcp_connect, inet_sendpage"),
            (Hop::TcpSend, "tcp_sendmsg_locked, do_tcp_sendpages"),
        ] {
            let Some(Service::Served { point, .. }) = plan.coverage.of(hop) else { panic!("served") };
            assert_eq!(point, points);
        }
    }

    #[test]
    fn one_kind_alone_serves_what_it_can_and_says_what_not() {
        let only = |backend| plan_by(&stock(), HopSet::all(), Some(backend));
        let fentry = only(Backend::Fentry);
        assert_eq!(backend_of(&fentry, Hop::TcpRecv), Some(Backend::Fentry));
        assert_eq!(backend_of(&fentry, Hop::AppRecv), Some(Backend::Fexit));
        let Some(Service::Missing { because }) = fentry.coverage.of(Hop::DevXmit) else {
            panic!("no function")
        };
        assert!(because.contains("fentry does not serve it"), "{because}");
        for backend in [Backend::Kprobe, Backend::KprobeMulti] {
            let plan = only(backend);
            assert!(plan.probes.iter().all(|candidate| candidate.backend == backend));
            let receives: Vec<_> =
                plan.programs().into_iter().filter(|candidate| candidate.hop == Hop::AppRecv).collect();
            assert_eq!(receives.iter().filter(|candidate| candidate.at_return).count(), 2, "a return a family");
            assert_eq!(receives.len(), 4, "and the call that goes with each");
            let Some(Service::Served { point, .. }) = plan.coverage.of(Hop::DevRecv) else { panic!("a copy") };
            assert_eq!(point, "__netif_receive_skb_core.constprop.0");
        }
        assert!(plan_by(&modern(), HopSet::all(), Some(Backend::Kprobe)).probes.is_empty());
    }

    #[test]
    fn what_the_kernel_refused_or_changed_is_passed_over() {
        let mut facts = stock();
        facts.refused.insert((Backend::Fentry, "ip6_output".to_owned()), "EINVAL".to_owned());
        assert_eq!(backend_of(&plan(&facts, HopSet::all()), Hop::IpOut), Some(Backend::Netfilter));
        facts.fentry = Mechanism::Refused("EPERM".to_owned());
        assert_eq!(backend_of(&plan(&facts, HopSet::all()), Hop::TcpXmit), Some(Backend::KprobeMulti));
        facts.symbols.insert("__ip_local_out".to_owned(), "__ip_local_out.isra.0".to_owned());
        let plan = plan_by(&facts, HopSet::all(), Some(Backend::Kprobe));
        let Some(Service::Missing { because }) = plan.coverage.of(Hop::IpOut) else { panic!("a changed copy") };
        assert!(because.contains("arguments may differ"), "{because}");
    }

    #[test]
    fn a_program_serves_one_place_in_a_plan() {
        // programs are loaded once, by name: two candidates of one plan must not use one program at two attach
        // points
        for only in [None, Some(Backend::Fentry), Some(Backend::Kprobe), Some(Backend::KprobeMulti)] {
            let plan = plan_by(&stock(), HopSet::all(), only);
            let parts = plan.probes.iter().chain(&plan.along).flat_map(Candidate::parts);
            let mut places = std::collections::BTreeMap::new();
            for part in parts {
                let previous = places.insert(part.program, (part.backend, part.point));
                assert!(
                    previous.is_none_or(|previous| previous == (part.backend, part.point)),
                    "{}",
                    part.program
                );
            }
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
    fn a_modern_kernel_without_kprobes_misses_hops_of_functions_and_says_why() {
        let plan = plan(&modern(), HopSet::all());
        let gone = missing(&plan);
        assert_eq!(gone.iter().map(|(hop, _)| *hop).collect::<Vec<_>>(), [Hop::TcpXmit, Hop::TcpChallengeAck]);
        assert!(gone[0].1.contains("__tcp_transmit_skb"));
        assert_eq!(plan.coverage.hops.len(), Hop::ALL.len());
    }

    #[test]
    fn an_older_kernel_loses_what_it_lacks_and_nothing_else() {
        let mut facts = modern();
        facts.kernel = "6.12.9".to_owned();
        facts.tracepoints.remove("tcp_sendmsg_locked");
        let gone: Vec<_> = missing(&plan(&facts, HopSet::all())).into_iter().map(|(hop, _)| hop).collect();
        assert_eq!(gone, [Hop::TcpSend, Hop::TcpXmit, Hop::TcpChallengeAck]);
        facts.syscall_tracepoints = false;
        let gone: Vec<_> = missing(&plan(&facts, HopSet::all())).into_iter().map(|(hop, _)| hop).collect();
        assert_eq!(gone, [Hop::TcpSend, Hop::UdpSend, Hop::TcpXmit, Hop::TcpChallengeAck]);
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
    fn a_mount_that_the_user_can_make_is_named_before_what_the_kernel_refuses() {
        let refused = Mechanism::Refused("EPERM".to_owned());
        let mut facts =
            HostFacts { fentry: refused, cgroup2: None, cgroups: true, syscall_tracepoints: false, ..modern() };
        facts.tracefs_mountable = true;
        let causes = |facts: &HostFacts, hop: Hop| {
            let missing = missing(&plan(facts, HopSet::all()));
            let because = missing.into_iter().find(|(gone, _)| *gone == hop).expect("it is missing").1;
            (because, mendable(facts, hop, None))
        };
        for (hop, what) in
            [(Hop::UdpRecv, "no cgroup v2 hierarchy is mounted"), (Hop::UdpSend, "no tracefs is mounted")]
        {
            let (because, mendable) = causes(&facts, hop);
            assert!(because.contains(what) && because.contains("nsenter --net="), "{because}");
            // The kernel may lack tracepoints of system calls, and the mount would not help.
            let names_both = because.contains("CONFIG_FTRACE_SYSCALLS") && because.contains("refuses fentry");
            assert_eq!(names_both, hop == Hop::UdpSend, "{because}");
            assert_eq!(mendable, Some(because));
        }
        // No mount helps here: another hop, and kernels that lack more.
        let (because, mendable) = causes(&facts, Hop::TcpXmit);
        assert!(because.contains("refuses fentry") && mendable.is_none(), "{because}");
        facts.tracefs_mountable = false;
        for facts in [HostFacts { typed_casts: false, ..facts.clone() }, HostFacts { cgroups: false, ..facts }]
        {
            for hop in [Hop::UdpRecv, Hop::UdpSend] {
                let (because, mendable) = causes(&facts, hop);
                assert!(because.contains("refuses fentry") && mendable.is_none(), "{hop}: {because}");
            }
        }
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
    }

    #[test]
    fn the_default_set_is_served_and_passes_four_hops_a_packet_on_each_path() {
        let plan = plan(&modern(), default_hops());
        assert_eq!(plan.served(), default_hops());
        let a_packet = |hop: &Hop| is_per_packet(*hop) && *hop != Hop::UdpRecv && *hop != Hop::SockReady;
        assert_eq!(default_hops().iter().filter(a_packet).count(), 4);
    }
}
