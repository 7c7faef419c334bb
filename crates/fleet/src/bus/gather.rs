//! Messages of one host put together again, round by round.
//!
//! Parts can come by different ways and so in any order among each other; each in its own. A round is whole once everything that its last
//! message tells of is there, or is certain not to come any more. What does not come was missed, by the numbers in that message.

use super::round::Round;
use super::split::{add, in_order};
use super::subject::{Buckets, PARTS, Part};
use magscope_core::{Batch, Loss, LossCause};
use magscope_session::Place;
use std::collections::VecDeque;
use std::time::Duration;

/// How long a round is waited for that nobody can say is gone, and after how long the bus is asked.
const PATIENCE: Duration = Duration::from_secs(10);
const DOUBT: Duration = Duration::from_secs(1);
/// Records that wait for the end of their round at most; and those, and rounds, from which on nothing is read ahead.
const MOST_RECORDS: u64 = 4 << 20;
const ENOUGH_RECORDS: u64 = 1 << 20;
const ENOUGH_ROUNDS: usize = 1 << 6;

/// Where a message is: when the bus's stream was made, which it may have been anew meanwhile, and its number there.
pub type At = (i128, u64);

/// A message of a host.
#[derive(Debug)]
pub struct Message {
    /// Where it is.
    pub at: At,
    /// When the bus got it, nanoseconds of the bus's clock since 1970.
    pub published_ns: i128,
    /// Which run of the agent it is of, with the boot behind a dot.
    pub run: String,
    /// Of which part.
    pub part: Part,
    /// In the common part: the round that it ends.
    pub round: Option<Round>,
    /// Its own number, and records up to its end.
    pub place: Place,
    /// What is in it.
    pub batch: Batch,
}

/// What to begin behind. Of what is before, only announcements are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begin {
    /// Behind nothing: with all there is.
    Oldest,
    /// Behind this message.
    After(At),
    /// With what the bus got from this instant on, nanoseconds of its clock since 1970.
    From(i128),
}

/// The host was booted anew: its clock is another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AnotherBoot;

/// Puts a host's messages together.
pub struct Gather {
    buckets: Buckets,
    /// By which way each part comes.
    by: Vec<Option<usize>>,
    begin: Begin,
    /// The boot that is read: another one's clock is another.
    boot: String,
    /// Something of it has come.
    has_come: bool,
    /// The last that came by each way.
    delivered: Vec<At>,
    waiting: Vec<VecDeque<Message>>,
    /// Records in `waiting`.
    records: u64,
    rounds: VecDeque<(Message, Round)>,
    /// How long the first of them has been waited for.
    waited: Duration,
    run: Option<String>,
    /// Where each part stood at the end of the last round of this run; nothing before the first.
    stands: Option<[Place; PARTS]>,
    /// The last instant that was handed out; 0 before the first.
    read_ns: u64,
    /// There is another run, and nothing of it has come yet.
    unseen: bool,
    /// Announcements of before the beginning.
    ahead: Batch,
    /// The agent has said that it ends.
    has_ended: bool,
}

impl Gather {
    /// For these buckets, of which each part comes by one way, of this boot of a host.
    pub fn new(buckets: Buckets, by: Vec<Option<usize>>, begin: Begin, boot: &str) -> Self {
        let ways = by.iter().flatten().max().map_or(0, |last| last + 1);
        Gather {
            buckets,
            by,
            begin,
            boot: boot.to_owned(),
            has_come: false,
            delivered: vec![(0, 0); ways],
            waiting: (0..PARTS).map(|_| VecDeque::new()).collect(),
            records: 0,
            rounds: VecDeque::new(),
            waited: Duration::ZERO,
            run: None,
            stands: None,
            read_ns: 0,
            unseen: false,
            ahead: Batch::default(),
            has_ended: false,
        }
    }

    /// Whether the agent has said that it ends, since this was last asked.
    pub fn take_end(&mut self) -> bool {
        std::mem::take(&mut self.has_ended)
    }

    /// Something came by a way that is no message of ours: nothing before it will come by it any more.
    pub fn passed(&mut self, way: usize, at: At) {
        if let Some(delivered) = self.delivered.get_mut(way) {
            *delivered = (*delivered).max(at);
        }
    }

    /// Takes a message.
    pub fn push(&mut self, message: Message) {
        let Some(way) = self.by[message.part.index()].filter(|_| self.buckets.take(message.part)) else {
            return;
        };
        self.passed(way, message.at);
        self.has_come |= self.is_of_boot(&message.run);
        if !self.has_come {
            // What the bus still has of a boot before.
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

    /// Whether to read on by a way. The one by which rounds end waits where the others are behind, and they where they are ahead, so that
    /// little has to wait here.
    pub fn wants(&self, way: usize) -> bool {
        match (way, self.rounds.back()) {
            (0, _) => self.rounds.len() < ENOUGH_ROUNDS,
            (_, Some((newest, _))) => self.delivered[way] < newest.at,
            (_, None) => self.records < ENOUGH_RECORDS,
        }
    }

    /// So long has been waited.
    pub fn waits(&mut self, time: Duration) {
        self.waited = if self.rounds.is_empty() { Duration::ZERO } else { self.waited.saturating_add(time) };
    }

    /// Whether that was so long that the bus should be asked what it still has.
    pub fn is_in_doubt(&self) -> bool {
        self.waited > DOUBT
    }

    /// The next round, if it is whole. `first` is the oldest message that the bus still has, as far as is known.
    ///
    /// # Errors
    /// It is of another boot.
    pub fn next(&mut self, first: At) -> Result<Option<Batch>, AnotherBoot> {
        let Some((message, round)) = self.rounds.front() else { return Ok(None) };
        let late = self.waited > PATIENCE;
        let complete = |part: Part| {
            let stand = &round.stands[part.index()];
            let Some(way) = self.by[part.index()] else { return true };
            let at = (message.at.0, stand.sequence);
            let queued = self.waiting[part.index()]
                .iter()
                .any(|m| m.run == message.run && m.place.number + 1 >= stand.next.number);
            part == Part::COMMON || stand.next.number == 0 || at <= self.delivered[way] || at < first || queued
        };
        if !late && !self.taken().all(complete) {
            return Ok(None);
        }
        if !self.is_of_boot(&message.run) {
            return Err(AnotherBoot);
        }
        let Some((message, round)) = self.rounds.pop_front() else { return Ok(None) };
        self.waited = Duration::ZERO;
        Ok(Some(self.put_together(message, &round)))
    }

    fn is_of_boot(&self, run: &str) -> bool {
        run.split_once('.').is_some_and(|(_, boot)| boot == self.boot)
    }

    /// Parts that are taken.
    fn taken(&self) -> impl Iterator<Item = Part> + use<> {
        let buckets = self.buckets;
        (0..PARTS as u8).filter_map(Part::numbered).filter(move |part| buckets.take(*part))
    }

    fn put_together(&mut self, message: Message, round: &Round) -> Batch {
        let is_before = match self.begin {
            Begin::Oldest => false,
            Begin::After(at) => message.at <= at,
            Begin::From(ns) => message.published_ns < ns,
        };
        let is_new = self.run.as_ref() != Some(&message.run);
        if is_new {
            self.unseen = self.read_ns > 0;
            // A run counts from nothing; of the first one the beginning may be long gone.
            self.stands = self.run.is_some().then_some([Place::default(); PARTS]);
            self.run = Some(message.run.clone());
        }
        let end = round.stands[Part::COMMON.index()].next;
        // The same round twice: the bus was told of it again because its first answer was lost.
        let is_again =
            !is_new && self.stands.is_some_and(|stands| end.number <= stands[Part::COMMON.index()].number);
        let mut common = message.batch;
        if is_again {
            common.clear();
        }
        let mut batch = std::mem::take(&mut self.ahead);
        let (mut came, mut missed) = (0_u64, 0_u64);
        for part in self.taken() {
            let before = self.stands.map(|stands| stands[part.index()]);
            let mut next = before.map_or(0, |place| place.number);
            let mut got = if part == Part::COMMON { records(&common) } else { 0 };
            while let Some(mut piece) = self.waiting[part.index()].pop_front_if(|piece| piece.at < message.at) {
                let count = records(&piece.batch);
                self.records = self.records.saturating_sub(count);
                // What an earlier run has not ended a round with is good all the same.
                if piece.run == message.run {
                    if piece.place.number < next {
                        continue;
                    }
                    next = piece.place.number.saturating_add(1);
                    got = got.saturating_add(count);
                }
                add(&mut piece.batch, &mut batch);
            }
            let told = before
                .map_or(0, |before| round.stands[part.index()].next.records.saturating_sub(before.records));
            missed = missed.saturating_add(told.saturating_sub(got));
            came = came.saturating_add(got);
        }
        batch.watermark_ns = common.watermark_ns.max(self.read_ns);
        add(&mut common, &mut batch);
        in_order(&mut batch);
        if !is_again {
            self.stands = Some(round.stands.map(|stand| stand.next));
            self.has_ended |= round.is_last;
        }
        if is_before {
            self.ahead = Batch { flows: batch.flows, tasks: batch.tasks, ..Batch::default() };
            self.ahead.watermark_ns = batch.watermark_ns;
            return Batch { watermark_ns: batch.watermark_ns, ..Batch::default() };
        }
        // How many nobody has seen between two runs is not known; that something is missing must be seen, so they count as one.
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

/// What counts.
pub fn records(batch: &Batch) -> u64 {
    batch.numbered().saturating_add(batch.lost())
}

#[cfg(test)]
mod tests {
    use super::super::round::Stand;
    use super::super::subject::{self, packets};
    use super::*;
    use magscope_core::{Event, Hop};

    /// A host that publishes, and what of it came to whom.
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
            let stand = &mut self.round.stands[part.index()];
            let place = Place { number: stand.next.number, records: stand.next.records + events.len() as u64 };
            stand.next = Place { number: place.number + 1, records: place.records };
            let round = ends.then_some(self.round);
            self.round.stands[part.index()] =
                Stand { next: self.round.stands[part.index()].next, sequence: self.sequence };
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

        /// A round of so many events in two buckets and in common.
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

    /// What comes of messages: events, and records missed, a round.
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
        // One way for all: as they were published.
        assert_eq!(all(&mut whole, messages), [(13, 0), (2, 0), (3, 0)]);

        let mut host = Host::new("a");
        let [first, second] = [host.round([5, 7, 1]), host.round([2, 2, 2])];
        let mut ways: [Vec<Message>; 3] = Default::default();
        for message in first.into_iter().chain(second) {
            let way = match message.part {
                Part::COMMON => 0,
                part if part == bucket(3) => 1,
                _ => 2,
            };
            ways[way].push(message);
        }
        let mut parted = gather("3,40", Begin::Oldest);
        let [common, a, b] = ways;
        assert_eq!(all(&mut parted, common), []);
        assert_eq!(all(&mut parted, b), []);
        assert_eq!(all(&mut parted, a), [(13, 0), (6, 0)]);
    }

    /// As `concat`, of what cannot be cloned.
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
        // A round but for its end, and a message of the next.
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
        // The bus has forgotten it.
        let batch = gather.next((1, 6)).unwrap().unwrap();
        assert_eq!((batch.events.len(), batch.lost()), (6, 7));

        // Nobody knows, and nothing comes.
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

        // Of another boot it is another clock.
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
        // The second round is missed, and told of because the first is known.
        for message in messages.into_iter().filter(|message| !(4..=6).contains(&message.at.1)) {
            gather.push(message);
        }
        assert!(gather.next((0, 0)).unwrap().unwrap().is_empty());
        let batch = gather.next((0, 0)).unwrap().unwrap();
        assert_eq!((batch.events.len(), batch.lost(), &batch.flows[..]), (6, 3, &[flow][..]));
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
