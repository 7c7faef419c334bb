//! Rows of `journeys`.

use super::{proto, some_id, some_u32};
use crate::names::Names;
use crate::table::column::{Key, Keys};
use crate::table::definition::columns;
use crate::timeline::TimeLine;
use crate::wire;
use magscope_core::context::Context;
use magscope_core::hash::Map;
use magscope_core::journey::Across;
use magscope_core::{FlowId, Hop, Journey, Proto, Task, Verdict};

/// Maximum number of cached ends, and of threads.
const MOST: usize = 1 << 14;

/// Cached keys, valid until the rows are taken. Many journeys share few ends and threads, and name look-ups
/// dominate the cost of a row.
#[derive(Default)]
pub struct Common {
    ends: Map<(u16, FlowId, u16, FlowId), Ends>,
    senders: Map<(u16, u32), Thread>,
    readers: Map<(u16, u32), Thread>,
    /// By role, recording, cgroup and flow.
    members: Map<(Role, u16, u64, FlowId), MemberKeys>,
    /// Of the names that the cached keys are of.
    revision: u64,
    protos: Keys<Proto>,
    across: Keys<u8>,
    /// By address of the name, which is static.
    verdicts: Keys<usize>,
    hops: Keys<u8>,
}

/// The keys of a container, a pod and a unit.
type MemberKeys = [Key; 3];

/// An end of a journey.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Role {
    Sender,
    Reader,
}

/// The keys of where an end runs.
fn member(
    members: &mut Map<(Role, u16, u64, FlowId), MemberKeys>,
    at: (Role, u16, u64, FlowId),
    find: impl FnOnce() -> MemberKeys,
) -> MemberKeys {
    if let Some(keys) = members.get(&at) {
        return *keys;
    }
    let keys = find();
    // A thread or a flow may be announced after its first journey ends.
    if keys != MemberKeys::default() && members.len() < MOST {
        members.insert(at, keys);
    }
    keys
}

/// The two ends of a journey.
#[derive(Clone, Copy)]
struct Ends {
    addr: [Key; 2],
    port: [Option<u16>; 2],
    tx: [Key; 2],
    rx: [Key; 2],
    wire: Option<wire::Ends>,
}

impl Ends {
    fn of(
        rows: &mut columns::Journeys,
        names: &mut Names,
        journey: &Journey,
        context: &dyn Context,
    ) -> (Self, bool) {
        let (tx, rx) = (context.tx_flow(journey), context.rx_flow(journey));
        let ends = wire::ends(tx, rx);
        let mut place = |node: u16, flow: Option<&magscope_core::Flow>| {
            flow.map(|flow| (names.host_of(node, flow.netns), names.place(node, flow.netns)))
                .unwrap_or_default()
        };
        let (tx_names, rx_names) = (place(journey.tx_node, tx), place(journey.rx_node, rx));
        // A flow may be announced after its first journey ends.
        let is_resolved = |id: FlowId, flow: Option<&magscope_core::Flow>| id.is_none() || flow.is_some();
        let lasting = is_resolved(journey.tx_flow, tx) && is_resolved(journey.rx_flow, rx);
        let ends = Ends {
            addr: [
                rows.src_addr.key(ends.map(|(from, _)| from.ip())),
                rows.dst_addr.key(ends.map(|(_, to)| to.ip())),
            ],
            port: {
                let ends = ends.filter(|_| journey.proto.has_ports());
                [ends.map(|(from, _)| from.port()), ends.map(|(_, to)| to.port())]
            },
            tx: [rows.tx_host.key(&tx_names.0), rows.tx_netns_name.key(&tx_names.1)],
            rx: [rows.rx_host.key(&rx_names.0), rows.rx_netns_name.key(&rx_names.1)],
            wire: ends.map(|ends| wire::Ends::of(journey.proto, ends)),
        };
        (ends, lasting)
    }
}

/// A thread with its last name.
struct Thread {
    comm: Box<str>,
    cgroup: u64,
    keys: (Key, Key),
}

/// The keys of a thread's name and control group.
fn thread(
    threads: &mut Map<(u16, u32), Thread>,
    at: (u16, u32),
    task: Option<&Task>,
    make: impl FnOnce(&Task) -> (Key, Key),
) -> (Key, Key) {
    let Some(task) = task else { return (None, None) };
    if let Some(thread) = threads.get(&at).filter(|t| *t.comm == *task.comm && t.cgroup == task.cgroup) {
        return thread.keys;
    }
    let keys = make(task);
    if threads.len() < MOST {
        threads.insert(at, Thread { comm: task.comm.as_str().into(), cgroup: task.cgroup, keys });
    }
    keys
}

/// Adds a row.
pub fn journey_row(
    rows: &mut columns::Journeys,
    common: &mut Common,
    line: TimeLine,
    names: &mut Names,
    journey: &Journey,
    context: &dyn Context,
) {
    if common.revision != names.revision() {
        *common = Common { revision: names.revision(), ..Common::default() };
    }
    let at = (journey.tx_node, journey.tx_flow, journey.rx_node, journey.rx_flow);
    let ends = common.ends.get(&at).copied().unwrap_or_else(|| {
        let (ends, lasting) = Ends::of(rows, names, journey, context);
        if lasting && common.ends.len() < MOST {
            common.ends.insert(at, ends);
        }
        ends
    });
    let wire_key = ends.wire.and_then(|ends| ends.key(journey));
    let (start_ns, end_ns) = journey.span_ns().unwrap_or_default();
    rows.rows += 1;
    rows.ts_ns.push_signed(line.ns(start_ns));
    rows.ts.push(line.utc_ns(start_ns));
    rows.journey.push(journey.id);
    rows.end_ns.push_signed(line.ns(end_ns));
    let total_ns = journey.total_ns();
    rows.total_ns.push(total_ns);
    rows.half_width_ns.push(total_ns.map(|_| journey.total_half_width_ns()));
    let (across, name) = match journey.across {
        Across::OneClock => (0, "one-clock"),
        Across::Bounded { .. } => (1, "bounded"),
        Across::Apart => (2, "apart"),
    };
    let key = common.across.get(across, || rows.across.key(name));
    rows.across.push_key(key);
    let key = common.protos.get(journey.proto, || rows.proto.key(&proto(journey.proto)));
    rows.proto.push_key(key);
    let verdict = journey.verdict.name();
    let key = common.verdicts.get(verdict.as_ptr().addr(), || rows.verdict.key(verdict));
    rows.verdict.push_key(key);
    rows.whole.push(journey.verdict.is_whole());
    let (hop, reason) = match journey.verdict {
        Verdict::LostAfter { hop }
        | Verdict::Discarded { hop }
        | Verdict::NotProbed { beyond: hop }
        | Verdict::Filtered { beyond: hop } => (Some(hop), None),
        Verdict::Dropped { hop, reason } => (Some(hop), Some(reason)),
        _ => (None, None),
    };
    let key = common.hops.get(hop.map_or(0, Hop::id), || rows.verdict_hop.key(hop.map_or("", Hop::name)));
    rows.verdict_hop.push_key(key);
    rows.drop_reason.push(reason);
    rows.drop_name.push(&context.why_dropped(journey).unwrap_or_default());
    rows.dropped_by.push(&context.dropped_by(journey).unwrap_or_default());
    rows.bytes.push(journey.bytes());
    rows.range_start.push(journey.range.start);
    rows.range_end.push(journey.range.end);
    rows.ip_id.push(journey.ip_id);
    rows.src_addr.push_key(ends.addr[0]);
    rows.src_port.push(ends.port[0]);
    rows.dst_addr.push_key(ends.addr[1]);
    rows.dst_port.push(ends.port[1]);
    rows.tx_host.push_key(ends.tx[0]);
    rows.tx_netns_name.push_key(ends.tx[1]);
    rows.rx_host.push_key(ends.rx[0]);
    rows.rx_netns_name.push_key(ends.rx[1]);
    rows.tx_flow.push(some_id(journey.tx_flow));
    rows.rx_flow.push(some_id(journey.rx_flow));
    let path = |node: u16, task: &Task| {
        context.info(node).and_then(|info| info.cgroup_path(task.cgroup)).unwrap_or_default()
    };
    let (sender, reader) = (journey.sender.unwrap_or_default(), journey.reader.unwrap_or_default());
    let (comm, cgroup) =
        thread(&mut common.senders, (journey.tx_node, sender.tid), context.sender(journey), |task| {
            (rows.sender.key(&task.comm), rows.sender_cgroup.key(path(journey.tx_node, task)))
        });
    rows.sender.push_key(comm);
    rows.sender_tgid.push(some_u32(sender.tgid));
    rows.sender_tid.push(some_u32(sender.tid));
    rows.sender_cgroup.push_key(cgroup);
    let (comm, cgroup) =
        thread(&mut common.readers, (journey.rx_node, reader.tid), context.reader(journey), |task| {
            (rows.reader.key(&task.comm), rows.reader_cgroup.key(path(journey.rx_node, task)))
        });
    rows.reader.push_key(comm);
    rows.reader_tgid.push(some_u32(reader.tgid));
    rows.reader_tid.push(some_u32(reader.tid));
    rows.reader_cgroup.push_key(cgroup);
    member_columns(rows, &mut common.members, journey, context);
    rows.hops.push(journey.rungs.len() as i64);
    rows.retransmits.push(journey.retransmits());
    rows.ambiguous.push(journey.ambiguous);
    rows.wire_key.push(wire_key);
    rows.wire_bucket.push(wire_key.map(wire::bucket));
    let bounds_ns = journey.total_bounds_ns();
    rows.lower_ns.push(bounds_ns.map(|(lower_ns, _)| lower_ns));
    rows.upper_ns.push(bounds_ns.map(|(_, upper_ns)| upper_ns));
}

/// The columns of where both ends run.
fn member_columns(
    rows: &mut columns::Journeys,
    members: &mut Map<(Role, u16, u64, FlowId), MemberKeys>,
    journey: &Journey,
    context: &dyn Context,
) {
    let cgroup = |task: Option<&Task>| task.map_or(0, |task| task.cgroup);
    let at = (Role::Sender, journey.tx_node, cgroup(context.sender(journey)), journey.tx_flow);
    let [container, pod, unit] = member(members, at, || {
        let found = context.sender_member(journey).unwrap_or_default();
        [
            rows.sender_container.key(found.container_name().unwrap_or_default()),
            rows.sender_pod.key(&found.pod().unwrap_or_default()),
            rows.sender_unit.key(found.unit.unwrap_or_default()),
        ]
    });
    rows.sender_container.push_key(container);
    rows.sender_pod.push_key(pod);
    rows.sender_unit.push_key(unit);
    let at = (Role::Reader, journey.rx_node, cgroup(context.reader(journey)), journey.rx_flow);
    let [container, pod, unit] = member(members, at, || {
        let found = context.reader_member(journey).unwrap_or_default();
        [
            rows.reader_container.key(found.container_name().unwrap_or_default()),
            rows.reader_pod.key(&found.pod().unwrap_or_default()),
            rows.reader_unit.key(found.unit.unwrap_or_default()),
        ]
    });
    rows.reader_container.push_key(container);
    rows.reader_pod.push_key(pod);
    rows.reader_unit.push_key(unit);
}
