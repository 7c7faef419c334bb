//! Exchanges of the model stack's connections: no grade is better than what the programs did.
//!
//! In each connection one program asks once and another answers once, each in up to eight writes. Some answers begin
//! after the request was read, others before it has ended. `MAGSCOPE_CASES` sets the number of worlds, as in
//! `model_stack`.

use crate::model;
use crate::model_stack::config;

use magscope_core::exchange::{Exchange, ExchangeBuilder, Grade, Transfer, View};
use magscope_core::journey::{Correlator, Journey, Limits};
use magscope_core::stored_context::StoredContext;
use magscope_core::{FlowId, Hop, HopSet, Proto};
use model::capture::Capture;
use model::{About, Random, Weather, World};
use proptest::prelude::*;
use std::collections::HashMap;
use std::ops::Range;

/// Both ends of each connection, and whether its answer waits for the whole request.
struct Talks {
    world: World,
    ends: Vec<(FlowId, FlowId, bool)>,
}

fn talks(seed: u64, weather: Weather, connections: u64) -> Talks {
    let mut world = World::new(seed, weather);
    let mut ends = Vec::new();
    let mut quiet_ns = 0;
    for _ in 0..connections {
        let (a, b) = world.connect(Proto::TCP);
        let start_ns = quiet_ns + world.random.within(1_000_000, 2_000_000);
        let before = world.events.len();
        model::tcp::open(&mut world, a, b, start_ns);
        let end_ns = world.events[before..].iter().map(|t| t.event.time_ns).max().unwrap_or(start_ns);
        let waits = world.random.chance(60);
        let answer_ns = if waits { end_ns + 1 } else { world.random.within(start_ns, end_ns) };
        let answer_ns = answer_ns + world.random.within(0, 500_000);
        model::tcp::answer(&mut world, b, a, answer_ns);
        model::tcp::destroy(&mut world, a, b);
        ends.push((a, b, waits));
        // Some have been closed for long when the next one begins.
        if world.random.chance(50) {
            let last_ns = world.events.iter().map(|t| t.event.time_ns).max().unwrap_or(0);
            quiet_ns = last_ns + world.random.within(0, 15_000_000_000);
        }
    }
    Talks { world, ends }
}

/// What the programs did with the bytes of a direction.
struct Calls<'a> {
    world: &'a World,
    stream: usize,
}

impl Calls<'_> {
    /// Times of the events at a hop that have one of these bytes.
    fn times(&self, hop: Hop, bytes: Range<u64>) -> impl Iterator<Item = u64> {
        self.world.events.iter().filter_map(move |t| match t.about {
            About::Bytes { stream, from, to } if stream == self.stream && t.event.hop == hop => {
                (from < bytes.end && bytes.start < to).then_some(t.event.time_ns)
            }
            _ => None,
        })
    }

    /// The end of the earliest call that sent one of these bytes.
    fn first_sent_ns(&self, bytes: Range<u64>) -> Option<u64> {
        self.times(Hop::AppSend, bytes).min()
    }

    /// The instant at which a byte was copied to its reader.
    fn read_ns(&self, byte: u64) -> Option<u64> {
        self.times(Hop::AppCopy, byte..byte + 1).max()
    }
}

/// The exchanges of a capture, and its journeys by direction and number.
type Found = (Vec<Exchange>, HashMap<(FlowId, u64), Journey>);

fn exchanges(capture: &Capture, world: &World, random: &mut Random) -> Found {
    let (mut correlator, mut builder) =
        (Correlator::new(HopSet::all(), Limits::default()), ExchangeBuilder::new());
    let mut context = StoredContext::default();
    let (mut found, mut journeys) = (Vec::new(), HashMap::new());
    let mut take = |done: &mut Vec<Journey>, builder: &mut ExchangeBuilder, context: &_, found: &mut _| {
        for journey in done.drain(..) {
            builder.journey(&journey, context, found);
            journeys.insert((journey.tx_flow, journey.id), journey);
        }
    };
    let mut done = Vec::new();
    for batch in capture.batches(world, random) {
        context.batch(0, &batch);
        builder.batch(0, &batch, &mut found);
        correlator.push(&batch, &mut done);
        take(&mut done, &mut builder, &context, &mut found);
    }
    correlator.finish(&mut done);
    take(&mut done, &mut builder, &context, &mut found);
    builder.finish(&mut found);
    (found, journeys)
}

/// The bytes of a transfer, from the first one of their stream.
fn bytes_of(transfer: &Transfer, flow: FlowId, first_seq: u32, found: &Found) -> Option<Range<u64>> {
    let of = |number| found.1.get(&(flow, number));
    let (first, last) = (of(transfer.first_journey)?, of(transfer.last_journey)?);
    let position = |at: u64| u64::from((at as u32).wrapping_sub(first_seq));
    Some(position(first.range.start)..position(last.range.end))
}

/// Checks a turn against the calls.
fn turn_is_true(world: &World, exchange: &Exchange, found: &Found) -> Result<(), String> {
    let say = |what: &str| Err(format!("{what}: {exchange:?}"));
    let (asks, answers) = (exchange.requester.flow, exchange.responder.flow);
    let stream = |from, to| world.streams.iter().position(|s| s.from == from && s.to == to);
    let (Some(asked), Some(answered)) = (stream(asks, answers), stream(answers, asks)) else {
        return say("no connection");
    };
    let first_seq = |stream: usize| world.streams[stream].first_seq;
    let request = bytes_of(&exchange.request, asks, first_seq(asked), found);
    let response = bytes_of(&exchange.response, answers, first_seq(answered), found);
    let (Some(request), Some(response)) = (request, response) else { return say("no journeys") };
    if request.end - request.start != exchange.request.bytes {
        return say("bytes are missing in the request");
    }
    if response.end - response.start != exchange.response.bytes {
        return say("bytes are missing in the response");
    }
    let (asked, answered) = (Calls { world, stream: asked }, Calls { world, stream: answered });
    let request_read_ns = asked.read_ns(request.end - 1);
    if request_read_ns.is_none() || answered.first_sent_ns(response.clone()) < request_read_ns {
        return say("answered before the request was read");
    }
    let response_read_ns = answered.read_ns(response.end - 1);
    let next_ns = asked.first_sent_ns(request.end..u64::MAX);
    if response_read_ns.is_none() || next_ns.is_some_and(|next_ns| Some(next_ns) < response_read_ns) {
        return say("asked again before the response was read");
    }
    let parts: u64 = exchange.parts().map(|(_, ns)| ns).sum();
    if exchange.view == View::Both && (exchange.parts().count(), Some(parts)) != (3, exchange.total_ns()) {
        return say("the parts are not the whole");
    }
    Ok(())
}

/// True if every byte of a connection was read.
fn is_read(world: &World, exchange: &Exchange) -> bool {
    let ends = [exchange.requester.flow, exchange.responder.flow];
    let mut streams = world.streams.iter().filter(|truth| ends.contains(&truth.from));
    streams.all(|truth| truth.copied == truth.written)
}

/// What no capture may claim.
fn nothing_is_false(talks: &Talks, found: &Found) -> Result<(), String> {
    for exchange in &found.0 {
        if exchange.grade != Grade::Turn && exchange.total_ns().is_some() {
            return Err(format!("a latency without turns: {exchange:?}"));
        }
        if exchange.grade == Grade::Turn && exchange.view == View::Both {
            turn_is_true(&talks.world, exchange, found)?;
        }
    }
    Ok(())
}

fn lossy(seed: u64, weather: Weather) -> Result<(), String> {
    let talks = talks(seed, weather, 3);
    let mut random = Random(seed ^ 1);
    let capture = Capture::whole(&talks.world).with_losses(&mut random);
    nothing_is_false(&talks, &exchanges(&capture, &talks.world, &mut random))
}

fn whole(seed: u64, weather: Weather) -> Result<(), String> {
    let talks = talks(seed, weather, 3);
    let found = exchanges(&Capture::whole(&talks.world), &talks.world, &mut Random(seed ^ 1));
    nothing_is_false(&talks, &found)?;
    for (a, b, waits) in talks.ends.iter().copied() {
        let of_both = |e: &&Exchange| [(a, b), (b, a)].contains(&(e.requester.flow, e.responder.flow));
        let mine: Vec<&Exchange> = found.0.iter().filter(of_both).collect();
        let sum = |bytes: fn(&Exchange) -> u64| mine.iter().map(|e| bytes(e)).sum::<u64>();
        let stream =
            |from: FlowId| talks.world.streams.iter().position(|stream| stream.from == from).expect("a stream");
        let written = |from| talks.world.streams[stream(from)].written;
        // Bytes behind unread ones can come too late for their exchange, which is broken then.
        if !mine.iter().all(|exchange| is_read(&talks.world, exchange)) {
            continue;
        }
        if sum(|e| e.request.bytes) + sum(|e| e.response.bytes) != written(a) + written(b) {
            return Err(format!("{} and {} bytes were sent: {mine:?}", written(a), written(b)));
        }
        if !waits {
            continue;
        }
        let is_turn = mine.len() == 1 && mine[0].grade == Grade::Turn;
        if !is_turn {
            return Err(format!("one request and one response took no turn: {mine:?}"));
        }
        if (mine[0].request.bytes, mine[0].response.bytes) != (written(a), written(b)) {
            return Err(format!("{} and {} bytes were sent: {mine:?}", written(a), written(b)));
        }
    }
    Ok(())
}

fn weather() -> impl Strategy<Value = Weather> {
    let percent = |most: u64| prop_oneof![Just(0), 0..most];
    (percent(20), percent(20), percent(30), percent(30), 0..2_u64).prop_map(
        |(lost, duplicated, delayed, dead, closed)| Weather {
            lost,
            duplicated,
            delayed,
            dead,
            closed,
            ..Weather::default()
        },
    )
}

proptest! {
    #![proptest_config(config())]

    /// Without retransmissions and failed networks, whose bytes can come too late for their exchange, which is broken
    /// then.
    #[test]
    fn one_request_and_its_response_are_a_turn(seed in any::<u64>(), weather in weather()) {
        whole(seed, Weather { lost: 0, dead: 0, ..weather }).map_err(TestCaseError::fail)?;
    }

    #[test]
    fn lost_packets_make_no_turn(seed in any::<u64>(), weather in weather()) {
        let talks = talks(seed, weather, 3);
        let found = exchanges(&Capture::whole(&talks.world), &talks.world, &mut Random(seed ^ 1));
        nothing_is_false(&talks, &found).map_err(TestCaseError::fail)?;
    }

    #[test]
    fn lost_events_make_no_turn(seed in any::<u64>(), weather in weather()) {
        lossy(seed, weather).map_err(TestCaseError::fail)?;
    }
}
