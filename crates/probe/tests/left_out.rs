//! A capture adapts to missing kernel features. The test removes fields from the BTF that relocations use; all
//! other hops must still count exactly.

use crate::common::{CLIENT, Net, Recording, SERVER, address, can_capture, finish, undisturbed};
use magscope_core::hop::HopSet;
use magscope_core::node::{Ability, Service};
use magscope_core::{Hop, PayloadHead};
use magscope_probe::pcap::compile;
use magscope_probe::plan::full_hops;
use magscope_probe::{CaptureOptions, HostFacts, SUMS, tried};
use std::collections::BTreeSet;
use std::net::UdpSocket;
use std::path::PathBuf;
use std::time::Duration;

/// The running kernel's BTF with members (or, if `member` is empty, the type itself) renamed.
struct Doctored {
    path: PathBuf,
}

impl Drop for Doctored {
    fn drop(&mut self) {
        let _gone = std::fs::remove_file(&self.path);
    }
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn without(name: &str, gone: &[(&str, &str)]) -> Doctored {
    let mut btf = std::fs::read("/sys/kernel/btf/vmlinux").expect("BTF");
    let (types, length) = (24 + word(&btf, 8) as usize, word(&btf, 12) as usize);
    let strings = 24 + word(&btf, 16) as usize;
    let text = |btf: &[u8], offset: u32| {
        let from = strings + offset as usize;
        let end = btf[from..].iter().position(|byte| *byte == 0).expect("a string ends");
        String::from_utf8_lossy(&btf[from..from + end]).into_owned()
    };
    let (mut at, mut renamed) = (types, 0);
    while at < types + length {
        let info = word(&btf, at + 4);
        let (kind, entries) = (info >> 24 & 31, (info & 0xffff) as usize);
        let of_type = text(&btf, word(&btf, at));
        // sizes as in include/uapi/linux/btf.h
        let size = match kind {
            1 | 14 | 17 => 4,
            3 => 12,
            4 | 5 | 15 | 19 => 12 * entries,
            6 | 13 => 8 * entries,
            _ => 0,
        };
        // one letter shorter: a name that no program uses
        let mut cut = |place: usize, btf: &mut [u8]| {
            let shorter = word(btf, place) + 1;
            btf[place..place + 4].copy_from_slice(&shorter.to_le_bytes());
            renamed += 1;
        };
        for (type_name, member) in gone.iter().filter(|(type_name, _)| *type_name == of_type) {
            if member.is_empty() && matches!(kind, 4 | 6 | 12) {
                cut(at, &mut btf);
            }
            // fields, or values of an enumeration
            for nth in 0..if matches!(kind, 4..=6) { entries } else { 0 } {
                let place = at + 12 + size / entries * nth;
                if text(&btf, word(&btf, place)) == *member {
                    assert!(!member.is_empty(), "{type_name}");
                    cut(place, &mut btf);
                }
            }
        }
        at += 12 + size;
    }
    assert!(renamed >= gone.len(), "{gone:?}: {renamed} found");
    let path = std::env::temp_dir().join(format!("magnet-scope-{}-{name}.btf", std::process::id()));
    std::fs::write(&path, btf).expect("a file");
    Doctored { path }
}

/// Hops that one datagram passes once, and at which of the two hosts.
const COUNTED: [(Hop, bool); 6] = [
    (Hop::IpOut, true),
    (Hop::DevQueue, true),
    (Hop::DevXmit, true),
    (Hop::DevRecv, false),
    (Hop::IpIn, false),
    (Hop::UdpRecv, false),
];

/// The bytes of a datagram, and those of it that a payload head shows.
const PAYLOAD: [u8; 300] = [7; 300];
const HEAD_BYTES: usize = 64;

/// Sends datagrams to a port, each read before the next.
fn exchange(net: &Net, port: u16, count: usize) {
    let server = net.server.run(|| UdpSocket::bind(address(SERVER, port)).expect("bind"));
    server.set_read_timeout(Some(Duration::from_secs(10))).expect("a time-out");
    let client = net.client.run(|| UdpSocket::bind(address(CLIENT, 0)).expect("bind"));
    client.connect(address(SERVER, port)).expect("connect");
    for _ in 0..count {
        assert_eq!(client.send(&PAYLOAD).expect("send"), PAYLOAD.len());
        assert_eq!(crate::common::receive(&server, &mut [0; 1000]).expect("recv"), PAYLOAD.len());
    }
}

/// Switches on what rests on abilities that are left; the others are refused. Returns the abilities in use.
fn uses_the_rest(recording: &mut Recording, case: &str, port: u16) -> BTreeSet<Ability> {
    let mut asked = vec![
        (Ability::Filter, format!("filter port = {port}")),
        (Ability::Payload, format!("snap {HEAD_BYTES} dev.recv")),
        (Ability::Sampling, "sample 1/2 skb.drop".to_owned()),
        (Ability::Sums, "detail both".to_owned()),
    ];
    // it needs libpcap
    if compile("ip").is_ok() {
        asked.push((Ability::Pcap, format!("pcap udp port {port}")));
    }
    let mut used = BTreeSet::new();
    for (ability, setting) in asked {
        let is_left = !recording.capture().facts().left_out.contains_key(&ability);
        let changed = recording.change(&setting.parse().expect("a setting"));
        assert_eq!(changed.is_ok(), is_left, "{case}: {setting}: {changed:?}");
        if is_left {
            used.insert(ability);
        }
        // Sums and a sampler together are refused.
        if is_left && ability == Ability::Sampling {
            recording.change(&"sample off skb.drop".parse().expect("a setting")).expect("no sampler");
        }
    }
    used
}

/// Captures datagrams with these facts and checks the count at every served hop, with all abilities that are left;
/// returns those hops.
fn captures_exactly(facts: &HostFacts, case: &str, port: u16) -> HopSet {
    const COUNT: usize = 200;
    const OTHERS: usize = 20;
    let net = Net::new();
    let options = CaptureOptions { hops: full_hops(), sums: SUMS, ..CaptureOptions::default() };
    let mut recording = net.capture_on(facts, options);
    let used = uses_the_rest(&mut recording, case, port);
    exchange(&net, port, COUNT);
    // what a filter rejects
    exchange(&net, port + 500, OTHERS);
    let left_out: BTreeSet<Ability> =
        recording.info().coverage.left_out.iter().map(|row| row.ability).collect();
    let asked: BTreeSet<Ability> = recording.capture().facts().left_out.keys().copied().collect();
    assert_eq!(left_out, asked, "{case}: the coverage lists what is left out");
    let (recording, _) = finish(recording);
    let (client, server) = (net.client.target.inode, net.server.target.inode);
    let filters = used.contains(&Ability::Filter) || used.contains(&Ability::Pcap);
    for (hop, at_client) in COUNTED {
        if recording.served.contains(hop) {
            let seen = |port| recording.at(hop, if at_client { client } else { server }, port).len();
            assert_eq!(seen(port), COUNT, "{case}: {hop}");
            assert_eq!(seen(port + 500), if filters { 0 } else { OTHERS }, "{case}: {hop}, others");
        }
    }
    let is_counted =
        |head: &&PayloadHead| recording.flows.get(&head.flow.0).is_some_and(|flow| flow.local.port() == port);
    let heads: Vec<_> = recording.heads().filter(is_counted).collect();
    if recording.served.contains(Hop::DevRecv) {
        assert_eq!(heads.len(), if used.contains(&Ability::Payload) { COUNT } else { 0 }, "{case}: heads");
    }
    assert!(heads.iter().all(|head| head.bytes == PAYLOAD[..HEAD_BYTES]), "{case}: bytes of heads");
    recording.served
}

/// Names that are removed from the kernel's types: a type and its member, or the whole type.
type Names = &'static [(&'static str, &'static str)];

/// Names without which an ability is missing, and every ability that needs them. No names if the ability reads
/// nothing of the kernel's types: then `each_ability_can_be_missing_alone` has to do.
fn names_of(ability: Ability) -> (Names, &'static [Ability]) {
    match ability {
        Ability::Payload | Ability::Pcap => (&[("sk_buff", "data_len")], &[Ability::Payload, Ability::Pcap]),
        Ability::PayloadPages => (&[("kmem_cache", "oo")], &[Ability::PayloadPages]),
        Ability::Filter => (&[("cgroup", "level")], &[Ability::Filter]),
        Ability::CustomProbes => (
            &[("bpf_func_id", "BPF_FUNC_loop")],
            &[Ability::CustomProbes, Ability::Filter, Ability::Pcap, Ability::PayloadPages],
        ),
        Ability::DropReasons => (&[("skb_drop_reason", "")], &[Ability::DropReasons]),
        Ability::EpollWakeUps => (&[("eppoll_entry", "base")], &[Ability::EpollWakeUps]),
        Ability::Sampling | Ability::Sums | Ability::Tsc => (&[], &[]),
    }
}

/// Removed names, and the abilities and hops that need them.
struct Case {
    name: &'static str,
    gone: Names,
    abilities: BTreeSet<Ability>,
    hops: Vec<Hop>,
}

impl Case {
    fn new(name: &'static str, gone: Names, abilities: &[Ability], hops: &[Hop]) -> Self {
        Case { name, gone, abilities: abilities.iter().copied().collect(), hops: hops.to_vec() }
    }

    /// True if the plan already lacks what the names are needed for, so that no program fails to load.
    fn is_planned(&self) -> bool {
        self.gone.iter().any(|(name, _)| ["bpf_nf_link", "bpf_func_id"].contains(name))
    }

    /// Asserts that exactly the abilities and hops of this case are missing, and that the cause is named.
    fn matches(&self, whole: &HostFacts, found: &HostFacts) {
        let expected: BTreeSet<Ability> =
            whole.left_out.keys().copied().chain(self.abilities.iter().copied()).collect();
        let left_out: BTreeSet<Ability> = found.left_out.keys().copied().collect();
        assert_eq!(left_out, expected, "{}: {:?}", self.name, found.left_out);
        // `find_pages` serves no hop
        let unloadable = found.unloadable.keys().any(|program| program != "find_pages");
        let expected = !self.hops.is_empty() && !self.is_planned();
        assert_eq!(unloadable, expected, "{}: {:?}", self.name, found.unloadable);
        let causes = || found.left_out.values().chain(found.unloadable.values());
        let (of, member) = self.gone[0];
        let is_named = causes().any(|cause| cause.contains(&format!("{of}.{member}")));
        assert!(is_named || member.is_empty() || self.is_planned(), "{}: {found:?}", self.name);
    }
}

/// The hops of netfilter that no function serves on this host.
fn netfilter_hops(whole: &HostFacts) -> Vec<Hop> {
    let facts = HostFacts { netfilter_link: false, ..whole.clone() };
    let without = magscope_probe::plan(&facts, full_hops()).coverage;
    let hops = [Hop::IpOut, Hop::IpPost, Hop::IpPre, Hop::IpIn].into_iter();
    hops.filter(|hop| matches!(without.of(*hop), Some(Service::Missing { .. }))).collect()
}

#[test]
fn a_field_that_is_gone_takes_along_what_reads_it_and_nothing_else() {
    if !can_capture() {
        return;
    }
    let facts = HostFacts::read().expect("facts");
    let whole = tried(&facts).expect("programs load");
    assert!(whole.unloadable.is_empty(), "{:?}", whole.unloadable);
    let readers = [Hop::SockReady, Hop::TaskWake, Hop::TaskRun];
    let mut cases = vec![
        Case::new("frags", &[("skb_shared_info", "frags")], &[Ability::PayloadPages], &[]),
        Case::new("waiters", &[("wait_queue_entry", "flags")], &[], &readers),
        Case::new("links", &[("bpf_nf_link", ""), ("bpf_nf_link_attach", "")], &[], &netfilter_hops(&whole)),
    ];
    for ability in Ability::ALL {
        let (gone, abilities) = names_of(ability);
        // one case for each list of names
        if cases.iter().all(|case| case.gone != gone) && !gone.is_empty() {
            assert!(abilities.contains(&ability), "{ability}");
            cases.push(Case::new(ability.name(), gone, abilities, &[]));
        }
    }
    let before = magscope_probe::plan(&whole, full_hops());
    for (nth, case) in cases.iter().enumerate() {
        let doctored = without(case.name, case.gone);
        let facts = facts.clone().with_btf(&doctored.path).expect("BTF");
        let found = tried(&facts).expect("a capture can start");
        case.matches(&whole, &found);
        undisturbed(|| {
            let served = captures_exactly(&facts, case.name, 5100 + nth as u16);
            for hop in full_hops().iter() {
                let was = matches!(before.coverage.of(hop), Some(Service::Served { .. }));
                assert_eq!(served.contains(hop), was && !case.hops.contains(&hop), "{}: {hop}", case.name);
            }
        });
    }
}

#[test]
fn type_information_that_is_cut_short_is_refused_with_its_length() {
    let whole = std::fs::read("/sys/kernel/btf/vmlinux").unwrap_or_default();
    if whole.is_empty() {
        println!("skipped, because this kernel has no BTF");
        return;
    }
    let path = std::env::temp_dir().join(format!("magnet-scope-{}-cut.btf", std::process::id()));
    let doctored = Doctored { path };
    for (length, expected) in [
        (0, "the file has 0 bytes".to_owned()),
        (20, "its header is cut short: the file has 20 bytes".to_owned()),
        (whole.len() / 2, format!("the file has {} of {} bytes", whole.len() / 2, whole.len())),
        (whole.len() - 1, format!("the file has {} of {} bytes", whole.len() - 1, whole.len())),
    ] {
        std::fs::write(&doctored.path, &whole[..length]).expect("a file");
        let facts = HostFacts::read().expect("facts");
        let error = facts.with_btf(&doctored.path).expect_err("it is cut short").to_string();
        assert!(error.contains(&expected) && error.contains("cannot be read"), "{error}");
    }
}

#[test]
fn each_ability_can_be_missing_alone() {
    if !can_capture() {
        return;
    }
    for (nth, ability) in Ability::ALL.into_iter().enumerate() {
        let mut facts = HostFacts::read().expect("facts");
        facts.left_out.insert(ability, "the test takes it away".to_owned());
        undisturbed(|| {
            captures_exactly(&facts, ability.name(), 5200 + nth as u16);
        });
    }
}

#[test]
fn the_programs_for_kernels_without_loops_capture_exactly() {
    if !can_capture() {
        return;
    }
    let mut facts = HostFacts::read().expect("facts");
    (facts.loops, facts.typed_casts) = (false, false);
    facts.leave_out_what_loops_make();
    let found = tried(&facts).expect("programs load");
    assert!(found.unloadable.is_empty(), "{:?}", found.unloadable);
    undisturbed(|| {
        captures_exactly(&facts, "no loops", 5300);
    });
}

#[test]
fn what_is_asked_for_and_left_out_is_an_error() {
    if !can_capture() {
        return;
    }
    let mut facts = HostFacts::read().expect("facts");
    facts.left_out.insert(Ability::Sampling, "the test takes it away".to_owned());
    let options = CaptureOptions { flow_one_in: 4, ..CaptureOptions::default() };
    let error = magscope_probe::Capture::start_on(&facts, options).err().expect("no sampling").to_string();
    assert_eq!(error, "sampling cannot be used on this kernel: the test takes it away");
}
