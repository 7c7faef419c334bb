//! The correlator against a model stack with a known truth: for any traffic, the journeys are the true ones.
//!
//! `MAGSCOPE_CASES` sets the number of worlds per property; 256 by default. They differ in every run; worlds of
//! earlier failures are tried every time.

use crate::model;

use magscope_core::journey::{Journey, Limits, Verdict};
use magscope_core::{Hop, Proto};
use model::capture::Capture;
use model::{Random, Weather, World, truth};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

/// No journey is evicted by age during a world: time-outs of the model can add up to many seconds.
pub const LIMITS: Limits = Limits { max_pieces: 1 << 18, max_age_ns: 1_000_000_000_000, max_flows: 1 << 16 };

/// The same 256 worlds in each run, or as many other ones as `MAGSCOPE_CASES` asks for: a world in which a fault is
/// found belongs in the list below, and does not fail somebody else's change.
pub fn config() -> ProptestConfig {
    let wanted = std::env::var("MAGSCOPE_CASES").ok().and_then(|n| n.parse().ok());
    let rng_seed = if wanted.is_some() { RngSeed::Random } else { RngSeed::Fixed(20_010_707) };
    ProptestConfig {
        cases: wanted.unwrap_or(256),
        rng_seed,
        max_shrink_iters: 100,
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

fn weather() -> impl Strategy<Value = Weather> {
    let percent = |most: u64| prop_oneof![Just(0), 0..most];
    (percent(30), percent(20), percent(30), percent(30), percent(20), percent(30), percent(90), percent(40))
        .prop_map(|(lost, duplicated, delayed, peeked, spliced, dead, closed, consumed)| Weather {
            lost,
            duplicated,
            delayed,
            peeked,
            spliced,
            dead,
            closed,
            consumed,
        })
}

/// Connections in both directions, and datagrams among them.
fn world(seed: u64, weather: Weather, tcp: u64, udp: u64) -> World {
    let mut world = World::new(seed, weather);
    for _ in 0..tcp {
        let (a, b) = world.connect(Proto::TCP);
        let start = world.random.within(1_000_000, 2_000_000);
        model::tcp::run(&mut world, a, b, start);
        if world.random.chance(50) {
            let start = world.random.within(1_000_000, 2_000_000);
            model::tcp::run(&mut world, b, a, start);
        }
        if weather.closed > 0 && world.random.chance(weather.closed) {
            model::tcp::destroy(&mut world, a, b);
        }
    }
    for _ in 0..udp {
        let start = world.random.within(1_000_000, 2_000_000);
        model::udp::run(&mut world, start);
    }
    world
}

fn tcp_rungs(world: &World, done: &[Journey]) -> Result<(), String> {
    done.iter().filter(|j| j.proto == Proto::TCP).try_for_each(|j| truth::rungs_are_true(world, j))
}

fn copies(world: &World, done: &[Journey], unseen: bool) -> Result<(), String> {
    done.iter().filter(|j| j.proto == Proto::TCP).try_for_each(|j| truth::copies_are_true(world, j, unseen))
}

fn whole(seed: u64, weather: Weather, tcp: u64, udp: u64, settled: bool) -> Result<(), String> {
    is_whole(&world(seed, weather, tcp, udp), seed, settled)
}

fn is_whole(world: &World, seed: u64, settled: bool) -> Result<(), String> {
    let mut random = Random(seed ^ 1);
    let (done, correlator) = Capture::whole(world).correlate(world, LIMITS, &mut random, settled);
    tcp_rungs(world, &done)?;
    copies(world, &done, false)?;
    let (events, borders) = (truth::by_stream(world), truth::borders(world));
    for ((events, borders), list) in events.iter().zip(&borders).zip(truth::apart(world, &done)?) {
        truth::stream_is_whole(events, borders, &list, settled)?;
    }
    truth::datagrams_are_whole(world, &done, settled)?;
    let counters = correlator.counters();
    match (counters.unattributed, counters.resets, counters.evicted) {
        (0, 0, 0) => Ok(()),
        _ => Err(format!("{counters:?}")),
    }
}

/// Connections of two pairs of namespaces, with the same addresses and ports, at the same time.
fn namesakes(seed: u64, weather: Weather, settled: bool) -> Result<(), String> {
    let mut world = World::new(seed, weather);
    let first = world.connect(Proto::TCP);
    let second = world.namesakes(first);
    for (a, b) in [first, second] {
        let start = world.random.within(1_000_000, 2_000_000);
        model::tcp::run(&mut world, a, b, start);
        let start = world.random.within(1_000_000, 2_000_000);
        model::tcp::run(&mut world, b, a, start);
    }
    is_whole(&world, seed, settled)
}

/// A journey between both ends passed the node once, in the packet that arrived, and its times are in order.
fn forwarders_are_true(world: &World, done: &[Journey]) -> Result<(), String> {
    for journey in done {
        let is_crossed = journey.rungs.has(Hop::DevXmit) && journey.rungs.has(Hop::DevRecv);
        let say = |what: &str| Err(format!("{what}: {journey:?}"));
        let flows: Vec<_> = journey.forwarders.iter().map(|at| (at.rx_flow, at.tx_flow)).collect();
        let ends = [journey.tx_flow, journey.rx_flow];
        let is_plain = |id| world.flows.iter().any(|flow| flow.id == id && flow.netns < 100);
        if ends.into_iter().any(model::node::is_nodes) && journey.verdict == Verdict::Complete {
            return say("complete, and the node is an end");
        }
        if flows.len() > 1 {
            return say("twice through one node");
        }
        let has_node = world.flows.iter().any(|f| f.netns == model::node::NETNS);
        let is_sure = !journey.ambiguous && journey.copies.is_empty() && ends.into_iter().all(is_plain);
        if has_node && is_sure && is_crossed && journey.proto == Proto::TCP && flows.is_empty() {
            return say("not through the node");
        }
        let mut before = 0;
        for rung in journey.path().filter(|rung| rung.forwarder != 0) {
            if rung.time_ns < before {
                return say("not in order");
            }
            before = rung.time_ns;
        }
    }
    Ok(())
}

/// Packets of all connections pass one node, which may translate their addresses.
fn through_a_node(seed: u64, weather: Weather, settled: bool) -> Result<(), String> {
    let mut world = world(seed, weather, 3, 2);
    model::node::between_all(&mut world);
    let mut random = Random(seed ^ 1);
    let (done, correlator) = Capture::whole(&world).correlate(&world, LIMITS, &mut random, settled);
    // Without the first proof, which another packet can displace, bytes are two halves.
    if correlator.counters().late_translations > 0 {
        return tcp_rungs(&world, &done);
    }
    is_whole(&world, seed, settled)?;
    forwarders_are_true(&world, &done)
}

/// The same, and the capture begins amid it.
fn midway_through_a_node(seed: u64, weather: Weather) -> Result<(), String> {
    let mut world = world(seed, weather, 3, 2);
    model::node::between_all(&mut world);
    let mut random = Random(seed ^ 2);
    let capture = Capture::whole(&world).begins_midway(&mut random);
    // Bytes from before the first proof are two halves.
    let (done, _) = capture.correlate(&world, LIMITS, &mut random, seed.is_multiple_of(2));
    tcp_rungs(&world, &done)
}

/// Most connections, and most datagrams, are inside the packets of a tunnel.
fn through_a_tunnel(seed: u64, weather: Weather, settled: bool) -> Result<(), String> {
    let mut world = world(seed, weather, 3, 2);
    model::tunnel::around_all(&mut world);
    is_whole(&world, seed, settled)?;
    let mut random = Random(seed ^ 1);
    let (done, _) = Capture::whole(&world).correlate(&world, LIMITS, &mut random, settled);
    done.iter().try_for_each(|journey| model::tunnel::tunnels_are_true(&world, journey))
}

/// The same, captured at one of both ends alone. The buffers of outer packets are soon those of packets inside others, and
/// no identification shows which.
fn one_end_of_a_tunnel(seed: u64, weather: Weather, settled: bool) -> Result<(), String> {
    let mut world = world(seed, weather, 3, 2);
    model::tunnel::around_all(&mut world);
    let mut random = Random(seed ^ 5);
    let netns = random.within(1, 2) as u32;
    let (done, _) =
        Capture::whole(&world).of_host(&world, netns).correlate(&world, LIMITS, &mut random, settled);
    done.iter().try_for_each(|journey| model::tunnel::tunnels_are_true(&world, journey))
}

/// Datagrams to a group pass a bridge, which copies each to two ports; one of them has a queue.
fn groups_through_a_bridge(seed: u64, weather: Weather, settled: bool) -> Result<(), String> {
    let mut world = World::new(seed, weather);
    for _ in 0..2 {
        let start = world.random.within(1_000_000, 2_000_000);
        model::udp_kinds::group(&mut world, start);
    }
    model::udp_kinds::bridge_between(&mut world);
    is_whole(&world, seed, settled)?;
    let mut random = Random(seed ^ 1);
    let (done, _) = Capture::whole(&world).correlate(&world, LIMITS, &mut random, settled);
    let of_port = |journey: &&Journey| journey.forwarders.iter().any(|at| !at.tx_flow.is_none());
    match done.iter().find(of_port) {
        Some(journey) => Err(format!("nothing shows through which port: {journey:?}")),
        None => done.iter().try_for_each(|journey| model::udp_kinds::arrival_is_own(&world, journey)),
    }
}

/// A host that is no end gets copies of packets that arrive, and drops them.
fn copies_to_strangers(seed: u64, weather: Weather, settled: bool) -> Result<(), String> {
    let mut world = world(seed, weather, 3, 2);
    model::node::strangers(&mut world);
    is_whole(&world, seed, settled)?;
    let mut random = Random(seed ^ 1);
    let (done, _) = Capture::whole(&world).correlate(&world, LIMITS, &mut random, settled);
    let aside = done.iter().find(|journey| !journey.forwarders.is_empty());
    aside.map_or(Ok(()), |journey| Err(format!("the stranger is no forwarder: {journey:?}")))
}

fn midway(seed: u64, weather: Weather) -> Result<(), String> {
    let world = world(seed, weather, 2, 1);
    let mut random = Random(seed ^ 2);
    let capture = Capture::whole(&world).begins_midway(&mut random);
    let begin = capture.events.first().map_or(0, |e| e.time_ns);
    let (done, _) = capture.correlate(&world, LIMITS, &mut random, seed.is_multiple_of(2));
    tcp_rungs(&world, &done)?;
    copies(&world, &done, true)?;
    truth::apart(&world, &done)?;
    for journey in &done {
        if journey.all_rungs().any(|r| r.time_ns < begin)
            || matches!(journey.verdict, Verdict::BrokenByEventLoss { .. })
        {
            return Err(format!("before the beginning, or broken: {journey:?}"));
        }
    }
    Ok(())
}

fn lossy(seed: u64, weather: Weather) -> Result<(), String> {
    let world = world(seed, weather, 2, 1);
    let mut random = Random(seed ^ 3);
    let capture = Capture::whole(&world).with_losses(&mut random);
    let (done, _) = capture.correlate(&world, LIMITS, &mut random, seed.is_multiple_of(2));
    tcp_rungs(&world, &done)?;
    let events = truth::by_stream(&world);
    for (events, list) in events.iter().zip(truth::apart(&world, &done)?) {
        for (range, journey) in &list {
            truth::piece_is_honest(&world, events, &capture, range, journey)?;
        }
    }
    for journey in done.iter().filter(|j| j.proto == Proto::UDP) {
        let mine = truth::datagrams(&world, journey)?;
        let admits = journey.ambiguous || matches!(journey.verdict, Verdict::BrokenByEventLoss { .. });
        let is_one = mine.len() == 1 || !mine.is_empty() && truth::only_runs(&world, journey);
        if !is_one && !admits {
            return Err(format!("datagrams {mine:?} in one: {journey:?}\nlosses {:?}", capture.losses));
        }
    }
    Ok(())
}

fn crowded(seed: u64, weather: Weather, max_pieces: usize) -> Result<(), String> {
    let world = world(seed, weather, 3, 1);
    let mut random = Random(seed ^ 4);
    let limits = Limits { max_pieces, ..LIMITS };
    let (done, _) = Capture::whole(&world).correlate(&world, limits, &mut random, false);
    tcp_rungs(&world, &done)?;
    copies(&world, &done, true)?;
    truth::apart(&world, &done)?;
    Ok(())
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn one_connection_gives_the_true_journeys(seed in any::<u64>(), weather in weather(), settled in any::<bool>()) {
        whole(seed, weather, 1, 0, settled).map_err(TestCaseError::fail)?;
    }

    #[test]
    fn datagrams_give_the_true_journeys(seed in any::<u64>(), weather in weather(), settled in any::<bool>()) {
        whole(seed, weather, 0, 2, settled).map_err(TestCaseError::fail)?;
    }

    #[test]
    fn many_connections_do_not_mix(seed in any::<u64>(), weather in weather(), settled in any::<bool>()) {
        whole(seed, weather, 4, 2, settled).map_err(TestCaseError::fail)?;
    }

    #[test]
    fn equal_addresses_in_two_pairs_of_namespaces_do_not_mix(seed in any::<u64>(), weather in weather(), settled in any::<bool>()) {
        namesakes(seed, weather, settled).map_err(TestCaseError::fail)?;
    }

    #[test]
    fn packets_through_a_node_give_the_true_journeys(seed in any::<u64>(), weather in weather(), settled in any::<bool>()) {
        through_a_node(seed, weather, settled).map_err(TestCaseError::fail)?;
    }

    #[test]
    fn a_capture_that_begins_amid_packets_through_a_node_claims_nothing_false(seed in any::<u64>(), weather in weather()) {
        midway_through_a_node(seed, weather).map_err(TestCaseError::fail)?;
    }

    #[test]
    fn packets_inside_a_tunnel_give_the_true_journeys(seed in any::<u64>(), weather in weather(), settled in any::<bool>()) {
        through_a_tunnel(seed, weather, settled).map_err(TestCaseError::fail)?;
    }

    #[test]
    fn one_end_of_a_tunnel_shows_no_packet_inside_another_one(seed in any::<u64>(), weather in weather(), settled in any::<bool>()) {
        one_end_of_a_tunnel(seed, weather, settled).map_err(TestCaseError::fail)?;
    }

    #[test]
    fn datagrams_to_a_group_through_a_bridge_give_the_true_journeys(seed in any::<u64>(), weather in weather(), settled in any::<bool>()) {
        groups_through_a_bridge(seed, weather, settled).map_err(TestCaseError::fail)?;
    }

    #[test]
    fn copies_of_packets_to_a_stranger_change_nothing(seed in any::<u64>(), weather in weather(), settled in any::<bool>()) {
        copies_to_strangers(seed, weather, settled).map_err(TestCaseError::fail)?;
    }

    #[test]
    fn a_capture_that_begins_midway_claims_nothing_false(seed in any::<u64>(), weather in weather()) {
        midway(seed, weather).map_err(TestCaseError::fail)?;
    }

    #[test]
    fn lost_events_never_make_a_false_claim(seed in any::<u64>(), weather in weather()) {
        lossy(seed, weather).map_err(TestCaseError::fail)?;
    }

    #[test]
    fn too_little_room_gives_up_and_claims_nothing_false(seed in any::<u64>(), weather in weather(), room in 1..60_usize) {
        crowded(seed, weather, room).map_err(TestCaseError::fail)?;
    }
}

const CALM: Weather =
    Weather { lost: 0, duplicated: 0, delayed: 0, peeked: 0, spliced: 0, dead: 0, closed: 0, consumed: 0 };

/// A datagram without a name arrived in the buffer that a lost one had been sent in.
#[test]
fn worlds_in_which_a_fault_was_found() {
    let weather = Weather { lost: 5, duplicated: 15, ..CALM };
    assert_eq!(whole(10_624_682_818_262_909_852, weather, 0, 2, false), Ok(()));
    let weather = Weather { lost: 29, delayed: 3, peeked: 8, ..CALM };
    assert_eq!(whole(8_353_795_161_610_042_878, weather, 4, 2, false), Ok(()));
    let weather = Weather { lost: 25, ..CALM };
    assert_eq!(whole(14_126_623_423_501_116_609, weather, 4, 2, false), Ok(()));
    // The driver's return of a copy before the capture began.
    let weather = Weather { lost: 29, spliced: 14, ..CALM };
    assert_eq!(midway(1_499_741_466_436_686_086, weather), Ok(()));
    let weather = Weather { lost: 25, delayed: 3, ..CALM };
    assert_eq!(midway(15_784_381_744_091_976_228, weather), Ok(()));
    let weather = Weather { lost: 6, delayed: 11, spliced: 2, closed: 19, consumed: 1, ..CALM };
    assert_eq!(whole(7_858_680_335_858_483_276, weather, 4, 2, true), Ok(()));
    // The arrival that is shown is that of a later copy than the announced one.
    let weather = Weather { lost: 20, duplicated: 19, closed: 75, ..CALM };
    assert_eq!(midway(4_020_748_223_839_066_441, weather), Ok(()));
    let weather = Weather { lost: 4, consumed: 4, ..CALM };
    assert_eq!(through_a_node(2_682_374_389_150_666_198, weather, false), Ok(()));
    // Its namesake had been given the same bytes, and no packet had had them.
    let weather = Weather { lost: 6, delayed: 15, peeked: 22, ..CALM };
    assert_eq!(namesakes(12_724_504_855_016_063_918, weather, false), Ok(()));
    let weather = Weather { lost: 28, delayed: 20, closed: 1, consumed: 1, ..CALM };
    assert_eq!(namesakes(11_791_370_342_036_744_658, weather, false), Ok(()));
    // What had stayed apart before the halves were joined counted as lost.
    let weather = Weather { lost: 26, duplicated: 8, delayed: 27, peeked: 9, consumed: 1, ..CALM };
    assert_eq!(namesakes(12_776_682_426_243_326_557, weather, true), Ok(()));
    // Only the driver's return is left of a packet whose arrival was lost before it.
    let weather = Weather { duplicated: 9, delayed: 2, spliced: 2, ..CALM };
    assert_eq!(lossy(8_004_219_016_641_562_922, weather), Ok(()));
}

#[test]
fn the_model_makes_all_that_it_should() {
    let weather = Weather {
        lost: 10,
        duplicated: 10,
        delayed: 10,
        peeked: 10,
        spliced: 5,
        dead: 0,
        closed: 50,
        consumed: 10,
    };
    let world = world(7, weather, 20, 4);
    for hop in [
        Hop::SkbDrop,
        Hop::TcpRetransmit,
        Hop::SockReady,
        Hop::TaskRun,
        Hop::AppCopy,
        Hop::AppRecv,
        Hop::UdpRecv,
        Hop::SockDestroy,
    ] {
        assert!(world.events.iter().any(|t| t.event.hop == hop), "{hop}");
    }
    assert!(world.events.len() > 2000, "{}", world.events.len());
}
