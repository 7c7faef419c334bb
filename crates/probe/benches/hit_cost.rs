//! Cost of one hit of each hop in a tight `send`/`recv` loop: attach/detach A/B against an empty program on the
//! same hook. Rounds are interleaved, so that other load affects all columns equally.
//!
//! `cargo bench -p magscope-probe --bench hit_cost`, as root. The bench prints a table and asserts nothing.

mod loopback;

use libbpf_rs::{Link, NetfilterOpts, Object, ObjectBuilder};
use loopback::{ROUNDS, SENDS, alone, exchange, quartiles, stop};
use magscope_core::Hop;
use magscope_core::hop::HopSet;
use magscope_core::node::Backend;
use magscope_probe::plan::{default_hops, full_hops, plan_by};
use magscope_probe::{Capture, CaptureOptions, HostFacts};
use std::fs::File;
use std::net::UdpSocket;
use std::os::fd::AsRawFd;
use std::time::Instant;

#[repr(align(8))]
struct Aligned<T: ?Sized>(T);
static FLOOR: &Aligned<[u8]> = &Aligned(*include_bytes!(concat!(env!("OUT_DIR"), "/floor.bpf.o")));

/// Nanoseconds of one send and recv.
fn pair_ns(socket: &UdpSocket) -> f64 {
    let start = Instant::now();
    exchange(socket);
    start.elapsed().as_nanos() as f64 / SENDS as f64
}

fn floor_object() -> Object {
    ObjectBuilder::default().open_memory(&FLOOR.0).expect("open").load().expect("load")
}

/// Nanoseconds a pair with one of the floor's programs attached, above `base`.
fn with_floor(socket: &UdpSocket, object: &Object, program: &str, base: f64) -> f64 {
    let program = object.progs_mut().find(|p| p.name() == program).expect("a program of the floor");
    let _link = program.attach().expect("attach");
    pair_ns(socket) - base
}

fn attach_floor(object: &Object, hop: Hop, facts: &HostFacts) -> Vec<Link> {
    let hooks = [Backend::TpBtf, Backend::Netfilter, Backend::CgroupSkb];
    let hops = [hop].into_iter().collect();
    let probe = hooks.iter().find_map(|hook| plan_by(facts, hops, Some(*hook)).probes.pop()).expect("a hook");
    let program = object.progs_mut().find(|p| p.name() == probe.program).expect("an empty program");
    match probe.backend {
        Backend::Netfilter => {
            let hooknum = match hop {
                Hop::IpOut => libbpf_rs::NF_INET_LOCAL_OUT,
                Hop::IpPost => libbpf_rs::NF_INET_POST_ROUTING,
                Hop::IpPre => libbpf_rs::NF_INET_PRE_ROUTING,
                _ => libbpf_rs::NF_INET_LOCAL_IN,
            };
            [libbpf_rs::NFPROTO_IPV4, libbpf_rs::NFPROTO_IPV6]
                .map(|protocol_family| {
                    let options =
                        NetfilterOpts { protocol_family, hooknum, priority: 1, ..NetfilterOpts::default() };
                    program.attach_netfilter_with_opts(options).expect("attach")
                })
                .into()
        }
        Backend::CgroupSkb => {
            let root = File::open(facts.cgroup2.as_ref().expect("cgroup v2")).expect("open");
            vec![program.attach_cgroup(root.as_raw_fd()).expect("attach")]
        }
        _ => vec![program.attach().expect("attach")],
    }
}

/// Runs the loop with these hops captured; returns ns a pair and hits a pair.
fn with_capture(socket: &UdpSocket, hops: HopSet) -> (f64, f64) {
    let options = CaptureOptions { hops, ring_bytes_per_cpu: 32 << 20, ..CaptureOptions::default() };
    let capture = Capture::start(options).expect("capture");
    let before = capture.counters().expect("counters").hits;
    let ns = pair_ns(socket);
    let counters = capture.counters().expect("counters");
    assert_eq!(counters.lost(), 0, "a lost record costs less than a kept one");
    stop(capture);
    (ns, (counters.hits - before) as f64 / SENDS as f64)
}

fn median(values: &mut [f64]) -> f64 {
    quartiles(values)[1]
}

fn main() {
    let Some((facts, socket)) = alone() else { return };
    let hops = [
        Hop::AppSend,
        Hop::IpOut,
        Hop::IpPost,
        Hop::DevQueue,
        Hop::DevXmit,
        Hop::DevDone,
        Hop::DevRecv,
        Hop::IpPre,
        Hop::IpIn,
        Hop::UdpRecv,
        Hop::SockReady,
        Hop::AppRecv,
    ];
    let floor = floor_object();
    let mut bare = Vec::new();
    let mut empty: Vec<Vec<f64>> = vec![Vec::new(); hops.len()];
    let mut full: Vec<Vec<f64>> = vec![Vec::new(); hops.len()];
    let mut sets: Vec<(&str, HopSet, Vec<f64>, f64)> =
        vec![("default hops", default_hops(), Vec::new(), 0.0), ("all hops", full_hops(), Vec::new(), 0.0)];
    let (mut clock, mut record) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        // each round has its own ring: the ring is never read, and a full ring would cost less
        let fresh = floor_object();
        let base = pair_ns(&socket);
        clock.push(with_floor(&socket, &fresh, "dev_xmit_clock", base));
        record.push(with_floor(&socket, &fresh, "dev_xmit_record", base));
        for (i, hop) in hops.iter().enumerate() {
            let base = pair_ns(&socket);
            bare.push(base);
            let links = attach_floor(&floor, *hop, &facts);
            empty[i].push(pair_ns(&socket) - base);
            drop(links);
            let (ns, hits) = with_capture(&socket, [*hop].into_iter().collect());
            full[i].push((ns - base) / hits.max(1.0));
        }
        for (_, set, values, hits) in &mut sets {
            let base = pair_ns(&socket);
            let (ns, n) = with_capture(&socket, *set);
            values.push(ns - base);
            *hits = n;
        }
    }
    println!(
        "one send+recv of 64 bytes, nothing attached: {:.0} ns ({ROUNDS} rounds of {SENDS})",
        median(&mut bare)
    );
    println!("{:<12} {:>10} {:>10} {:>7}   quartiles of record", "hop", "empty ns", "record ns", "ratio");
    let mut ratios = Vec::new();
    for (i, hop) in hops.iter().enumerate() {
        let (e, f) = (median(&mut empty[i]), median(&mut full[i]));
        let [low, _, high] = quartiles(&mut full[i]);
        ratios.push(f / e);
        println!("{:<12} {e:>10.0} {f:>10.0} {:>7.2}   {low:.0}–{high:.0}", hop.name(), f / e);
    }
    println!(
        "at dev.xmit: a clock reading alone {:.0} ns, a clock reading in a 64-byte record {:.0} ns",
        median(&mut clock),
        median(&mut record)
    );
    println!("median ratio over hops: {:.2}", median(&mut ratios));
    for (name, _, values, hits) in &mut sets {
        let all = median(values);
        println!("{name}: {hits:.1} hits a pair, {all:.0} ns a pair, {:.0} ns a hit", all / *hits);
    }
}
