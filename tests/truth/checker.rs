//! Holds exported journeys against the notes of programs, byte by byte and call by call.

#[path = "checker_tests.rs"]
mod tests;

use serde_json::Value;
use std::collections::BTreeMap;

/// A call of a program, and the numbers of the bytes or datagrams that it sent or read.
#[derive(Clone, Debug)]
pub struct Call {
    /// `send`, `read`, or `peek`: a look at bytes that stay in the queue. Bytes that end otherwise have their verdict
    /// here.
    pub what: String,
    pub begin_ns: u64,
    pub end_ns: u64,
    pub tgid: u32,
    pub tid: u32,
    pub from: u64,
    pub to: u64,
}

impl Call {
    /// A line of a program's output. A process other than the one that was started names itself.
    pub fn of(note: &Value, tgid: u32) -> Self {
        let number = |key: &str| note[key].as_u64().unwrap_or_else(|| panic!("{key} of {note}"));
        Call {
            what: note["what"].as_str().expect("a call").to_owned(),
            begin_ns: number("begin_ns"),
            end_ns: number("end_ns"),
            tgid: note["tgid"].as_u64().map_or(tgid, |own| own as u32),
            tid: number("tid") as u32,
            from: number("from"),
            to: number("to"),
        }
    }

    fn has(&self, time_ns: u64) -> bool {
        self.begin_ns <= time_ns && time_ns <= self.end_ns
    }

    fn covers(&self, from: u64, to: u64) -> bool {
        self.from <= from && to <= self.to
    }

    fn by(&self, tgid: u32, tid: u32) -> bool {
        (self.tgid, self.tid) == (tgid, tid)
    }
}

/// One direction between two programs.
#[derive(Clone, Debug)]
pub struct Talk {
    pub proto: &'static str,
    pub from: String,
    pub to: String,
    pub from_node: String,
    pub to_node: String,
    pub sends: Vec<Call>,
    /// Reads and looks, and ends without a read.
    pub reads: Vec<Call>,
    /// Numbers of the datagrams that the kernel discarded at the read.
    pub dropped: Vec<u64>,
}

const TX: [&str; 9] =
    ["app.send", "tcp.send", "udp.send", "tcp.xmit", "ip.out", "ip.post", "dev.queue", "dev.xmit", "dev.done"];

fn text<'a>(journey: &'a Value, key: &str) -> &'a str {
    journey[key].as_str().unwrap_or_default()
}

/// Times of a journey's hop, with process and thread.
fn hops(journey: &Value) -> Vec<(&str, u64, u32, u32)> {
    let number = |rung: &Value, key: &str| rung[key].as_u64().unwrap_or_default();
    let rungs = journey["rungs"].as_array().into_iter().flatten().filter(|rung| rung["tunnel"].is_null());
    let of = |rung| (text(rung, "hop"), number(rung, "time_ns"), number(rung, "tgid") as u32);
    rungs.map(|rung| (of(rung).0, of(rung).1, of(rung).2, number(rung, "tid") as u32)).collect()
}

/// Name, time, process and thread of one of a journey's hops.
pub fn hop<'a>(journey: &'a Value, name: &str) -> Option<(&'a str, u64, u32, u32)> {
    hops(journey).into_iter().find(|(hop, ..)| *hop == name)
}

/// True for a hop of a copy that was sent although an earlier one had arrived by `ns`: its acknowledgement was lost. Such a
/// copy may come after the bytes were read.
fn is_needless_copy(journey: &Value, (hop, at_ns): (&str, u64), ns: u64) -> bool {
    let rungs = || journey["rungs"].as_array().into_iter().flatten();
    let copy = |rung: &Value| rung["copy"].as_u64();
    let mut same = rungs().filter(|rung| text(rung, "hop") == hop && rung["time_ns"].as_u64() == Some(at_ns));
    same.any(|rung| {
        copy(rung).is_some_and(|number| {
            rungs().any(|earlier| {
                text(earlier, "hop") == "tcp.recv"
                    && copy(earlier).is_some_and(|one| one < number)
                    && earlier["time_ns"].as_u64().is_some_and(|arrived_ns| arrived_ns <= ns)
            })
        })
    })
}

/// The longest time that a journey waits for the return of its send (`docs/limitations.md`), nanoseconds.
const RETURN_NS: u64 = 5_000_000;

/// True if the bytes were read so long before the send returned that no journey waits for it.
fn is_before_return(journey: &Value, send: &Call) -> bool {
    hop(journey, "app.recv").is_some_and(|(_, ns, ..)| ns + RETURN_NS < send.end_ns)
}

/// Time of the first hop of a sender.
fn sent_ns(journey: &Value) -> Option<u64> {
    hops(journey).into_iter().filter(|(hop, ..)| TX.contains(hop)).map(|(_, ns, ..)| ns).min()
}

impl Talk {
    fn is_of(&self, journey: &Value) -> bool {
        let node = |mine: &str, key: &str| text(journey, key) == mine || text(journey, key).is_empty();
        text(journey, "proto") == self.proto
            && text(journey, "from") == self.from
            && text(journey, "to") == self.to
            && node(&self.from_node, "from_node")
            && node(&self.to_node, "to_node")
    }

    /// Each byte is in one complete journey, inside its calls.
    fn check_stream(&self, journeys: &[&Value]) -> Result<(), String> {
        self.each_piece(journeys, |journey, (start, end), send| {
            let read = self.read_of(start, end);
            if read.or(self.end_of(start, end)).is_none() {
                return Err(format!("{start}..{end} is no part of a read"));
            }
            self.check_hops(journey, (start, end), send, read)
        })
    }

    /// Calls `check` with each journey, its bytes from the first on, and the call that sent it.
    fn each_piece(
        &self,
        journeys: &[&Value],
        mut check: impl FnMut(&Value, (u64, u64), &Call) -> Result<(), String>,
    ) -> Result<(), String> {
        let range = |journey: &Value| -> Option<(u64, u64)> {
            let end = |key: &str| journey["range"][key].as_str()?.parse().ok();
            Some((end("start")?, end("end")?))
        };
        let mut all: Vec<_> = journeys.iter().filter_map(|j| Some((range(j)?, *j))).collect();
        all.sort_by_key(|(range, _)| *range);
        let first = all.first().map_or(0, |((start, _), _)| *start);
        let mut at = 0;
        for ((start, end), journey) in all {
            let (start, end) = (start - first, end - first);
            if start != at {
                return Err(format!("{start} follows {at}: a gap or a byte in two journeys: {journey}"));
            }
            at = end;
            let send = self.sends.iter().find(|call| call.covers(start, end));
            let send = send.ok_or_else(|| format!("{start}..{end} is no part of a send"))?;
            check(journey, (start, end), send)?;
        }
        let sent = self.sends.iter().map(|call| call.to).max().unwrap_or(0);
        if at == sent { Ok(()) } else { Err(format!("{sent} bytes were sent, {at} are in journeys")) }
    }

    /// What was sent and not read has been discarded.
    pub fn set_dropped(&mut self) {
        let sent = self.sends.iter().flat_map(|call| call.from..call.to);
        self.dropped = sent.filter(|number| self.read_of(*number, number + 1).is_none()).collect();
    }

    fn read_of(&self, from: u64, to: u64) -> Option<&Call> {
        self.reads.iter().find(|call| call.what == "read" && call.covers(from, to))
    }

    /// The note of bytes that end with another verdict.
    fn end_of(&self, from: u64, to: u64) -> Option<&Call> {
        let is_end = |call: &&Call| !matches!(call.what.as_str(), "read" | "peek");
        self.reads.iter().filter(is_end).find(|call| call.covers(from, to))
    }

    /// True if a program noted another verdict than that of a read.
    pub fn has_noted_end(&self) -> bool {
        self.reads.iter().any(|call| !matches!(call.what.as_str(), "read" | "peek"))
    }

    /// The journey of each datagram. A call may send several: they are in the order of their sending, and those of
    /// one super-packet in the order of their reads.
    fn datagrams<'a>(&self, journeys: &[&'a Value]) -> Result<BTreeMap<u64, &'a Value>, String> {
        let mut by_call = BTreeMap::<u64, Vec<_>>::new();
        for journey in journeys {
            let begin_ns = sent_ns(journey).ok_or_else(|| format!("no hop of a sender: {journey}"))?;
            let call = self.sends.iter().find(|call| call.has(begin_ns));
            let call = call.ok_or_else(|| format!("sent outside of each call: {journey}"))?;
            let read_ns = hop(journey, "app.recv").map_or(u64::MAX, |(_, ns, ..)| ns);
            by_call.entry(call.from).or_default().push(((begin_ns, read_ns), *journey));
        }
        let mut by_number = BTreeMap::new();
        for call in &self.sends {
            let mut found = by_call.remove(&call.from).unwrap_or_default();
            if found.len() as u64 != call.to - call.from {
                return Err(format!("{} journeys of {call:?}", found.len()));
            }
            found.sort_by_key(|(order, _)| *order);
            by_number.extend((call.from..).zip(found.into_iter().map(|(_, journey)| journey)));
        }
        Ok(by_number)
    }

    /// Each datagram has one journey, of the call that sent it and the call that read it. Returns the number of
    /// the marked ones.
    fn check_datagrams(&self, journeys: &[&Value]) -> Result<usize, String> {
        let by_number = self.datagrams(journeys)?;
        let mut marked = 0;
        for (number, journey) in by_number {
            if journey["ambiguous"] == true {
                marked += 1;
                continue;
            }
            self.check_datagram(number, journey)?;
        }
        Ok(marked)
    }

    fn check_datagram(&self, number: u64, journey: &Value) -> Result<(), String> {
        let numbers = (number, number + 1);
        let send = self.sends.iter().find(|call| call.covers(number, number + 1));
        let send = send.ok_or_else(|| format!("{number} was not sent"))?;
        let read = self.read_of(number, number + 1);
        let is_discarded = self.dropped.contains(&number) || self.end_of(number, number + 1).is_some();
        if read.is_none() != is_discarded {
            return Err(format!("{number} was neither read nor discarded"));
        }
        self.check_hops(journey, numbers, send, read)
    }

    fn check_hops(
        &self,
        journey: &Value,
        (from, to): (u64, u64),
        send: &Call,
        read: Option<&Call>,
    ) -> Result<(), String> {
        let fails = |what: &str| Err(format!("{what}\n{journey}\nsent by {send:?}, read by {read:?}"));
        let noted = self.end_of(from, to).map_or("dropped", |end| end.what.as_str());
        let verdict = if read.is_some() { "complete" } else { noted };
        if text(journey, "verdict") != verdict {
            return fails(&format!("not {verdict}"));
        }
        let to_node = text(journey, "to_node");
        // What did not arrive has no receiver.
        let is_at_sender = read.is_none() && to_node.is_empty() && hop(journey, "dev.recv").is_none();
        if text(journey, "from_node") != self.from_node || !(is_at_sender || to_node == self.to_node) {
            return fails("other hosts");
        }
        match hop(journey, "app.send") {
            Some(_) => {}
            None if self.proto == "udp" => {}  // a raw socket has no such hop
            None if noted == "delivered" => {} // the call is one of the kernel's own protocol
            None if is_before_return(journey, send) => {}
            None => return fails("app.send is missing"),
        }
        if hop(journey, "app.recv").is_some() != read.is_some() {
            return fails("app.recv without a read, or a read without app.recv");
        }
        for (name, ns, tgid, tid) in hops(journey) {
            // Both are taken at a return, which may follow the read.
            let at_return = matches!(name, "app.send" | "dev.done");
            let is_late = |read: &Call| {
                ns > read.end_ns && !at_return && !is_needless_copy(journey, (name, ns), read.end_ns)
            };
            if ns < send.begin_ns || read.is_some_and(is_late) {
                return fails(&format!("{name} is outside of its calls"));
            }
            let is_true = match name {
                "app.send" | "tcp.send" | "udp.send" => send.has(ns) && send.by(tgid, tid),
                "app.recv" => read.is_some_and(|read| read.has(ns) && read.by(tgid, tid)),
                "app.copy" => {
                    // A look copies as well.
                    let mut calls = self.reads.iter().filter(|call| call.covers(from, to));
                    calls.any(|call| call.has(ns) && call.by(tgid, tid))
                }
                "task.wake" | "task.run" => read.is_none_or(|read| tid == 0 || read.by(tgid, tid)),
                _ => true,
            };
            if !is_true {
                return fails(&format!("{name} is not in its call, or of another thread"));
            }
        }
        Ok(())
    }
}

/// The journeys of each talk. Of several talks with equal ends, one after the other, those that were sent between
/// the talk's first send and its last.
fn by_talk<'a>(talks: &[Talk], journeys: &'a [Value]) -> Result<Vec<Vec<&'a Value>>, String> {
    let mut found = vec![Vec::new(); talks.len()];
    for journey in journeys.iter().filter(|j| matches!(text(j, "proto"), "tcp" | "udp")) {
        let mut of: Vec<_> = (0..talks.len()).filter(|n| talks[*n].is_of(journey)).collect();
        if of.len() > 1 {
            of.retain(|n| {
                let sends = &talks[*n].sends;
                let begin = sends.iter().map(|call| call.begin_ns).min();
                let end = sends.iter().map(|call| call.end_ns).max();
                let ns = sent_ns(journey);
                ns.is_some() && begin <= ns && ns <= end
            });
        }
        match of[..] {
            [talk] => found[talk].push(journey),
            [] => return Err(format!("a flow that no program had: {journey}")),
            _ => return Err(format!("of two talks at once: {journey}")),
        }
    }
    Ok(found)
}

/// Checks all journeys of a recording; returns the number of marked datagrams.
pub fn check(talks: &[Talk], journeys: &[Value]) -> Result<usize, String> {
    let mut marked = 0;
    for (talk, of_it) in talks.iter().zip(by_talk(talks, journeys)?) {
        let named = |error| format!("{} {} → {}: {error}", talk.proto, talk.from, talk.to);
        if talk.proto == "tcp" {
            talk.check_stream(&of_it).map_err(named)?;
        } else {
            marked += talk.check_datagrams(&of_it).map_err(named)?;
        }
    }
    Ok(marked)
}

/// How many datagrams were read, wrong without a mark, and marked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub right: usize,
    pub wrong: usize,
    pub marked: usize,
}

/// Counts pieces of a stream whose journeys contradict the notes. A marked read may be another thread's.
pub fn count_stream(talk: &Talk, journeys: &[Value]) -> Result<Counts, String> {
    let of_it: Vec<_> = journeys.iter().filter(|journey| talk.is_of(journey)).collect();
    let mut counts = Counts::default();
    talk.each_piece(&of_it, |journey, (start, end), send| {
        if journey["ambiguous"] == true || text(journey, "verdict") == "read-unseen" {
            counts.marked += 1;
            return Ok(());
        }
        let read = talk.read_of(start, end);
        let is_right = read.is_some() && talk.check_hops(journey, (start, end), send, read).is_ok();
        if is_right {
            counts.right += 1;
        } else {
            counts.wrong += 1;
        }
        Ok(())
    })?;
    Ok(counts)
}

/// Counts datagrams whose journeys contradict the notes, where a first contradiction is not the end of the check.
/// What no datagram excuses is an error: a journey of no send, or two of one.
pub fn count(talks: &[Talk], journeys: &[Value]) -> Result<Counts, String> {
    let mut counts = Counts::default();
    for (talk, of_it) in talks.iter().zip(by_talk(talks, journeys)?) {
        for (number, journey) in talk.datagrams(&of_it)? {
            let is_unread = matches!(text(journey, "verdict"), "read-unseen" | "filtered");
            if journey["ambiguous"] == true || is_unread {
                counts.marked += 1;
            } else if talk.check_datagram(number, journey).is_ok() {
                counts.right += 1;
            } else {
                counts.wrong += 1;
            }
        }
    }
    Ok(counts)
}
