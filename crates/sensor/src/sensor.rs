//! The sensor: receives a walk over live sources and produces snapshots.

use crate::capture_state::CaptureState;
use crate::clocks::ClockWatch;
use crate::ring::Ring;
use crate::services::service;
use crate::snapshot::{Began, HopState, HostSnapshot, LeftOut, SelfUsage, Snapshot};
use crate::sums::{Sums, clean};
use magscope_core::clock::ClockSample;
use magscope_core::context::Context;
use magscope_core::exchange::{Exchange, ExchangeBuilder, ExchangeLimits};
use magscope_core::node::{NodeInfo, make_name_unique};
use magscope_core::sampled::Sampled;
use magscope_core::stored_context::StoredContext;
use magscope_core::{Batch, Hop, HopCount, Journey};
use magscope_timeline::align::Online;
use magscope_timeline::merged_reader::Piece;
use std::collections::BTreeMap;

/// Maximum number of hosts; data of further hosts is counted and ignored.
const MOST_HOSTS: usize = 1_024;

/// A sensor runs for months beside other programs, in less memory than an analysis.
const LIMITS: ExchangeLimits = ExchangeLimits { connections: 1 << 13, closed: 1 << 13, waiting: 1 << 15 };

/// State of one host.
struct Host {
    info: NodeInfo,
    state: CaptureState,
    sampled: Sampled,
    counts: BTreeMap<Hop, HopCount>,
    began_ns: Option<u64>,
    fed_ns: u64,
    /// UTC minus the event clock, from the first and the last clock sample.
    to_utc_ns: Option<(i64, i64)>,
    clock: Option<ClockSample>,
    total: Sums,
    ring: Ring,
}

/// Sums over batches and journeys of one or more hosts. Memory grows with the number of hosts, up to a bound,
/// and not with time.
pub struct Sensor {
    named: bool,
    hosts: Vec<Host>,
    exchanges: ExchangeBuilder,
    /// Exchanges end after their journeys, when the reader's own context may have other names.
    context: StoredContext,
    ready: Vec<Exchange>,
    clocks: ClockWatch,
}

impl Sensor {
    /// A sensor for these hosts; `named` adds the host to each metric.
    pub fn new(infos: &[NodeInfo], named: bool) -> Self {
        let mut sensor = Sensor {
            named,
            hosts: Vec::new(),
            exchanges: ExchangeBuilder::with(LIMITS),
            context: StoredContext::default(),
            ready: Vec::new(),
            clocks: ClockWatch::default(),
        };
        for info in infos {
            sensor.join(info);
        }
        sensor
    }

    /// Adds a host.
    pub fn join(&mut self, info: &NodeInfo) {
        if self.hosts.len() >= MOST_HOSTS {
            return;
        }
        let mut info = NodeInfo { host: clean(&info.host), kernel: clean(&info.kernel), ..info.clone() };
        let others: Vec<NodeInfo> = self.hosts.iter().map(|host| host.info.clone()).collect();
        make_name_unique(&others, &mut info);
        self.context.join(info.clone());
        self.hosts.push(Host {
            state: CaptureState::of(&info),
            sampled: Sampled::of(&info),
            info,
            counts: BTreeMap::new(),
            began_ns: None,
            fed_ns: 0,
            to_utc_ns: None,
            clock: None,
            total: Sums::default(),
            ring: Ring::new(),
        });
    }

    /// Processes a piece of a walk.
    pub fn add(&mut self, piece: &Piece<'_>) {
        match piece {
            Piece::Batch(node, batch) => {
                self.batch(*node, batch);
                self.context.threads(*node, batch);
                self.exchanges.batch(*node, batch, &mut self.ready);
            }
            Piece::Journey(journey, _, context) => {
                self.journey(journey);
                self.exchanges.journey(journey, *context, &mut self.ready);
            }
        }
        for exchange in std::mem::take(&mut self.ready) {
            self.exchange(&exchange);
        }
    }

    /// Counts an exchange at its responder, or at its requester if only that is watched.
    fn exchange(&mut self, exchange: &Exchange) {
        let (responder, requester) = (&exchange.responder, &exchange.requester);
        let node = if responder.flow.is_none() { requester.node } else { responder.node };
        let thread = responder.thread();
        let task = thread.and_then(|thread| self.context.task(responder.node, thread.tid));
        let service = service(exchange, task.map_or("", |task| &task.comm));
        self.count(node, exchange.end_ns(), |sums| sums.exchange(&service, exchange));
    }

    fn batch(&mut self, node: u16, batch: &Batch) {
        let Some(host) = self.hosts.get_mut(usize::from(node)) else { return };
        host.sampled.batch(batch);
        for change in &batch.changes {
            host.state.change(change);
        }
        for count in &batch.counts {
            host.counts.insert(count.hop, *count);
        }
        if let Some(sample) = batch.clock.last() {
            let to_utc_ns = sample.realtime_ns.wrapping_sub_unsigned(sample.event_ns());
            host.to_utc_ns = Some((host.to_utc_ns.map_or(to_utc_ns, |(first, _)| first), to_utc_ns));
        }
        for event in &batch.events {
            host.fed(event.time_ns);
            host.total.event(event);
            if let Some(part) = host.ring.at(event.time_ns) {
                part.event(event);
            }
        }
        for sample in &batch.tcp {
            host.fed(sample.time_ns);
            host.total.tcp_sample();
            if let Some(part) = host.ring.at(sample.time_ns) {
                part.tcp_sample();
            }
        }
        for row in &batch.synthesis {
            host.fed(row.to_ns);
            host.total.synthesis(row);
            if let Some(part) = host.ring.at(row.to_ns) {
                part.synthesis(row);
            }
        }
        for loss in &batch.losses {
            host.total.lost(loss.cause, loss.count);
            // A loss between two instants counts at the later one; some have no time of their own.
            let at_ns = if matches!(loss.to_ns, 0 | u64::MAX) { host.fed_ns } else { loss.to_ns };
            if let Some(part) = host.ring.at(at_ns) {
                part.lost(loss.cause, loss.count);
            }
        }
        // 0 and the maximum are no times
        if !matches!(batch.watermark_ns, 0 | u64::MAX) {
            host.fed(batch.watermark_ns);
            host.ring.reach(host.fed_ns);
        }
        for sample in &batch.clock {
            let kind = host.clock.and_then(|before| before.break_before(sample));
            host.clock = Some(*sample);
            let Some(kind) = kind else { continue };
            host.total.clock_break(kind);
            // Samples are not moved to the time line of events.
            if let Some(part) = host.ring.at(host.fed_ns) {
                part.clock_break(kind);
            }
        }
        host.total.late(batch);
        if batch.late > 0
            && let Some(part) = host.ring.at(host.fed_ns)
        {
            part.late(batch);
        }
    }

    fn journey(&mut self, journey: &Journey) {
        let ended_ns = journey.end_ns();
        // A journey counts at its receiver, if that half was seen.
        let last = if journey.rx_flow.is_none() { journey.tx_node } else { journey.rx_node };
        self.count(last, ended_ns, |sums| sums.ended(journey));
        if !journey.verdict.is_whole() {
            return;
        }
        for latency in journey.latencies() {
            let node = if latency.on_sender_clock { journey.tx_node } else { journey.rx_node };
            self.count(node, ended_ns, |sums| {
                sums.latency(journey.proto, (latency.from, latency.to), latency.ns);
            });
        }
        let woken = journey.rung(Hop::TaskWake).is_some();
        if let Some(ns) = journey.between_ns(Hop::SockReady, Hop::TaskRun).filter(|_| woken) {
            self.count(journey.rx_node, ended_ns, |sums| sums.wakeup(ns));
        }
        if let Some(ns) = journey.between_ns(Hop::DevQueue, Hop::DevXmit) {
            self.count(journey.tx_node, ended_ns, |sums| sums.queue(ns));
        }
    }

    /// Adds a journey to the total and, if it has a time, to its part of the window.
    fn count(&mut self, node: u16, at_ns: Option<u64>, add: impl Fn(&mut Sums)) {
        let Some(host) = self.hosts.get_mut(usize::from(node)) else { return };
        add(&mut host.total);
        if let Some(part) = host.ring.at(at_ns.unwrap_or(host.fed_ns)) {
            add(part);
        }
    }

    /// Reads the current relations of the hosts' clocks. `online` has the hosts of this sensor in the same order.
    ///
    /// A UTC source that packets refute is seen at these readings only.
    pub fn read_clocks(&mut self, online: &Online) {
        let names: Vec<&str> = self.hosts.iter().map(|host| &*host.info.host).collect();
        online.look(|all| self.clocks.read(all, &names));
    }

    /// A snapshot.
    pub fn snapshot(&self, own: SelfUsage) -> Snapshot {
        // All times use the time line of the first host.
        let to_utc_ns = self.hosts.first().and_then(|host| host.to_utc_ns);
        let hosts = self.hosts.iter().map(|host| host.snapshot(to_utc_ns)).collect();
        let (clocks, clocks_left_out) = self.clocks.relations();
        Snapshot { named: self.named, own, hosts, clocks, clocks_left_out }
    }
}

impl Host {
    fn fed(&mut self, ns: u64) {
        self.began_ns.get_or_insert(ns);
        self.fed_ns = self.fed_ns.max(ns);
    }

    fn snapshot(&self, to_utc_ns: Option<(i64, i64)>) -> HostSnapshot {
        let from_ns = self.ring.begins_ns().max(self.began_ns.unwrap_or(0));
        let state = |hop: &Hop| HopState {
            hop: *hop,
            unserved: self.state.unserved(&self.info, *hop),
            gap: self.state.gap(*hop, from_ns),
            weight: self.sampled.weight(*hop),
            left_out: self.counts.get(hop).map(|count| LeftOut {
                filtered: count.filtered,
                undecided: count.undecided,
                sampled: count.sampled,
            }),
        };
        let began = self.began_ns.map(|ns| Began { ns, to_utc_ns: to_utc_ns.map(|(first, _)| first) });
        HostSnapshot {
            host: self.info.host.clone(),
            kernel: self.info.kernel.clone(),
            boot_id: self.info.boot_id.clone(),
            settings: self.state.settings().to_vec(),
            ended_settings: self.state.ended(from_ns),
            began,
            fed_ns: self.fed_ns,
            to_utc_ns: to_utc_ns.map(|(_, last)| last),
            utc_error_ns: self.clock.and_then(|sample| sample.utc_error_ns),
            hops: Hop::ALL.iter().map(state).collect(),
            total: self.total.tally(&self.info),
            window: self.ring.sums().tally(&self.info),
            window_ns: self.fed_ns.saturating_sub(from_ns),
            stragglers: self.ring.stragglers(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::health::{self, Check, State, Thresholds};
    use magscope_core::Change;
    use magscope_core::governed::Level;
    use magscope_core::node::{Backend, Coverage, HopService, Service};

    const S: u64 = 1_000_000_000;

    /// A sensor that has measured for a minute.
    fn sensor(settings: &[&str], coverage: Coverage) -> Sensor {
        let settings = settings.iter().map(|setting| (*setting).to_owned()).collect();
        let info = NodeInfo { settings, coverage, ..NodeInfo::default() };
        let mut sensor = Sensor::new(std::slice::from_ref(&info), false);
        pass(&mut sensor, 100);
        pass(&mut sensor, 160);
        sensor
    }

    fn full() -> Coverage {
        Coverage::full(Backend::Generator)
    }

    /// Time passes, to second `s`.
    fn pass(sensor: &mut Sensor, s: u64) {
        sensor.add(&Piece::Batch(0, &Batch { watermark_ns: s * S, ..Batch::default() }));
    }

    /// A change at second `s`.
    fn change(sensor: &mut Sensor, s: u64, what: &str) {
        let changes = vec![Change { from_ns: s * S, to_ns: s * S, what: what.to_owned() }];
        sensor.add(&Piece::Batch(0, &Batch { changes, ..Batch::default() }));
    }

    fn host(sensor: &Sensor) -> HostSnapshot {
        sensor.snapshot(SelfUsage::default()).hosts.remove(0)
    }

    fn check(sensor: &Sensor, name: &str) -> Check {
        let health = health::of(&host(sensor), &Thresholds::default(), &Err("not asked".to_owned()));
        health.checks.into_iter().find(|check| check.name == name).expect(name)
    }

    fn drops(sensor: &Sensor) -> Check {
        check(sensor, "drops_per_second")
    }

    #[test]
    fn a_hop_that_was_off_makes_its_checks_unknown_for_a_minute() {
        let mut sensor = sensor(&[], full());
        assert_eq!(drops(&sensor).state, State::Ok);
        change(&mut sensor, 161, "disable skb.drop");
        pass(&mut sensor, 170);
        let because = "skb.drop is not captured: it was switched off";
        assert_eq!((drops(&sensor).state, drops(&sensor).because.as_str()), (State::Unknown, because));
        assert!(
            host(&sensor).unserved(Hop::SkbDrop).is_some() && host(&sensor).unserved(Hop::DevXmit).is_none()
        );
        change(&mut sensor, 180, "enable skb.drop");
        pass(&mut sensor, 234);
        let because = "skb.drop was not captured all the time: it was off for a part of this time";
        assert_eq!((drops(&sensor).state, drops(&sensor).because.as_str()), (State::Unknown, because));
        assert!(host(&sensor).unserved(Hop::SkbDrop).is_none());
        pass(&mut sensor, 246);
        assert_eq!(drops(&sensor).state, State::Ok, "a whole window");
    }

    #[test]
    fn a_hop_that_was_not_asked_for_is_served_from_its_start() {
        let mut coverage = full();
        coverage.hops.retain(|row| !matches!(row.hop, Hop::TaskWake | Hop::SkbDrop));
        coverage.hops.push(HopService { hop: Hop::TaskWake, service: Service::Off });
        let service = Service::Missing { because: "not granted to this viewer".to_owned() };
        coverage.hops.push(HopService { hop: Hop::SkbDrop, service });
        let mut sensor = sensor(&[], coverage);
        let because = |sensor: &Sensor| check(sensor, "wakeup_delay_p99").because;
        assert_eq!(because(&sensor), "task.wake is not captured: it is not asked for");
        change(&mut sensor, 161, "enable task.wake,task.run,skb.drop");
        pass(&mut sensor, 170);
        assert_eq!(drops(&sensor).because, "skb.drop is not captured: not granted to this viewer");
        assert!(because(&sensor).contains("task.wake was not captured all the time"), "{}", because(&sensor));
        pass(&mut sensor, 300);
        assert_eq!(because(&sensor), "nothing passed there in this time");
    }

    #[test]
    fn drops_are_unknown_where_the_budget_lets_the_capture_rest() {
        let mut sensor = sensor(&[], full());
        change(&mut sensor, 161, "detail histograms");
        change(&mut sensor, 161, "disable skb.drop,dev.xmit");
        change(&mut sensor, 161, &Level::Rest.change(0, 0, 0.09, 0.02).what);
        // A look of a quarter of a second.
        for s in [171, 181, 191] {
            change(&mut sensor, s, "enable skb.drop,dev.xmit");
            pass(&mut sensor, s + 1);
            let looks = drops(&sensor);
            assert!(looks.state == State::Unknown && looks.because.contains("overhead small"), "{looks:?}");
            change(&mut sensor, s + 1, "disable skb.drop,dev.xmit");
            pass(&mut sensor, s + 9);
            let rests = drops(&sensor);
            assert!(rests.state == State::Unknown && rests.because.contains("overhead small"), "{rests:?}");
        }
        assert_eq!(host(&sensor).settings, ["detail histograms"]);
    }

    #[test]
    fn a_stream_that_begins_while_a_hop_is_off_learns_it_from_the_next_change() {
        let mut sensor = sensor(&[], full());
        change(&mut sensor, 161, "enable skb.drop");
        assert_eq!(drops(&sensor).state, State::Unknown);
    }

    #[test]
    fn settings_are_those_in_force_and_an_ended_filter_counts_for_a_minute() {
        let mut sensor = sensor(&["filter port = 443", "sample 1/4 app.recv"], full());
        assert_eq!(drops(&sensor).state, State::Ok, "of what the filter wants");
        change(&mut sensor, 161, "filter off");
        change(&mut sensor, 161, "sample off app.recv");
        pass(&mut sensor, 170);
        assert!(host(&sensor).settings.is_empty(), "{:?}", host(&sensor).settings);
        let ended = drops(&sensor);
        assert!(ended.state == State::Unknown && ended.because.contains("`filter port = 443`"), "{ended:?}");
        change(&mut sensor, 171, "pcap tcp");
        pass(&mut sensor, 300);
        assert_eq!(host(&sensor).settings, ["pcap tcp"]);
        assert_eq!(drops(&sensor).state, State::Ok);
    }
}
