//! What one client gets of the stream: its own filter, sampling, snap length and rate, within what it may see.

use crate::grants::Grants;
use crate::request::Terms;
use magscope_core::capture_filter::Sight;
use magscope_core::node::NodeInfo;
use magscope_core::synthesis::Sum;
use magscope_core::{Batch, CaptureFilter, Event, Flow, FlowId, Hop, Loss, LossCause, Proto, Task};
use std::collections::HashMap;
use std::hash::Hash;
use std::net::IpAddr;
use std::time::Instant;

/// Flows, tasks and sockets remembered, each. The agent's stream repeats itself, so what was forgotten comes back.
const MOST: usize = 1 << 16;

/// Lets through what its client asked for and may see.
#[derive(Debug)]
pub struct Sieve {
    filters: Vec<CaptureFilter>,
    grants: Grants,
    one_in: u32,
    snap: Option<u32>,
    rate: Option<Rate>,
    flows: HashMap<FlowId, Known<Flow>>,
    tasks: HashMap<u32, Known<Task>>,
    /// Whose socket and whose flow it is: a thread.
    sockets: HashMap<u64, u32>,
    owners: HashMap<FlowId, u32>,
}

#[derive(Debug)]
struct Known<T> {
    what: T,
    told: bool,
}

#[derive(Debug)]
struct Rate {
    most: u64,
    left: u64,
    since: Instant,
}

impl Sieve {
    /// For these terms within these grants; `None` where all goes through as it is.
    ///
    /// # Errors
    /// What is wrong with the terms, in words.
    pub fn new(terms: &Terms, grants: &Grants) -> Result<Option<Self>, String> {
        let own = terms.filter()?;
        let granted = grants.filter()?;
        let one_in = terms.flows_one_in.unwrap_or(1).max(1);
        let all = own.is_none() && one_in == 1 && terms.snap.is_none() && terms.records_a_second.is_none();
        if all && *grants == Grants::default() {
            return Ok(None);
        }
        let rate = terms.records_a_second.map(|most| Rate { most, left: most, since: Instant::now() });
        Ok(Some(Sieve {
            filters: own.into_iter().chain(granted).collect(),
            grants: grants.clone(),
            one_in,
            snap: if grants.no_payload { Some(0) } else { terms.snap },
            rate,
            flows: HashMap::new(),
            tasks: HashMap::new(),
            sockets: HashMap::new(),
            owners: HashMap::new(),
        }))
    }

    /// Takes out of a batch what is not for this client.
    pub fn sift(&mut self, batch: &mut Batch, info: &NodeInfo) {
        for flow in batch.flows.drain(..) {
            remember(&mut self.flows, flow.id, flow);
        }
        for task in batch.tasks.drain(..) {
            remember(&mut self.tasks, task.tid, task);
        }
        let mut events = std::mem::take(&mut batch.events);
        events.retain(|event| self.keeps_event(event, info));
        batch.events = events;
        let keeps = |sieve: &Self, flow: FlowId, socket: u64, hop: Hop, proto: Proto| {
            sieve.keeps(&Asked { flow, socket, hop, proto, ..Asked::default() }, info) != Some(false)
        };
        batch.tcp.retain(|s| keeps(self, s.flow, s.socket, Hop::TcpState, Proto::TCP));
        // Values of a person's own probe can be anything, bytes of payload too.
        batch.hits.retain(|hit| {
            !self.grants.no_payload && keeps(self, hit.flow, hit.socket, Hop::SkbDrop, hit.proto)
        });
        if self.snap == Some(0) {
            batch.heads.clear();
        }
        batch.heads.retain(|head| keeps(self, head.flow, 0, head.hop, head.proto));
        if let Some(snap) = self.snap {
            batch.heads.iter_mut().for_each(|head| head.bytes.truncate(snap as usize));
        }
        batch.synthesis.retain(|sum| {
            let asked = Asked { hop: sum.hop, ..Asked::default() };
            if let Sum::Flow(flow) = sum.of {
                let proto = self.flows.get(&flow).map_or(Proto::TCP, |known| known.what.proto);
                return self.keeps(&Asked { flow, proto, ..asked }, info) == Some(true);
            }
            // sums over everybody's packets, from which nobody's can be taken out again
            self.filters.is_empty() && self.one_in <= 1 && self.keeps(&asked, info) == Some(true)
        });
        self.at_its_rate(batch);
        self.announce(batch);
    }

    fn keeps_event(&mut self, event: &Event, info: &NodeInfo) -> bool {
        if event.hop.knows_process() && event.tid != 0 {
            if event.socket != 0 {
                bounded(&mut self.sockets).insert(event.socket, event.tid);
            }
            if !event.flow.is_none() {
                bounded(&mut self.owners).insert(event.flow, event.tid);
            }
        }
        let asked = Asked {
            flow: event.flow,
            socket: event.socket,
            hop: event.hop,
            proto: event.proto,
            cpu: event.cpu,
            ifindex: event.ifindex,
            len: event.len,
            tid: if event.hop.knows_process() { event.tid } else { 0 },
        };
        // Kept only where it certainly holds, as in the kernel.
        self.keeps(&asked, info) == Some(true)
    }

    /// `None` where a filter cannot tell.
    fn keeps(&self, asked: &Asked, info: &NodeInfo) -> Option<bool> {
        if !self.grants.hops.is_none_or(|hops| hops.contains(asked.hop)) {
            return Some(false);
        }
        let flow = self.flows.get(&asked.flow).map(|known| &known.what);
        if self.one_in > 1 && !flow.is_some_and(|flow| wire_hash(flow).is_multiple_of(u64::from(self.one_in))) {
            return Some(false);
        }
        if self.filters.is_empty() {
            return Some(true);
        }
        let tid = Some(asked.tid).filter(|tid| *tid != 0);
        let tid = tid.or_else(|| self.sockets.get(&asked.socket).copied());
        let tid = tid.or_else(|| self.owners.get(&asked.flow).copied());
        let sight = Sight {
            hop: asked.hop,
            cpu: asked.cpu,
            proto: asked.proto,
            ifindex: asked.ifindex,
            len: asked.len,
            socket: asked.socket,
            flow,
            task: tid.and_then(|tid| self.tasks.get(&tid)).map(|known| &known.what),
            info,
        };
        let mut certain = true;
        for filter in &self.filters {
            match filter.holds(&sight) {
                Some(true) => {}
                Some(false) => return Some(false),
                None => certain = false,
            }
        }
        certain.then_some(true)
    }

    /// Cuts off what is more than was agreed on, and says so.
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

    /// Tells of flows and tasks, each with the first batch that uses it.
    fn announce(&mut self, batch: &mut Batch) {
        let mut flow = |flows: &mut Vec<Flow>, id: FlowId| tell(&mut self.flows, &id, flows);
        let mut task = |tasks: &mut Vec<Task>, tid: u32| tell(&mut self.tasks, &tid, tasks);
        let Batch { events, flows, tasks, tcp, hits, heads, synthesis, .. } = batch;
        for event in events.iter() {
            flow(flows, event.flow);
            task(tasks, event.tid);
        }
        for id in tcp.iter().map(|sample| sample.flow).chain(heads.iter().map(|head| head.flow)) {
            flow(flows, id);
        }
        for sum in synthesis.iter() {
            if let Sum::Flow(id) = sum.of {
                flow(flows, id);
            }
        }
        for hit in hits.iter() {
            flow(flows, hit.flow);
            task(tasks, hit.tid);
        }
    }
}

/// What a filter is asked of.
#[derive(Clone, Copy)]
struct Asked {
    flow: FlowId,
    socket: u64,
    hop: Hop,
    proto: Proto,
    cpu: u16,
    ifindex: u32,
    len: u32,
    tid: u32,
}

impl Default for Asked {
    fn default() -> Self {
        let (flow, hop) = (FlowId::NONE, Hop::SkbDrop);
        Asked { flow, socket: 0, hop, proto: Proto::TCP, cpu: 0, ifindex: 0, len: 0, tid: 0 }
    }
}

fn bounded<K, V>(map: &mut HashMap<K, V>) -> &mut HashMap<K, V> {
    if map.len() >= MOST {
        map.clear();
    }
    map
}

fn remember<K: Hash + Eq, T: PartialEq>(map: &mut HashMap<K, Known<T>>, key: K, what: T) {
    if map.get(&key).is_none_or(|known| known.what != what) {
        bounded(map).insert(key, Known { what, told: false });
    }
}

fn tell<K: Hash + Eq, T: Clone>(map: &mut HashMap<K, Known<T>>, key: &K, out: &mut Vec<T>) {
    if let Some(known) = map.get_mut(key).filter(|known| !known.told) {
        known.told = true;
        out.push(known.what.clone());
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
