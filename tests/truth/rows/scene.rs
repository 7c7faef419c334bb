//! A row: a way that bytes move, two programs that move them so, and what of it is seen.

use super::super::checker::{Call, Talk, check};
use super::super::programs::export;
use super::network::{Between, Network};
use crate::common::hosts::RecorderChild;
use crate::common::{eventually, magnet_scope, skipped};
use magscope_core::Proto;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::JoinHandle;
use tempfile::TempDir;

/// A row of `docs/coverage.md`.
pub struct CoverageRow {
    /// The test that holds it.
    pub test: &'static str,
    /// How bytes move.
    pub words: &'static str,
    pub seen: Seen,
}

/// What of a way is seen.
#[derive(Clone, Copy)]
pub enum Seen {
    /// Every byte or datagram in one complete journey, inside its calls.
    Complete,
    /// The same, except that some journeys are marked ambiguous for this reason. No other is wrong.
    Marked(&'static str),
    /// Every byte or datagram in one journey, inside its calls. Those that were discarded have the verdict
    /// *dropped*, for this reason.
    Dropped(&'static str),
    /// Every byte in one journey, inside its calls. Those with a note of another verdict have that one, in these
    /// words.
    Noted(&'static str),
    /// Some journeys have another verdict, in these words. The row has a test of its own.
    Ends(&'static str),
}

/// The two programs of a row, and their network.
pub struct Scene {
    /// Name of the file with the programs.
    pub programs: &'static str,
    /// Role of the server's program, and its arguments.
    pub server: &'static [&'static str],
    pub client: &'static [&'static str],
    pub between: Between,
    pub v6: bool,
    /// The programs are ready before the capture begins, and go on when it has begun.
    pub before_capture: bool,
    /// The recorded hops.
    pub hops: &'static str,
    /// The network discards datagrams: those that no program has read.
    pub loses: bool,
    /// Prepares the network. A reason skips the row.
    pub prepare: fn(&Network) -> Result<(), &'static str>,
    /// What else has to be true of the journeys: else the row did not test its way.
    pub also: fn(&Outcome) -> Result<(), &'static str>,
}

impl Scene {
    pub const fn of(
        programs: &'static str,
        server: &'static [&'static str],
        client: &'static [&'static str],
    ) -> Self {
        let (prepare, also): (fn(&_) -> _, fn(&_) -> _) = (|_| Ok(()), |_| Ok(()));
        Scene {
            programs,
            server,
            client,
            between: Between::Wire,
            v6: false,
            before_capture: false,
            hops: super::HOPS,
            loses: false,
            prepare,
            also,
        }
    }
}

/// What a row's run left.
pub struct Outcome {
    pub talks: Vec<Talk>,
    pub journeys: Vec<Value>,
}

/// Tests of rows and their list.
macro_rules! rows {
    ($($(#[doc = $doc:literal])* $test:ident: $words:literal, $seen:expr, $scene:expr;)*) => {
        pub const ROWS: &[$crate::truth::rows::scene::CoverageRow] =
            &[$($crate::truth::rows::scene::CoverageRow { test: stringify!($test), words: $words, seen: $seen }),*];
        $(
            $(#[doc = $doc])*
            #[test]
            fn $test() {
                $crate::truth::rows::scene::is_seen(stringify!($test), $seen, &$scene);
            }
        )*
    };
}
pub(super) use rows;

/// A running program.
struct Program {
    child: Child,
    notes: Option<JoinHandle<Vec<(String, Call)>>>,
}

impl Program {
    fn start(network: &Network, host: usize, scene: &Scene, directory: &Path) -> Self {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/truth/rows");
        let [role, more @ ..] = [scene.client, scene.server][host] else { panic!("a role") };
        let ends = [network.ends[host], network.ends[1 - host]];
        let mut command = Command::new("ip");
        command.args(["netns", "exec", network.host(host), "python3", "-B"]);
        command.arg(format!("{folder}/{}", scene.programs)).arg(role).args(ends).arg(directory).args(more);
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().expect("it starts");
        let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        let mut program = Program { child, notes: None };
        assert_eq!(lines.next().and_then(Result::ok).as_deref(), Some("ready"), "{role}");
        program.notes = Some(std::thread::spawn(move || {
            let notes = lines.map_while(Result::ok);
            let notes = notes.map(|line| serde_json::from_str::<Value>(&line).expect("a note"));
            notes.map(|note| (note["talk"].as_str().expect("a talk").to_owned(), Call::of(&note, 0))).collect()
        }));
        program
    }

    fn end(mut self) -> Vec<(String, Call)> {
        assert!(self.child.wait().expect("it ends").success());
        self.notes.take().expect("a thread").join().expect("notes")
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Talks by the notes of their calls: `PROTOCOL SENDER RECEIVER NUMBER`.
fn talks(network: &Network, notes: Vec<(String, Call)>) -> Vec<Talk> {
    let mut talks = BTreeMap::new();
    for (name, call) in notes {
        let [proto, from, to, _] = name.split(' ').collect::<Vec<_>>()[..] else { panic!("no talk: {name}") };
        let talk = talks.entry(name.clone()).or_insert_with(|| Talk {
            proto: if proto == "tcp" { "tcp" } else { "udp" },
            from: from.to_owned(),
            to: to.to_owned(),
            from_node: network.host_of(from),
            to_node: network.host_of(to),
            sends: Vec::new(),
            reads: Vec::new(),
            dropped: Vec::new(),
        });
        let calls = if call.what == "send" { &mut talk.sends } else { &mut talk.reads };
        calls.push(call);
    }
    talks.into_values().collect()
}

/// Records all hosts while the two programs run. Returns nothing for a skipped row.
pub fn run(test: &str, scene: &Scene) -> Option<Outcome> {
    let network = Network::new(test, scene.between, scene.v6)?;
    if let Err(because) = (scene.prepare)(&network) {
        skipped(test, because);
        return None;
    }
    let dir = TempDir::new().expect("a directory");
    let (recording, place) = (dir.path().join("recording"), dir.path().join("place"));
    std::fs::create_dir(&place).expect("own directory");
    let path = recording.display().to_string();
    let mut arguments = vec!["record", "--hops", scene.hops, "-o", &path];
    arguments.extend(network.names.iter().flat_map(|name| ["--netns", name]));
    let start = || [1, 0].map(|host| Program::start(&network, host, scene, &place));
    let early = scene.before_capture.then(start);
    let recorder = RecorderChild::of(magnet_scope(&arguments).spawn().expect("the binary starts"));
    assert!(eventually(|| recording.join("meta.toml").exists()), "it records");
    std::fs::write(place.join("recorded"), "").expect("own directory");
    let [server, client] = early.unwrap_or_else(start);
    let mut notes = client.end();
    notes.extend(server.end());
    recorder.end();
    let mut talks = talks(&network, notes);
    for talk in talks.iter_mut().filter(|_| scene.loses) {
        talk.set_dropped();
    }
    let lost = check_flows(&network, &talks, &recording);
    if lost > 0 {
        skipped(test, &format!("the capture lost {lost} events: this machine is too slow"));
        return None;
    }
    let mut journeys = export(&path);
    if let Some(outer) = network.outer {
        remove_outer(outer, &mut journeys);
    }
    Some(Outcome { talks, journeys })
}

/// The tunnel's outer packets are journeys too: from one host's outer address to the other's.
fn remove_outer(outer: [&str; 2], journeys: &mut Vec<Value>) {
    let all = journeys.len();
    let is_outer = |journey: &Value| {
        let has = |key: &str, address: &str| {
            journey[key].as_str().is_some_and(|text| text.starts_with(&format!("{address}:")))
        };
        (0..2).any(|n| has("from", outer[n]) && has("to", outer[1 - n]))
    };
    journeys.retain(|journey| !is_outer(journey));
    assert!(journeys.len() < all, "no journey of the tunnel's outer packets");
}

/// No flow of the recording has ends that no program had. Returns the number of lost events.
fn check_flows(network: &Network, talks: &[Talk], recording: &Path) -> u64 {
    let mut lost = 0;
    let ends: BTreeSet<_> =
        talks.iter().flat_map(|t| [(t.from.clone(), t.to.clone()), (t.to.clone(), t.from.clone())]).collect();
    let outer = network.outer.unwrap_or_default();
    crate::common::foreign::read(recording, |batch| {
        lost += batch.losses.iter().map(|loss| loss.count).sum::<u64>();
        for flow in batch.flows.iter().filter(|flow| matches!(flow.proto, Proto::TCP | Proto::UDP)) {
            let pair = (flow.local.to_string(), flow.remote.to_string());
            let of_tunnel = [&pair.0, &pair.1].iter().all(|end| {
                outer.iter().any(|address| !address.is_empty() && end.starts_with(&format!("{address}:")))
            });
            // Later fragments have no ports.
            let ports = [flow.local.port(), flow.remote.port()];
            let of_fragments = flow.proto == Proto::UDP
                && ports == [0, 0]
                && ends.iter().any(|(from, to)| {
                    let address = |end: &str| end.rsplit_once(':').map(|(address, _)| address.to_owned());
                    address(from) == address(&pair.0) && address(to) == address(&pair.1)
                });
            assert!(ends.contains(&pair) || of_tunnel || of_fragments, "a flow of no program: {flow:?}");
            assert!(flow.netns != 0, "{flow:?}");
        }
    });
    lost
}

/// The test of a row.
pub fn is_seen(test: &str, seen: Seen, scene: &Scene) {
    let Some(outcome) = run(test, scene) else { return };
    assert!(!outcome.talks.is_empty(), "no program noted a call");
    let marked = check(&outcome.talks, &outcome.journeys).unwrap_or_else(|error| panic!("{error}"));
    match seen {
        Seen::Complete | Seen::Dropped(_) | Seen::Noted(_) => assert_eq!(marked, 0, "marked journeys"),
        Seen::Marked(_) => {}
        Seen::Ends(words) => panic!("{words}: such a row has a test of its own"),
    }
    if matches!(seen, Seen::Noted(_)) {
        assert!(outcome.talks.iter().any(Talk::has_noted_end), "no note of a verdict");
    }
    if matches!(seen, Seen::Dropped(_)) {
        assert!(outcome.talks.iter().any(|talk| !talk.dropped.is_empty()), "nothing was discarded");
    }
    if let Err(because) = (scene.also)(&outcome) {
        skipped(test, because);
    }
}
