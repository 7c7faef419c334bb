//! Three emulated machines with separate clocks record their ends of real traffic between them.

use crate::common;
mod live;

use common::{run, stderr, uninterrupted};
use magscope_core::journey::{Across, Limits};
use magscope_core::source::{Progress, Source};
use magscope_core::{Batch, Flow};
use magscope_session::{RecordOptions, Recorder, Session};
use magscope_timeline::align::{Alignment, Online};
use magscope_timeline::join::{Timeline, Unaligned};
use magscope_timeline::merged_reader::{self, Piece, Walker};
use magscope_timeline::pair::{Recorded, State};
use serde_json::Value;
use std::collections::{HashMap, HashSet};
use std::io::{Read, Write};
use std::net::{IpAddr, TcpListener, TcpStream, UdpSocket};
use std::path::Path;
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tempfile::TempDir;

const CLIENT: &str = "10.88.1.2";
const SERVER: &str = "10.88.2.2";
const MIRROR: &str = "10.88.3.2";
/// Number and lengths of TCP requests and answers.
const REQUESTS: usize = 300;
const REQUEST_BYTES: usize = 300;
const ANSWER_BYTES: usize = 2000;
/// Datagrams and their echoes.
const DATAGRAMS: usize = 300;
const DATAGRAM_BYTES: usize = 400;
const LIMIT: Option<Duration> = Some(Duration::from_mins(1));
/// Number of datagrams from the client to the mirror, and from the mirror to the server.
const MORE: usize = 100;
/// First byte of the last datagram.
const LAST: u8 = 255;
/// Maximum number of boots.
const ATTEMPTS: u32 = 4;
/// Step of the client's wall clock during the recording, seconds.
const STEP_S: i64 = 3600;
/// Minimum round trip between the network stacks due to netem, nanoseconds. Its delays vary by 0.2 and 0.5 ms
/// around the mean.
const LEAST_ROUND_TRIP_NS: i64 = 6_300_000;

/// True on one of the machines, whose clocks may be set: the kernel command line names the role.
fn is_guest(role: &str) -> bool {
    let reported = std::fs::read_to_string("/proc/cmdline").unwrap_or_default();
    let guest = reported.split_ascii_whitespace().any(|word| word == format!("role={role}"));
    if !guest {
        common::skipped(role, "this is not the machine that scripts/machines.sh boots for it");
    }
    guest
}

#[test]
#[ignore = "runs in the machine that serves"]
fn guest_serves() {
    if !is_guest("server") {
        return;
    }
    let listener = TcpListener::bind((SERVER, 7000)).expect("a port");
    let udp = UdpSocket::bind((SERVER, 7001)).expect("a port");
    udp.set_read_timeout(LIMIT).expect("a limit");
    let mirror = std::thread::spawn(|| echo(SERVER));
    let (mut stream, _) = listener.accept().expect("a client");
    stream.set_read_timeout(LIMIT).expect("a limit");
    let (mut request, mut datagram) = ([0; REQUEST_BYTES], [0; DATAGRAM_BYTES]);
    for _ in 0..REQUESTS {
        stream.read_exact(&mut request).expect("a request");
        stream.write_all(&[7; ANSWER_BYTES]).expect("an answer");
    }
    for _ in 0..DATAGRAMS {
        let (len, from) = uninterrupted(|| udp.recv_from(&mut datagram)).expect("a datagram");
        udp.send_to(&datagram[..len / 2], from).expect("an answer");
    }
    mirror.join().expect("a mirror");
}

#[test]
#[ignore = "runs in the machine that does both"]
fn guest_mirrors() {
    if !is_guest("mirror") {
        return;
    }
    let client = std::thread::spawn(|| echo(MIRROR));
    ask(SERVER);
    client.join().expect("a client");
}

/// Answers datagrams until the last one.
fn echo(address: &str) {
    let udp = UdpSocket::bind((address, 7002)).expect("a port");
    udp.set_read_timeout(LIMIT).expect("a limit");
    let mut datagram = [0; DATAGRAM_BYTES];
    while datagram[0] != LAST {
        let (len, from) = uninterrupted(|| udp.recv_from(&mut datagram)).expect("a datagram");
        udp.send_to(&datagram[..len], from).expect("an answer");
    }
}

/// Sends datagrams, each after the previous answer, and repeats during the peer's boot.
fn ask(address: &str) {
    let udp = UdpSocket::bind(("0.0.0.0", 0)).expect("a port");
    udp.connect((address, 7002)).expect("a peer");
    udp.set_read_timeout(Some(Duration::from_millis(500))).expect("a limit");
    for i in 0..MORE {
        let first = if i + 1 == MORE { LAST } else { 0 };
        let answered = |_: &u32| {
            let sent = udp.send(&[first; DATAGRAM_BYTES]).is_ok();
            sent && uninterrupted(|| udp.recv(&mut [0; DATAGRAM_BYTES])).is_ok()
        };
        // the last answer may be lost after the peer has ended
        assert!((0..120).any(|n| answered(&n)) || first == LAST, "{address} does not answer");
    }
}

/// A command of busybox.
fn tool(name: &str, arguments: &[&str]) {
    let done = Command::new(format!("/bin/{name}")).args(arguments).status();
    assert!(done.is_ok_and(|status| status.success()), "{name} {arguments:?}");
}

#[test]
#[ignore = "runs in the machine that asks"]
fn guest_asks() {
    if !is_guest("client") {
        return;
    }
    let mut stream = loop {
        match TcpStream::connect((SERVER, 7000)) {
            Ok(stream) => break stream,
            Err(_) => std::thread::sleep(Duration::from_millis(100)), // still booting
        }
    };
    stream.set_nodelay(true).expect("a socket");
    stream.set_read_timeout(LIMIT).expect("a limit");
    let mut answer = [0; ANSWER_BYTES];
    for i in 0..REQUESTS {
        stream.write_all(&[1; REQUEST_BYTES]).expect("a request");
        stream.read_exact(&mut answer).expect("an answer");
        if i == REQUESTS / 3 {
            // the rate of MONOTONIC changes by 350 ppm
            tool("adjtimex", &["-q", "-f", &(-150 * 65536).to_string()]);
        }
        if i == REQUESTS / 2 {
            let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970");
            tool("date", &["-s", &format!("@{}", now.as_secs() as i64 + STEP_S)]);
        }
    }
    let udp = UdpSocket::bind(("0.0.0.0", 0)).expect("a port");
    udp.connect((SERVER, 7001)).expect("a peer");
    udp.set_read_timeout(LIMIT).expect("a limit");
    for i in 0..DATAGRAMS {
        udp.send(&[i as u8; DATAGRAM_BYTES]).expect("a datagram");
        uninterrupted(|| udp.recv(&mut answer)).expect("an answer");
    }
    ask(MIRROR);
}

fn json(arguments: &[&str]) -> Value {
    let output = run(arguments);
    assert!(output.status.success(), "{arguments:?}: {}", stderr(&output));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

fn journeys(dirs: &[&str]) -> Vec<Value> {
    let rows = json(&[&["journeys", "--json", "--slowest", "100000"], dirs].concat());
    rows.as_array().expect("one array").clone()
}

fn time_ns(row: &Value, hop: &str) -> Option<i64> {
    row["rungs"].as_array()?.iter().find(|rung| rung["hop"] == hop)?["time_ns"].as_i64()
}

/// Rows of one protocol in one direction, in time order.
fn direction<'a>(rows: &'a [Value], proto: &str, to_server: bool) -> Vec<&'a Value> {
    let is = |end: &Value, host: &str| end.as_str().is_some_and(|end| end.starts_with(host));
    let (from, to) = if to_server { (CLIENT, SERVER) } else { (SERVER, CLIENT) };
    let mine = |row: &&Value| {
        row["proto"] == proto && is(&row["from"], from) && is(&row["to"], to) && row["bytes"] != 0
    };
    let mut rows: Vec<&Value> = rows.iter().filter(mine).collect();
    rows.sort_by_key(|row| time_ns(row, "dev.xmit").or(time_ns(row, "dev.recv")));
    rows
}

/// The time on the wire and its error.
fn wire(row: &Value) -> Option<(i64, i64)> {
    let step =
        row["latencies"].as_array()?.iter().find(|s| s["to"] == "dev.recv" && s["from"] == "dev.xmit")?;
    Some((step["ns"].as_i64()?, step["half_width_ns"].as_i64()?))
}

#[test]
fn machines_are_put_on_one_time_line() {
    // An emulated kernel on a busy host may refuse probe runs during interrupts. The recordings then report
    // ambiguous data, and not every byte is in a complete journey.
    for attempt in 1..=ATTEMPTS {
        let dir = TempDir::new().expect("a directory");
        if let Err(because) = recorded(dir.path()) {
            return common::skipped("machines", &because);
        }
        let refused: u64 =
            ["client", "server", "mirror"].iter().map(|role| refused(&dir.path().join(role))).sum();
        if refused == 0 {
            return check(dir.path());
        }
        println!("run {attempt} of {ATTEMPTS}: the kernels refused {refused} runs of a probe, as was told");
    }
    common::skipped("machines", "in every run their kernels refused runs of a probe");
}

/// Boots the machines and records; or returns the reason for a failure.
fn recorded(dir: &Path) -> Result<(), String> {
    booted(dir, None)
}

/// As [`recorded`], or with agents if there are certificates.
fn booted(dir: &Path, certificates: Option<&Path>) -> Result<(), String> {
    // At most three emulators run concurrently; the kernels report mutual disturbance.
    static THREE: Mutex<()> = Mutex::new(());
    let _three = THREE.lock().unwrap_or_else(PoisonError::into_inner);
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/machines.sh");
    let own = std::env::current_exe().expect("this program");
    let mut command = Command::new(script);
    command.arg(dir).arg(env!("CARGO_BIN_EXE_magnet-scope")).arg(own).args(certificates);
    let output = command.output();
    let output = output.expect("bash");
    let text = String::from_utf8_lossy(&output.stdout);
    if let Some(because) = text.trim().strip_prefix("skipped, because ") {
        return Err(because.to_owned());
    }
    assert!(output.status.success(), "{text}{}", stderr(&output));
    if let Some(keep) = std::env::var_os("MAGNET_KEEP_MACHINES") {
        let copied = Command::new("cp").arg("-a").arg(dir).arg(keep).status();
        assert!(copied.is_ok_and(|status| status.success()));
    }
    Ok(())
}

/// Refused probe runs in a recording; asserts that there is no other loss.
fn refused(dir: &Path) -> u64 {
    let losses = json(&["info", "--json", &dir.display().to_string()])["losses"].clone();
    for (cause, count) in losses.as_object().expect("causes") {
        assert!(cause == "refused" || *count == 0, "{losses}");
    }
    losses["refused"].as_u64().expect("a number")
}

fn check(dir: &Path) {
    let path = |name: &str| dir.join(name).display().to_string();
    let (client, server) = (path("client"), path("server"));
    the_clocks(&client, &server);
    let joined = journeys(&[&client, &server]);
    no_packet_is_early(&joined);
    round_trips(&joined, &journeys(&[&client]), &journeys(&[&server]));
    the_wall_clock(&client, &server, &path("never-set"), &joined);
    as_it_comes(&[&client, &server]);
    three_clocks(&client, &server, &path("mirror"), &path("strangers"));
}

fn the_clocks(client: &str, server: &str) {
    for (a, b) in [(client, server), (server, client)] {
        let table = json(&["align", "--json", a, b]);
        let pair = &table["pairs"][0];
        assert_eq!(pair["state"], "CERTIFIED", "{pair}");
        assert_eq!((&pair["rejected"], &pair["steps"]), (&Value::from(0), &Value::from(0)), "{pair}");
        // Minimum, median, 99th percentile, maximum.
        let half_width_ns = pair["half_width_over_time_ns"][1].as_i64().expect("a bound");
        let round_trip_ns = pair["quickest_round_trip_ns"].as_i64().expect("a round trip");
        println!("± {half_width_ns} ns, quickest round trip {round_trip_ns} ns, {}", pair["drift_ppm"]);
        assert!(round_trip_ns >= LEAST_ROUND_TRIP_NS, "{pair}");
        // More fast packets bring the ratio closer to one half; a busy emulation host leaves few.
        assert!(half_width_ns * 2 <= round_trip_ns * 3 / 2, "more than 1.5 of half a round trip: {pair}");
        // Retransmissions after a long pause of the host are excluded.
        assert!(pair["used"].as_u64() >= Some((REQUESTS + DATAGRAMS) as u64 * 2 * 9 / 10), "{pair}");
        // R is the same rate on both; NTP affects only MONOTONIC. Zero is within the bound, and the estimate is
        // closer to zero than to a change of 350 ppm.
        let ppm = |name: &str| pair[name].as_f64().expect("a drift");
        assert!(ppm("drift_ppm").abs() <= ppm("drift_half_width_ppm"), "{pair}");
        assert!(ppm("drift_ppm").abs() < 150.0, "{pair}");
    }
}

/// Every packet has an interval for its time on the wire, and none is entirely negative: contradictory stamps
/// give no such step.
fn no_packet_is_early(rows: &[Value]) {
    let (up, down) = (REQUESTS * REQUEST_BYTES, REQUESTS * ANSWER_BYTES);
    let (up_udp, down_udp) = (DATAGRAMS * DATAGRAM_BYTES, DATAGRAMS * DATAGRAM_BYTES / 2);
    for (proto, to_server, bytes) in
        [("tcp", true, up), ("tcp", false, down), ("udp", true, up_udp), ("udp", false, down_udp)]
    {
        let rows = direction(rows, proto, to_server);
        let mut seen = 0;
        for row in rows.iter().filter(|row| row["verdict"] == "complete") {
            seen += row["bytes"].as_u64().expect("a length");
            assert_eq!(row["across"], "bounded", "{row}");
            let (ns, half_width_ns) = wire(row).unwrap_or_else(|| panic!("received before it was sent: {row}"));
            // netem is on the path: the true time has this minimum.
            let least_ns = if to_server { 800_000 } else { 5_500_000 };
            assert!(half_width_ns > 0 && ns + half_width_ns >= least_ns, "{row}");
        }
        assert_eq!(seen, bytes as u64, "{proto}, to the server: {to_server}");
    }
}

/// The sum of both directions and the server's time must equal the client's round trip. An error of one
/// direction is the opposite error of the other.
fn round_trips(joined: &[Value], client: &[Value], server: &[Value]) {
    let of = |rows, to_server| direction(rows, "udp", to_server).into_iter().cloned().collect::<Vec<_>>();
    let (there, back) = (of(joined, true), of(joined, false));
    let (sent, answered) = (of(client, true), of(client, false));
    let (asked, replied) = (of(server, true), of(server, false));
    for rows in [&there, &back, &sent, &answered, &asked, &replied] {
        assert_eq!(rows.len(), DATAGRAMS);
    }
    let mut worst_ns = 0;
    for i in 0..DATAGRAMS {
        let at = |rows: &[Value], hop: &str| time_ns(&rows[i], hop).expect("it passed");
        let measured_ns = at(&answered, "dev.recv") - at(&sent, "dev.xmit");
        let inside_ns = at(&replied, "dev.xmit") - at(&asked, "dev.recv");
        let ((there_ns, bound_ns), (back_ns, _)) =
            (wire(&there[i]).expect("a wire"), wire(&back[i]).expect("a wire"));
        let rebuilt_ns = there_ns + inside_ns + back_ns;
        let off_ns = (rebuilt_ns - measured_ns).abs();
        assert!(off_ns <= bound_ns, "{rebuilt_ns} of {measured_ns} ± {bound_ns}");
        worst_ns = worst_ns.max(off_ns);
    }
    println!("round trips rebuilt to within {worst_ns} ns");
    // Rates of the two MONOTONIC clocks differ by 300 ppm, over some 10 ms; plus the uncertainty of the clock
    // samples.
    assert!(worst_ns < 50_000, "{worst_ns}");
}

/// A wall clock an hour ahead gives labels an hour ahead.
fn the_wall_clock(client: &str, server: &str, never_set: &str, joined: &[Value]) {
    without_the_step(client, never_set);
    let other = journeys(&[never_set, server]);
    let name = |row: &Value| format!("{} {} {} {}", row["proto"], row["from"], row["range"], row["rungs"]);
    let labels: HashMap<String, &Value> = other.iter().map(|row| (name(row), row)).collect();
    assert_eq!((labels.len(), joined.len()), (other.len(), other.len()));
    let (mut before, mut after) = (0, 0);
    for row in joined {
        let twin = labels.get(&name(row)).unwrap_or_else(|| panic!("only with the step: {row}"));
        let mut same = (*twin).clone();
        // A thread that is renamed meanwhile has either name, depending on the batch.
        for label in ["start_utc", "id", "sender", "reader"] {
            same[label] = row[label].clone();
        }
        assert_eq!(&same, row);
        let utc = |row: &Value| row["start_utc"].as_str().and_then(|t| t.parse::<jiff::Timestamp>().ok());
        let (Some(set), Some(steady)) = (utc(row), utc(twin)) else { continue };
        match set.duration_since(steady).as_secs_f64().round() as i64 {
            0 => before += 1,
            // `date` sets whole seconds.
            set if (STEP_S - 1..=STEP_S).contains(&set) => after += 1,
            other => panic!("{other} s: {row}"),
        }
    }
    assert!(before > REQUESTS / 2 && after > REQUESTS / 2 + DATAGRAMS, "{before} before, {after} after");
    let table = |client: &str| json(&["align", "--json", client, server]);
    assert_eq!(table(client), table(never_set));
}

/// Online results, as if the recordings arrived live, agree with those in hindsight.
fn as_it_comes(dirs: &[&str]) {
    let sessions: Vec<Session> =
        dirs.iter().map(|dir| Session::open(Path::new(dir)).expect("a recording")).collect();
    let hindsight = hindsight(&sessions);
    let online = Online::new(sessions.iter().map(Session::info));
    let sources = sessions.iter().map(|session| Box::new(session.replay(None, None)) as Box<dyn Source>);
    let mut walker = Walker::live(sources.collect(), &online, Limits::default(), Duration::ZERO);
    let (mut ratios, mut worst_ns, mut bounded) = (Vec::new(), 0, 0_u64);
    // At each piece, because the number of batches depends on the machines.
    let mut visit = |piece: Piece<'_>| {
        if let Piece::Journey(journey, Some(_), _) = piece {
            bounded += u64::from(matches!(journey.across, Across::Bounded { .. }));
        }
        // The latest settled time, on the first one's clock.
        let Some(at_ns) = online.settled_ns(0).map(|(_, to)| to.saturating_sub(200_000_000)) else {
            return;
        };
        let (Some(now), Some(then)) = (online.difference_ns(0, 1, at_ns), hindsight.difference_ns(0, 1, at_ns))
        else {
            return;
        };
        let meets = now.ends_ns().0 <= then.ends_ns().1 && then.ends_ns().0 <= now.ends_ns().1;
        assert!(meets, "{now:?}, with hindsight {then:?}");
        let (within_ns, sure_ns) = (now.half_width_ns(), then.half_width_ns());
        worst_ns = worst_ns.max(within_ns);
        ratios.push(within_ns as f64 / sure_ns as f64);
    };
    while walker.step(&mut visit).expect("a replay never fails") == Progress::More {}
    let (used, left) = (online.counts(0, 1), online.look(|all| all.state(0, 1)));
    assert_eq!((left, used.rejected), (Some(State::Certified), 0), "{used:?}");
    assert!(
        used.used >= (REQUESTS + DATAGRAMS) as u64 && ratios.len() > 50,
        "{used:?}, {} looks",
        ratios.len()
    );
    ratios.sort_by(f64::total_cmp);
    // Segments without payload are used too, and are no journeys.
    let journeys = (REQUESTS + DATAGRAMS) as u64 * 2;
    assert!(bounded > journeys * 4 / 5, "{bounded} journeys with an interval, {used:?}");
    println!(
        "as it comes: {} looks, bounds {:.2} times as wide as with hindsight at the median, {worst_ns} ns at most",
        ratios.len(),
        ratios[ratios.len() / 2]
    );
}

/// The alignment from packets alone, for recordings whose hosts had wrong wall clocks.
fn hindsight(sessions: &[Session]) -> Alignment {
    let mut replays: Vec<_> = sessions.iter().map(|session| session.replay(None, None)).collect();
    let mut sources: Vec<&mut dyn Source> =
        replays.iter_mut().map(|replay| replay as &mut dyn Source).collect();
    let began = sessions.iter().map(|session| session.summary().from_ns.expect("events") as i64);
    let rough = Unaligned { to_utc_ns: began.map(|ns| -ns).collect() };
    merged_reader::align(&mut sources, &rough, Limits::default(), Duration::ZERO).expect("a replay never fails")
}

/// Each pair of three machines by its own packets and by all packets; and two of them only by packets exchanged
/// with the third.
fn three_clocks(client: &str, server: &str, mirror: &str, strangers: &str) {
    let table = json(&["align", "--json", client, server, mirror]);
    assert_eq!(
        (table["pairs"].as_array().map(Vec::len), &table["contradiction"]),
        (Some(3), &Value::Null),
        "{table}"
    );
    for pair in table["pairs"].as_array().expect("three") {
        assert_eq!((&pair["state"], &pair["rejected"]), (&Value::from("CERTIFIED"), &Value::from(0)), "{pair}");
        let (own, all) = (pair["half_width_ns"].as_u64(), pair["together_half_width_ns"].as_u64());
        println!("{}–{}: ±{own:?} ns by their own packets, ±{all:?} by all", pair["a"], pair["b"]);
        assert!(own > Some(0) && all.is_none_or(|all| Some(all) < own), "{pair}");
    }
    without(server, MIRROR, strangers);
    let table = json(&["align", "--json", client, strangers, mirror]);
    let pair = &table["pairs"][2];
    assert_eq!((&pair["a"], &pair["b"], &pair["used"]), (&1.into(), &2.into(), &0.into()), "{pair}");
    assert_eq!((&pair["state"], &table["contradiction"]), (&Value::from("CERTIFIED"), &Value::Null), "{pair}");
    assert!(pair["together_half_width_ns"].as_u64() > Some(0), "{pair}");
    let open = |dirs: [&str; 3]| dirs.map(|dir| Session::open(Path::new(dir)).expect("a recording"));
    let (own, through) =
        (hindsight(&open([client, server, mirror])), hindsight(&open([client, strangers, mirror])));
    let (from, to) = own.pair(0, 1).and_then(Recorded::span_ns).expect("they talked");
    let mut seen = 0;
    for raw_0_ns in (0..100).map(|i| from + (to - from) / 100 * i) {
        let bounds = |all: &Alignment| all.at(raw_0_ns).expect("no contradiction").0.bounds(1, 2);
        let (own, through) = (bounds(&own), bounds(&through));
        let (Some(width), Some(wider)) = (own.width_ns(), through.width_ns()) else { continue };
        // Both contain the truth; more packets never widen the bound.
        assert!(!own.and(&through).is_empty() && width <= wider, "{own:?} {through:?}");
        seen += 1;
    }
    assert!(seen > 90, "{seen} instants with bounds");
    // Journeys between hosts without a direct clock relation are on the common line as well.
    let rows = journeys(&[client, server, mirror]);
    let between = |row: &&Value| {
        let is = |end: &Value, host: &str| end.as_str().is_some_and(|end| end.starts_with(host));
        is(&row["from"], MIRROR) && is(&row["to"], SERVER) && row["verdict"] == "complete"
    };
    let rows: Vec<&Value> = rows.iter().filter(between).collect();
    assert!(rows.len() >= MORE - 2, "{} journeys", rows.len());
    for row in rows {
        let (ns, half_width_ns) = wire(row).unwrap_or_else(|| panic!("received before it was sent: {row}"));
        assert!(half_width_ns > 0 && ns + half_width_ns >= 2_600_000, "{row}");
    }
}

/// Rewrites a recording without the traffic with a host.
fn without(from: &str, host: &str, to: &str) {
    let session = Session::open(Path::new(from)).expect("a recording");
    let host: IpAddr = host.parse().expect("an address");
    let mut recorder =
        Recorder::create(Path::new(to), session.info(), RecordOptions::default()).expect("a place");
    let (mut replay, mut batch, mut theirs) = (session.replay(None, None), Batch::default(), HashSet::new());
    while replay.next(&mut batch, Duration::ZERO).expect("a replay never fails") != Progress::End {
        let of_host = |flow: &&Flow| [flow.local.ip(), flow.remote.ip()].contains(&host);
        theirs.extend(batch.flows.iter().filter(of_host).map(|flow| flow.id));
        batch.events.retain(|event| !theirs.contains(&event.flow));
        recorder.append(&batch).expect("room");
    }
    assert!(!theirs.is_empty());
    recorder.close().expect("it is written");
}

/// Rewrites a recording without the step of the wall clock.
fn without_the_step(from: &str, to: &str) {
    let session = Session::open(Path::new(from)).expect("a recording");
    let mut recorder =
        Recorder::create(Path::new(to), session.info(), RecordOptions::default()).expect("a place");
    let (mut replay, mut batch) = (session.replay(None, None), Batch::default());
    let (mut ahead, mut steps) = (None, 0);
    while replay.next(&mut batch, Duration::ZERO).expect("a replay never fails") != Progress::End {
        for sample in &mut batch.clock {
            let own = i128::from(sample.realtime_ns) - i128::from(sample.monotonic_ns);
            let first = *ahead.get_or_insert(own);
            steps = steps.max(sample.realtime_steps);
            let set_s = ((own - first) as f64 / 1e9).round() as i64;
            if sample.realtime_steps > 0 {
                sample.realtime_ns = (i128::from(sample.realtime_ns) - (own - first)) as i64;
                assert!((STEP_S - 1..=STEP_S).contains(&set_s), "{set_s}");
            }
            sample.realtime_steps = 0;
        }
        recorder.append(&batch).expect("room");
    }
    assert!(steps > 0, "the step was noticed");
    recorder.close().expect("it is written");
}
