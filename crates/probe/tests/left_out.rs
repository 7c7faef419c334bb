//! A capture adapts to missing kernel features. The test removes fields from the BTF that relocations use; all
//! other hops must still count exactly.

use crate::common::{CLIENT, Net, SERVER, address, can_capture, finish, undisturbed};
use magscope_core::Hop;
use magscope_core::hop::HopSet;
use magscope_core::node::{Ability, Service};
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
            for nth in 0..if matches!(kind, 4 | 5) { entries } else { 0 } {
                let place = at + 12 + 12 * nth;
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

/// Captures datagrams with these facts and checks the count at every served hop; returns those hops.
fn captures_exactly(facts: &HostFacts, case: &str, port: u16) -> HopSet {
    const COUNT: usize = 200;
    let net = Net::new();
    let options = CaptureOptions { hops: full_hops(), sums: SUMS, ..CaptureOptions::default() };
    let mut recording = net.capture_on(facts, options);
    let server = net.server.run(|| UdpSocket::bind(address(SERVER, port)).expect("bind"));
    server.set_read_timeout(Some(Duration::from_secs(10))).expect("a time-out");
    let client = net.client.run(|| UdpSocket::bind(address(CLIENT, 0)).expect("bind"));
    client.connect(address(SERVER, port)).expect("connect");
    for _ in 0..COUNT {
        assert_eq!(client.send(&[7; 300]).expect("send"), 300);
        assert_eq!(crate::common::receive(&server, &mut [0; 1000]).expect("recv"), 300);
    }
    let left_out: BTreeSet<Ability> =
        recording.info().coverage.left_out.iter().map(|row| row.ability).collect();
    let asked: BTreeSet<Ability> = recording.capture().facts().left_out.keys().copied().collect();
    assert_eq!(left_out, asked, "{case}: the coverage lists what is left out");
    let (recording, _) = finish(recording);
    let (client, server) = (net.client.target.inode, net.server.target.inode);
    for (hop, at_client) in COUNTED {
        if recording.served.contains(hop) {
            let seen = recording.at(hop, if at_client { client } else { server }, port).len();
            assert_eq!(seen, COUNT, "{case}: {hop}");
        }
    }
    recording.served
}

/// A name, the removed fields, and the abilities and hops that need them.
type Case<'a> = (&'static str, &'static [(&'static str, &'static str)], &'static [Ability], &'a [Hop]);

#[test]
fn a_field_that_is_gone_takes_along_what_reads_it_and_nothing_else() {
    if !can_capture() {
        return;
    }
    let facts = HostFacts::read().expect("facts");
    let whole = tried(&facts).expect("programs load");
    assert!(whole.unloadable.is_empty(), "{:?}", whole.unloadable);
    // of the hops of netfilter, those that no function serves here
    let by_link = |hop: &Hop| {
        let facts = HostFacts { netfilter_link: false, ..whole.clone() };
        matches!(magscope_probe::plan(&facts, full_hops()).coverage.of(*hop), Some(Service::Missing { .. }))
    };
    let netfilter: Vec<Hop> =
        [Hop::IpOut, Hop::IpPost, Hop::IpPre, Hop::IpIn].into_iter().filter(by_link).collect();
    let cases: [Case; 7] = [
        ("slabs", &[("kmem_cache", "oo")], &[Ability::PayloadPages], &[]),
        ("frags", &[("skb_shared_info", "frags")], &[Ability::PayloadPages], &[]),
        ("cgroups", &[("cgroup", "level")], &[Ability::Filter], &[]),
        ("lengths", &[("sk_buff", "data_len")], &[Ability::Payload, Ability::Pcap], &[]),
        ("reasons", &[("skb_drop_reason", "")], &[Ability::DropReasons], &[]),
        ("waiters", &[("wait_queue_entry", "func")], &[], &[Hop::SockReady, Hop::TaskWake, Hop::TaskRun]),
        ("links", &[("bpf_nf_link", ""), ("bpf_nf_link_attach", "")], &[], &netfilter),
    ];
    for (nth, (case, gone, abilities, hops)) in cases.into_iter().enumerate() {
        let doctored = without(case, gone);
        let facts = facts.clone().with_btf(&doctored.path).expect("BTF");
        let found = tried(&facts).expect("a capture can start");
        let expected: BTreeSet<Ability> =
            whole.left_out.keys().copied().chain(abilities.iter().copied()).collect();
        assert_eq!(
            found.left_out.keys().copied().collect::<BTreeSet<_>>(),
            expected,
            "{case}: {:?}",
            found.left_out
        );
        let is_planned = case == "links";
        assert_eq!(
            found.unloadable.is_empty(),
            hops.is_empty() || is_planned,
            "{case}: {:?}",
            found.unloadable
        );
        // the reason names the removed field
        let causes = || found.left_out.values().chain(found.unloadable.values());
        let (of, member) = gone[0];
        assert!(
            member.is_empty() || causes().any(|cause| cause.contains(&format!("{of}.{member}"))),
            "{case}: {found:?}"
        );
        undisturbed(|| {
            let served = captures_exactly(&facts, case, 5100 + nth as u16);
            for hop in full_hops().iter() {
                let before = magscope_probe::plan(&whole, full_hops());
                let was = matches!(before.coverage.of(hop), Some(Service::Served { .. }));
                assert_eq!(served.contains(hop), was && !hops.contains(&hop), "{case}: {hop}");
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
