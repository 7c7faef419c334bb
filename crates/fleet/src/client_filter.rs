//! One client's view of the stream: its filter, sampling, snap length and rate, within its grants.

use crate::grants::Grants;
use crate::owners::{Owners, Used};
use crate::request::Terms;
use crate::rows::{Row, Rows, flow_of};
use magscope_core::capture_filter::FilterInput;
use magscope_core::node::NodeInfo;
use magscope_core::synthesis::{Sum, Synthesis};
use magscope_core::workload::Container;
use magscope_core::{Batch, CaptureFilter, Detail, Event, Flow, FlowId, Hop, Loss, LossCause, Proto, Task};
use std::net::IpAddr;
use std::time::Instant;

/// Filter for one client's requests and grants.
#[derive(Debug)]
pub struct ClientFilter {
    filter: Option<CaptureFilter>,
    rows: Rows,
    one_in: u32,
    snap: Option<u32>,
    rate: Option<Rate>,
    owners: Owners,
    /// The node with the names so far; `None` before the first batch.
    node: Option<NodeInfo>,
    /// Approximate memory of the node, bytes.
    node_bytes: u64,
}

#[derive(Debug)]
struct Rate {
    most: u64,
    left: u64,
    since: Instant,
}

impl ClientFilter {
    /// A filter for these terms and grants; `None` if nothing is filtered.
    ///
    /// # Errors
    /// The reason for rejected terms.
    pub fn new(terms: &Terms, grants: &Grants) -> Result<Option<Self>, String> {
        let filter = terms.filter()?;
        let one_in = terms.flows_one_in.unwrap_or(1).max(1);
        let all = filter.is_none() && one_in == 1 && terms.snap.is_none() && terms.records_a_second.is_none();
        if all && *grants == Grants::default() {
            return Ok(None);
        }
        let rate = terms.records_a_second.map(|most| Rate { most, left: most, since: Instant::now() });
        let (rows, owners) = (Rows::new(grants), Owners::default());
        let snap = terms.snap;
        Ok(Some(ClientFilter { filter, rows, one_in, snap, rate, owners, node: None, node_bytes: 0 }))
    }

    /// The host's description for this client.
    pub fn host(&self, info: &NodeInfo) -> NodeInfo {
        let mut info = self.rows.host(info.clone());
        // Arrivals of the flows that are left out are not reported, and reads of sockets without a peer are kept.
        info.tells_order &= self.one_in <= 1;
        info
    }

    /// Memory of its tables, bytes.
    pub fn held_bytes(&self) -> u64 {
        self.owners.held_bytes().saturating_add(self.node_bytes)
    }

    /// Removes all rows from a batch that the client may not or does not want to read. `info` describes the
    /// node at the start of the capture; later names come from the batches.
    pub fn apply(&mut self, batch: &mut Batch, info: &NodeInfo) {
        let mut is_new = self.node.is_none();
        let mut node = self.node.take().unwrap_or_else(|| info.clone());
        // All names, before they are restricted to the grants: the client's filter decides by them.
        for names in &batch.names {
            is_new |= node.learn(names);
        }
        if is_new {
            self.node_bytes = names_bytes(&node);
        }
        self.restrict(batch, &node);
        self.node = Some(node);
    }

    fn restrict(&mut self, batch: &mut Batch, info: &NodeInfo) {
        // Destructured by name, so that a new table must be handled here.
        let Batch {
            events,
            flows,
            tasks,
            tcp,
            hits,
            heads,
            losses,
            clock,
            changes,
            counts,
            synthesis,
            names,
            watermark_ns: _,
            late: _,
        } = batch;
        flows.drain(..).for_each(|flow| self.owners.announce_flow(flow));
        tasks.drain(..).for_each(|task| self.owners.announce_task(task));
        events.retain_mut(|event| {
            self.owners.learn(event);
            if !self.admits_event(event, info) {
                return false;
            }
            // Before the client's filter: otherwise a match would show the name of a thread that is not granted.
            self.blank_threads(event, info);
            self.wants_event(event, info)
        });
        let wants = |asked: Asked| self.wants(&asked, info) != Some(false);
        tcp.retain(|tcp| {
            let asked = Asked { hop: Hop::TcpState, ..Asked::of(tcp.time_ns, tcp.flow, tcp.socket) };
            self.admits(Row::Tcp(tcp), info) && wants(asked)
        });
        hits.retain(|hit| {
            let asked = Asked { proto: hit.proto, ..Asked::of(hit.time_ns, hit.flow, hit.socket) };
            self.admits(Row::Hit(hit), info) && wants(asked)
        });
        for hit in hits.iter_mut() {
            self.rows.blank(hit, &self.owners, info);
        }
        heads.retain(|head| {
            let asked = Asked { hop: head.hop, proto: head.proto, ..Asked::of(head.time_ns, head.flow, 0) };
            self.admits(Row::Head(head), info) && self.snap != Some(0) && wants(asked)
        });
        if let Some(snap) = self.snap {
            for head in heads.iter_mut() {
                head.bytes.truncate(snap as usize);
            }
        }
        losses.retain(|_| self.admits(Row::Loss, info));
        clock.retain(|_| self.admits(Row::Clock, info));
        changes.retain(|_| self.admits(Row::Change, info));
        for change in changes.iter_mut() {
            change.what = self.rows.setting(&change.what);
        }
        names.retain_mut(|names| {
            self.rows.names(names);
            !names.is_empty()
        });
        counts.retain(|count| self.admits(Row::Count(count), info));
        synthesis.retain(|sum| self.admits(Row::Sum(sum), info) && self.wants_sum(sum, info));
        self.at_its_rate(batch);
        self.announce(batch, info);
    }

    fn admits(&self, row: Row<'_>, info: &NodeInfo) -> bool {
        self.rows.admits(row, &self.owners, info)
    }

    /// True if the event is granted. A switch of the scheduler is an event of both tasks.
    fn admits_event(&self, event: &Event, info: &NodeInfo) -> bool {
        let admits = |event: &Event| self.admits(Row::Event(event), info);
        let admits_previous = || admits(&Event { tid: event.detail.other_tid(), ..*event });
        admits(event) || event.hop == Hop::SchedSwitch && admits_previous()
    }

    /// Clears the threads of an admitted event that are not granted. A forked thread is granted with its parent: it
    /// is not announced yet.
    fn blank_threads(&self, event: &mut Event, info: &NodeInfo) {
        let is_foreign = |tid: u32| {
            let task = Task { tgid: 0, tid, uid: 0, cgroup: 0, comm: String::new() };
            tid != 0 && !self.admits(Row::Task(&task), info)
        };
        if is_foreign(event.tid) {
            (event.tgid, event.tid) = (0, 0);
        }
        let is_child = event.hop == Hop::SchedFork;
        if !is_child && is_foreign(event.detail.other_tid()) || is_foreign(event.detail.poller_tid()) {
            event.detail = Detail::None;
        }
    }

    fn wants_event(&self, event: &Event, info: &NodeInfo) -> bool {
        let asked = Asked {
            hop: event.hop,
            proto: event.proto,
            cpu: event.cpu,
            ifindex: event.ifindex,
            len: event.len,
            tid: if event.hop.knows_process() { event.tid } else { 0 },
            previous_tid: if event.hop == Hop::SchedSwitch { event.detail.other_tid() } else { 0 },
            ..Asked::of(event.time_ns, event.flow, event.socket)
        };
        // Accepted only if the filter certainly matches, as in the kernel.
        self.wants(&asked, info) == Some(true)
    }

    fn wants_sum(&self, sum: &Synthesis, info: &NodeInfo) -> bool {
        let Sum::Flow(flow) = sum.of else {
            // Sums over all packets cannot be filtered.
            return self.filter.is_none() && self.one_in <= 1;
        };
        let proto = self.owners.flow(flow).map_or(Proto::TCP, |flow| flow.proto);
        let asked = Asked { hop: sum.hop, proto, ..Asked::of(sum.to_ns, flow, 0) };
        self.wants(&asked, info) == Some(true)
    }

    /// True if the client requested the row; `None` if the filter cannot decide.
    fn wants(&self, asked: &Asked, info: &NodeInfo) -> Option<bool> {
        let flow = self.owners.flow_or_own_end(asked.flow, asked.socket);
        // A read of a socket without a peer is kept, as in the kernel: nothing shows the flow of its datagram.
        let is_chosen = |flow: &Flow| wire_hash(flow).is_multiple_of(u64::from(self.one_in));
        let is_of_peer = !asked.flow.is_none() || asked.socket == 0;
        if self.one_in > 1 && is_of_peer && !flow.is_some_and(is_chosen) {
            return Some(false);
        }
        let Some(filter) = &self.filter else { return Some(true) };
        let Asked { time_ns, flow: id, socket, hop, proto, cpu, ifindex, len, tid, previous_tid } = *asked;
        let owner = self.owners.owner(&Used { time_ns, tid, socket, flow: id });
        let task = owner.and_then(|owner| self.owners.task(owner.tid));
        let input = FilterInput { hop, cpu, proto, ifindex, len, socket, flow, task, info };
        if hop == Hop::SchedSwitch {
            return filter.holds_for_either(&input, self.owners.task(previous_tid));
        }
        filter.holds(&input)
    }

    /// Removes rows above the agreed rate and reports them as missed.
    fn at_its_rate(&mut self, batch: &mut Batch) {
        let Some(rate) = &mut self.rate else { return };
        if rate.since.elapsed().as_secs() >= 1 {
            (rate.left, rate.since) = (rate.most, Instant::now());
        }
        let fits = usize::try_from(rate.left).unwrap_or(usize::MAX).min(batch.events.len());
        rate.left = rate.left.saturating_sub(batch.numbered());
        let over = batch.events.get(fits..).unwrap_or_default();
        if let (Some(first), Some(last)) = (over.first(), over.last()) {
            let (from_ns, to_ns, count) = (first.time_ns, last.time_ns.max(first.time_ns), over.len() as u64);
            batch.losses.push(Loss { cpu: u16::MAX, from_ns, to_ns, count, cause: LossCause::Missed });
            batch.losses.sort_by_key(|loss| loss.to_ns);
            batch.events.truncate(fits);
        }
    }

    /// Announces flows and tasks with the first batch that uses them.
    fn announce(&mut self, batch: &mut Batch, info: &NodeInfo) {
        let Batch { events, flows, tasks, tcp, hits, heads, synthesis, .. } = batch;
        let rows = events.iter().map(Row::Event).chain(tcp.iter().map(Row::Tcp));
        let rows = rows.chain(hits.iter().map(Row::Hit)).chain(heads.iter().map(Row::Head));
        for row in rows.chain(synthesis.iter().map(Row::Sum)) {
            flows.extend(self.owners.pass_flow_on(flow_of(row)));
        }
        // The task that a switch takes off the CPU may have no event of its own.
        let switches = events.iter().filter(|event| event.hop == Hop::SchedSwitch);
        let previous = switches.map(|event| event.detail.other_tid());
        let tids = events.iter().map(|event| event.tid).chain(previous);
        for tid in tids.chain(hits.iter().map(|hit| hit.tid)) {
            tasks.extend(self.owners.pass_task_on(tid));
        }
        flows.retain(|flow| self.admits(Row::Flow(flow), info));
        tasks.retain(|task| self.admits(Row::Task(task), info));
    }
}

/// Approximate memory of a node's names, bytes.
fn names_bytes(info: &NodeInfo) -> u64 {
    let NodeInfo { netns, interfaces, cgroups, containers, .. } = info;
    let netns: usize = netns.iter().map(|one| size_of_val(one) + one.name.len()).sum();
    let interfaces: usize = interfaces.iter().map(|one| size_of_val(one) + one.name.len()).sum();
    let cgroups: usize = cgroups.iter().map(|one| size_of_val(one) + one.path.len()).sum();
    let containers: usize = containers.iter().map(Container::bytes).sum();
    (netns + interfaces + cgroups + containers) as u64
}

/// Input of a filter.
#[derive(Clone, Copy)]
struct Asked {
    time_ns: u64,
    flow: FlowId,
    socket: u64,
    hop: Hop,
    proto: Proto,
    cpu: u16,
    ifindex: u32,
    len: u32,
    tid: u32,
    /// Of a switch the thread that leaves the CPU; 0 otherwise.
    previous_tid: u32,
}

impl Asked {
    /// Input without further fields.
    fn of(time_ns: u64, flow: FlowId, socket: u64) -> Self {
        let (hop, proto) = (Hop::SkbDrop, Proto::TCP);
        Asked { time_ns, flow, socket, hop, proto, cpu: 0, ifindex: 0, len: 0, tid: 0, previous_tid: 0 }
    }
}

/// The same for both ends of a connection, on every host and in every version.
fn wire_hash(flow: &Flow) -> u64 {
    let end = |end: &std::net::SocketAddr| match end.ip() {
        IpAddr::V4(ip) => fnv(ip.octets().into_iter().chain(end.port().to_be_bytes())),
        IpAddr::V6(ip) => fnv(ip.octets().into_iter().chain(end.port().to_be_bytes())),
    };
    let both = end(&flow.local) ^ end(&flow.remote) ^ u64::from(flow.proto.0);
    fnv(both.to_be_bytes().into_iter()) >> 16
}

/// FNV-1a, 64 bits.
fn fnv(bytes: impl Iterator<Item = u8>) -> u64 {
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;
    use magscope_core::DetailKind;
    use magscope_core::node::CgroupName;
    use magscope_core::workload::Names;

    /// A datagram to a socket without a peer, and its read.
    fn datagram(id: u64, socket: u64, port: u16) -> (Flow, [Event; 2]) {
        let flow = Flow {
            id: FlowId(id),
            netns: 1,
            proto: Proto::UDP,
            local: format!("10.0.0.2:{port}").parse().expect("an address"),
            remote: format!("10.0.0.1:{}", 40_000 + id).parse().expect("an address"),
        };
        let of = |hop, flow| Event { proto: Proto::UDP, socket, flow, len: 100, ..Event::at(hop, id) };
        (flow, [of(Hop::UdpRecv, flow.id), of(Hop::AppRecv, FlowId::NONE)])
    }

    fn passed(terms: &Terms) -> Vec<(Hop, u64)> {
        let info = NodeInfo { tells_order: true, ..NodeInfo::default() };
        let mut filter = ClientFilter::new(terms, &Grants::default()).expect("terms").expect("a filter");
        assert_eq!(filter.host(&info).tells_order, terms.flows_one_in.is_none());
        let (flows, events): (Vec<_>, Vec<_>) =
            [datagram(1, 5, 7001), datagram(2, 6, 7002), datagram(3, 5, 7001)].into_iter().unzip();
        let mut batch = Batch { flows, events: events.into_iter().flatten().collect(), ..Batch::default() };
        filter.apply(&mut batch, &info);
        batch.events.iter().map(|event| (event.hop, event.socket)).collect()
    }

    #[test]
    fn a_filter_by_the_own_port_keeps_reads_of_a_socket_without_a_peer() {
        let terms = Terms { filter: Some("port 7001".to_owned()), ..Terms::default() };
        let one = [(Hop::UdpRecv, 5), (Hop::AppRecv, 5)];
        assert_eq!(passed(&terms), one.repeat(2));
        // Nothing shows whose datagram was read.
        let terms = Terms { filter: Some("host 10.0.0.1".to_owned()), ..Terms::default() };
        assert!(passed(&terms).iter().all(|(hop, _)| *hop == Hop::UdpRecv));
    }

    #[test]
    fn a_sampler_of_flows_keeps_reads_of_a_socket_without_a_peer() {
        let terms = Terms { flows_one_in: Some(1 << 30), ..Terms::default() };
        assert_eq!(passed(&terms), [(Hop::AppRecv, 5), (Hop::AppRecv, 6), (Hop::AppRecv, 5)]);
    }

    /// Threads of the switches between thread 1 of a granted container, 2 of another one, and 3 and 4 of which nothing is
    /// stored, as a client receives them (next, its process, previous), and the names of the announced threads.
    fn switches(filter: Option<&str>, grants: &str) -> (Vec<[u32; 3]>, Vec<String>) {
        let terms = Terms { filter: filter.map(str::to_owned), ..Terms::default() };
        let grants: Grants = format!("magnet-scope:viewer{grants}").parse().expect("grants");
        let mut filter = ClientFilter::new(&terms, &grants).expect("terms").expect("a filter");
        let cgroup = |id, path: &str| CgroupName { id, path: path.to_owned() };
        let cgroups = vec![cgroup(10, "/docker/4fa2"), cgroup(20, "/docker/99")];
        let task = |tid, cgroup, comm: &str| Task { tgid: tid, tid, uid: 0, cgroup, comm: comm.to_owned() };
        let switch = |next: u32, previous: u32| Event {
            tgid: next,
            tid: next,
            detail: DetailKind::OtherThread.of(previous),
            ..Event::at(Hop::SchedSwitch, 5)
        };
        let mut batch = Batch {
            tasks: vec![task(1, 10, "web"), task(2, 20, "secret")],
            events: vec![switch(1, 2), switch(2, 1), switch(2, 3), switch(0, 1), switch(4, 1)],
            ..Batch::default()
        };
        filter.apply(&mut batch, &NodeInfo { cgroups, ..NodeInfo::default() });
        let threads = |event: &Event| [event.tid, event.tgid, event.detail.other_tid()];
        let names = batch.tasks.iter().map(|task| task.comm.clone()).collect();
        (batch.events.iter().map(threads).collect(), names)
    }

    #[test]
    fn a_switch_is_an_event_of_both_tasks() {
        let of_web = [[1, 1, 2], [2, 2, 1], [0, 0, 1], [4, 4, 1]];
        let (threads, names) = switches(Some("comm = web"), "");
        assert_eq!(threads, of_web);
        assert_eq!(names, ["web", "secret"], "both are announced");
        assert_eq!(switches(Some("comm = secret"), "").0, [[1, 1, 2], [2, 2, 1], [2, 2, 3]]);
        assert_eq!(switches(Some("container = 4fa2"), "").0, of_web);
        assert_eq!(switches(Some("comm = other"), "").0.len(), 0);
    }

    #[test]
    fn a_viewer_of_some_containers_learns_no_other_thread() {
        let granted = [[1, 1, 0], [0, 0, 1], [0, 0, 1], [0, 0, 1]];
        for filter in [None, Some("comm = web")] {
            let (threads, names) = switches(filter, "?containers=4fa2");
            assert_eq!(threads, granted, "{filter:?}");
            assert_eq!(names, ["web"], "{filter:?}");
        }
        for filter in ["comm = secret", "tgid = 4", "not comm = web"] {
            assert!(switches(Some(filter), "?containers=4fa2").0.is_empty(), "{filter}: a match would show it");
        }
    }

    #[test]
    fn a_waking_or_polling_thread_of_another_container_is_not_shown() {
        let grants: Grants = "magnet-scope:viewer?containers=4fa2".parse().expect("grants");
        let mut filter = ClientFilter::new(&Terms::default(), &grants).expect("terms").expect("a filter");
        let cgroups = vec![CgroupName { id: 10, path: "/docker/4fa2".to_owned() }];
        let own = Task { tgid: 1, tid: 1, uid: 0, cgroup: 10, comm: "web".to_owned() };
        let of = |hop, detail| Event { tgid: 1, tid: 1, detail, ..Event::at(hop, 5) };
        let other = |hop| of(hop, DetailKind::OtherThread.of(7));
        let call = Event { socket: 3, ..of(Hop::AppSend, Detail::None) };
        let ready = Event { tgid: 0, tid: 0, socket: 3, ..of(Hop::SockReady, DetailKind::Poller.of(7)) };
        let events = vec![call, ready, other(Hop::SchedWakeup), other(Hop::SchedFork)];
        let mut batch = Batch { tasks: vec![own], events, ..Batch::default() };
        filter.apply(&mut batch, &NodeInfo { cgroups, ..NodeInfo::default() });
        let shown: Vec<_> = batch
            .events
            .iter()
            .map(|event| (event.hop, event.detail.other_tid().max(event.detail.poller_tid())))
            .collect();
        let expected = [(Hop::AppSend, 0), (Hop::SockReady, 0), (Hop::SchedWakeup, 0), (Hop::SchedFork, 7)];
        assert_eq!(shown, expected, "a forked thread is its parent's");
    }

    #[test]
    fn a_filter_by_container_matches_one_that_started_later() {
        let terms = Terms { filter: Some("container = web".to_owned()), ..Terms::default() };
        let mut filter = ClientFilter::new(&terms, &Grants::default()).expect("terms").expect("a filter");
        let cgroup = "/docker/6dcf81d5d93c".to_owned();
        let container = Container { name: "web".to_owned(), cgroup: cgroup.clone(), ..Container::default() };
        let names = Names {
            cgroups: vec![CgroupName { id: 9, path: cgroup }],
            containers: vec![container],
            ..Names::default()
        };
        let task = Task { tgid: 7, tid: 7, uid: 0, cgroup: 9, comm: "nginx".to_owned() };
        let call = Event { tgid: 7, tid: 7, socket: 3, ..Event::at(Hop::AppSend, 5) };
        let mut passed = |mut batch: Batch| {
            filter.apply(&mut batch, &NodeInfo::default());
            batch.events.len()
        };
        assert_eq!(passed(Batch { tasks: vec![task], events: vec![call], ..Batch::default() }), 0);
        assert_eq!(passed(Batch { names: vec![names], events: vec![call], ..Batch::default() }), 1);
        assert_eq!(passed(Batch { events: vec![call], ..Batch::default() }), 1, "the names stay");
        assert!(filter.held_bytes() > filter.owners.held_bytes());
    }
}
