use super::*;
use magscope_client::wire::{Averages as WatchAverages, Latency, Rate, Span};
use magscope_core::EventFlags;
use magscope_core::ExtentKind;
use magscope_core::flow::Task;
use magscope_core::journey::Limits;
use magscope_core::node::{Backend, Coverage, HopService, Service};
use magscope_core::source::{Progress, Source};
use magscope_core::{Change, Loss, LossCause};
use magscope_timeline::join::OneClock;
use magscope_timeline::merged_reader::Walker;
use std::time::Duration;

const S: u64 = 1_000_000_000;
const MINE: u64 = 77;

fn info() -> NodeInfo {
    NodeInfo { coverage: Coverage::full(Backend::Generator), ..NodeInfo::default() }
}

fn recv(ns: u64, bytes: u32) -> Event {
    Event { socket: MINE, tgid: 5, tid: 6, flow: FlowId(9), len: bytes, ..Event::at(Hop::AppRecv, ns) }
}

struct Fed(Averages);

impl Fed {
    fn new() -> Self {
        Fed(Averages::new(&info()))
    }

    fn batch(&mut self, batch: &Batch) {
        self.0.add(&Piece::Batch(0, batch));
    }

    fn events(&mut self, events: &[Event]) {
        let watermark_ns = events.last().map_or(0, |event| event.time_ns);
        self.batch(&Batch { events: events.to_vec(), watermark_ns, ..Batch::default() });
    }

    fn watch(&mut self, subject: Subject, window: Window) -> u64 {
        self.0.watch(subject, window, S).expect("room").0
    }

    fn of(&self, id: u64) -> WatchAverages {
        self.0.of(id, 1, self.0.fed_ns).expect("it is watched")
    }
}

fn received(reported: &WatchAverages) -> Rate {
    *reported.received.get().unwrap_or_else(|| panic!("{reported:?}"))
}

fn span(from_ns: u64, to_ns: u64, calls: u64, bytes: u64, bytes_per_s: Option<f64>) -> Span {
    Span { from_ns, to_ns, calls, bytes, bytes_per_s }
}

#[test]
fn a_window_of_receives_is_from_the_one_before_its_first_to_its_last() {
    let mut fed = Fed::new();
    let id = fed.watch(Subject::Socket(MINE), Window::Receives(2));
    assert!(matches!(fed.of(id).received, FigureOrReason::Unknown { .. }), "nothing has been seen");
    fed.events(&[recv(S - 1, 999), recv(2 * S, 100)]);
    let rate = received(&fed.of(id));
    assert_eq!(rate.window, span(2 * S, 2 * S, 0, 0, None), "one receive is no rate");
    assert_eq!(rate.overall, span(S, 2 * S, 1, 100, Some(100.0)), "and what was before is not counted");
    fed.events(&[recv(3 * S, 300)]);
    assert_eq!(received(&fed.of(id)).window, span(2 * S, 3 * S, 1, 300, Some(300.0)));
    fed.events(&[recv(4 * S, 500), recv(6 * S, 100)]);
    let rate = received(&fed.of(id));
    assert_eq!(rate.window, span(3 * S, 6 * S, 2, 600, Some(200.0)));
    assert_eq!(rate.overall, span(S, 6 * S, 4, 1_000, Some(200.0)));
    // Time passes without data: the last receives are unchanged, and the answer carries its end time.
    fed.batch(&Batch { watermark_ns: 9 * S, ..Batch::default() });
    let reported = fed.0.of(id, 1, 10 * S).expect("it is watched");
    assert_eq!(received(&reported).window, rate.window);
    assert_eq!((reported.as_of_ns, reported.age_ns), (9 * S, S));
}

#[test]
fn a_window_of_seconds_ends_now_and_forgets() {
    let mut fed = Fed::new();
    // 256 parts of 10 ms
    let id = fed.watch(Subject::Socket(MINE), Window::Seconds(2.56));
    let every: Vec<_> = (0..1_000).map(|n| recv(S + n * 10_000_000 + 1, 1_000)).collect();
    fed.events(&every);
    let rate = received(&fed.of(id));
    let last = S + 9_990_000_001;
    assert_eq!(rate.window, span(last - 1 - 2_560_000_000, last, 257, 257_000, rate.window.bytes_per_s));
    let per_s = rate.window.bytes_per_s.expect("time has passed");
    assert!((per_s - 257_000.0 / 2.560_000_001).abs() < 1e-6, "{per_s}");
    fed.batch(&Batch { watermark_ns: last - 1 + 1_280_000_000, ..Batch::default() });
    assert_eq!(received(&fed.of(id)).window.calls, 129, "half of it has gone by without any");
    fed.batch(&Batch { watermark_ns: 60 * S, ..Batch::default() });
    let rate = received(&fed.of(id));
    assert_eq!((rate.window.bytes, rate.window.bytes_per_s), (0, Some(0.0)));
    assert_eq!(rate.overall, span(S, last, 1_000, 1_000_000, rate.overall.bytes_per_s));
}

#[test]
fn sends_are_counted_apart_and_what_was_only_looked_at_is_not_counted() {
    let mut fed = Fed::new();
    let id = fed.watch(Subject::Socket(MINE), Window::Receives(10));
    let send = |ns, bytes| Event { hop: Hop::AppSend, ..recv(ns, bytes) };
    // tcp.send reports the offered length, and app.copy reports the same bytes again
    let offered = Event { hop: Hop::TcpSend, ..recv(2 * S, 9_999) };
    let copied = Event { hop: Hop::AppCopy, ..recv(2 * S, 9_999) };
    let looked = Event { flags: EventFlags::PEEK, ..recv(2 * S, 9_999) };
    fed.events(&[offered, copied, looked, send(2 * S, 10), send(3 * S, 20), recv(3 * S, 7)]);
    let reported = fed.of(id);
    assert_eq!(reported.sent.get().map(|rate| rate.overall), Some(span(S, 3 * S, 2, 30, Some(15.0))));
    assert_eq!(received(&reported).overall, span(S, 3 * S, 1, 7, Some(3.5)));
}

#[test]
fn everything_is_watched_by_its_own_key_and_nothing_else_is() {
    let mut fed = Fed::new();
    let flow = Flow {
        id: FlowId(9),
        netns: 3,
        proto: Proto::TCP,
        local: "10.0.0.1:80".parse().expect("an address"),
        remote: "10.0.0.2:5000".parse().expect("an address"),
    };
    let task = Task { tgid: 5, tid: 6, uid: 0, cgroup: 42, comm: String::new() };
    fed.batch(&Batch { flows: vec![flow], tasks: vec![task], ..Batch::default() });
    let addresses = |netns| Subject::Flow { proto: flow.proto, local: flow.local, remote: flow.remote, netns };
    let window = Window::Receives(3);
    let mine =
        [Subject::Socket(MINE), Subject::Process(5), Subject::Cgroup(42), addresses(None), addresses(Some(3))];
    let others = [Subject::Socket(5), Subject::Process(77), Subject::Cgroup(5), addresses(Some(4))];
    let mine = mine.map(|subject| fed.watch(subject, window));
    let others = others.map(|subject| fed.watch(subject, window));
    // announced after the start of the watch: another namespace has the same addresses
    fed.batch(&Batch { flows: vec![Flow { id: FlowId(10), netns: 8, ..flow }], ..Batch::default() });
    fed.events(&[recv(2 * S, 50), Event { flow: FlowId(10), socket: 1, tgid: 1, tid: 1, ..recv(3 * S, 4) }]);
    let bytes = |id| fed.of(id).received.get().map(|rate| rate.overall.bytes);
    assert_eq!(mine.map(bytes), [Some(50), Some(50), Some(50), Some(54), Some(50)]);
    assert_eq!(others.map(bytes), [None; 4]);
    mine.iter().chain(&others).for_each(|id| fed.0.end(*id));
    assert!(
        fed.0.is_idle() && fed.0.by_key.is_empty() && fed.0.places == 0 && fed.0.of(mine[0], 1, 0).is_none()
    );
}

#[test]
fn losses_and_omissions_are_reported() {
    let settings = vec!["filter port = 443".to_owned(), "watermark latency".to_owned()];
    let mut fed = Fed(Averages::new(&NodeInfo { settings, ..info() }));
    let id = fed.watch(Subject::Socket(MINE), Window::Receives(2));
    let FigureOrReason::Unknown { unknown } = fed.of(id).received else { panic!("nothing has been seen") };
    assert!(unknown.contains("filter port = 443"), "{unknown}");
    let lost = |s: u64, count| Loss { cpu: 0, from_ns: 0, to_ns: s * S, count, cause: LossCause::RingFull };
    let batch = |losses, events: Vec<Event>| Batch {
        watermark_ns: events.last().map_or(0, |event| event.time_ns),
        events,
        losses,
        ..Batch::default()
    };
    fed.batch(&batch(vec![lost(0, 1_000)], vec![recv(2 * S, 1)]));
    assert_eq!((fed.of(id).lost, fed.of(id).lost_overall), (1_000, 1_000), "one without a time is of now");
    fed.batch(&batch(vec![lost(3, 5)], (3..9).map(|s| recv(s * S, 1)).collect()));
    fed.batch(&batch(vec![lost(7, 3)], vec![]));
    assert_eq!(
        (fed.of(id).lost, fed.of(id).lost_overall),
        (3, 1_008),
        "the window begins with the sixth second"
    );
    assert_eq!(fed.of(id).leaves_out, ["filter port = 443"]);
}

/// A change at second `s`.
fn change(s: u64, what: &str) -> Batch {
    let changes = vec![Change { from_ns: s * S, to_ns: s * S, what: what.to_owned() }];
    Batch { changes, ..Batch::default() }
}

#[test]
fn what_is_switched_off_is_unknown_and_counting_begins_anew() {
    let mut fed = Fed::new();
    let id = fed.watch(Subject::Socket(MINE), Window::Receives(2));
    fed.events(&[recv(2 * S, 10), recv(3 * S, 10)]);
    fed.batch(&change(4, "disable dev.xmit"));
    assert_eq!(received(&fed.of(id)).overall.calls, 2, "nothing rests on that");
    fed.batch(&change(5, "disable app.recv,app.copy"));
    let reported = fed.of(id);
    let (FigureOrReason::Unknown { unknown }, None) = (&reported.received, reported.latency.get()) else {
        panic!("{reported:?}")
    };
    assert!(unknown.starts_with("app.recv is not captured"), "{unknown}");
    fed.batch(&change(6, "enable app.recv"));
    fed.events(&[recv(7 * S, 10), recv(8 * S, 20)]);
    let reported = fed.of(id);
    assert_eq!(received(&reported).overall, span(6 * S, 8 * S, 2, 30, Some(15.0)));
    assert_eq!(reported.restarted.as_deref(), Some("`enable app.recv` while it was watched"));
    fed.batch(&change(9, "filter port = 443"));
    assert_eq!(fed.of(id).leaves_out, ["filter port = 443"]);
    fed.batch(&change(10, "filter off"));
    assert_eq!((fed.of(id).since_ns, fed.of(id).leaves_out.len()), (10 * S, 0));
    for (what, left) in [
        ("sample 1/10 dev.xmit", 1),
        ("sample flows 1/4", 2),
        ("sample flows 1/8", 2),
        ("sample off", 1),
        ("sample flows 1/1", 0),
    ] {
        fed.batch(&change(11, what));
        assert_eq!(fed.of(id).leaves_out.len(), left, "{what}");
    }
    let missing =
        HopService { hop: Hop::AppRecv, service: Service::Missing { because: "it is old".to_owned() } };
    let old =
        NodeInfo { coverage: Coverage { hops: vec![missing], ..Coverage::default() }, ..NodeInfo::default() };
    let mut fed = Fed(Averages::new(&old));
    let id = fed.watch(Subject::Socket(MINE), Window::Receives(2));
    let unknown = "app.recv is not captured: it is old".to_owned();
    assert_eq!(fed.of(id).received, FigureOrReason::Unknown { unknown });
}

#[test]
fn where_no_records_are_made_nothing_is_known() {
    let mut fed = Fed::new();
    let id = fed.watch(Subject::Socket(MINE), Window::Seconds(4.0));
    fed.events(&[recv(2 * S, 100), recv(3 * S, 100)]);
    assert!(fed.of(id).received.get().is_some());
    let why = |fed: &Fed| match fed.of(id).received {
        FigureOrReason::Unknown { unknown } => unknown,
        FigureOrReason::Is(rate) => panic!("{rate:?}"),
    };
    fed.batch(&change(4, "detail histograms"));
    assert!(why(&fed).contains("`detail histograms`"), "{}", why(&fed));
    fed.batch(&change(4, "governor: packets and drops in the kernel only (9.0 % of 2.0 %)"));
    assert!(why(&fed).contains("(9.0 % of 2.0 %)"), "{}", why(&fed));
    // A measurement at rest has every hop on, and no records.
    fed.batch(&change(5, "disable app.recv"));
    fed.batch(&change(6, "enable app.recv"));
    assert!(why(&fed).contains("no records"), "{}", why(&fed));
    fed.batch(&change(7, "detail full"));
    fed.events(&[recv(8 * S, 70), recv(9 * S, 70)]);
    assert_eq!(received(&fed.of(id)).overall.bytes, 140, "counted again");
    let begun = NodeInfo { settings: vec!["detail histograms".to_owned()], ..info() };
    let mut fed = Fed(Averages::new(&begun));
    let id = fed.watch(Subject::Socket(MINE), Window::Receives(2));
    assert!(
        matches!(fed.of(id).received, FigureOrReason::Unknown { unknown } if unknown.contains("no records"))
    );
}

/// Averages of a capture with these settings, after counts of `app.recv` and two received calls.
fn sampled(settings: &[&str], sampled: u64, subject: Subject) -> WatchAverages {
    let settings = settings.iter().map(|setting| (*setting).to_owned()).collect();
    let mut fed = Fed(Averages::new(&NodeInfo { settings, ..info() }));
    let id = fed.watch(subject, Window::Receives(2));
    let count = magscope_core::HopCount {
        time_ns: 0,
        hop: Hop::AppRecv,
        kept: 100,
        filtered: 0,
        undecided: 0,
        sampled,
        synthesised: 0,
    };
    fed.batch(&Batch { counts: vec![count], ..Batch::default() });
    fed.events(&[recv(2 * S, 10), recv(3 * S, 10)]);
    fed.of(id)
}

#[test]
fn a_sampled_hop_is_weighed() {
    let rate = received(&sampled(&["sample 1/4 app.recv"], 300, Subject::Socket(MINE)));
    assert_eq!((rate.weight, rate.window.bytes, rate.window.bytes_per_s), (4.0, 10, Some(40.0)));
}

#[test]
fn left_out_flows_are_none_of_a_socket() {
    let weight =
        |settings: &[&str], subject| sampled(settings, 300, subject).received.get().map(|rate| rate.weight);
    let flows = &["sample flows 1/16"][..];
    assert_eq!(weight(flows, Subject::Process(5)), Some(4.0), "it may have some of the flows");
    assert_eq!(weight(flows, Subject::Socket(MINE)), Some(1.0));
    let elsewhere = &["sample flows 1/16", "sample 1/8 app.send"][..];
    assert_eq!(weight(elsewhere, Subject::Socket(MINE)), Some(1.0));
    let both = &["sample flows 1/16", "sample 1/2 app.recv"][..];
    assert_eq!(weight(both, Subject::Socket(MINE)), Some(2.0));
    let by_time = sampled(&["sample flows 1/16", "sample 10ms app.recv"], 300, Subject::Socket(MINE));
    assert!(
        matches!(by_time.received, FigureOrReason::Unknown { unknown } if unknown.contains("flows are sampled"))
    );
}

#[test]
fn a_sampler_that_ends_at_another_hop_still_leaves_out() {
    let mut fed = Fed::new();
    let id = fed.watch(Subject::Socket(MINE), Window::Receives(2));
    fed.batch(&change(2, "sample 1/10 app.send,app.recv"));
    fed.batch(&change(3, "sample off app.send"));
    assert_eq!(fed.of(id).leaves_out, ["sample 1/10 app.recv"]);
}

#[test]
fn memory_is_bounded() {
    let mut fed = Fed::new();
    let large = Window::Receives(1 << 18);
    let ids: Vec<_> = (0..4).map(|n| fed.watch(Subject::Socket(n), large)).collect();
    assert_eq!(fed.0.watch(Subject::Socket(9), large, S), Err(TooMany));
    fed.0.end(ids[0]);
    let mut all = 3;
    while fed.0.watch(Subject::Socket(all as u64 + 9), Window::Receives(1), S).is_ok() {
        all += 1;
    }
    assert_eq!(all, MOST_WATCHES);
    let id = fed.0.last;
    let socket = MOST_WATCHES as u64 + 8;
    fed.events(&(0..200_000).map(|n| Event { socket, ..recv(2 * S + n, 1) }).collect::<Vec<_>>());
    assert_eq!(received(&fed.of(id)).window.calls, 1);
    assert!(fed.0.reads.find(2 * S, 0).is_empty() && !fed.0.reads.find(2 * S + 199_999, 0).is_empty());
}

/// The walker's output for these events.
fn walked(events: Vec<Event>, flows: Vec<Flow>, watch: &Subject) -> WatchAverages {
    struct Once(NodeInfo, Option<Batch>);
    impl Source for Once {
        fn info(&self) -> &NodeInfo {
            &self.0
        }
        fn next(
            &mut self,
            batch: &mut Batch,
            _: Duration,
        ) -> Result<Progress, magscope_core::source::SourceError> {
            match self.1.take() {
                Some(first) => *batch = first,
                None => return Ok(Progress::End),
            }
            Ok(Progress::More)
        }
    }
    let mut averages = Averages::new(&info());
    let (id, _) = averages.watch(watch.clone(), Window::Receives(1_000), 0).expect("room");
    let watermark_ns = events.last().map_or(0, |event| event.time_ns);
    let batch = Batch { events, flows, watermark_ns, ..Batch::default() };
    let source = Once(info(), Some(batch));
    let mut walker = Walker::new(vec![Box::new(source)], &OneClock, Limits::default(), Duration::ZERO);
    while walker.step(&mut |piece| averages.add(&piece)).expect("it never fails") == Progress::More {}
    averages.of(id, 1, 0).expect("it is watched")
}

#[test]
fn a_latency_is_that_of_journeys_that_were_read_by_the_watched_socket() {
    let flow = Flow {
        id: FlowId(9),
        netns: 3,
        proto: Proto::TCP,
        local: "10.0.0.1:80".parse().expect("an address"),
        remote: "10.0.0.2:5000".parse().expect("an address"),
    };
    // Received from another host, 100 bytes at a time: journey n takes n µs. Later another socket has the same
    // addresses.
    let mut events = Vec::new();
    for n in 1..=100_u32 {
        let socket = if n <= 50 { MINE } else { MINE + 1 };
        let at = |hop, ns, socket| Event {
            socket,
            flow: flow.id,
            extent: ExtentKind::Stream.of(n * 100),
            len: 100,
            segs: 1,
            tgid: 5,
            tid: 6,
            ..Event::at(hop, ns)
        };
        let came = S + u64::from(n) * 1_000_000;
        events.push(Event { tgid: 0, tid: 0, ..at(Hop::DevRecv, came, 0) });
        events.push(at(Hop::AppRecv, came + u64::from(n) * 1_000, socket));
    }
    let reported = walked(events.clone(), vec![flow], &Subject::Socket(MINE));
    let (first, last) = (S + 1_001_000, S + 50_050_000);
    let latency = reported.latency.get().expect("journeys were read").clone();
    // 25 and 50 µs, right to a sixteenth
    let (p50_ns, p99_ns) = (25_599, 51_199);
    let first_seen_at = vec!["dev.recv".to_owned()];
    let exactly =
        Latency { from_ns: first, to_ns: last, journeys: 50, mean_ns: 25_500.0, p50_ns, p99_ns, first_seen_at };
    assert_eq!(latency, exactly);
    assert_eq!(received(&reported).overall.bytes, 5_000);
    let reported = walked(events.clone(), vec![flow], &Subject::Process(5));
    assert_eq!(
        reported.latency.get().map(|latency| (latency.journeys, latency.mean_ns)),
        Some((100, 50_500.0))
    );
    let reported = walked(events, vec![flow], &Subject::Socket(3));
    let unknown = served::NO_JOURNEY.to_owned();
    assert_eq!(reported.latency, FigureOrReason::Unknown { unknown });
}
