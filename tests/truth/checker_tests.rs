//! The checker accepts the truth, and finds each corruption of it.

use super::{Call, Counts, Talk, check, count};
use serde_json::{Value, json};

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
            json!({"hop": "app.send", "time_ns": 1050 + 1000 * n, "tgid": 7, "tid": 8}),
            json!({"hop": "dev.recv", "time_ns": 1090 + 1000 * n, "tgid": 0, "tid": 0}),
        ];
        if is_read {
            let ns = 9050 + 1000 * n;
            rungs.push(json!({"hop": "app.recv", "time_ns": ns, "tgid": 7, "tid": 9}));
        }
        json!({
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

fn call(what: &str, ns: u64, from: u64, to: u64) -> Call {
    let tid = if what == "send" { 8 } else { 9 };
    Call { what: what.to_owned(), begin_ns: ns, end_ns: ns + 100, tgid: 7, tid, from, to }
}

fn talk(proto: &'static str, sends: Vec<Call>, reads: Vec<Call>) -> Talk {
    let (talk, _) = example(proto);
    Talk { sends, reads, dropped: Vec::new(), ..talk }
}

/// A complete journey with these hops: time, process, thread.
fn journey(proto: &str, (start, end): (u64, u64), hops: &[(&str, u64, u32, u32)]) -> Value {
    let rungs: Vec<_> = hops
        .iter()
        .map(|(hop, ns, tgid, tid)| json!({"hop": hop, "time_ns": ns, "tgid": tgid, "tid": tid}))
        .collect();
    json!({
        "proto": proto, "from": "10.0.0.1:1", "to": "10.0.0.2:2", "from_node": "a", "to_node": "b",
        "range": {"start": start.to_string(), "end": end.to_string()}, "ambiguous": false,
        "verdict": "complete", "rungs": rungs,
    })
}

/// Exchanges a hop of the first two journeys.
fn exchange(journeys: &mut [Value], hop: usize) {
    let rung = journeys[0]["rungs"][hop].clone();
    journeys[0]["rungs"][hop] = journeys[1]["rungs"][hop].clone();
    journeys[1]["rungs"][hop] = rung;
}

#[test]
fn the_checker_holds_each_hop_of_a_process_against_its_call() {
    let reads = vec![call("peek", 8000, 0, 20), call("read", 9000, 0, 20)];
    let talks = [talk("tcp", vec![call("send", 1000, 0, 20)], reads)];
    let hops = [
        ("tcp.send", 1020, 7, 8),
        ("app.send", 1090, 7, 8),
        ("task.run", 7900, 7, 9),
        ("app.copy", 8050, 7, 9),
        ("app.recv", 9090, 7, 9),
    ];
    let truth = vec![journey("tcp", (50, 70), &hops)];
    assert_eq!(check(&talks, &truth), Ok(0));
    let finds = |what: &str, hop: usize, key: &str, value: u64| {
        let mut journeys = truth.clone();
        journeys[0]["rungs"][hop][key] = value.into();
        assert!(check(&talks, &journeys).is_err(), "{what}");
    };
    finds("a send of another thread", 0, "tid", 9);
    finds("a send of another process", 0, "tgid", 8);
    finds("a send before its call", 0, "time_ns", 900);
    finds("a send after its call", 0, "time_ns", 1101);
    finds("a return after its call", 1, "time_ns", 1101);
    finds("another thread was woken", 2, "tid", 8);
    finds("a copy to another thread", 3, "tid", 8);
    finds("a copy to another process", 3, "tgid", 8);
    finds("a copy in no call", 3, "time_ns", 8500);
    finds("a look is no read", 4, "time_ns", 8090);
}

/// A journey waits 5 ms for the return of its send, so the hop may be missing only if the call took longer.
#[test]
fn the_checker_lets_a_send_without_return_pass_only_if_it_returned_late() {
    let journeys = [journey("tcp", (50, 70), &[("tcp.send", 1020, 7, 8), ("app.recv", 9090, 7, 9)])];
    let check_with = |end_ns: u64| {
        let send = Call { end_ns, ..call("send", 1000, 0, 20) };
        check(&[talk("tcp", vec![send], vec![call("read", 9000, 0, 20)])], &journeys)
    };
    assert!(check_with(9090 + 5_000_000).is_err());
    assert_eq!(check_with(9091 + 5_000_000), Ok(0));
}

#[test]
fn the_checker_lets_a_copy_come_late_only_if_an_earlier_one_had_arrived() {
    let talk = talk("tcp", vec![call("send", 1_000, 0, 9)], vec![call("read", 2_000, 0, 9)]);
    let checked = |copies: [u64; 3]| {
        let hops = [
            ("app.send", 1_050, 7, 8),
            ("tcp.recv", 1_500, 0, 0),
            ("app.recv", 2_050, 7, 9),
            ("ip.out", 5_000, 0, 0),
            ("tcp.recv", 5_100, 0, 0),
        ];
        let mut late = journey("tcp", (50, 59), &hops);
        for (rung, copy) in [1, 3, 4].into_iter().zip(copies) {
            late["rungs"][rung]["copy"] = copy.into();
        }
        check(std::slice::from_ref(&talk), &[late])
    };
    assert_eq!(checked([1, 2, 2]), Ok(0));
    assert!(checked([1, 1, 1]).is_err(), "the same copy, later");
    assert!(checked([2, 1, 1]).is_err(), "an earlier copy, later");
    assert!(checked([1, 1, 2]).is_err(), "one hop of the copy that arrived");
}

#[test]
fn the_checker_finds_bytes_that_were_looked_at_and_not_read() {
    let sends = vec![call("send", 1000, 0, 20)];
    let talks = [talk("tcp", sends, vec![call("peek", 9000, 0, 20)])];
    let hops = [("app.send", 1090, 7, 8), ("app.recv", 9090, 7, 9)];
    assert!(check(&talks, &[journey("tcp", (50, 70), &hops)]).is_err());
}

/// One call sends three datagrams. The first two are read together, the third alone.
#[test]
fn the_checker_knows_each_datagram_of_a_call() {
    let reads = vec![call("read", 8000, 0, 2), call("read", 9000, 2, 3)];
    let talks = [talk("udp", vec![call("send", 1000, 0, 3)], reads)];
    let hops = |read: u64| [("ip.out", 1020, 0, 0), ("app.send", 1090, 7, 8), ("app.recv", read, 7, 9)];
    let truth: Vec<_> =
        [8050, 8050, 9050].into_iter().map(|read| journey("udp", (0, 400), &hops(read))).collect();
    assert_eq!(check(&talks, &truth), Ok(0));
    let finds = |what: &str, corrupt: &dyn Fn(&mut Vec<Value>)| {
        let mut journeys = truth.clone();
        corrupt(&mut journeys);
        assert!(check(&talks, &journeys).is_err(), "{what}");
    };
    finds("a datagram is missing", &|all| drop(all.remove(1)));
    finds("a datagram twice", &|all| all.push(all[0].clone()));
    finds("three were read together", &|all| all[2]["rungs"][2]["time_ns"] = 8050.into());
    finds("one was read apart", &|all| all[1]["rungs"][2]["time_ns"] = 9050.into());
    finds("one is in flight", &|all| all[1]["verdict"] = "in-flight".into());
    let mut marked = truth.clone();
    marked[1]["ambiguous"] = true.into();
    assert_eq!(check(&talks, &marked), Ok(1));
    assert_eq!(count(&talks, &truth), Ok(Counts { right: 3, wrong: 0, marked: 0 }));
    marked[2]["rungs"][2]["tid"] = 8.into();
    assert_eq!(count(&talks, &marked), Ok(Counts { right: 1, wrong: 1, marked: 1 }));
    assert!(count(&talks, &marked[1..]).is_err(), "a datagram is missing");
}

/// Two connections with equal ends, one after the other.
#[test]
fn the_checker_separates_connections_by_their_sends() {
    let talks = [0, 100_000]
        .map(|at| talk("tcp", vec![call("send", at + 1000, 0, 20)], vec![call("read", at + 9000, 0, 20)]));
    let truth: Vec<_> = [0, 100_000]
        .into_iter()
        .map(|at| {
            journey("tcp", (at, at + 20), &[("app.send", at + 1050, 7, 8), ("app.recv", at + 9050, 7, 9)])
        })
        .collect();
    assert_eq!(check(&talks, &truth), Ok(0));
    let finds = |what: &str, corrupt: &dyn Fn(&mut Vec<Value>)| {
        let mut journeys = truth.clone();
        corrupt(&mut journeys);
        assert!(check(&talks, &journeys).is_err(), "{what}");
    };
    finds("a connection is missing", &|all| drop(all.pop()));
    finds("a connection twice", &|all| all.push(all[1].clone()));
    finds("the reads of two connections", &|all| exchange(all, 1));
    finds("sent between the connections", &|all| all[1]["rungs"][0]["time_ns"] = 50_000.into());
}
