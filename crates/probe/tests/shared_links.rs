//! A child of this process has a copy of every link until `exec`. Hops that are switched off and on meanwhile
//! still count each event once, for every kind of link.

use crate::common;

use common::{CLIENT, Net, Pair, Recording, SERVER, can_capture, lost_nothing, passes_alone, undisturbed};
use magscope_core::Hop;
use magscope_core::hop::HopSet;
use magscope_core::node::{Backend, Service};
use magscope_probe::{CaptureOptions, HostFacts, Setting, plan_by};
use std::io::{PipeReader, PipeWriter, pipe};
use std::os::fd::AsRawFd;

const PORT: u16 = 5900;
/// Datagrams of a round.
const DATAGRAMS: usize = 40;

/// Every kind of link. A new one fails until it is listed here.
const fn is_tried(backend: Backend) -> bool {
    match backend {
        Backend::TpBtf
        | Backend::Fentry
        | Backend::Fexit
        | Backend::Netfilter
        | Backend::CgroupSkb
        | Backend::Tracepoint
        | Backend::KprobeMulti
        | Backend::Kprobe => true,
        Backend::Generator => false,
    }
}

const KINDS: [Backend; 8] = [
    Backend::TpBtf,
    Backend::Fentry,
    Backend::Fexit,
    Backend::Netfilter,
    Backend::CgroupSkb,
    Backend::Tracepoint,
    Backend::KprobeMulti,
    Backend::Kprobe,
];

/// Hops that a datagram passes once.
const HOPS: [Hop; 12] = [
    Hop::AppSend,
    Hop::UdpSend,
    Hop::IpOut,
    Hop::IpPost,
    Hop::DevQueue,
    Hop::DevXmit,
    Hop::DevRecv,
    Hop::IpPre,
    Hop::IpIn,
    Hop::UdpRecv,
    Hop::SockReady,
    Hop::AppRecv,
];

/// A child that has a copy of all files of this process, until drop.
struct SlowChild {
    pid: libc::pid_t,
    _awake: PipeWriter,
}

impl SlowChild {
    fn start() -> Self {
        let (asleep, awake): (PipeReader, PipeWriter) = pipe().expect("a pipe");
        // SAFETY: the child calls only functions that are safe after a fork.
        #[allow(unsafe_code)]
        let pid = unsafe {
            let pid = libc::fork();
            if pid == 0 {
                libc::close(awake.as_raw_fd());
                let mut byte = 0_u8;
                libc::read(asleep.as_raw_fd(), (&raw mut byte).cast(), 1);
                libc::_exit(0);
            }
            pid
        };
        assert!(pid > 0, "a child");
        SlowChild { pid, _awake: awake }
    }

    fn end(self) {
        let pid = self.pid;
        drop(self);
        // SAFETY: plain numbers, of a child that ends.
        #[allow(unsafe_code)]
        unsafe {
            libc::waitpid(pid, std::ptr::null_mut(), 0);
        }
    }
}

/// Events at each hop since the last call.
fn new_events(recording: &mut Recording, of: HopSet) -> Vec<(Hop, usize)> {
    recording.drain_all();
    let events = std::mem::take(&mut recording.events);
    let ours = |hop: Hop| {
        let is_ours = |event: &&magscope_core::Event| {
            let flow = recording.flows.get(&event.flow.0);
            event.hop == hop && flow.is_none_or(|flow| [flow.local.port(), flow.remote.port()].contains(&PORT))
        };
        events.iter().filter(is_ours).count()
    };
    of.iter().map(|hop| (hop, ours(hop))).collect()
}

/// Switches off and on without a child, with a child, and after its end; each datagram counts once at each hop.
fn assert_once(net: &Net, backend: Backend, of: HopSet) {
    let mut recording =
        net.capture_with(CaptureOptions { hops: of, backend: Some(backend), ..CaptureOptions::default() });
    let served = recording.info().coverage.served();
    let pair = Pair::new(net, CLIENT, SERVER, PORT);
    let off_and_on = |recording: &mut Recording| {
        recording.change(&Setting::Disable(of)).expect("off");
        pair.send(3, 100);
        recording.change(&Setting::Enable(of)).expect("on again");
    };
    new_events(&mut recording, of);
    let mut rounds = Vec::new();
    let mut round = |recording: &mut Recording| {
        pair.send(DATAGRAMS, 100);
        rounds.push(new_events(recording, of));
    };
    round(&mut recording);
    off_and_on(&mut recording);
    round(&mut recording);
    let child = SlowChild::start();
    off_and_on(&mut recording);
    round(&mut recording);
    off_and_on(&mut recording);
    round(&mut recording);
    child.end();
    round(&mut recording);
    off_and_on(&mut recording);
    round(&mut recording);
    recording.stop();
    lost_nothing(&recording);
    println!("{backend}: {:?}", rounds.first());
    for (nth, round) in rounds.iter().enumerate() {
        for (hop, count) in round.iter().filter(|(hop, _)| served.contains(*hop)) {
            assert_eq!(*count, DATAGRAMS, "{backend}, {hop}, round {nth}: {rounds:?}");
        }
    }
}

#[test]
fn a_child_with_a_copy_of_a_link_doubles_no_event() {
    if !can_capture() || passes_alone("shared_links::a_child_with_a_copy_of_a_link_doubles_no_event") {
        return;
    }
    assert!(KINDS.into_iter().all(is_tried));
    let facts = HostFacts::read().expect("facts");
    let net = Net::new();
    Pair::new(&net, CLIENT, SERVER, PORT - 10).send(1, 1); // neighbours
    for backend in KINDS {
        let all = HOPS.into_iter().collect();
        let coverage = plan_by(&facts, all, Some(backend)).coverage;
        let by = |hop: &Hop| matches!(coverage.of(*hop), Some(Service::Served { backend: by, .. }) if *by == backend);
        let of: HopSet = HOPS.into_iter().filter(by).collect();
        if of.is_empty() {
            let because = HOPS.iter().find_map(|hop| match coverage.of(*hop) {
                Some(Service::Missing { because }) => Some(because.clone()),
                _ => None,
            });
            println!("skipped, because {backend} serves no hop here: {}", because.unwrap_or_default());
            continue;
        }
        undisturbed(|| assert_once(&net, backend, of));
    }
}

/// A function to probe.
#[allow(unsafe_code)] // a unique name
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn magscope_shared_links_probe_me(number: u64) -> u64 {
    std::hint::black_box(number) + 1
}

#[test]
fn a_child_with_a_copy_of_a_custom_probe_doubles_no_hit() {
    if !can_capture() || passes_alone("shared_links::a_child_with_a_copy_of_a_custom_probe_doubles_no_hit") {
        return;
    }
    let own = std::env::current_exe().expect("this program");
    let net = Net::new();
    let texts = [
        "tp_btf:net_dev_start_xmit name=raw skb->len".to_owned(),
        format!("uprobe:{}:magscope_shared_links_probe_me name=call number=arg0", own.display()),
    ];
    for text in texts {
        let probe: magscope_core::CustomProbe = text.parse().expect("a probe");
        let name = probe.name.clone();
        let options = CaptureOptions {
            hops: [Hop::DevXmit].into_iter().collect(),
            probes: vec![probe],
            ..CaptureOptions::default()
        };
        let pair = Pair::new(&net, CLIENT, SERVER, PORT);
        pair.send(1, 1);
        let mut recording = net.capture_with(options);
        let mut seen = 0;
        let mut hits = |recording: &mut Recording| {
            pair.send(DATAGRAMS, 100);
            // Processes of other namespaces are left out.
            net.client.run(|| (0..DATAGRAMS as u64).for_each(|n| _ = magscope_shared_links_probe_me(n)));
            recording.drain_all();
            // Not of neighbour discovery: a call has its number, a datagram 42 bytes of headers.
            let is_ours = |value| (0..DATAGRAMS as i64).contains(&value) || value == 100 + 42;
            let all = recording.hits().filter(|hit| hit.value(0).is_some_and(is_ours)).count();
            let new = all - seen;
            seen = all;
            new
        };
        let child = SlowChild::start();
        let mut counts = vec![hits(&mut recording)];
        for _ in 0..2 {
            for on in [false, true] {
                recording.change(&Setting::Probe(name.clone(), on)).expect("switched");
                counts.push(hits(&mut recording));
            }
        }
        child.end();
        counts.push(hits(&mut recording));
        assert_eq!(counts, [1, 0, 1, 0, 1, 1].map(|times| times * DATAGRAMS), "{text}");
    }
}
