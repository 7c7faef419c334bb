//! Holds exported journeys against the notes of programs, byte by byte and call by call.

use serde_json::Value;
use std::collections::BTreeMap;

/// A call of a program, and the numbers of the bytes or datagrams that it sent or read.
#[derive(Clone, Debug)]
pub struct Call {
    /// `send` or `read`.
    pub what: String,
    pub begin_ns: u64,
    pub end_ns: u64,
    pub tgid: u32,
    pub tid: u32,
    pub from: u64,
    pub to: u64,
}

impl Call {
    /// A line of a program's output.
    pub fn of(note: &Value, tgid: u32) -> Self {
        let number = |key: &str| note[key].as_u64().unwrap_or_else(|| panic!("{key} of {note}"));
        Call {
            what: note["what"].as_str().expect("a call").to_owned(),
            begin_ns: number("begin_ns"),
            end_ns: number("end_ns"),
            tgid,
            tid: number("tid") as u32,
            from: number("from"),
            to: number("to"),
        }
    }

    fn has(&self, time_ns: u64) -> bool {
        self.begin_ns <= time_ns && time_ns <= self.end_ns
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
    let rungs = journey["rungs"].as_array().into_iter().flatten();
    let of = |rung| (text(rung, "hop"), number(rung, "time_ns"), number(rung, "tgid") as u32);
    rungs.map(|rung| (of(rung).0, of(rung).1, of(rung).2, number(rung, "tid") as u32)).collect()
}

fn hop<'a>(journey: &'a Value, name: &str) -> Option<(&'a str, u64, u32, u32)> {
    hops(journey).into_iter().find(|(hop, ..)| *hop == name)
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
            let call = |calls: &[Call]| calls.iter().find(|c| c.from <= start && end <= c.to).cloned();
            let send = call(&self.sends).ok_or_else(|| format!("{start}..{end} is no part of a send"))?;
            let read = call(&self.reads).ok_or_else(|| format!("{start}..{end} is no part of a read"))?;
            self.check_hops(journey, &send, Some(&read))?;
        }
        let sent = self.sends.iter().map(|call| call.to).max().unwrap_or(0);
        if at == sent { Ok(()) } else { Err(format!("{sent} bytes were sent, {at} are in journeys")) }
    }

    /// Each datagram has one journey, of the call that sent it and the call that read it. Returns the number of
    /// the marked ones.
    fn check_datagrams(&self, journeys: &[&Value]) -> Result<usize, String> {
        let mut by_number = BTreeMap::new();
        for journey in journeys {
            let sent = hops(journey).into_iter().filter(|(hop, ..)| TX.contains(hop)).map(|(_, ns, ..)| ns);
            let begin_ns = sent.min().ok_or_else(|| format!("no hop of a sender: {journey}"))?;
            let call = self.sends.iter().find(|call| call.has(begin_ns));
            let call = call.ok_or_else(|| format!("sent outside of each call: {journey}"))?;
            if by_number.insert(call.from, *journey).is_some() {
                return Err(format!("datagram {} has two journeys: {journey}", call.from));
            }
        }
        let mut marked = 0;
        for send in &self.sends {
            let journey = by_number.get(&send.from).ok_or_else(|| format!("{} has no journey", send.from))?;
            if journey["ambiguous"] == true {
                marked += 1;
                continue;
            }
            let read = self.reads.iter().find(|call| call.from == send.from);
            if read.is_none() != self.dropped.contains(&send.from) {
                return Err(format!("{} was neither read nor discarded", send.from));
            }
            self.check_hops(journey, send, read)?;
        }
        Ok(marked)
    }

    fn check_hops(&self, journey: &Value, send: &Call, read: Option<&Call>) -> Result<(), String> {
        let fails = |what: &str| Err(format!("{what}\n{journey}\nsent by {send:?}, read by {read:?}"));
        let verdict = if read.is_some() { "complete" } else { "dropped" };
        if text(journey, "verdict") != verdict {
            return fails(&format!("not {verdict}"));
        }
        if text(journey, "from_node") != self.from_node || text(journey, "to_node") != self.to_node {
            return fails("other hosts");
        }
        let by = |(_, ns, tgid, tid): (&str, u64, u32, u32), call: &Call| {
            call.has(ns) && (tgid, tid) == (call.tgid, call.tid)
        };
        match hop(journey, "app.send") {
            Some(at) if by(at, send) => {}
            None if self.proto == "udp" => {} // a raw socket has no such hop
            _ => return fails("app.send is not in its call"),
        }
        match (hop(journey, "app.recv"), read) {
            (Some(at), Some(read)) if by(at, read) => {}
            (None, None) => {}
            _ => return fails("app.recv is not in its call"),
        }
        for (name, ns, ..) in hops(journey) {
            if ns < send.begin_ns || read.is_some_and(|read| ns > read.end_ns && name != "dev.done") {
                return fails(&format!("{name} is outside of its calls"));
            }
        }
        Ok(())
    }
}

/// Checks all journeys of a recording; returns the number of marked datagrams.
pub fn check(talks: &[Talk], journeys: &[Value]) -> Result<usize, String> {
    let of_ports = |j: &&Value| matches!(text(j, "proto"), "tcp" | "udp");
    if let Some(journey) = journeys.iter().filter(of_ports).find(|j| !talks.iter().any(|talk| talk.is_of(j))) {
        return Err(format!("a flow that no program had: {journey}"));
    }
    let mut marked = 0;
    for talk in talks {
        let of_it: Vec<_> = journeys.iter().filter(|j| talk.is_of(j)).collect();
        let named = |error| format!("{} {} → {}: {error}", talk.proto, talk.from, talk.to);
        if talk.proto == "tcp" {
            talk.check_stream(&of_it).map_err(named)?;
        } else {
            marked += talk.check_datagrams(&of_it).map_err(named)?;
        }
    }
    Ok(marked)
}

/// A talk of two calls in each direction, and its true journeys.
fn example(proto: &'static str) -> (Talk, Vec<Value>) {
    let call = |what: &str, n: u64, begin_ns: u64| Call {
        what: what.to_owned(),
        begin_ns,
        end_ns: begin_ns + 100,
        tgid: 7,
        tid: if what == "send" { 8 } else { 9 },
        from: n,
        to: n + 1,
    };
    let sends = (0..4).map(|n| call("send", n, 1000 + 1000 * n)).collect();
    let reads =
        (0..4).filter(|n| proto == "tcp" || *n != 2).map(|n| call("read", n, 9000 + 1000 * n)).collect();
    let talk = Talk {
        proto,
        from: "10.0.0.1:1".to_owned(),
        to: "10.0.0.2:2".to_owned(),
        from_node: "a".to_owned(),
        to_node: "b".to_owned(),
        sends,
        reads,
        dropped: if proto == "tcp" { Vec::new() } else { vec![2] },
    };
    let journey = |n: u64| {
        let is_read = !talk.dropped.contains(&n);
        let mut rungs = vec![
            serde_json::json!({"hop": "app.send", "time_ns": 1050 + 1000 * n, "tgid": 7, "tid": 8}),
            serde_json::json!({"hop": "dev.recv", "time_ns": 1090 + 1000 * n, "tgid": 0, "tid": 0}),
        ];
        if is_read {
            let ns = 9050 + 1000 * n;
            rungs.push(serde_json::json!({"hop": "app.recv", "time_ns": ns, "tgid": 7, "tid": 9}));
        }
        serde_json::json!({
            "proto": proto, "from": "10.0.0.1:1", "to": "10.0.0.2:2", "from_node": "a", "to_node": "b",
            "range": {"start": (70 + n).to_string(), "end": (71 + n).to_string()}, "ambiguous": false,
            "verdict": if is_read { "complete" } else { "dropped" }, "rungs": rungs,
        })
    };
    let journeys = (0..4).map(journey).collect();
    (talk, journeys)
}

#[test]
fn the_checker_accepts_the_truth_and_finds_each_corruption() {
    for proto in ["tcp", "udp"] {
        let (talk, truth) = example(proto);
        let check = |journeys: &[Value]| check(std::slice::from_ref(&talk), journeys);
        assert_eq!(check(&truth), Ok(0));
        let finds = |what: &str, corrupt: &dyn Fn(&mut Vec<Value>)| {
            let mut journeys = truth.clone();
            corrupt(&mut journeys);
            assert!(check(&journeys).is_err(), "{proto}: {what}");
        };
        let swap = |journeys: &mut Vec<Value>, at: usize| {
            let rung = journeys[0]["rungs"][at].clone();
            journeys[0]["rungs"][at] = journeys[1]["rungs"][at].clone();
            journeys[1]["rungs"][at] = rung;
        };
        finds("a journey is missing", &|all| drop(all.remove(1)));
        finds("the last journey is missing", &|all| drop(all.pop()));
        finds("a journey twice", &|all| all.push(all[1].clone()));
        finds("two reads exchanged", &|all| swap(all, 2));
        finds("a hop before the send", &|all| all[1]["rungs"][1]["time_ns"] = 1.into());
        finds("a hop after the read", &|all| all[1]["rungs"][1]["time_ns"] = 20_000.into());
        finds("another reader", &|all| all[1]["rungs"][2]["tid"] = 8.into());
        finds("another process", &|all| all[1]["rungs"][2]["tgid"] = 8.into());
        finds("another sender", &|all| all[1]["rungs"][0]["tid"] = 9.into());
        finds("a read outside of its call", &|all| all[1]["rungs"][2]["time_ns"] = 10_101.into());
        finds("no read", &|all| drop(all[1]["rungs"].as_array_mut().expect("rungs").pop()));
        finds("in flight", &|all| all[1]["verdict"] = "in-flight".into());
        finds("another host", &|all| all[1]["to_node"] = "c".into());
        finds("half", &|all| all[1]["to_node"] = "".into());
        finds("port 0", &|all| all[1]["to"] = "10.0.0.2:0".into());
        finds("another protocol", &|all| all[1]["proto"] = "sctp".into());
        if proto == "tcp" {
            finds("a byte in two journeys", &|all| all[1]["range"]["end"] = "73".into());
            finds("a byte more than was sent", &|all| all[3]["range"]["end"] = "75".into());
        } else {
            finds("a discarded datagram was read", &|all| {
                let read = all[1]["rungs"][2].clone();
                all[2]["rungs"].as_array_mut().expect("rungs").push(read);
            });
            finds("a discarded datagram is complete", &|all| all[2]["verdict"] = "complete".into());
        }
    }
}
