//! Running averages for clients: bandwidth and latency of a socket, a flow, a process or a cgroup.
//!
//! [`Averages`] receives the output of a [`Walker`](magscope_timeline::merged_reader::Walker), as a
//! [`Sensor`](crate::Sensor) does, and stores data of watched subjects only. Memory is bounded by the watches,
//! and other traffic costs one table look-up. Windows use the events' own time.
//!
//! Bytes are those of calls: `app.recv` or else `app.copy`, and `app.send` or else `tcp.send`. A latency
//! belongs to a journey whose last read was a watched call. The read is matched by time and CPU, not by flow,
//! because addresses can be reused.
//!
//! [`AverageStore`] shares them with the threads of clients. A [`Tap`] passes batches to the thread that adds them
//! without blocking the capture.

mod calls;
mod losses;
mod reads;
mod served;
mod store;
mod tables;
mod tap;
mod times;
mod watch;

pub use store::AverageStore;
pub use tap::{Tap, Tapped, tap};

use losses::Losses;
use magscope_client::wire::{self, FigureOrReason, Window};
use magscope_core::flow::{Endpoint, Proto};
use magscope_core::node::NodeInfo;
use magscope_core::sampled::Sampled;
use magscope_core::{Batch, Event, Flow, FlowId, Hop, Journey};
use magscope_timeline::merged_reader::Piece;
use reads::Reads;
use served::Served;
use std::collections::{BTreeMap, HashMap};
use tables::Tables;
use watch::Watch;

/// Maximum number of watches.
pub const MOST_WATCHES: usize = 1_024;
/// Total capacity of all windows: some 60 MB if all of them are full.
pub const MOST_PLACES: usize = 1 << 20;

/// Subject of a watch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// A socket, by its cookie.
    Socket(u64),
    /// A process.
    Process(u32),
    /// A cgroup, by the number of its directory.
    Cgroup(u64),
    /// A flow, by its addresses at one end.
    Flow {
        /// Protocol.
        proto: Proto,
        /// Address of this end.
        local: Endpoint,
        /// The other end.
        remote: Endpoint,
        /// Its network namespace; `None` for any.
        netns: Option<u32>,
    },
}

impl Subject {
    fn is(&self, flow: &Flow) -> bool {
        let Self::Flow { proto, local, remote, netns } = self else { return false };
        (flow.proto, flow.local, flow.remote) == (*proto, *local, *remote)
            && netns.is_none_or(|netns| netns == flow.netns)
    }
}

/// Event field that assigns an event to a watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Key {
    Socket(u64),
    Process(u32),
    Cgroup(u64),
    Flow(FlowId),
}

/// Reason for the absence of a weight.
const MIXED_SAMPLERS: &str =
    "flows are sampled, and events by time: the calls that the latter leaves out are not counted apart";

/// The weight of an event under a sampler of one in so many, `1/10`; `None` with one by time.
fn one_in(sampler: &str) -> Option<f64> {
    sampler.strip_prefix("1/")?.parse::<u32>().ok().map(f64::from)
}

/// No window capacity is left.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no more can be watched here at a time")]
pub struct TooMany;

/// The averages of all watches.
pub struct Averages {
    watches: BTreeMap<u64, Watch>,
    by_key: HashMap<Key, Vec<u64>>,
    last: u64,
    places: usize,
    reads: Reads,
    losses: Losses,
    tables: Tables,
    served: Served,
    sampled: Sampled,
    fed_ns: u64,
    /// The events' clock minus `CLOCK_MONOTONIC`.
    ahead_ns: i64,
    /// Scratch buffer: the watches of an event.
    found: Vec<u64>,
}

impl Averages {
    /// The averages of one host, without watches.
    pub fn new(info: &NodeInfo) -> Self {
        Averages {
            watches: BTreeMap::new(),
            by_key: HashMap::new(),
            last: 0,
            places: 0,
            reads: Reads::default(),
            losses: Losses::default(),
            tables: Tables::default(),
            served: Served::of(info),
            sampled: Sampled::of(info),
            fed_ns: 0,
            ahead_ns: 0,
            found: Vec::new(),
        }
    }

    /// Window capacity that a window needs.
    pub fn places_of(window: Window) -> usize {
        match window {
            Window::Receives(receives) => receives as usize,
            Window::Seconds(_) => calls::PARTS,
        }
    }

    /// Starts a watch at `now_ns` by `CLOCK_MONOTONIC`; later events are not captured yet. Returns its id and
    /// the instant by the events' clock.
    ///
    /// # Errors
    /// Too many watches.
    pub fn watch(&mut self, subject: Subject, window: Window, now_ns: u64) -> Result<(u64, u64), TooMany> {
        let places = Self::places_of(window);
        if self.watches.len() >= MOST_WATCHES || self.places + places > MOST_PLACES {
            return Err(TooMany);
        }
        let since_ns = now_ns.saturating_add_signed(self.ahead_ns);
        self.last += 1;
        self.places += places;
        let keys = match &subject {
            Subject::Socket(cookie) => vec![Key::Socket(*cookie)],
            Subject::Process(tgid) => vec![Key::Process(*tgid)],
            Subject::Cgroup(id) => vec![Key::Cgroup(*id)],
            Subject::Flow { .. } => self.tables.flows(&subject).map(Key::Flow).collect(),
        };
        for key in &keys {
            self.by_key.entry(*key).or_default().push(self.last);
        }
        self.watches.insert(self.last, Watch::new(subject, keys, window, since_ns));
        Ok((self.last, since_ns))
    }

    /// Ends a watch.
    pub fn end(&mut self, id: u64) {
        let Some(watch) = self.watches.remove(&id) else { return };
        self.places -= Self::places_of(watch.window);
        for key in watch.keys {
            let Some(ids) = self.by_key.get_mut(&key) else { continue };
            ids.retain(|other| *other != id);
            if ids.is_empty() {
                self.by_key.remove(&key);
            }
        }
        if self.watches.is_empty() {
            self.reads = Reads::default();
        }
    }

    /// True without watches.
    pub fn is_idle(&self) -> bool {
        self.watches.is_empty()
    }

    /// Processes a piece of a walk.
    pub fn add(&mut self, piece: &Piece<'_>) {
        match piece {
            Piece::Batch(_, batch) => self.batch(batch),
            Piece::Journey(journey, ..) => self.journey(journey),
        }
    }

    fn batch(&mut self, batch: &Batch) {
        self.sampled.batch(batch);
        if let Some(sample) = batch.clock.last() {
            self.ahead_ns = sample.event_ns().wrapping_sub(sample.monotonic_ns) as i64;
        }
        for flow in &batch.flows {
            self.flow(flow);
        }
        for task in &batch.tasks {
            self.tables.task(task);
        }
        for change in &batch.changes {
            if let Some(why) = self.served.change(change) {
                self.watches.values_mut().for_each(|watch| watch.restart(change.to_ns, &why));
            }
        }
        // 0 and the maximum are no times
        if !matches!(batch.watermark_ns, 0 | u64::MAX) {
            self.fed_ns = self.fed_ns.max(batch.watermark_ns);
        }
        if !self.watches.is_empty() {
            for event in &batch.events {
                self.event(event);
            }
            for loss in &batch.losses {
                // Some losses have no time of their own.
                let at_ns = if matches!(loss.to_ns, 0 | u64::MAX) { self.fed_ns } else { loss.to_ns };
                self.losses.add(at_ns, loss.count);
                self.watches.values_mut().for_each(|watch| watch.lost(at_ns, loss.count));
            }
        }
    }

    fn flow(&mut self, flow: &Flow) {
        self.tables.flow(flow);
        let wants = |watch: &Watch| watch.subject.is(flow);
        if !self.watches.values().any(wants) {
            return;
        }
        let key = Key::Flow(flow.id);
        for (id, watch) in self.watches.iter_mut().filter(|(_, watch)| wants(watch)) {
            if !watch.keys.contains(&key) && watch.keys.len() < watch::MOST_KEYS {
                watch.keys.push(key);
                self.by_key.entry(key).or_default().push(*id);
            }
        }
    }

    fn event(&mut self, event: &Event) {
        let (receives, sends) = (self.served.receives(), self.served.sends());
        let received = receives == Some(event.hop);
        if (!received && sends != Some(event.hop)) || event.peeks() {
            return;
        }
        let cgroup = self.tables.cgroup(event.tid);
        let keys = [
            (event.socket != 0).then_some(Key::Socket(event.socket)),
            (event.tgid != 0).then_some(Key::Process(event.tgid)),
            cgroup.map(Key::Cgroup),
            (!event.flow.is_none()).then_some(Key::Flow(event.flow)),
        ];
        self.found.clear();
        for key in keys.iter().flatten() {
            self.found.extend(self.by_key.get(key).into_iter().flatten());
        }
        for id in &self.found {
            if let Some(watch) = self.watches.get_mut(id) {
                watch.call(received, event.time_ns, u64::from(event.len));
            }
        }
        if received && !self.found.is_empty() {
            self.reads.add(event, &self.found);
        }
    }

    fn journey(&mut self, journey: &Journey) {
        let Some(hop) = self.served.receives().filter(|_| journey.verdict.is_whole()) else { return };
        let (Some(read), Some(first)) = (journey.rung(hop), journey.ladder().next()) else { return };
        let Some(ns) = journey.since_start_ns(hop) else { return };
        for id in self.reads.find(read.time_ns, read.cpu) {
            if let Some(watch) = self.watches.get_mut(id) {
                watch.journey(read.time_ns, ns, first.hop);
            }
        }
    }

    /// Calls per recorded call of a subject at a hop: lately, and overall.
    ///
    /// The kernel counts hits of left-out flows with those that a sampler of the hop left out. The former are none of a socket
    /// or a flow with events, and may be of a process. So the settings decide, or give the reason for no weight.
    fn weights(&self, subject: &Subject, hop: Hop) -> Result<(f64, f64), &'static str> {
        let counted = (self.sampled.weight_lately(hop), self.sampled.weight(hop));
        if matches!(subject, Subject::Process(_) | Subject::Cgroup(_)) {
            return Ok(counted);
        }
        let in_force = self.served.in_force();
        match in_force.sampler(hop) {
            None => Ok((1.0, 1.0)),
            Some(_) if !in_force.samples_flows() => Ok(counted),
            Some(sampler) => one_in(sampler).map(|weight| (weight, weight)).ok_or(MIXED_SAMPLERS),
        }
    }

    /// The averages of a watch; `now_ns` by `CLOCK_MONOTONIC`. `reported` is the client's number for it.
    pub fn of(&self, id: u64, reported: u32, now_ns: u64) -> Option<wire::Averages> {
        let watch = self.watches.get(&id)?;
        let as_of_ns = self.fed_ns.max(watch.since_ns);
        let unseen = || watch.calls() == 0;
        let rate = |hop: Result<Hop, &str>, calls: &calls::Calls| {
            let weights = hop.and_then(|hop| self.weights(&watch.subject, hop));
            match weights {
                Err(because) => FigureOrReason::Unknown { unknown: because.to_owned() },
                Ok(_) if unseen() => FigureOrReason::Unknown { unknown: self.served.silence() },
                Ok((lately, overall)) => FigureOrReason::Is(calls.rate(as_of_ns, lately, overall)),
            }
        };
        let received = rate(self.served.why_no_receives(), &watch.received);
        let sent = rate(self.served.why_no_sends(), &watch.sent);
        let latency = match self.served.why_no_receives() {
            Err(because) => FigureOrReason::Unknown { unknown: because.to_owned() },
            Ok(_) => watch.latencies.latency(as_of_ns).map_or_else(
                || FigureOrReason::Unknown { unknown: served::NO_JOURNEY.to_owned() },
                FigureOrReason::Is,
            ),
        };
        // A direction without data has no window.
        let begins = [&received, &sent]
            .into_iter()
            .filter_map(FigureOrReason::get)
            .filter(|rate| rate.overall.calls > 0);
        let begins = begins.map(|rate| rate.window.from_ns).chain(latency.get().map(|latency| latency.from_ns));
        let begins = begins.min().unwrap_or(watch.since_ns);
        Some(wire::Averages {
            id: reported,
            since_ns: watch.since_ns,
            as_of_ns,
            age_ns: now_ns.saturating_add_signed(self.ahead_ns).saturating_sub(as_of_ns),
            received,
            sent,
            latency,
            lost: self.losses.since(begins.max(watch.since_ns)),
            lost_overall: watch.lost,
            leaves_out: self.served.settings(),
            restarted: watch.restarted.clone(),
        })
    }
}

#[cfg(test)]
mod tests;
