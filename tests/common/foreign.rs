//! A recording with hostile text in every field that can hold text.

use super::exports::golden;
use magscope_core::custom::{Attach, CustomProbe, Mark, ProbeValue, ValueKind};
use magscope_core::deciders::{AttachedProgram, DropRule, FilterChain, FilterFamily, FilterHook, ProgramKind};
use magscope_core::foreign::is_unsafe;
use magscope_core::node::{
    CgroupName, Coverage, DropReason, HopService, InterfaceName, LeftOut, NetnsName, NodeInfo, Service,
    UnfollowedSockets,
};
use magscope_core::source::{Progress, Source};
use magscope_core::workload::{Container, Label};
use magscope_core::{Batch, Change};
use magscope_session::{RecordOptions, Recorder, Session};
use std::path::Path;
use std::time::Duration;

/// Sets the title, ends the line, C1, marks of direction.
pub const HOSTILE: &str = "\u{1b}]0;x\u{7}\n\r\u{9b}31m\u{202e}\u{2066}";

/// Characters that a terminal or a line of text obeys. Ends of lines are checked by their number.
pub fn unsafe_characters(bytes: &[u8]) -> Vec<char> {
    String::from_utf8_lossy(bytes).chars().filter(|c| *c != '\n' && *c != '\t' && is_unsafe(*c)).collect()
}

fn soiled(text: &str) -> String {
    format!("{HOSTILE}{text}")
}

/// A container with unsafe text in every field.
fn soiled_container() -> Container {
    Container {
        id: soiled("id"),
        name: soiled("container"),
        pod: soiled("pod"),
        pod_namespace: soiled("namespace"),
        labels: vec![Label { key: soiled("key"), value: soiled("value") }],
        cgroup: soiled("/web"),
        ..Container::default()
    }
}

/// The same node with hostile text. No `..`: a new field has to be soiled here.
pub fn soiled_node(info: NodeInfo) -> NodeInfo {
    let NodeInfo {
        host,
        kernel,
        boot_id,
        cpus,
        clock,
        netns,
        interfaces,
        cgroups,
        containers,
        settings,
        tells_order,
        probes: _,
        drop_reasons,
        reset_reasons,
        mut programs,
        mut chains,
        lists_deciders,
        mut not_followed,
        several,
        coverage: Coverage { hops, left_out },
    } = info;
    let service = |service| match service {
        Service::Served { backend, point, note } => {
            Service::Served { backend, point: soiled(&point), note: soiled(&note) }
        }
        Service::Missing { because } => Service::Missing { because: soiled(&because) },
        Service::Off => Service::Off,
    };
    let probe = |mark: Mark| CustomProbe {
        name: soiled(mark.name()),
        attach: Attach::ALL[0],
        target: soiled("target"),
        after: None,
        mark,
        values: vec![ProbeValue {
            name: soiled("value"),
            expr: soiled("skb->len"),
            kind: ValueKind::default(),
        }],
    };
    let reasons = |of: Vec<DropReason>| {
        let soil = |reason: DropReason| DropReason { name: soiled(&reason.name), ..reason };
        let one_more = DropReason { number: u32::MAX, name: soiled("reason") };
        of.into_iter().map(soil).chain([one_more]).collect()
    };
    let interface = |i: InterfaceName| InterfaceName { name: soiled(&i.name), kind: soiled(&i.kind), ..i };
    let mut cgroups: Vec<_> =
        cgroups.into_iter().map(|cgroup| CgroupName { path: soiled(&cgroup.path), ..cgroup }).collect();
    cgroups.push(CgroupName { id: 1, path: soiled("/web") });
    let mut containers = containers;
    containers.push(soiled_container());
    programs.push(AttachedProgram {
        name: soiled("program"),
        cgroup: 1,
        ..AttachedProgram::of(ProgramKind::CgroupSkb, 1)
    });
    chains.push(FilterChain {
        netns: 1,
        family: FilterFamily::Inet,
        table: soiled("table"),
        chain: soiled("chain"),
        hook: FilterHook::Input,
        policy: false,
        rule: Some(DropRule { chain: soiled("blocked"), handle: 1 }),
        others: false,
    });
    not_followed.push(UnfollowedSockets { netns: 1, kind: soiled("unix"), sockets: 1 });
    NodeInfo {
        host: soiled(&host),
        kernel: soiled(&kernel),
        boot_id,
        cpus,
        clock: soiled(&clock),
        netns: netns.into_iter().map(|ns| NetnsName { name: soiled(&ns.name), ..ns }).collect(),
        interfaces: interfaces.into_iter().map(interface).collect(),
        cgroups,
        containers,
        settings: settings.iter().map(|text| soiled(text)).chain([soiled("setting")]).collect(),
        tells_order,
        probes: [Mark::Hop, Mark::Point, Mark::Loadline].map(probe).to_vec(),
        drop_reasons: reasons(drop_reasons),
        reset_reasons: reasons(reset_reasons),
        programs,
        chains,
        lists_deciders,
        not_followed,
        several,
        coverage: Coverage {
            hops: hops
                .into_iter()
                .map(|row| HopService { hop: row.hop, service: service(row.service) })
                .collect(),
            left_out: left_out
                .into_iter()
                .map(|left| LeftOut { because: soiled(&left.because), ..left })
                .collect(),
        },
    }
}

/// All of a recording in one batch after the other.
pub fn read(dir: &Path, mut take: impl FnMut(&mut Batch)) -> NodeInfo {
    let session = Session::open(dir).expect("a recording");
    let (mut replay, mut batch) = (session.replay(None, None), Batch::default());
    loop {
        let progress = replay.next(&mut batch, Duration::ZERO).expect("it can be read");
        take(&mut batch);
        if progress == Progress::End {
            return session.info().clone();
        }
    }
}

/// Writes a golden recording once more, with hostile text. The recorder writes what it is given.
pub fn hostile_recording(to: &Path) {
    let golden = golden("demo");
    let golden = Path::new(&golden);
    let info = soiled_node(Session::open(golden).expect("a recording").info().clone());
    let mut recorder = Recorder::create(to, &info, RecordOptions::default()).expect("own directory");
    let mut is_first = true;
    read(golden, |batch| {
        for task in &mut batch.tasks {
            task.comm = soiled(&task.comm);
        }
        let at = batch.events.first().map(|event| event.time_ns);
        if let Some(from_ns) = at.filter(|_| std::mem::take(&mut is_first)) {
            batch.changes.push(Change { from_ns, to_ns: from_ns + 1, what: soiled("disable dev.queue") });
        }
        recorder.append(batch).expect("room");
    });
    recorder.close().expect("room");
    let meta = std::fs::read_to_string(to.join("meta.toml")).expect("it is there");
    assert!(meta.matches("202E").count() + meta.matches('\u{202e}').count() > 10, "{meta}");
}
