//! Reassembles the messages of one host, round by round.
//!
//! Parts may arrive through several consumers, in any mutual order; each part by itself is in order. A round is
//! complete when everything that its last message lists has arrived, or can no longer arrive. The numbers in
//! that message give the count of missing records.

use super::round::Round;
use super::split::{add, in_order};
use super::subject::{Buckets, PARTS, Part};
use magscope_core::changes::NewChanges;
use magscope_core::node::NodeInfo;
use magscope_core::{Batch, Loss, LossCause};
use magscope_session::Place;
use std::collections::VecDeque;
use std::time::Duration;

/// Timeout of a round whose messages may still arrive, and the delay before the bus is queried.
const PATIENCE: Duration = Duration::from_secs(10);
const DOUBT: Duration = Duration::from_secs(1);
/// Maximum number of records that wait for the end of their round; and the limits of records and rounds that
/// stop read-ahead.
const MOST_RECORDS: u64 = 4 << 20;
const ENOUGH_RECORDS: u64 = 1 << 20;
const ENOUGH_ROUNDS: usize = 1 << 6;

/// Position of a message: creation time of the bus's stream, which can be recreated meanwhile, and the sequence
/// number in it.
pub type StreamPosition = (i128, u64);

/// A message of a host.
#[derive(Debug)]
pub struct Message {
    /// Position on the bus.
    pub at: StreamPosition,
    /// Time of arrival at the bus, nanoseconds of the bus's clock since 1970.
    pub published_ns: i128,
    /// Id of the agent's run; the boot id follows a dot.
    pub run: String,
    /// The part of the stream.
    pub part: Part,
    /// In the common part: the round that the message ends.
    pub round: Option<Round>,
    /// Number of the message, and number of records up to its end.
    pub place: Place,
    /// The content.
    pub batch: Batch,
}

/// Start position. Of earlier messages only announcements are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begin {
    /// The oldest message of the bus.
    Oldest,
    /// After this message.
    After(StreamPosition),
    /// At the first message that reached the bus after this instant, nanoseconds of its clock since 1970.
    From(i128),
}

/// The host was rebooted, so its clock is a different one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AnotherBoot;

/// Reassembler of one host's messages.
pub struct Gather {
    buckets: Buckets,
    /// The consumer of each part.
    by: Vec<Option<usize>>,
    begin: Begin,
    /// The current boot; another boot has another clock.
    boot: String,
    /// True once a message of the run has arrived.
    has_come: bool,
    /// Position of the last message of each consumer.
    delivered: Vec<StreamPosition>,
    waiting: Vec<VecDeque<Message>>,
    /// Records in `waiting`.
    records: u64,
    rounds: VecDeque<(Message, Round)>,
    /// Waiting time of the oldest round.
    waited: Duration,
    run: Option<String>,
    /// Position of each part at the end of the last round of this run; `None` before the first.
    positions: Option<[Place; PARTS]>,
    /// The last delivered instant; 0 before the first.
    read_ns: u64,
    /// A new run exists, but none of its messages has arrived.
    unseen: bool,
    /// Announcements from before the start position.
    ahead: Batch,
    /// A host repeats its changes.
    new_changes: NewChanges,
    /// The names so far: a host repeats them.
    names: NodeInfo,
    /// The agent has announced its end.
    has_ended: bool,
}

impl Gather {
    /// A reassembler for these buckets of one boot of a host; `by` gives each part's consumer.
    pub fn new(buckets: Buckets, by: Vec<Option<usize>>, begin: Begin, boot: &str) -> Self {
        let subscriptions = by.iter().flatten().max().map_or(0, |last| last + 1);
        Gather {
            buckets,
            by,
            begin,
            boot: boot.to_owned(),
            has_come: false,
            delivered: vec![(0, 0); subscriptions],
            waiting: (0..PARTS).map(|_| VecDeque::new()).collect(),
            records: 0,
            rounds: VecDeque::new(),
            waited: Duration::ZERO,
            run: None,
            positions: None,
            read_ns: 0,
            unseen: false,
            ahead: Batch::default(),
            new_changes: NewChanges::default(),
            names: NodeInfo::default(),
            has_ended: false,
        }
    }

    /// True if the agent has announced its end since the last call.
    pub fn take_end(&mut self) -> bool {
        std::mem::take(&mut self.has_ended)
    }

    /// Registers a foreign message at a consumer: no earlier message will arrive there any more.
    pub fn passed(&mut self, subscription: usize, at: StreamPosition) {
        if let Some(delivered) = self.delivered.get_mut(subscription) {
            *delivered = (*delivered).max(at);
        }
    }

    /// Processes a message.
    pub fn push(&mut self, message: Message) {
        let Some(subscription) = self.by[message.part.index()].filter(|_| self.buckets.take(message.part))
        else {
            return;
        };
        self.passed(subscription, message.at);
        self.has_come |= self.is_of_boot(&message.run);
        if !self.has_come {
            // The bus still stores messages of an earlier boot.
            return;
        }
        if let Some(round) = message.round {
            self.rounds.push_back((message, round));
            return;
        }
        self.records = self.records.saturating_add(records(&message.batch));
        self.waiting[message.part.index()].push_back(message);
        while self.records > MOST_RECORDS {
            let oldest = self
                .waiting
                .iter_mut()
                .filter(|queue| !queue.is_empty())
                .min_by_key(|queue| queue.front().map(|m| m.at));
            let Some(given_up) = oldest.and_then(VecDeque::pop_front) else { break };
            self.records = self.records.saturating_sub(records(&given_up.batch));
        }
    }

    /// True if a consumer may read on. The consumer of the common part pauses while others are behind, the
    /// others pause while they are ahead; this limits the buffer.
    pub fn wants(&self, subscription: usize) -> bool {
        match (subscription, self.rounds.back()) {
            (0, _) => self.rounds.len() < ENOUGH_ROUNDS,
            (_, Some((newest, _))) => self.delivered[subscription] < newest.at,
            (_, None) => self.records < ENOUGH_RECORDS,
        }
    }

    /// Adds waiting time.
    pub fn waits(&mut self, time: Duration) {
        self.waited = if self.rounds.is_empty() { Duration::ZERO } else { self.waited.saturating_add(time) };
    }

    /// True if the wait was long enough to query the bus for its oldest message.
    pub fn is_in_doubt(&self) -> bool {
        self.waited > DOUBT
    }

    /// The next round, if complete. `first` is the oldest known message of the bus.
    ///
    /// # Errors
    /// The message belongs to another boot.
    pub fn next(&mut self, first: StreamPosition) -> Result<Option<Batch>, AnotherBoot> {
        let Some((message, round)) = self.rounds.front() else { return Ok(None) };
        let late = self.waited > PATIENCE;
        let complete = |part: Part| {
            let position = &round.positions[part.index()];
            let Some(subscription) = self.by[part.index()] else { return true };
            let at = (message.at.0, position.sequence);
            let queued = self.waiting[part.index()]
                .iter()
                .any(|m| m.run == message.run && m.place.number + 1 >= position.next.number);
            part == Part::COMMON
                || position.next.number == 0
                || at <= self.delivered[subscription]
                || at < first
                || queued
        };
        if !late && !self.taken().all(complete) {
            return Ok(None);
        }
        if !self.is_of_boot(&message.run) {
            return Err(AnotherBoot);
        }
        let Some((message, round)) = self.rounds.pop_front() else { return Ok(None) };
        self.waited = Duration::ZERO;
        Ok(Some(self.assemble(message, &round)))
    }

    fn is_of_boot(&self, run: &str) -> bool {
        run.split_once('.').is_some_and(|(_, boot)| boot == self.boot)
    }

    /// Parts in the selected buckets.
    fn taken(&self) -> impl Iterator<Item = Part> + use<> {
        let buckets = self.buckets;
        (0..PARTS as u8).filter_map(Part::numbered).filter(move |part| buckets.take(*part))
    }

    fn assemble(&mut self, message: Message, round: &Round) -> Batch {
        let is_before = match self.begin {
            Begin::Oldest => false,
            Begin::After(at) => message.at <= at,
            Begin::From(ns) => message.published_ns < ns,
        };
        let is_new = self.run.as_ref() != Some(&message.run);
        if is_new {
            self.unseen = self.read_ns > 0;
            // A run counts from zero; the start of the first run may be deleted already.
            self.positions = self.run.is_some().then_some([Place::default(); PARTS]);
            self.run = Some(message.run.clone());
        }
        let end = round.positions[Part::COMMON.index()].next;
        // A duplicate round: the agent sent it again because the first acknowledgement was lost.
        let is_again = !is_new
            && self.positions.is_some_and(|positions| end.number <= positions[Part::COMMON.index()].number);
        let mut common = message.batch;
        if is_again {
            common.clear();
        }
        let mut batch = std::mem::take(&mut self.ahead);
        let (mut came, mut missed) = (0_u64, 0_u64);
        for part in self.taken() {
            let before = self.positions.map(|positions| positions[part.index()]);
            let mut next = before.map_or(0, |place| place.number);
            let mut got = if part == Part::COMMON { records(&common) } else { 0 };
            while let Some(mut piece) = self.waiting[part.index()].pop_front_if(|piece| piece.at < message.at) {
                let count = records(&piece.batch);
                self.records = self.records.saturating_sub(count);
                // Messages of an earlier run without a final round are still valid.
                if piece.run == message.run {
                    if piece.place.number < next {
                        continue;
                    }
                    next = piece.place.number.saturating_add(1);
                    got = got.saturating_add(count);
                }
                self.new_changes.retain(&mut piece.batch.changes);
                piece.batch.names.retain(|names| self.names.learn(names));
                add(&mut piece.batch, &mut batch);
            }
            let reported = before
                .map_or(0, |before| round.positions[part.index()].next.records.saturating_sub(before.records));
            missed = missed.saturating_add(reported.saturating_sub(got));
            came = came.saturating_add(got);
        }
        batch.watermark_ns = common.watermark_ns.max(self.read_ns);
        self.new_changes.retain(&mut common.changes);
        common.names.retain(|names| self.names.learn(names));
        add(&mut common, &mut batch);
        in_order(&mut batch);
        if !is_again {
            self.positions = Some(round.positions.map(|position| position.next));
            self.has_ended |= round.is_last;
        }
        if is_before {
            let Batch { flows, tasks, names, changes, watermark_ns, .. } = batch;
            self.ahead = Batch { flows, tasks, names, changes, watermark_ns, ..Batch::default() };
            return Batch { watermark_ns, ..Batch::default() };
        }
        // The number of records lost between two runs is unknown; it counts as one, so that the gap is visible.
        let unseen = self.unseen && came > 0;
        self.unseen &= !unseen;
        missed = missed.saturating_add(u64::from(unseen));
        if missed > 0 {
            let first_ns = batch.events.first().map_or(batch.watermark_ns, |event| event.time_ns);
            let to_ns = if came == 0 || unseen { first_ns.max(self.read_ns) } else { batch.watermark_ns };
            let from_ns = if self.read_ns == 0 { to_ns } else { self.read_ns.min(to_ns) };
            batch.losses.push(Loss { cpu: u16::MAX, from_ns, to_ns, count: missed, cause: LossCause::Missed });
            batch.losses.sort_by_key(|loss| loss.to_ns);
        }
        self.read_ns = batch.watermark_ns;
        batch
    }
}

/// Number of records in a batch, including lost ones.
pub fn records(batch: &Batch) -> u64 {
    batch.numbered().saturating_add(batch.lost())
}

#[cfg(test)]
mod tests {
    use super::super::round::PartProgress;
    use super::super::subject::{self, packets};
    use super::*;
    use magscope_core::node::CgroupName;
    use magscope_core::workload::Names;
    use magscope_core::{Change, Event, Hop};

    /// A simulated host that publishes.
    struct Host {
        run: String,
        sequence: u64,
        round: Round,
        ns: u64,
    }

    impl Host {
        fn new(run: &str) -> Self {
            Host { run: format!("{run}.boot"), sequence: 0, round: Round::default(), ns: 0 }
        }

        fn message(&mut self, part: Part, events: u64, ends: bool) -> Message {
            self.sequence += 1;
            let event = |_| {
                self.ns += 1;
                Event::at(Hop::IpOut, self.ns)
            };
            let events: Vec<Event> = (0..events).map(event).collect();
            let position = &mut self.round.positions[part.index()];
            let place =
                Place { number: position.next.number, records: position.next.records + events.len() as u64 };
            position.next = Place { number: place.number + 1, records: place.records };
            let round = ends.then_some(self.round);
            self.round.positions[part.index()] =
                PartProgress { next: self.round.positions[part.index()].next, sequence: self.sequence };
            let at = (1, self.sequence);
            let batch = Batch { events, watermark_ns: self.ns, ..Batch::default() };
            Message {
                at,
                published_ns: i128::from(self.sequence),
                run: self.run.clone(),
                part,
                round,
                place,
                batch,
            }
        }

        /// A round with these numbers of events: two buckets and the common part.
        fn round(&mut self, events: [u64; 3]) -> Vec<Message> {
            let [a, b] = [bucket(3), bucket(40)];
            vec![
                self.message(a, events[0], false),
                self.message(b, events[1], false),
                self.message(Part::COMMON, events[2], true),
            ]
        }
    }

    fn bucket(number: u8) -> Part {
        Part::numbered(number).unwrap()
    }

    fn gather(buckets: &str, begin: Begin) -> Gather {
        let buckets: Buckets = buckets.parse().unwrap();
        Gather::new(buckets, subject::filters("a", buckets).1, begin, "boot")
    }

    /// Results of messages: events and missing records of each round.
    fn all(gather: &mut Gather, messages: Vec<Message>) -> Vec<(usize, u64)> {
        let mut rounds = Vec::new();
        for message in messages {
            gather.push(message);
            while let Some(batch) = gather.next((0, 0)).unwrap() {
                assert!(batch.events.is_sorted_by_key(|event| event.time_ns));
                rounds.push((batch.events.len(), batch.lost()));
            }
        }
        rounds
    }

    #[test]
    fn rounds_are_whole_in_any_order_of_their_parts() {
        let mut host = Host::new("a");
        let messages = [host.round([5, 7, 1]), host.round([0, 2, 0]), host.round([1, 1, 1])].concat_them();
        let mut whole = gather("0-63", Begin::Oldest);
        // One consumer for all parts: in the order of publication.
        assert_eq!(all(&mut whole, messages), [(13, 0), (2, 0), (3, 0)]);

        let mut host = Host::new("a");
        let [first, second] = [host.round([5, 7, 1]), host.round([2, 2, 2])];
        let mut subscriptions: [Vec<Message>; 3] = Default::default();
        for message in first.into_iter().chain(second) {
            let subscription = match message.part {
                Part::COMMON => 0,
                part if part == bucket(3) => 1,
                _ => 2,
            };
            subscriptions[subscription].push(message);
        }
        let mut parted = gather("3,40", Begin::Oldest);
        let [common, a, b] = subscriptions;
        assert_eq!(all(&mut parted, common), []);
        assert_eq!(all(&mut parted, b), []);
        assert_eq!(all(&mut parted, a), [(13, 0), (6, 0)]);
    }

    /// `concat` for elements that are not `Clone`.
    trait ConcatThem {
        fn concat_them(self) -> Vec<Message>;
    }

    impl<const N: usize> ConcatThem for [Vec<Message>; N] {
        fn concat_them(self) -> Vec<Message> {
            self.into_iter().flatten().collect()
        }
    }

    #[test]
    fn who_takes_some_buckets_misses_nothing_of_the_others() {
        let mut host = Host::new("a");
        let messages = [host.round([5, 7, 1]), host.round([1, 1, 1])].concat_them();
        let mine = messages.into_iter().filter(|message| message.part != bucket(40)).collect();
        assert_eq!(all(&mut gather("0-7", Begin::Oldest), mine), [(6, 0), (2, 0)]);
    }

    #[test]
    fn what_was_discarded_is_missed_by_number() {
        let mut host = Host::new("a");
        let mut messages =
            [host.round([5, 7, 1]), host.round([10, 20, 3]), host.round([4, 4, 4]), host.round([1, 1, 1])]
                .concat_them();
        // A round without its end, and a message of the next.
        messages.drain(3..7);
        assert_eq!(all(&mut gather("0-63", Begin::Oldest), messages), [(13, 0), (8, 37), (3, 0)]);
    }

    #[test]
    fn a_round_waits_until_its_parts_are_there_or_gone() {
        let mut host = Host::new("a");
        let mut gather = gather("0-63", Begin::Oldest);
        let mut parted = super::Gather {
            by: subject::filters("a", "3,40".parse().unwrap()).1,
            delivered: vec![(0, 0); 3],
            ..gather
        };
        gather = parted;
        for message in [host.round([1, 1, 1]), host.round([5, 7, 1])].concat_them() {
            if message.part != bucket(40) || message.at.1 < 4 {
                gather.push(message);
            }
        }
        assert!(gather.next((1, 1)).unwrap().is_some());
        assert!(gather.next((1, 1)).unwrap().is_none());
        // The bus has deleted it.
        let batch = gather.next((1, 6)).unwrap().unwrap();
        assert_eq!((batch.events.len(), batch.lost()), (6, 7));

        // The loss is unknown, and nothing arrives.
        parted = gather;
        let late = host.round([2, 3, 1]).into_iter().filter(|message| message.part != bucket(40));
        late.for_each(|message| parted.push(message));
        assert!(parted.next((1, 1)).unwrap().is_none() && !parted.is_in_doubt());
        parted.waits(PATIENCE * 2);
        assert!(parted.is_in_doubt());
        let batch = parted.next((1, 1)).unwrap().unwrap();
        assert_eq!((batch.events.len(), batch.lost()), (3, 3));
    }

    #[test]
    fn what_comes_twice_is_taken_once() {
        let mut host = Host::new("a");
        let mut twice = Host::new("a");
        let mut messages = [host.round([5, 7, 1]), twice.round([5, 7, 1])].concat_them();
        for (at, message) in (1..).zip(&mut messages) {
            message.at.1 = at;
        }
        assert_eq!(all(&mut gather("0-63", Begin::Oldest), messages), [(13, 0), (0, 0)]);
    }

    #[test]
    fn an_agent_that_was_started_anew_leaves_a_gap_of_one() {
        let (mut host, mut again) = (Host::new("a"), Host::new("b"));
        (again.ns, again.sequence) = (1_000, 100);
        let messages =
            [host.round([5, 7, 1]), again.round([0; 3]), again.round([2, 2, 2]), again.round([1, 0, 0])];
        let messages = messages.concat_them();
        assert_eq!(all(&mut gather("0-63", Begin::Oldest), messages), [(13, 0), (0, 0), (6, 1), (1, 0)]);

        // Another boot has another clock.
        let mut other = Host { run: "c.other".to_owned(), sequence: 200, ..Host::new("c") };
        let mut gather = gather("0-63", Begin::Oldest);
        [host.round([1, 1, 1]), other.round([1, 1, 1])].concat_them().into_iter().for_each(|m| gather.push(m));
        assert!(gather.next((0, 0)).unwrap().is_some());
        assert_eq!(gather.next((0, 0)).unwrap_err(), AnotherBoot);
    }

    #[test]
    fn of_a_boot_before_nothing_is_taken() {
        let (mut before, mut host) = (Host { run: "a.before".to_owned(), ..Host::new("a") }, Host::new("b"));
        (host.ns, host.sequence) = (1, 100);
        let messages = [before.round([1, 1, 1]), host.round([5, 7, 1]), host.round([2, 2, 2])].concat_them();
        assert_eq!(all(&mut gather("0-63", Begin::Oldest), messages), [(13, 0), (6, 0)]);
    }

    #[test]
    fn of_what_is_before_the_beginning_only_announcements_are_taken() {
        let mut host = Host::new("a");
        let mut messages = host.round([5, 7, 1]);
        let flow = magscope_core::Flow {
            id: magscope_core::FlowId(7),
            netns: 1,
            proto: magscope_core::Proto::TCP,
            local: "10.0.0.1:1".parse().unwrap(),
            remote: "10.0.0.2:2".parse().unwrap(),
        };
        messages[0].batch.flows.push(flow);
        messages.extend(host.round([1, 1, 1]));
        messages.extend(host.round([2, 2, 2]));
        let mut gather = gather("0-63", Begin::After((1, 3)));
        // The second round is missing; the loss is reported because the first round is present.
        for message in messages.into_iter().filter(|message| !(4..=6).contains(&message.at.1)) {
            gather.push(message);
        }
        assert!(gather.next((0, 0)).unwrap().unwrap().is_empty());
        let batch = gather.next((0, 0)).unwrap().unwrap();
        assert_eq!((batch.events.len(), batch.lost(), &batch.flows[..]), (6, 3, &[flow][..]));
    }

    #[test]
    fn changes_and_names_from_before_the_beginning_come_first_and_once() {
        let mut host = Host::new("a");
        let change = Change { from_ns: 1, to_ns: 2, what: "disable dev.queue".to_owned() };
        let cgroups = vec![CgroupName { id: 5, path: "/later".to_owned() }];
        let names = Names { time_ns: 1, cgroups, ..Names::default() };
        let rounds = [host.round([1, 1, 1]), host.round([1, 1, 1]), host.round([1, 1, 1])];
        let mut messages = rounds.concat_them();
        messages[2].batch.names.push(names.clone());
        // The host repeats it in each round.
        for common in [2_usize, 5, 8] {
            messages[common].batch.changes.push(change.clone());
        }
        // As well as the names, later.
        for common in [5_usize, 8] {
            messages[common].batch.names.push(Names { time_ns: 9, ..names.clone() });
        }
        let mut gather = gather("0-63", Begin::After((1, 3)));
        let mut batches = Vec::new();
        for message in messages {
            gather.push(message);
            batches.extend(gather.next((0, 0)).unwrap());
        }
        let changes: Vec<usize> = batches.iter().map(|batch| batch.changes.len()).collect();
        assert_eq!(changes, [0, 1, 0]);
        let named: Vec<usize> = batches.iter().map(|batch| batch.names.len()).collect();
        assert_eq!(named, [0, 1, 0]);
        assert_eq!((&batches[1].changes[..], &batches[1].names[..]), (&[change][..], &[names][..]));
    }

    #[test]
    fn what_never_ends_a_round_does_not_grow() {
        let mut gather = gather("0-63", Begin::Oldest);
        let mut host = Host::new("a");
        for _ in 0..600 {
            let message = host.message(bucket(3), 10_000, false);
            gather.push(message);
        }
        assert!(gather.records <= MOST_RECORDS);
        assert_eq!(packets("a", bucket(3)), "magnet-scope.packets.a.0.3");
    }
}
