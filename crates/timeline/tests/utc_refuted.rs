//! Sources of UTC that become wrong amid a recording: each is refuted by its own other readings or by packets, and the
//! interval of the difference always contains the true one. Honest ones are never refuted.

use magscope_core::clock::ClockSample;
use magscope_core::node::NodeInfo;
use magscope_timeline::align::{Aligner, Alignment, Online};
use magscope_timeline::join::Crossing;
use magscope_timeline::pair::{Difference, State};
use proptest::prelude::*;

const SECOND: i64 = 1_000_000_000;
const SPAN_NS: i64 = 20 * SECOND;
const TICK_NS: i64 = 100_000_000;
const PACKETS_NS: i64 = 20_000_000;
const WIDTH_NS: u32 = 100;
/// UTC at the beginning.
const EPOCH_NS: i64 = 1_790_000_000 * SECOND;

/// What happens to the clocks of a host at an instant.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Change {
    None,
    /// `CLOCK_REALTIME` is set.
    Set(i64),
    /// The same by slewing, parts per million.
    Slew(i64),
    /// The offset of TAI is set, seconds.
    Tai(i32),
    /// A leap second is inserted.
    Leap,
    /// The host sleeps for some time, and its wall clock is wrong by some time then.
    Sleep(i64, i64),
}

#[derive(Clone, Copy, Debug)]
struct Host {
    offset_ns: i64,
    ppm: f64,
    /// Error of UTC, within its bound.
    off_ns: i64,
    change: Change,
    at_ns: i64,
    /// Samples after the change that have no bound of UTC.
    silent: i64,
}

impl Host {
    fn since(&self, t: i64) -> Option<i64> {
        (t >= self.at_ns).then(|| t - self.at_ns)
    }

    fn is_asleep(&self, t: i64) -> bool {
        matches!((self.change, self.since(t)), (Change::Sleep(for_ns, _), Some(since)) if since < for_ns)
    }

    fn slept_ns(&self, t: i64) -> i64 {
        match (self.change, self.since(t)) {
            (Change::Sleep(for_ns, _), Some(since)) => since.min(for_ns),
            _ => 0,
        }
    }

    fn raw(&self, t: i64) -> u64 {
        let awake_ns = t - self.slept_ns(t);
        (1_000 * SECOND + self.offset_ns + awake_ns + (awake_ns as f64 * self.ppm * 1e-6).floor() as i64) as u64
    }

    /// Disciplined to the rate of UTC.
    fn monotonic(&self, t: i64) -> u64 {
        let slewed_ns = match (self.change, self.since(t)) {
            (Change::Slew(ppm), Some(since)) => since * ppm / 1_000_000,
            _ => 0,
        };
        (1_000 * SECOND + self.offset_ns + t - self.slept_ns(t) + slewed_ns) as u64
    }

    fn sample(&self, t: i64, claim_ns: u64) -> ClockSample {
        let changed = self.since(t).filter(|_| self.change != Change::None);
        let moved_ns = match (self.change, changed) {
            (Change::Set(by_ns) | Change::Sleep(_, by_ns), Some(_)) => by_ns + self.slept_ns(t),
            (Change::Leap, Some(_)) => -SECOND,
            _ => 0,
        };
        let tai_offset_s = match (self.change, changed) {
            (Change::Tai(by_s), Some(_)) => by_s,
            (Change::Leap, Some(_)) => 1,
            _ => 0,
        };
        let is_set = moved_ns != 0;
        let awake = changed.map(|since| since - self.slept_ns(t));
        ClockSample {
            monotonic_ns: self.monotonic(t),
            raw_ns: self.raw(t),
            realtime_ns: self.monotonic(t) as i64 - 1_000 * SECOND - self.offset_ns
                + EPOCH_NS
                + self.off_ns
                + moved_ns,
            width_ns: WIDTH_NS,
            suspended_ns: self.slept_ns(t) as u64,
            tai_offset_s,
            realtime_steps: u32::from(is_set),
            utc_error_ns: awake.is_none_or(|since| since >= self.silent * TICK_NS).then_some(claim_ns),
            ..ClockSample::default()
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Traffic {
    Both,
    Forward,
    Back,
    /// Both directions, until this instant.
    Until(i64),
    None,
}

#[derive(Clone, Debug)]
struct World {
    hosts: [Host; 2],
    claim_ns: u64,
    delay_ns: i64,
    traffic: Traffic,
}

/// A record of a recording: a sample of a host, or a packet.
enum Record {
    Sample(u16, ClockSample),
    Packet(Crossing),
}

impl World {
    fn infos() -> [NodeInfo; 2] {
        ["one", "two"].map(|boot| NodeInfo { boot_id: boot.to_owned(), ..NodeInfo::default() })
    }

    fn is_sent(&self, t: i64, tx: u16) -> bool {
        let is_awake = self.hosts.iter().all(|host| !host.is_asleep(t) && !host.is_asleep(t + self.delay_ns));
        is_awake
            && match self.traffic {
                Traffic::Both => true,
                Traffic::Forward => tx == 0,
                Traffic::Back => tx == 1,
                Traffic::Until(end_ns) => t < end_ns,
                Traffic::None => false,
            }
    }

    /// In order of time.
    fn records(&self) -> Vec<Record> {
        let mut records = Vec::new();
        for i in 0..=SPAN_NS / PACKETS_NS {
            let t = i * PACKETS_NS;
            for (node, host) in
                (0..).zip(&self.hosts).filter(|(_, host)| t % TICK_NS == 0 && !host.is_asleep(t))
            {
                records.push((t, Record::Sample(node, host.sample(t, self.claim_ns))));
            }
            let (tx, sent) = ((i % 2) as u16, t + PACKETS_NS / 2);
            if self.is_sent(sent, tx) {
                let received = sent + self.delay_ns;
                let at = |node: u16, t: i64| self.hosts[usize::from(node)].monotonic(t);
                let (sent_ns, received_ns) = (at(tx, sent), at(1 - tx, received));
                let packet = Crossing { tx_node: tx, rx_node: 1 - tx, sent_ns, received_ns };
                records.push((received, Record::Packet(packet)));
            }
        }
        records.sort_by_key(|(t, _)| *t);
        records.into_iter().map(|(_, record)| record).collect()
    }

    fn recorded(&self) -> Alignment {
        let mut aligner = Aligner::new(&Self::infos());
        for record in self.records() {
            match record {
                Record::Sample(node, sample) => aligner.clock(node, sample),
                Record::Packet(crossing) => aligner.crossing(&crossing),
            }
        }
        aligner.finish()
    }

    /// R of the first host, and the true difference.
    fn truth(&self, t: i64) -> (u64, i64) {
        let [a, b] = self.hosts.map(|host| host.raw(t));
        (a, b.wrapping_sub(a) as i64)
    }

    /// The bases of the bounds at a true instant, none of which excludes the truth.
    fn check<P: Difference>(&self, all: &Alignment<P>, t: i64) -> Result<Option<State>, TestCaseError> {
        let (a, d) = self.truth(t);
        let sourced = all.bounds_at(0, 1, a);
        let shown = all.difference_at(0, 1, a);
        for bounds in [Some(shown.bounds), sourced.map(|sourced| sourced.bounds)].into_iter().flatten() {
            let is_in = bounds.lower.is_none_or(|ns| ns <= d + 3) && bounds.upper.is_none_or(|ns| d - 3 <= ns);
            prop_assert!(is_in, "{d} at {t} is outside {bounds:?}: {sourced:?}");
        }
        Ok(sourced.map(|sourced| sourced.state))
    }

    fn check_all(&self, all: &Alignment) -> Result<Vec<State>, TestCaseError> {
        let awake = |t: &i64| self.hosts.iter().all(|host| !host.is_asleep(*t));
        let instants = (10..190).map(|i| i * TICK_NS + 37_000_000).filter(awake);
        let states: Result<Vec<Option<State>>, TestCaseError> = instants.map(|t| self.check(all, t)).collect();
        Ok(states?.into_iter().flatten().collect())
    }
}

fn magnitude(least: f64, most: f64) -> impl Strategy<Value = f64> {
    (least.ln()..most.ln()).prop_map(f64::exp)
}

prop_compose! {
    /// Hosts whose UTC is right to within their claims.
    fn world()(
        offset_ns in -3_600 * SECOND..3_600 * SECOND,
        ppm in prop::array::uniform2(-90.0..90.0_f64),
        claim_ns in magnitude(1e4, 5e7),
        off in prop::array::uniform2(-0.9..0.9_f64),
        delay_ns in magnitude(2e4, 5e6),
    ) -> World {
        let host = |i: usize| Host {
            offset_ns: if i == 0 { 3_600 * SECOND } else { 3_600 * SECOND + offset_ns },
            ppm: ppm[i],
            off_ns: (off[i] * claim_ns) as i64,
            change: Change::None,
            at_ns: 0,
            silent: 0,
        };
        World { hosts: [host(0), host(1)], claim_ns: claim_ns as u64, delay_ns: delay_ns as i64, traffic: Traffic::Both }
    }
}

fn traffic() -> impl Strategy<Value = Traffic> {
    prop_oneof![
        4 => Just(Traffic::Both),
        1 => Just(Traffic::Forward),
        1 => Just(Traffic::Back),
        1 => (SECOND..SPAN_NS).prop_map(Traffic::Until),
        1 => Just(Traffic::None),
    ]
}

const DAY_NS: f64 = 86_400e9;

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    /// From milliseconds to days, forward and back, at any time, whichever packets there are.
    #[test]
    fn a_wall_clock_that_becomes_wrong_amid_a_recording_is_refuted_and_named(
        mut world in world(),
        traffic in traffic(),
        which in 0..2_usize,
        at_ns in SECOND..15 * SECOND,
        silent in prop_oneof![Just(0), 0..40_i64],
        size in magnitude(3e6, 30.0 * DAY_NS),
        is_back in any::<bool>(),
    ) {
        let by_ns = size as i64 + 4 * world.claim_ns as i64;
        world.traffic = traffic;
        let change = Change::Set(if is_back { -by_ns } else { by_ns });
        world.hosts[which] = Host { change, at_ns, silent, ..world.hosts[which] };
        let all = world.recorded();
        let states = world.check_all(&all)?;
        prop_assert!(!states.contains(&State::External), "{states:?}");
        prop_assert_eq!(all.refuted_utc(0, 1), vec![which as u16]);
    }

    /// Before the next reading of the source its claim is no other than before: packets alone find it.
    #[test]
    fn packets_refute_a_source_that_does_not_contradict_itself(
        mut world in world(),
        which in 0..2_usize,
        at_ns in SECOND..12 * SECOND,
        is_back in any::<bool>(),
        kind in 0..4_u8,
        size in magnitude(1e7, DAY_NS),
    ) {
        let sign = if is_back { -1 } else { 1 };
        world.claim_ns = world.claim_ns.min(100_000);
        world.delay_ns = world.delay_ns.min(200_000);
        world.hosts.iter_mut().for_each(|host| host.off_ns = 0);
        let change = match kind {
            // a quick slew, and a slow one
            0 => Change::Slew(80_000 * sign),
            1 => Change::Slew(400 * sign),
            // the other host has no leap second
            2 => Change::Leap,
            // its RTC is wrong
            _ => Change::Sleep(3 * SECOND, sign * size as i64),
        };
        world.hosts[which] = Host { change, at_ns, silent: 1, ..world.hosts[which] };
        let all = world.recorded();
        let states = world.check_all(&all)?;
        prop_assert!(!states.contains(&State::External), "{states:?}");
        // A quick slew contradicts itself.
        let refuted = if kind == 0 { vec![which as u16] } else { vec![0, 1] };
        prop_assert_eq!(all.refuted_utc(0, 1), refuted);
    }

    /// A leap second on both, another offset of TAI, sleep: none is a contradiction.
    #[test]
    fn honest_sources_are_not_refuted(
        mut world in world(),
        traffic in traffic(),
        which in 0..2_usize,
        at_ns in SECOND..15 * SECOND,
        silent in 1..40_i64,
        kind in 0..4_u8,
    ) {
        world.traffic = traffic;
        let change = [Change::None, Change::Tai(37), Change::Leap, Change::Sleep(3 * SECOND, 0)][usize::from(kind)];
        for host in &mut world.hosts {
            *host = Host { at_ns, silent, ..*host };
        }
        world.hosts[which].change = change;
        if change == Change::Leap {
            world.hosts[1 - which].change = change;
        }
        let all = world.recorded();
        world.check_all(&all)?;
        prop_assert_eq!(all.refuted_utc(0, 1), Vec::<u16>::new());
        for t in (10..190).map(|i| i * TICK_NS + 37_000_000) {
            let sourced = all.bounds_at(0, 1, world.truth(t).0);
            prop_assert!(sourced.is_none_or(|sourced| !sourced.external_refuted), "at {}: {:?}", t, sourced);
        }
    }

    /// Live, from the first reading of the wrong UTC on.
    #[test]
    fn live_bounds_refute_a_wall_clock_that_becomes_wrong(
        mut world in world(),
        traffic in traffic(),
        which in 0..2_usize,
        at_ns in SECOND..15 * SECOND,
        silent in 0..20_i64,
        size in magnitude(3e6, 30.0 * DAY_NS),
        is_back in any::<bool>(),
    ) {
        let by_ns = size as i64 + 4 * world.claim_ns as i64;
        world.traffic = traffic;
        let change = Change::Set(if is_back { -by_ns } else { by_ns });
        world.hosts[which] = Host { change, at_ns, silent, ..world.hosts[which] };
        let online = Online::new(&World::infos());
        let mut t = 0;
        for record in world.records() {
            match record {
                Record::Sample(node, sample) => {
                    online.clock(node, sample);
                    t += TICK_NS / 2;
                }
                Record::Packet(crossing) => online.crossing(&crossing),
            }
            if t > 2 * SECOND && t % (5 * TICK_NS) == 0 {
                online.look(|all| world.check(all, t - 3 * TICK_NS))?;
            }
        }
        prop_assert_eq!(online.look(|all| all.refuted_utc(0, 1)), vec![which as u16]);
    }
}
