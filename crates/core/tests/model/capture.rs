//! A capture of a world: a stretch of it, in batches, with some events lost.

use super::{About, Random, World, node};
use magscope_core::hop::Direction;
use magscope_core::journey::{Correlator, Journey, Limits};
use magscope_core::workload::Names;
use magscope_core::{Batch, Event, FlowId, HopSet, Loss, LossCause};
use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};

/// A capture of a world.
#[derive(Debug, Default)]
pub struct Capture {
    /// Its events, in order of time.
    pub events: Vec<Event>,
    pub losses: Vec<Loss>,
    /// Times of the lost events.
    pub lost: HashSet<u64>,
}

/// Few enough that they are used again soon.
const BUFFERS: u32 = 40;

/// The address of each buffer. The one that was freed first is used next. A received datagram keeps its buffer until it
/// is read. The first arrival of a flow has no address that its sender used last: of datagrams without an
/// identification nothing would show that it is another one.
fn addresses(world: &World) -> HashMap<u32, u32> {
    let datagrams = |about: About| match about {
        About::Datagram(n) => n..n + 1,
        About::Run(n, count) => n..n + count,
        About::Bytes { .. } | About::Nothing => 0..0,
    };
    let mut ends: HashMap<usize, u64> = HashMap::new();
    for t in &world.events {
        for n in datagrams(t.about) {
            let end = ends.entry(n).or_default();
            *end = t.event.time_ns.max(*end);
        }
    }
    let mut spans: HashMap<u32, (u64, u64)> = HashMap::new();
    let mut users: HashMap<u32, (Direction, FlowId)> = HashMap::new();
    for t in world.events.iter().filter(|t| (1..node::FIRST_BUFFER).contains(&t.event.skb)) {
        let at_ns = t.event.time_ns;
        let waits = t.event.hop.direction() == Direction::Rx;
        let read_ns = datagrams(t.about).filter(|_| waits).filter_map(|n| ends.get(&n)).max();
        users.entry(t.event.skb).or_insert((t.event.hop.direction(), t.event.flow));
        let span = spans.entry(t.event.skb).or_insert((at_ns, at_ns));
        *span = (span.0.min(at_ns), span.1.max(at_ns).max(read_ns.copied().unwrap_or(0)));
    }
    for (buffer, at_ns) in &world.allocated_ns {
        if let Some(span) = spans.get_mut(buffer) {
            span.0 = span.0.min(*at_ns);
        }
    }
    let mut spans: Vec<_> = spans.into_iter().map(|(buffer, (from, to))| (from, to, buffer)).collect();
    spans.sort_unstable();
    let mut free: VecDeque<u32> = (1..=BUFFERS).collect();
    let mut in_use = BTreeSet::new();
    let (mut last_sent, mut arrived) = (HashMap::new(), HashSet::new());
    let mut addresses = HashMap::new();
    for (from, to, buffer) in spans {
        while let Some((_, address)) = in_use.first().copied().filter(|(until, _)| *until < from) {
            in_use.pop_first();
            free.push_back(address);
        }
        let (direction, flow) = users[&buffer];
        let is_first = direction == Direction::Rx && arrived.insert(flow);
        let is_taken = |address: &u32| is_first && last_sent.get(address) == Some(&FlowId(flow.0 - 1));
        let next = free.iter().position(|address| !is_taken(address));
        let address = next.and_then(|n| free.remove(n)).unwrap_or((in_use.len() + free.len()) as u32 + 1);
        match direction {
            Direction::Tx => last_sent.insert(address, flow),
            Direction::Rx | Direction::Off => last_sent.remove(&address),
        };
        in_use.insert((to, address));
        addresses.insert(buffer, address);
    }
    addresses
}

impl Capture {
    /// All of the world.
    pub fn whole(world: &World) -> Self {
        let addresses = addresses(world);
        let seen =
            |event: Event| Event { skb: addresses.get(&event.skb).copied().unwrap_or(event.skb), ..event };
        let mut events: Vec<Event> = world.events.iter().map(|t| seen(t.event)).collect();
        events.sort_by_key(|e| e.time_ns);
        Capture { events, ..Capture::default() }
    }

    /// Only the part after some instant in it.
    pub fn begins_midway(mut self, random: &mut Random) -> Self {
        let at = random.within(0, self.events.len() as u64 / 2) as usize;
        self.events.drain(..at);
        self
    }

    /// Only the events of one host, by its network namespace, and those of sockets without a flow.
    pub fn of_host(mut self, world: &World, netns: u32) -> Self {
        let here: HashSet<FlowId> =
            world.flows.iter().filter(|flow| flow.netns == netns).map(|flow| flow.id).collect();
        self.events.retain(|event| event.flow.is_none() || here.contains(&event.flow));
        self
    }

    /// Loses stretches of one CPU's events, like a full ring.
    pub fn with_losses(mut self, random: &mut Random) -> Self {
        for _ in 0..random.within(1, 4) {
            let start = random.within(0, self.events.len() as u64 - 1) as usize;
            let cpu = random.within(0, 1) as u16;
            let most = random.within(1, 12) as usize;
            let mine = self.events[start..].iter().filter(|e| e.cpu == cpu).take(most);
            let times: Vec<u64> = mine.map(|e| e.time_ns).collect();
            // A ring is drained again soon.
            let soon = times.first().map_or(0, |first| first + 30_000_000);
            let times: Vec<u64> = times.into_iter().filter(|t| *t < soon).collect();
            let (Some(first), Some(last)) = (times.first(), times.last()) else { continue };
            let loss = Loss {
                cpu,
                from_ns: first - 1,
                to_ns: last + 1,
                count: times.len() as u64,
                cause: LossCause::RingFull,
            };
            self.losses.push(loss);
            self.lost.extend(times);
            let lost = &self.lost;
            self.events.retain(|e| !lost.contains(&e.time_ns));
            if self.events.is_empty() {
                break;
            }
        }
        self.losses.sort_by_key(|l| l.to_ns);
        self
    }

    /// Its events and losses in random batches, the flows in the first.
    pub fn batches(&self, world: &World, random: &mut Random) -> Vec<Batch> {
        let mut batches: Vec<Batch> = Vec::new();
        let mut losses = self.losses.iter().copied().peekable();
        let mut at = 0;
        while at < self.events.len() || losses.peek().is_some() {
            let size = random.within(1, 300) as usize;
            let events = self.events[at..].iter().take(size).copied().collect::<Vec<_>>();
            at += events.len();
            let watermark_ns =
                if at == self.events.len() { u64::MAX / 4 } else { events.last().map_or(0, |e| e.time_ns) };
            let mut batch = Batch { events, ..Batch::default() };
            while let Some(loss) = losses.next_if(|l| l.to_ns <= watermark_ns) {
                batch.losses.push(loss);
            }
            batch.watermark_ns = batch.events.last().map_or(0, |e| e.time_ns);
            if batches.is_empty() {
                batch.flows.clone_from(&world.flows);
                let interfaces = world.interfaces.clone();
                batch.names.push(Names { interfaces, ..Names::default() });
            }
            batches.push(batch);
        }
        batches
    }

    /// Correlates it in random batches. With `settles`, a long time passes before the end.
    pub fn correlate(
        &self,
        world: &World,
        limits: Limits,
        random: &mut Random,
        settles: bool,
    ) -> (Vec<Journey>, Correlator) {
        let mut correlator = Correlator::new(HopSet::all(), limits);
        let mut done = Vec::new();
        for batch in self.batches(world, random) {
            correlator.push(&batch, &mut done);
            assert!(correlator.in_flight() <= limits.max_pieces);
        }
        if settles {
            let end = self.events.last().map_or(0, |e| e.time_ns);
            correlator
                .push(&Batch { watermark_ns: end + 3 * limits.max_age_ns, ..Batch::default() }, &mut done);
        }
        correlator.finish(&mut done);
        assert_eq!(correlator.in_flight(), 0);
        assert_eq!(correlator.counters().journeys, done.len() as u64);
        (done, correlator)
    }
}
