//! Truth of journeys: each claim of the correlator against the world.

use super::capture::Capture;
use super::{About, True, World};
use magscope_core::blame::{Blame, Part};
use magscope_core::journey::{Consumer, Journey, Verdict};
use magscope_core::{Direction, Event, EventFlags, FlowId, Hop, HopSet, Proto};
use std::collections::{BTreeSet, HashMap};
use std::ops::Range;

/// A journey of a TCP stream in the numbering of the truth: its stream, and its bytes from the first.
pub fn place(world: &World, journey: &Journey) -> Result<(usize, Range<u64>), String> {
    let fits = |s: &super::StreamTruth| {
        (s.from == journey.tx_flow || is_open(journey.tx_flow))
            && (s.to == journey.rx_flow || is_open(journey.rx_flow))
    };
    let stream = world.streams.iter().position(fits).ok_or("no such stream")?;
    let first = (journey.range.start as u32).wrapping_sub(world.streams[stream].first_seq);
    let from = u64::from(first);
    Ok((stream, from..from + journey.bytes()))
}

/// True for an end that was not seen. A node that was not seen to pass anything on looks like one.
fn is_open(id: FlowId) -> bool {
    id.is_none() || super::node::is_nodes(id)
}

fn is_read(t: &True) -> bool {
    t.event.hop == Hop::AppRecv && !t.event.flags.contains(EventFlags::PEEK)
}

/// Every event's time is that of an event at that hop, of the same stream, that covers the complete piece.
pub fn rungs_are_true(world: &World, journey: &Journey) -> Result<(), String> {
    let (stream, range) = place(world, journey)?;
    for rung in journey.all_rungs() {
        let say = |what: &str| Err(format!("{} at {} {what}: {journey:?}", rung.hop, rung.time_ns));
        let Some(truth) = world.event_at(rung.time_ns) else { return say("never was") };
        if truth.event.hop != rung.hop {
            return say("was another hop");
        }
        match truth.about {
            About::Bytes { stream: s, from, to } => {
                if s != stream || range.start < from || range.end > to {
                    return say(&format!("was about {s} {from}..{to}, not {stream} {range:?}"));
                }
            }
            _ if matches!(rung.hop, Hop::TaskWake | Hop::TaskRun) => {
                if truth.event.tid != world.streams[stream].reader_tid {
                    return say("was another thread");
                }
            }
            _ => return say("was about something else"),
        }
    }
    Ok(())
}

/// Each copy is one pass of the sender, with its reason, and they are in order. The receiver's events are those
/// of its packet, unless the copy is marked as ambiguous. `unseen`: copies without any event in the capture may
/// exist, so that one of those may have arrived in place of the first.
pub fn copies_are_true(world: &World, journey: &Journey, unseen: bool) -> Result<(), String> {
    let (stream, range) = place(world, journey)?;
    let mut before = None;
    for copy in &journey.copies {
        let say = |what: &str| Err(format!("copy {copy:?} {what}: {journey:?}"));
        let pass_at = |time_ns: Option<u64>| time_ns.and_then(|at| world.pass_at(at, range.start));
        let (mut mine, reported) = (None, pass_at(copy.retransmit_ns));
        for hop in copy.rungs.hops() {
            let time_ns = copy.rungs.time_ns(hop);
            let truth = time_ns.and_then(|at| world.event_at(at));
            let covers = |t: &True| match t.about {
                About::Bytes { stream: s, from, to } => s == stream && from <= range.start && to >= range.end,
                _ => false,
            };
            if !truth.is_some_and(|t| t.event.hop == hop && covers(t)) {
                return say(&format!("never was at {hop}"));
            }
            let sure = hop.direction() == Direction::Tx || !(copy.ambiguous || unseen && copy.number == 1);
            if sure && *mine.get_or_insert(pass_at(time_ns)) != pass_at(time_ns) {
                return say(&format!("was another packet at {hop}"));
            }
        }
        let pass = mine.flatten().or(reported);
        // The first event may have been a retransmission, which the kernel reports.
        let is_first = unseen && copy.number == 2 && copy.rungs.is_empty();
        if reported.is_some() && reported != pass
            || before.is_some() && pass <= before && !(is_first && pass == before)
        {
            return say(&format!("is pass {pass:?}, reported by {reported:?}, after {before:?}"));
        }
        before = pass;
        let reason = copy.retransmit_ns.and_then(|at| world.event_at(at)).map(|t| t.event.resend_reason());
        if reason.is_some_and(|reason| reason != copy.kind) {
            return say("has another reason");
        }
    }
    waits_for_earlier_bytes(world, journey, stream, range.start, unseen)?;
    steps_are_within_one_copy(world, journey, range.start, unseen)
}

/// Bytes wait for earlier ones of their stream exactly if one of those arrived for the first time between their own
/// arrival and the announcement.
fn waits_for_earlier_bytes(
    world: &World,
    journey: &Journey,
    stream: usize,
    at: u64,
    unseen: bool,
) -> Result<(), String> {
    let (own_ns, ready_ns) = (journey.rungs.time_ns(Hop::TcpRecv), journey.rungs.time_ns(Hop::SockReady));
    if let Some(wait) = journey.head_of_line {
        let truth = world.event_at(wait.until_ns);
        let is_earlier = truth.is_some_and(|t| match t.about {
            About::Bytes { stream: s, from, .. } => {
                s == stream && from < at && t.event.hop.direction() == Direction::Rx
            }
            _ => false,
        });
        let is_between =
            own_ns.is_none_or(|own| own < wait.until_ns) && ready_ns.is_none_or(|ready| wait.until_ns < ready);
        return if is_earlier && is_between {
            Ok(())
        } else {
            Err(format!("waited for no earlier bytes: {journey:?}"))
        };
    }
    let (Some(own_ns), Some(ready_ns)) = (own_ns, ready_ns) else { return Ok(()) };
    // The arrival of a later copy than the announced one says nothing of the wait.
    if own_ns >= ready_ns {
        return Ok(());
    }
    let Some(arrivals) = world.arrivals.get(&stream) else { return Ok(()) };
    let had_arrived = |byte: u64| arrivals.range(..=own_ns).any(|(_, (from, to))| *from <= byte && byte < *to);
    let missing = arrivals.range(own_ns + 1..ready_ns).any(|(_, (from, _))| *from < at && !had_arrived(*from));
    if missing && !unseen { Err(format!("waited for earlier bytes, unmarked: {journey:?}")) } else { Ok(()) }
}

/// A latency between two packet hops is that of one packet, and the parts of the blame sum to the total.
fn steps_are_within_one_copy(world: &World, journey: &Journey, at: u64, unseen: bool) -> Result<(), String> {
    let is_packet = |hop: Hop| (Hop::TcpXmit..=Hop::TcpRecv).contains(&hop);
    for latency in journey.latencies().filter(|l| is_packet(l.from) && is_packet(l.to)) {
        let from_ns = latency.at_ns - latency.ns;
        let crosses = latency.from.direction() != latency.to.direction();
        if unseen && (crosses || latency.to.direction() == Direction::Rx) {
            continue;
        }
        if world.pass_at(from_ns, at) != world.pass_at(latency.at_ns, at) {
            return Err(format!("{latency:?} is of two packets: {journey:?}"));
        }
    }
    let Some(blame) = Blame::of(journey, HopSet::all()) else { return Ok(()) };
    let parts: u64 = blame.parts().map(|(_, ns)| ns).sum();
    let waits = journey.spans().any(|(_, span)| span.is_some_and(|span| span.is_wait && span.ns > 0))
        || journey.head_of_line.is_some_and(|wait| wait.resent) && journey.head_of_line_ns() > 0;
    match (parts == blame.total_ns(), waits == blame.ns(Part::Retransmission).is_some_and(|ns| ns > 0)) {
        (false, _) => Err(format!("{parts} ns of {}: {journey:?}", blame.total_ns())),
        (_, false) if !unseen => Err(format!("{blame:?} of {journey:?}")),
        _ => Ok(()),
    }
}

/// The journeys of one stream with their bytes in the numbering of the truth, in order.
pub type Line = Vec<(Range<u64>, Journey)>;

/// No byte is in two journeys. Returns the journeys of each stream in order.
pub fn apart(world: &World, journeys: &[Journey]) -> Result<Vec<Line>, String> {
    let mut by_stream = vec![Vec::new(); world.streams.len()];
    for journey in journeys.iter().filter(|j| j.proto == Proto::TCP) {
        let (stream, range) = place(world, journey)?;
        by_stream[stream].push((range, journey.clone()));
    }
    for list in &mut by_stream {
        list.sort_by_key(|(range, _)| range.start);
        if let Some(pair) = list.windows(2).find(|w| w[0].0.end > w[1].0.start) {
            return Err(format!("twice: {pair:?}"));
        }
    }
    Ok(by_stream)
}

/// The events of each stream in order of time.
pub fn by_stream(world: &World) -> Vec<Vec<(Event, u64, u64)>> {
    let mut all = vec![Vec::new(); world.streams.len()];
    for truth in &world.events {
        // What a node between the ends passed on, no end has sent or received.
        if super::node::is_nodes(truth.event.flow) && truth.event.hop != Hop::SkbDrop {
            continue;
        }
        if let About::Bytes { stream, from, to } = truth.about {
            all[stream].push((truth.event, from, to));
        }
    }
    for list in &mut all {
        list.sort_by_key(|(event, _, _)| event.time_ns);
    }
    all
}

/// Where the packets of each stream begin and end.
pub fn borders(world: &World) -> Vec<BTreeSet<u64>> {
    let mut all = vec![BTreeSet::new(); world.streams.len()];
    for truth in &world.events {
        if let About::Bytes { stream, from, to } = truth.about {
            all[stream].extend([from, to]);
        }
    }
    all
}

/// Conditions of a completely captured stream.
pub fn stream_is_whole(
    events: &[(Event, u64, u64)],
    borders: &BTreeSet<u64>,
    list: &[(Range<u64>, Journey)],
    settled: bool,
) -> Result<(), String> {
    let sent = events
        .iter()
        .filter(|(e, _, _)| !matches!(e.hop, Hop::TcpSend))
        .map(|(_, _, to)| *to)
        .max()
        .unwrap_or(0);
    let mut at = 0;
    for (range, journey) in list {
        if range.start != at {
            return Err(format!("bytes {at}..{} are in no journey, before {journey:?}", range.start));
        }
        at = range.end;
        if !borders.contains(&range.start) || !borders.contains(&range.end) {
            return Err(format!("needless cut: {journey:?}"));
        }
        piece_is_whole(events, range, journey, settled)?;
    }
    if at == sent { Ok(()) } else { Err(format!("journeys end at {at}, the stream at {sent}")) }
}

fn piece_is_whole(
    events: &[(Event, u64, u64)],
    range: &Range<u64>,
    journey: &Journey,
    settled: bool,
) -> Result<(), String> {
    let say = |what: String| Err(format!("{what}: {journey:?}"));
    let over_any =
        events.iter().filter(|(_, from, to)| *from <= range.start && *to >= range.end).map(|(e, _, _)| e);
    let over = |hop: Hop| over_any.clone().filter(move |e| e.hop == hop);
    let read_ns = over(Hop::AppRecv).next().map(|e| e.time_ns);
    let taken = over(Hop::SockReady).find(|e| e.flags.contains(EventFlags::IN_KERNEL));
    let ended_ns = read_ns.or(taken.map(|e| e.time_ns));
    for hop in Hop::path().iter().copied() {
        // The first of all existing copies.
        let own = journey.all_rungs().filter(|rung| rung.hop == hop && rung.forwarder == 0);
        let mine = own.map(|rung| rung.time_ns).min();
        match hop {
            Hop::TcpSend | Hop::AppSend | Hop::AppCopy | Hop::TaskWake | Hop::TaskRun => {}
            // The first notification that covers it, after its arrival.
            Hop::SockReady => {
                let arrived = journey.rungs.time_ns(Hop::TcpRecv);
                let first = over(hop).map(|e| e.time_ns).find(|t| arrived.is_some_and(|a| *t > a));
                if mine != first && read_ns.is_some() {
                    return say(format!("{hop} was at {first:?}"));
                }
            }
            _ => {
                let first = over(hop).next().map(|e| e.time_ns);
                // A half waits for an unseen receiver longer than a time-out, and not forever.
                let sends = over_any.clone().filter(|e| e.hop.direction() == Direction::Tx);
                let sent_ns = sends.map(|e| e.time_ns).filter(|t| first.is_some_and(|f| *t < f)).max();
                let given_up_ns = sent_ns.unwrap_or(0) + 300_000_000;
                let is_half = journey.verdict == Verdict::HalfComplete && journey.rx_flow.is_none();
                if is_half && hop.direction() == Direction::Rx && first > Some(given_up_ns) {
                    continue;
                }
                // Events after the read may find the journey closed.
                let late = first > ended_ns && ended_ns.is_some();
                // The returned driver may be unknown.
                let unknown = hop == Hop::DevDone && !journey.copies.is_empty();
                // The first event may be of a copy beyond the maximum.
                let left_out = journey.copies_left_out > 0 && mine > first;
                let excused = unknown || left_out || mine.is_none() && late;
                if mine != first && !excused {
                    return say(format!("{hop} was at {first:?}"));
                }
            }
        }
    }
    let received =
        over(Hop::TcpRecv).next().map(|e| e.time_ns).filter(|_| journey.verdict == Verdict::Complete);
    if received.is_some() && journey.rungs.time_ns(Hop::TcpRecv) != received {
        return say(format!("its bytes were received at {received:?}"));
    }
    if journey.disordered() > 0 {
        return say("out of order".to_owned());
    }
    let passes = over(Hop::TcpXmit).count();
    let before = over(Hop::TcpXmit).filter(|e| ended_ns.is_none_or(|r| e.time_ns <= r)).count();
    let was_given_up = journey.verdict == Verdict::HalfComplete;
    let at_least = if was_given_up { 0 } else { before.saturating_sub(1) };
    if !(at_least..=passes.max(1) - 1).contains(&(journey.retransmits() as usize)) {
        return say(format!("sent {passes} times, {before} before it was read"));
    }
    let last = journey.rungs.last();
    let destroyed = events.iter().find(|(e, ..)| e.hop == Hop::SockDestroy);
    let is_unread = |(_, from, to): &(Event, u64, u64)| {
        let arrived = over(Hop::TcpRecv).next().is_some();
        *from <= range.start && (range.end <= *to || *to <= range.start && arrived)
    };
    let is_unsent = over(Hop::TcpXmit).next().is_none();
    let fair = match journey.verdict {
        Verdict::Complete => read_ns.is_some(),
        Verdict::Delivered { to } => taken.is_some() && to == Consumer::Mptcp,
        _ if taken.is_some() => false,
        Verdict::Discarded { hop } => {
            read_ns.is_none() && Some(hop) == last && (destroyed.is_some_and(is_unread) || is_unsent)
        }
        // The socket itself would know.
        _ if destroyed.is_some_and(is_unread) => false,
        // No byte had reached the receiver, so it may be outside the capture.
        Verdict::HalfComplete => is_open(journey.rx_flow) && journey.rungs.has(Hop::DevXmit),
        Verdict::ReadUnseen => read_ns.is_none() && over(Hop::TcpRecv).next().is_some(),
        Verdict::InFlight => read_ns.is_none() && destroyed.is_none_or(|(_, copied, _)| range.end > *copied),
        Verdict::LostAfter { hop } => {
            read_ns.is_none() && settled && Some(hop) == last && over(Hop::TcpRecv).next().is_none()
        }
        Verdict::Dropped { hop, reason: 9 } => {
            read_ns.is_none()
                && Some(hop) == last
                && over(Hop::SkbDrop).next().is_some()
                && over(Hop::TcpRecv).next().is_none()
        }
        _ => false,
    };
    let ends = (taken.is_some(), destroyed.map(|(e, from, to)| (e.time_ns, *from, *to)));
    if fair { Ok(()) } else { say(format!("unfair verdict of {range:?}, read at {read_ns:?}, ends {ends:?}")) }
}

/// Conditions of a piece despite lost events.
pub fn piece_is_honest(
    world: &World,
    events: &[(Event, u64, u64)],
    capture: &Capture,
    range: &Range<u64>,
    journey: &Journey,
) -> Result<(), String> {
    let say = |what: &str| Err(format!("{what}: {journey:?}\nlosses {:?}", capture.losses));
    let covers = |hop: Hop| {
        events.iter().filter(move |(e, from, to)| e.hop == hop && *from <= range.start && *to >= range.end)
    };
    let read = covers(Hop::AppRecv).next();
    match journey.verdict {
        Verdict::Complete | Verdict::HalfComplete => {
            if !journey.rungs.has(Hop::AppRecv)
                && (journey.verdict == Verdict::Complete || !journey.rx_flow.is_none())
            {
                return say("no read was seen");
            }
            let expected = [
                Hop::TcpXmit,
                Hop::IpOut,
                Hop::IpPost,
                Hop::DevQueue,
                Hop::DevXmit,
                Hop::DevRecv,
                Hop::IpPre,
                Hop::IpIn,
                Hop::TcpRecv,
            ];
            for hop in expected {
                let was_lost = covers(hop).all(|(e, _, _)| capture.lost.contains(&e.time_ns));
                // An end without any event so far may be outside the capture: the other's half can be complete.
                let end_ns = journey.end_ns().unwrap_or(0);
                let side = hop.direction();
                let has_event = events.iter().any(|(e, _, _)| {
                    e.hop.direction() == side && e.time_ns <= end_ns && !capture.lost.contains(&e.time_ns)
                });
                if was_lost && has_event && !journey.rungs.has(hop) {
                    return say(&format!("{hop} was lost"));
                }
            }
            Ok(())
        }
        Verdict::LostAfter { .. } if read.is_some() || covers(Hop::TcpRecv).next().is_some() => {
            say("it was not lost")
        }
        Verdict::Discarded { .. } if read.is_some() => say("it was read, and not discarded"),
        Verdict::ReadUnseen if read.is_some() => say("it was read, and the event lost"),
        _ => {
            let _ = world;
            Ok(())
        }
    }
}

/// The true datagrams of a journey's events, with copies counted as their original.
pub fn datagrams(world: &World, journey: &Journey) -> Result<Vec<usize>, String> {
    let mut seen = Vec::new();
    let mut runs = Vec::new();
    for rung in journey.all_rungs() {
        let truth = world.event_at(rung.time_ns).filter(|t| t.event.hop == rung.hop);
        match truth.map(|t| t.about) {
            Some(About::Datagram(n)) => seen.push(world.datagrams[n]),
            Some(About::Run(first, count)) => runs.push(first..first + count),
            Some(About::Nothing) if matches!(rung.hop, Hop::TaskWake | Hop::TaskRun) => {}
            _ => return Err(format!("{} at {} never was: {journey:?}", rung.hop, rung.time_ns)),
        }
    }
    seen.dedup();
    if seen.is_empty() {
        // Only super-packets: the identification or its place among the others identifies the datagram.
        let common = runs.iter().fold(0..usize::MAX, |a, b| a.start.max(b.start)..a.end.min(b.end));
        return Ok(common.collect());
    }
    let strange = |n: &usize| runs.iter().any(|run| !run.contains(n));
    if seen.len() == 1 && seen.iter().any(strange) {
        seen.extend(runs.iter().flat_map(Clone::clone));
    }
    Ok(seen)
}

/// True if only super-packets concern it, so that it may be any of theirs.
pub fn only_runs(world: &World, journey: &Journey) -> bool {
    let is_run = |t: &True| matches!(t.about, About::Run(..) | About::Nothing);
    journey.all_rungs().all(|rung| world.event_at(rung.time_ns).is_some_and(is_run))
}

/// Every datagram has its journey, each with its own events and its true end.
pub fn datagrams_are_whole(world: &World, journeys: &[Journey], settled: bool) -> Result<(), String> {
    let mut hops: HashMap<usize, Vec<(Hop, u64)>> = HashMap::new();
    for truth in &world.events {
        if let About::Datagram(n) = truth.about {
            hops.entry(n).or_default().push((truth.event.hop, truth.event.time_ns));
        }
    }
    let mut found: HashMap<usize, usize> = HashMap::new();
    let is_outer = |j: &&Journey| [j.tx_flow, j.rx_flow].into_iter().any(super::tunnel::is_outer);
    for journey in journeys.iter().filter(|j| j.proto == Proto::UDP && !is_outer(j)) {
        let mine = datagrams(world, journey)?;
        let me = match mine[..] {
            [me] => me,
            _ if only_runs(world, journey) && !mine.is_empty() => {
                let next = mine.iter().find(|n| !found.contains_key(n));
                *next.ok_or_else(|| format!("more journeys than datagrams {mine:?}: {journey:?}"))?
            }
            _ if journey.ambiguous => continue,
            _ => return Err(format!("datagrams {mine:?} in one: {journey:?}")),
        };
        if journey.bytes() != u64::from(world.lengths.get(&me).copied().unwrap_or(journey.bytes() as u32)) {
            return Err(format!("datagram {me} has other bytes: {journey:?}"));
        }
        *found.entry(me).or_default() += 1;
        let read = journey.rungs.has(Hop::AppRecv);
        let fair = match journey.verdict {
            Verdict::Complete => read && journey.rungs.has(Hop::DevXmit),
            // A copy; or a datagram unseen by the receiver, before the receiver's first event.
            Verdict::HalfComplete if is_open(journey.rx_flow) => !read && journey.rungs.has(Hop::DevXmit),
            Verdict::HalfComplete => read && journey.tx_flow.is_none(),
            Verdict::LostAfter { hop } => settled && hop == Hop::DevDone,
            Verdict::InFlight => !read,
            Verdict::Dropped { reason: 9, .. } => {
                let is_drop = |(hop, _): &(Hop, u64)| *hop == Hop::SkbDrop;
                !read && hops.get(&me).is_some_and(|hops| hops.iter().any(is_drop))
            }
            _ => false,
        };
        if !fair || journey.disordered() > 0 {
            return Err(format!("unfair verdict or order: {journey:?}"));
        }
    }
    if journeys.iter().any(|j| j.ambiguous) {
        return Ok(()); // a mistaken event is missing elsewhere
    }
    let copies = |n: usize| world.datagrams.iter().filter(|of| **of == n).count();
    for (n, of) in world.datagrams.iter().enumerate().filter(|(n, of)| n == *of) {
        let n_found = found.get(&n).copied().unwrap_or(0);
        if n_found != copies(*of) {
            return Err(format!(
                "datagram {n} has {n_found} journeys, {} copies: {:?}",
                copies(*of),
                hops.get(&n)
            ));
        }
    }
    Ok(())
}
