//! Access control: every table and every grant, of an agent and of a relay.
//!
//! A new table fails here until this file has rows of it, and until no grant admits foreign rows.

use crate::common::{Serving, authority, connect, info, viewer};
use arrow::array::RecordBatch;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use arrow_flight::Ticket;
use arrow_flight::decode::FlightRecordBatchStream;
use futures::{StreamExt, TryStreamExt};
use magscope_core::change::{Change, HopCount};
use magscope_core::clock::ClockSample;
use magscope_core::deciders::{AttachedProgram, FilterChain, FilterFamily, FilterHook, ProgramKind};
use magscope_core::node::{CgroupName, InterfaceName, NetnsName, NodeInfo, UnfollowedSockets};
use magscope_core::source::{Progress, Source};
use magscope_core::synthesis::{Sum, Synthesis};
use magscope_core::workload::{Container, Names};
use magscope_core::{
    Batch, Event, Flow, FlowId, Hop, Loss, LossCause, PayloadHead, ProbeHit, Proto, Task, TcpSample,
};
use magscope_fleet::pki::{Folder, Validity};
use magscope_fleet::{Address, Grants, Hosts, Memory, Request, Start, StartAt, StreamContent, Terms, dial};
use std::sync::Arc;
use std::time::Duration;

/// Identifiers of one of three owners' rows.
#[derive(Clone, Copy)]
struct Owner {
    flow: u64,
    socket: u64,
    tid: u32,
    cgroup: u64,
    comm: &'static str,
    port: u16,
    payload: &'static [u8],
    /// True if its process appears in events.
    is_seen: bool,
}

const OWN: Owner = Owner {
    flow: 1_111_111,
    socket: 1_111_112,
    tid: 11_111,
    cgroup: 1_111_113,
    comm: "own-program",
    port: 11_115,
    payload: b"own-payload",
    is_seen: true,
};
const FOREIGN: Owner = Owner {
    flow: 6_666_661,
    socket: 6_666_662,
    tid: 66_666,
    cgroup: 6_666_663,
    comm: "foreign-one",
    port: 61_665,
    payload: b"foreign-load",
    is_seen: true,
};
/// No process was seen with it.
const UNSEEN: Owner = Owner {
    flow: 7_777_771,
    socket: 7_777_772,
    tid: 0,
    cgroup: 7_777_773,
    comm: "unseen-one",
    port: 51_775,
    payload: b"unseen-load",
    is_seen: false,
};

/// Texts that identify an owner: each row that could contain one contains it.
fn marks(owner: &Owner) -> Vec<String> {
    let hex = |bytes: &[u8]| bytes.iter().fold(String::new(), |text, byte| text + &format!("{byte:02x}"));
    let mut marks = vec![
        owner.flow.to_string(),
        owner.socket.to_string(),
        owner.cgroup.to_string(),
        owner.comm.to_owned(),
        owner.port.to_string(),
        String::from_utf8_lossy(owner.payload).into_owned(),
        hex(owner.payload),
        format!("{:?}", owner.payload),
    ];
    if owner.tid != 0 {
        marks.push(owner.tid.to_string());
    }
    marks
}

pub fn node(host: &str) -> NodeInfo {
    let cgroup =
        |owner: &Owner, id: &str| CgroupName { id: owner.cgroup, path: format!("/pods/docker-{id}.scope") };
    NodeInfo {
        host: host.to_owned(),
        cgroups: vec![cgroup(&OWN, "4fa2bc"), cgroup(&FOREIGN, FOREIGN.comm), cgroup(&UNSEEN, UNSEEN.comm)],
        netns: vec![NetnsName { netns: 1, name: FOREIGN.comm.to_owned() }],
        settings: vec![format!("filter not comm = {}", FOREIGN.comm), format!("pcap port {}", FOREIGN.port)],
        interfaces: vec![interface(2)],
        programs: vec![AttachedProgram {
            name: FOREIGN.comm.to_owned(),
            ..AttachedProgram::of(ProgramKind::Xdp, 9)
        }],
        chains: vec![chain()],
        not_followed: vec![UnfollowedSockets { netns: 1, kind: FOREIGN.comm.to_owned(), sockets: 1 }],
        ..info()
    }
}

fn interface(index: u32) -> InterfaceName {
    InterfaceName { netns: 1, index, name: FOREIGN.comm.to_owned(), kind: String::new() }
}

fn chain() -> FilterChain {
    FilterChain {
        netns: 1,
        family: FilterFamily::Inet,
        table: FOREIGN.comm.to_owned(),
        chain: "input".to_owned(),
        hook: FilterHook::Input,
        policy: true,
        rule: None,
        others: false,
    }
}

/// Names of containers that started later.
fn names() -> Names {
    let of = |owner: &Owner| CgroupName { id: owner.cgroup + 100, path: format!("/pods/{}", owner.comm) };
    let container = |owner: &Owner| Container {
        name: owner.comm.to_owned(),
        cgroup: format!("/pods/{}", owner.comm),
        ..Container::default()
    };
    let own = CgroupName { id: OWN.cgroup + 100, path: "/pods/docker-4fa2bc.scope/inner".to_owned() };
    Names {
        time_ns: 7,
        netns: vec![NetnsName { netns: 2, name: FOREIGN.comm.to_owned() }],
        interfaces: vec![interface(3)],
        cgroups: vec![own, of(&FOREIGN), of(&UNSEEN)],
        containers: vec![container(&FOREIGN), container(&UNSEEN)],
    }
}

fn change(what: String) -> Change {
    Change { from_ns: 5, to_ns: 6, what }
}

/// A row of every table of every owner. Each is written out, so that a table that is added does not compile here.
pub fn batch() -> Batch {
    let owners = [OWN, FOREIGN, UNSEEN];
    let mut all = Batch {
        events: Vec::new(),
        flows: Vec::new(),
        tasks: Vec::new(),
        tcp: Vec::new(),
        hits: Vec::new(),
        heads: Vec::new(),
        losses: vec![Loss { cpu: 0, from_ns: 1, to_ns: 9_000_000, count: 3, cause: LossCause::RingFull }],
        clock: vec![ClockSample { monotonic_ns: 1_000_000, raw_ns: 1_000_000, ..ClockSample::default() }],
        changes: vec![
            change(format!("filter comm = {}", FOREIGN.comm)),
            change(format!("pcap port {}", FOREIGN.port)),
        ],
        counts: vec![HopCount {
            time_ns: 9,
            hop: Hop::DevXmit,
            kept: FOREIGN.flow,
            filtered: 0,
            undecided: 0,
            sampled: 0,
            synthesised: 0,
        }],
        synthesis: Vec::new(),
        names: vec![names()],
        watermark_ns: 90_000_000,
        late: 0,
    };
    for owner in owners {
        let (id, socket) = (FlowId(owner.flow), owner.socket);
        all.flows.push(Flow {
            id,
            netns: 1,
            proto: Proto::UDP,
            local: format!("10.0.0.1:{}", owner.port).parse().expect("an address"),
            remote: "10.0.0.2:80".parse().expect("an address"),
        });
        let (tid, cgroup, comm) = (owner.tid.max(77_777), owner.cgroup, owner.comm.to_owned());
        let tid = if owner.is_seen { owner.tid } else { tid };
        all.tasks.push(Task { tgid: tid, tid, uid: 0, cgroup, comm });
        let first = if owner.is_seen { 0 } else { 2 };
        let hops = [Hop::AppSend, Hop::UdpSend, Hop::IpOut, Hop::DevXmit];
        for n in 0..20_u64 {
            for (at, hop) in hops.into_iter().enumerate().skip(first) {
                let tid = if hop.knows_process() { owner.tid } else { 0 };
                all.events.push(Event {
                    flow: id,
                    socket,
                    tid,
                    tgid: tid,
                    proto: Proto::UDP,
                    len: 100,
                    ip_id: n as u16 + 1,
                    skb: n as u32 + 1,
                    segs: 1,
                    ..Event::at(hop, 2_000_000 + n * 100_000 + at as u64 * 1_000 + owner.flow % 7)
                });
            }
        }
        let time_ns = 50_000_000;
        all.tcp.push(TcpSample { time_ns, socket, flow: id, ..tcp_sample() });
        all.hits.push(ProbeHit {
            time_ns,
            socket,
            flow: id,
            // The interrupted thread.
            tgid: FOREIGN.tid,
            tid: FOREIGN.tid,
            known: 1,
            values: [owner.socket as i64; magscope_core::custom::MOST_VALUES],
            ..ProbeHit::default()
        });
        // One at a granted hop, one at another.
        for hop in [Hop::DevXmit, Hop::IpOut] {
            all.heads.push(PayloadHead {
                time_ns,
                flow: id,
                seq: 0,
                of_bytes: 11,
                event: 0,
                record: 0,
                cpu: 0,
                ip_id: 0,
                hop,
                proto: Proto::UDP,
                bytes: owner.payload.to_vec(),
            });
        }
        let mut sum = |of: Sum| {
            let (from_ns, to_ns, hop) = (50_000_000, 60_000_000, Hop::DevXmit);
            all.synthesis.push(Synthesis { from_ns, to_ns, hop, of, n: 1, sum: socket, buckets: Vec::new() });
        };
        sum(Sum::Flow(id));
        sum(Sum::Cgroup(owner.cgroup));
        if !owner.is_seen {
            [Sum::Since(Hop::IpOut), Sum::Begun, Sum::Reason(2), Sum::Rest].into_iter().for_each(sum);
        }
    }
    all.events.sort_by_key(|event| event.time_ns);
    (0..).zip(&mut all.events).for_each(|(record, event)| event.record = record);
    all
}

fn tcp_sample() -> TcpSample {
    serde_json::from_value(serde_json::json!({})).unwrap_or_else(|_| TcpSample::default())
}

/// Every cell of a stream's rows with its column's name.
pub type Cells = Vec<(String, String)>;

fn cells(rows: &RecordBatch) -> Cells {
    let options = FormatOptions::default();
    let mut cells = Cells::new();
    for (column, field) in rows.columns().iter().zip(rows.schema().fields()) {
        let text = ArrayFormatter::try_new(column, &options).expect("a type that can be shown");
        cells.extend((0..column.len()).map(|row| (field.name().clone(), text.value(row).to_string())));
    }
    cells
}

/// All rows of a table that a viewer receives, and their number.
async fn read(address: &Address, folder: &Folder, identity: &str, host: &str, table: &str) -> (usize, Cells) {
    let credentials = viewer(folder, identity);
    let dialed = dial(address, credentials.as_ref()).await.expect("it is let in");
    let request = Request {
        table: table.to_owned(),
        host: Some(host.to_owned()),
        from: Start::Oldest,
        pull: true,
        ..Request::default()
    };
    let ticket = Ticket { ticket: request.ticket().into() };
    let rows = dialed.client.clone().do_get(ticket).await.expect("a stream").into_inner();
    let mut rows = FlightRecordBatchStream::new_from_flight_data(rows.map_err(std::convert::Into::into));
    let (mut count, mut all) = (0, Cells::new());
    while let Some(batch) = rows.next().await {
        let batch = batch.expect("rows");
        count += batch.num_rows();
        all.extend(cells(&batch));
    }
    (count, all)
}

/// The same for the packet stream, with each table as text.
fn packets(address: &Address, folder: &Folder, identity: &str, host: &str) -> Vec<Batch> {
    let back = StartAt::Back(Duration::from_secs(9));
    let read_options = magscope_fleet::ReadOptions {
        address: address.clone(),
        credentials: viewer(folder, identity),
        from: back,
        terms: Terms::default(),
    };
    let mut hosts = magscope_fleet::Remote::connect(&read_options).expect("it is let in");
    let remote = hosts.iter_mut().find(|remote| remote.info().host == host).expect("it is there");
    let mut all = Vec::new();
    loop {
        let mut batch = Batch::default();
        let progress = remote.next(&mut batch, Duration::from_millis(100)).expect("a source");
        let has_clock = !batch.clock.is_empty();
        all.push(batch);
        // Clock samples pass under every grant, in the packet with all the rest.
        if has_clock || progress == Progress::End {
            return all;
        }
    }
}

pub const GRANTS: [&str; 7] = [
    "",
    "?no-payload",
    "?hops=dev.xmit",
    "?containers=4fa2",
    "?containers=nosuch",
    "?no-payload&containers=4fa2",
    "?no-payload&hops=dev.xmit&containers=4fa2",
];

/// Tables that describe the measurement and belong to no process.
const FACTS: [&str; 3] = ["losses", "clock", "changes"];

/// Holds what came against what a grant lets through.
pub fn check(what: &str, grants: &Grants, cells: &Cells) {
    let has = |marks: &[String]| {
        cells.iter().find(|(_, text)| marks.iter().any(|mark| text.contains(mark.as_str()))).cloned()
    };
    if !grants.containers.is_empty() {
        for foreign in [FOREIGN, UNSEEN] {
            assert_eq!(has(&marks(&foreign)), None, "{what}");
        }
    }
    if grants.containers == ["nosuch"] {
        assert_eq!(has(&marks(&OWN)), None, "{what}");
    }
    if grants.no_payload {
        for owner in [OWN, FOREIGN, UNSEEN] {
            let payload = &marks(&owner)[5..8];
            assert_eq!(has(payload), None, "{what}");
        }
    }
    if let Some(hops) = grants.hops {
        let granted = |text: &str| {
            text.is_empty() || hops.iter().any(|hop| hop.name() == text || hop.id().to_string() == text)
        };
        let other = cells.iter().find(|(name, text)| name == "hop" && !granted(text));
        assert_eq!(other, None, "{what}");
    }
}

#[test]
fn no_table_of_an_agent_or_a_relay_has_a_row_that_is_not_granted() {
    let (_dir, folder) = authority();
    for (n, text) in GRANTS.iter().enumerate() {
        let grants: Grants = format!("magnet-scope:viewer{text}").parse().expect("limits");
        folder.viewer(&format!("v{n}"), &grants, Validity::days(1)).expect("it is made");
    }
    folder.relay(&["relay-1".to_owned(), "127.0.0.1".to_owned()], Validity::days(1)).expect("it is made");
    let (memories, writers): (Vec<_>, Vec<_>) = ["web-1", "web-2"]
        .into_iter()
        .map(|host| {
            let (memory, mut writer) = Memory::new(node(host), 64 << 20).expect("Arrow");
            writer.push(&batch()).expect("kept");
            (memory, writer)
        })
        .unzip();
    let agent = Serving::start(&memories[0], 0, Some((folder.clone(), "host-web-1")));
    let all: Vec<Arc<Memory>> = memories.clone();
    let relay = Serving::of(Hosts::of(all), 0, Some((folder.clone(), "relay-relay-1")));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    for (serving, host) in [(&agent, "web-1"), (&relay, "web-2")] {
        for (n, text) in GRANTS.iter().enumerate() {
            let grants: Grants = format!("magnet-scope:viewer{text}").parse().expect("limits");
            let identity = format!("viewer-v{n}");
            for (table, give) in StreamContent::all() {
                let what = format!("{host}, table {table}, grant `{text}`");
                if give == StreamContent::Packets {
                    check_packets(&what, &grants, &packets(&serving.tls(), &folder, &identity, host));
                    continue;
                }
                let (rows, cells) = runtime.block_on(read(&serving.tls(), &folder, &identity, host, table));
                check(&what, &grants, &cells);
                if text.is_empty() {
                    assert!(rows > 0, "{what}: this test has no row of it");
                } else if grants.containers == ["nosuch"] {
                    assert!(rows == 0 || FACTS.contains(&table), "{what}: {rows} rows, {cells:?}");
                } else if *text == "?containers=4fa2" && table != "counts" {
                    assert!(rows > 0, "{what}: what is granted is there");
                }
            }
            let about = runtime.block_on(dial(&serving.tls(), viewer(&folder, &identity).as_ref()));
            let about = format!("{:?}", about.expect("it is let in").about.hosts);
            let about: Cells = vec![("about".to_owned(), about)];
            check(&format!("{host}, about, grant `{text}`"), &grants, &about);
        }
    }
    drop(writers);
}

/// The stream of packets, table by table.
pub fn check_packets(what: &str, grants: &Grants, batches: &[Batch]) {
    let mut cells = Cells::new();
    let mut add = |hop: Option<Hop>, row: String| {
        cells.push(("row".to_owned(), row));
        cells.extend(hop.map(|hop| ("hop".to_owned(), hop.name().to_owned())));
    };
    for batch in batches {
        let Batch { events, flows, tasks, tcp, hits, heads, losses, clock, changes, counts, synthesis, .. } =
            batch;
        for row in events {
            add(Some(row.hop), format!("{row:?}"));
        }
        for row in flows {
            add(None, format!("{row:?}"));
        }
        for row in tasks {
            add(None, format!("{row:?}"));
        }
        for row in tcp {
            add(Some(Hop::TcpState), format!("{row:?}"));
        }
        for row in hits {
            add(None, format!("{row:?}"));
        }
        for row in heads {
            add(Some(row.hop), format!("{row:?}"));
        }
        for row in losses {
            add(None, format!("{row:?}"));
        }
        for row in clock {
            add(None, format!("{row:?}"));
        }
        for row in changes {
            add(None, format!("{row:?}"));
        }
        for row in counts {
            add(Some(row.hop), format!("{row:?}"));
        }
        for row in synthesis {
            add(Some(row.hop), format!("{row:?}"));
        }
    }
    check(what, grants, &cells);
    if *grants == Grants::default() {
        for owner in [OWN, FOREIGN, UNSEEN] {
            let marks = marks(&owner);
            assert!(
                cells.iter().any(|(_, text)| text.contains(&marks[7])),
                "{what}: payload is there to be kept back"
            );
        }
    }
}

#[test]
fn a_certificate_without_a_permission_reads_nothing() {
    let (_dir, folder) = authority();
    let (memory, _writer) = Memory::new(info(), 64 << 20).expect("Arrow");
    let serving = Serving::start(&memory, 0, Some((folder.clone(), "host-web-1")));
    folder.host(&["web-2".to_owned()], Validity::days(1)).expect("it is made");
    folder.relay(&["hub".to_owned()], Validity::days(1)).expect("it is made");
    for identity in ["host-web-1", "host-web-2"] {
        let refused = connect(serving.tls(), viewer(&folder, identity), StartAt::Now, Terms::default());
        let refused = refused.err().expect("it is not let in").to_string();
        assert!(refused.contains("no connection"), "{refused}");
        assert!(serving.has_message("neither a viewer's nor a relay's"), "{:?}", serving.messages);
    }
    for identity in ["viewer-me", "relay-hub"] {
        connect(serving.tls(), viewer(&folder, identity), StartAt::Now, Terms::default())
            .expect("it is let in");
    }
}
