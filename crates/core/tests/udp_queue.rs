//! Reads of datagrams against a model of a socket's queue with a known truth.
//!
//! In the model packets pass the hop `udp.recv` shortly before they enter the queue, on one or two CPUs. Some are there
//! before the capture begins. Threads take datagrams and return some time later, and the kernel discards some. No read
//! is assigned to a wrong datagram without a mark.

use crate::common::{self, SERVER, SOCKET};
use crate::model::Random;
use magscope_core::journey::{Correlator, Journey, Limits, Verdict};
use magscope_core::{
    Batch, DetailKind, Event, EventFlags, ExtentKind, FlowId, Hop, HopSet, Loss, LossCause, Proto,
};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, HashSet, VecDeque};

/// One model of a socket.
#[derive(Clone, Copy, Debug)]
struct Setting {
    cpus: u16,
    readers: u32,
    /// Percent of the datagrams that a reader discards in place of reading them.
    discarded: u64,
    shows_drops: bool,
    /// Percent of the arrivals that enter the queue much later, or without a notification.
    delayed: u64,
    equal_lengths: bool,
    /// Datagrams for which the queue has room. The kernel discards others, and their buffers are used again at once.
    room: usize,
    /// Readers that find nothing try again at once.
    polls: bool,
    begins_midway: bool,
    loses_events: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Action {
    Arrive(usize),
    Enqueue(usize),
    Take(u32),
    /// A read returns, with a datagram or without. The capture looks at the queue before it takes the time, and again
    /// after it.
    Look(Return),
    Stamp(Return),
    LookAgain(Return),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Return {
    reader: u32,
    /// `None` if it found the queue empty.
    datagram: Option<usize>,
    round: u8,
    /// The buffer of the first datagram in the queue at the last look; `None` if the queue was empty.
    front: Option<u32>,
    time_ns: u64,
}

/// After so many rounds of looks that differ, what is in the queue is unknown.
const ROUNDS: u8 = 3;

#[derive(Clone, Copy, Debug, Default)]
struct Datagram {
    cpu: u16,
    len: u32,
    skb: u32,
    is_announced: bool,
    delay_ns: u64,
}

#[derive(Default)]
struct Model {
    events: Vec<Event>,
    /// The datagram of each return of a read.
    truth: HashMap<u64, usize>,
    used: HashSet<u64>,
    /// The last read of each thread without data.
    empty_reads: HashMap<u32, u64>,
    free_buffers: Vec<u32>,
    datagrams: Vec<Datagram>,
}

impl Return {
    fn of(reader: u32, datagram: Option<usize>) -> Self {
        Self { reader, datagram, round: 1, front: None, time_ns: 0 }
    }
}

/// Few enough that buffers are used again at once.
const BUFFERS: u32 = 400;
const COUNT: usize = 150;

impl Model {
    fn emit(&mut self, mut event: Event) -> u64 {
        while !self.used.insert(event.time_ns) {
            event.time_ns += 1;
        }
        self.events.push(event);
        event.time_ns
    }

    /// The identification of a datagram.
    fn ip_id(n: usize) -> u16 {
        n as u16 + 1
    }

    fn run(setting: &Setting, random: &mut Random) -> Self {
        let mut model = Model { free_buffers: (1..=BUFFERS).collect(), ..Model::default() };
        let mut actions = BinaryHeap::new();
        let slow = random.chance(50);
        for cpu in 0..setting.cpus {
            let mut at_ns = 1_000_000 + random.within(0, 3_000);
            for _ in 0..COUNT / usize::from(setting.cpus) {
                let is_delayed = random.chance(setting.delayed);
                let delay_ns =
                    if is_delayed { random.within(1_000, 60_000) } else { random.within(200, 2_500) };
                let len = if setting.equal_lengths { 100 } else { random.within(1, 5) as u32 * 100 };
                let is_announced = !is_delayed || random.chance(50);
                let datagram = Datagram { cpu, len, skb: 0, is_announced, delay_ns };
                actions.push(Reverse((at_ns, Action::Arrive(model.datagrams.len()))));
                model.datagrams.push(datagram);
                at_ns += delay_ns + random.within(300, if slow { 40_000 } else { 6_000 });
            }
        }
        for reader in 0..setting.readers {
            actions.push(Reverse((1_000_000 + random.within(0, 200_000), Action::Take(reader))));
        }
        let mut queue: VecDeque<usize> = VecDeque::new();
        let mut sleeping: Vec<u32> = Vec::new();
        while let Some(Reverse((at_ns, action))) = actions.pop() {
            match action {
                Action::Arrive(n) => {
                    let at_ns = model.arrive(n, at_ns);
                    actions.push(Reverse((at_ns + model.datagrams[n].delay_ns, Action::Enqueue(n))));
                }
                Action::Enqueue(n) if queue.len() >= setting.room => {
                    let Datagram { skb, len, cpu, .. } = model.datagrams[n];
                    model.free_buffers.push(skb);
                    let drop = common::udp(Hop::SkbDrop, at_ns, SERVER, Self::ip_id(n), skb, len);
                    model.emit(Event { cpu, ..drop });
                }
                Action::Enqueue(n) => {
                    queue.push_back(n);
                    if model.datagrams[n].is_announced {
                        let cpu = model.datagrams[n].cpu;
                        model.emit(Event { cpu, ..common::ready(at_ns + 50) });
                    }
                    if let Some(reader) = sleeping.pop() {
                        let (tid, cpu) = (70 + reader, model.datagrams[n].cpu);
                        let wake = common::by(Event::at(Hop::TaskWake, at_ns + 55), tid, SOCKET);
                        model.emit(Event { cpu, ..wake });
                        actions.push(Reverse((at_ns + random.within(60, 5_000), Action::Take(reader))));
                    }
                }
                Action::Take(reader) => {
                    let Some(n) = queue.pop_front() else {
                        let is_over = actions.iter().all(|Reverse((_, action))| {
                            matches!(action, Action::Take(_))
                                || matches!(action, Action::Look(by) | Action::Stamp(by) | Action::LookAgain(by)
                                    if by.datagram.is_none())
                        });
                        if setting.polls && !is_over {
                            let most = if random.chance(10) { 20_000 } else { 500 };
                            let returns_ns = at_ns + random.within(100, most);
                            actions.push(Reverse((returns_ns, Action::Look(Return::of(reader, None)))));
                        } else {
                            sleeping.push(reader);
                        }
                        continue;
                    };
                    model.free_buffers.push(model.datagrams[n].skb);
                    if random.chance(setting.discarded) {
                        model.discard(n, at_ns, setting.shows_drops);
                        actions.push(Reverse((at_ns + random.within(100, 2_000), Action::Take(reader))));
                        continue;
                    }
                    let most = if random.chance(10) { 60_000 } else { 2_000 };
                    let returns_ns = at_ns + random.within(300, most);
                    actions.push(Reverse((returns_ns, Action::Look(Return::of(reader, Some(n))))));
                }
                Action::Look(by) | Action::Stamp(by) | Action::LookAgain(by) => {
                    let next = match action {
                        Action::Look(_) => Action::Stamp(Return { front: model.front(&queue), ..by }),
                        Action::Stamp(_) => Action::LookAgain(Return { time_ns: at_ns, ..by }),
                        _ => model.compares(by, model.front(&queue)),
                    };
                    let (least, most) = match next {
                        Action::Take(_) if by.datagram.is_some() && random.chance(20) => (200, 40_000),
                        Action::Take(_) => (200, 3_000),
                        // Sometimes an interrupt, or a virtual CPU that stands still.
                        _ if random.chance(5) => (0, 8_000),
                        _ => (0, 0),
                    };
                    actions.push(Reverse((at_ns + random.within(least, most), next)));
                }
            }
        }
        model.events.sort_by_key(|event| event.time_ns);
        model
    }

    fn arrive(&mut self, n: usize, at_ns: u64) -> u64 {
        let skb = self.free_buffers.pop().expect("more buffers than datagrams");
        self.datagrams[n].skb = skb;
        let Datagram { cpu, len, .. } = self.datagrams[n];
        let packet =
            Event { socket: SOCKET, cpu, ..common::udp(Hop::DevRecv, 0, SERVER, Self::ip_id(n), skb, len) };
        let hops = [Hop::DevRecv, Hop::IpPre, Hop::IpIn, Hop::UdpRecv];
        hops.iter().zip(0..).fold(0, |_, (hop, i)| self.emit(Event { hop: *hop, time_ns: at_ns + i, ..packet }))
    }

    fn discard(&mut self, n: usize, at_ns: u64, is_shown: bool) {
        let Datagram { skb, len, .. } = self.datagrams[n];
        if is_shown {
            self.emit(Event { ..common::udp(Hop::SkbDrop, at_ns, FlowId::NONE, Self::ip_id(n), skb, len) });
        }
    }

    fn front(&self, queue: &VecDeque<usize>) -> Option<u32> {
        queue.front().map(|n| self.datagrams[*n].skb)
    }

    /// After the last look: the read is known, or another round begins.
    fn compares(&mut self, by: Return, front: Option<u32>) -> Action {
        let agree = by.front == front;
        if !agree && by.round < ROUNDS {
            return Action::Stamp(Return { front, round: by.round + 1, ..by });
        }
        if let Some(n) = by.datagram {
            self.returns(by.reader, n, by.time_ns, front.filter(|_| agree), agree);
        } else if agree && front.is_none() {
            self.empty_reads.insert(by.reader, by.time_ns);
        }
        Action::Take(by.reader)
    }

    fn returns(&mut self, reader: u32, n: usize, at_ns: u64, front: Option<u32>, agree: bool) {
        let is_empty = agree && front.is_none();
        let flags = if is_empty { EventFlags::QUEUE_EMPTY } else { EventFlags(0) };
        let read = common::read(at_ns, self.datagrams[n].len);
        let tid = 70 + reader;
        let extent = ExtentKind::NextBuffer.of(front.unwrap_or(0));
        let ago = self.empty_reads.get(&reader).map_or(0, |empty_ns| at_ns - empty_ns);
        let detail = DetailKind::EmptyRead.of(ago as u32);
        let at_ns = self.emit(Event { tid, tgid: tid, flags, extent, detail, ..read });
        self.truth.insert(at_ns, n);
    }
}

/// Numbers of reads: assigned, marked, wrong without a mark.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Outcome {
    reads: usize,
    right: usize,
    marked: usize,
    wrong: usize,
}

/// The journeys, and the time at which the capture has seen a read of each thread. Before that it cannot know the
/// threads that read this socket.
fn correlate(setting: &Setting, model: &Model, random: &mut Random) -> (Vec<Journey>, u64) {
    let mut events = model.events.clone();
    if setting.begins_midway {
        let from = random.within(0, events.len() as u64 / 2) as usize;
        events.drain(..from);
    }
    let mut losses = Vec::new();
    if setting.loses_events {
        for _ in 0..random.within(1, 3) {
            let start = random.within(0, events.len() as u64 - 2) as usize;
            let cpu = events[start].cpu;
            let most = random.within(1, 6) as usize;
            let times: Vec<u64> =
                events[start..].iter().filter(|e| e.cpu == cpu).take(most).map(|e| e.time_ns).collect();
            let (from_ns, to_ns) = (times[0] - 1, times[times.len() - 1] + 1);
            losses.push(Loss { cpu, from_ns, to_ns, count: times.len() as u64, cause: LossCause::RingFull });
            events.retain(|e| !times.contains(&e.time_ns));
        }
        losses.sort_by_key(|loss| loss.to_ns);
    }
    let mut first_returns = HashMap::new();
    let arrivals = events.iter().skip_while(|event| event.hop != Hop::UdpRecv);
    for event in arrivals.filter(|event| event.hop == Hop::AppRecv) {
        first_returns.entry(event.tid).or_insert(event.time_ns);
    }
    let all_returned = first_returns.len() == setting.readers as usize;
    let all_returned_ns = first_returns.into_values().max().filter(|_| all_returned).unwrap_or(u64::MAX);
    let hidden = if setting.shows_drops { None } else { Some(Hop::SkbDrop) };
    let coverage: HopSet = common::coverage().iter().filter(|hop| Some(*hop) != hidden).collect();
    let mut correlator = Correlator::new(coverage, Limits::default());
    let mut done = Vec::new();
    let mut losses = losses.into_iter().peekable();
    for (n, part) in events.chunks(40).enumerate() {
        let watermark_ns = part.last().map_or(0, |event| event.time_ns);
        let mut batch = Batch { events: part.to_vec(), watermark_ns, ..Batch::default() };
        if n == 0 {
            batch.flows = common::flows(Proto::UDP);
        }
        while let Some(loss) = losses.next_if(|loss| loss.from_ns <= watermark_ns) {
            batch.losses.push(loss);
        }
        correlator.push(&batch, &mut done);
    }
    correlator.finish(&mut done);
    (done, all_returned_ns)
}

fn outcome(setting: &Setting, seed: u64) -> Outcome {
    let mut random = Random(seed);
    let model = Model::run(setting, &mut random);
    let (done, all_returned_ns) = correlate(setting, &model, &mut random);
    let mut outcome = Outcome { reads: model.truth.len(), ..Outcome::default() };
    for journey in &done {
        let Some(at_ns) = journey.rungs.time_ns(Hop::AppRecv) else { continue };
        if journey.ambiguous || matches!(journey.verdict, Verdict::BrokenByEventLoss { .. }) {
            outcome.marked += 1;
        } else if model.truth.get(&at_ns).is_some_and(|n| Model::ip_id(*n) == journey.ip_id) {
            outcome.right += 1;
        } else if setting.readers == 1 || at_ns > all_returned_ns {
            outcome.wrong += 1;
        }
    }
    outcome
}

/// Adds up many models of a setting.
fn outcomes(setting: Setting) -> Outcome {
    let models = std::env::var("MAGSCOPE_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(150);
    let mut sum = Outcome::default();
    for seed in 0..models {
        let one = outcome(&setting, seed);
        assert_eq!(one.wrong, 0, "seed {seed}: {one:?} of {setting:?}");
        sum.reads += one.reads;
        sum.right += one.right;
        sum.marked += one.marked;
    }
    println!("{sum:?} of {setting:?}");
    sum
}

const PLAIN: Setting = Setting {
    cpus: 1,
    readers: 1,
    discarded: 0,
    shows_drops: true,
    delayed: 0,
    equal_lengths: true,
    room: usize::MAX,
    polls: false,
    begins_midway: false,
    loses_events: false,
};

#[test]
fn one_reader_of_arrivals_on_one_cpu_has_each_read() {
    for (equal_lengths, delayed) in [(true, 0), (false, 0), (true, 30)] {
        let all = outcomes(Setting { delayed, equal_lengths, ..PLAIN });
        // Whether the queue held older datagrams is unknown at the first reads.
        assert!(all.right + all.marked == all.reads && all.marked * 100 < all.reads, "{all:?}");
    }
}

#[test]
fn a_reader_that_polls_has_each_read() {
    for delayed in [0, 30] {
        let all = outcomes(Setting { polls: true, delayed, ..PLAIN });
        assert!(all.right * 100 > all.reads * 99, "{all:?}");
    }
    outcomes(Setting { polls: true, cpus: 2, delayed: 10, begins_midway: true, ..PLAIN });
    outcomes(Setting { polls: true, cpus: 2, readers: 2, discarded: 10, ..PLAIN });
    outcomes(Setting { polls: true, cpus: 2, delayed: 10, loses_events: true, ..PLAIN });
}

#[test]
fn a_full_queue_shifts_no_read() {
    for equal_lengths in [true, false] {
        let all = outcomes(Setting { equal_lengths, room: 3, ..PLAIN });
        assert!(all.right * 100 > all.reads * 98, "{all:?}");
        outcomes(Setting { cpus: 2, readers: 2, equal_lengths, room: 3, ..PLAIN });
    }
}

#[test]
fn discarded_datagrams_shift_no_read() {
    let shown = outcomes(Setting { discarded: 20, ..PLAIN });
    assert_eq!((shown.right, shown.marked), (shown.reads, 0));
    outcomes(Setting { discarded: 20, shows_drops: false, ..PLAIN });
}

#[test]
fn datagrams_from_before_the_capture_are_no_others() {
    for setting in [PLAIN, Setting { cpus: 2, delayed: 10, ..PLAIN }] {
        let all = outcomes(Setting { begins_midway: true, ..setting });
        assert!(all.right > 0);
    }
}

#[test]
fn arrivals_on_two_cpus_are_assigned_or_marked() {
    let all = outcomes(Setting { cpus: 2, ..PLAIN });
    assert!(all.marked * 20 < all.reads && all.right * 20 > all.reads * 19, "{all:?}");
    outcomes(Setting { cpus: 2, delayed: 30, discarded: 10, ..PLAIN });
    outcomes(Setting { cpus: 2, delayed: 30, discarded: 10, shows_drops: false, ..PLAIN });
}

#[test]
fn several_readers_are_assigned_or_marked() {
    for (cpus, readers) in [(1, 2), (2, 2), (2, 4)] {
        outcomes(Setting { cpus, readers, ..PLAIN });
        outcomes(Setting { cpus, readers, delayed: 20, discarded: 10, ..PLAIN });
        outcomes(Setting { cpus, readers, discarded: 10, shows_drops: false, begins_midway: true, ..PLAIN });
        outcomes(Setting { cpus, readers, equal_lengths: false, ..PLAIN });
    }
}

#[test]
fn lost_events_make_no_wrong_read() {
    for (cpus, readers) in [(1, 1), (2, 1), (2, 2)] {
        outcomes(Setting { cpus, readers, loses_events: true, ..PLAIN });
        outcomes(Setting { cpus, readers, loses_events: true, begins_midway: true, delayed: 10, ..PLAIN });
    }
}
