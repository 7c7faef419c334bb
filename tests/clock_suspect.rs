//! What the program prints of two recordings with a clock that steps by less than a round trip, or whose wall clock
//! becomes wrong: real traffic, rewritten by made clocks.

use crate::clock_truth::{Clocks, Kind, Recorded, World, record};
use crate::common::{self, terminal};

use common::{is_root, run, stderr};
use serde_json::Value;
use tempfile::TempDir;
use terminal::Terminal;

const HINTS: [&str; 4] = ["collapse", "contradictions", "bend", "same-sign"];

/// A world on disk, and what the program prints of it.
struct Printed {
    dir: TempDir,
    paths: [String; 2],
    align: Value,
    align_text: String,
    report: Value,
    report_text: String,
    journeys_text: String,
    messages: String,
}

impl Printed {
    fn of(world: &World<'_>) -> Self {
        let dir = TempDir::new().expect("a directory");
        let paths = ["a", "b"].map(|name| dir.path().join(name).display().to_string());
        world.write([&paths[0], &paths[1]]);
        let print = |arguments: &[&str]| {
            let output = run(&[arguments, &[&paths[0], &paths[1]]].concat());
            assert!(output.status.success(), "{arguments:?}: {}", stderr(&output));
            (String::from_utf8_lossy(&output.stdout).into_owned(), stderr(&output))
        };
        let json = |arguments: &[&str]| serde_json::from_str(&print(arguments).0).expect("JSON");
        Printed {
            align: json(&["align", "--json"]),
            align_text: print(&["align"]).0,
            report: json(&["report", "--json"]),
            report_text: print(&["report"]).0,
            journeys_text: print(&["journeys"]).0,
            messages: print(&["journeys", "--json"]).1,
            dir,
            paths,
        }
    }

    fn pair(&self) -> &Value {
        &self.align["pairs"][0]
    }

    fn clocks(&self) -> &Value {
        &self.report["joint"]["clocks"][0]
    }

    fn texts(&self) -> [&str; 4] {
        [&self.align_text, &self.report_text, &self.journeys_text, &self.messages]
    }

    fn screen_has(&self, words: &[&str]) {
        let [a, b] = &self.paths;
        let mut terminal = Terminal::start(&["replay", a, b, "--speed", "100"], self.dir.path(), 160, 50);
        terminal.shows("■ ended");
        terminal.keys("6");
        for words in words {
            terminal.shows(words);
        }
        terminal.keys("q");
        assert!(terminal.ends());
    }

    fn is_certified(&self) {
        for of in [self.pair(), self.clocks()] {
            assert_eq!((&of["state"], &of["hints"]), (&"CERTIFIED".into(), &Value::Array(Vec::new())), "{of}");
            assert_eq!(
                (&of["external_refuted"], &of["utc_refuted"]),
                (&false.into(), &Value::Array(Vec::new()))
            );
        }
        for text in self.texts() {
            let wrong = ["suspect: ", "as it claims", "as claimed"].iter().find(|words| text.contains(**words));
            assert!(text.contains("CERTIFIED") && wrong.is_none(), "{text}");
        }
    }

    fn is_suspect(&self, step_ns: i64) {
        for of in [self.pair(), self.clocks()] {
            assert_eq!(of["state"], "SUSPECT", "{of}");
            assert!(of["smallest_visible_step_ns"].as_i64() > Some(step_ns), "{of}");
        }
        let hints = self.pair()["hints"].as_array().expect("a list");
        assert!(!hints.is_empty() && self.clocks()["hints"].as_array().map(Vec::len) == Some(hints.len()));
        for hint in hints {
            let (name, sentence) =
                (hint["hint"].as_str().expect("a name"), hint["text"].as_str().expect("a text"));
            assert!(HINTS.contains(&name), "{hint}");
            for text in self.texts() {
                assert!(text.contains(&format!("suspect: {sentence}")), "{sentence}: {text}");
            }
        }
        for text in self.texts() {
            assert!(text.contains("SUSPECT") && !text.contains("CERTIFIED"), "{text}");
            assert!(text.contains("a step of a clock below ") && text.contains(" would not be seen"), "{text}");
        }
        self.screen_has(&["SUSPECT", "suspect", "not seen is a step"]);
    }

    /// The recording of this number has the wrong wall clock.
    fn names_wrong_utc(&self, number: usize) {
        for of in [self.pair(), self.clocks()] {
            assert_eq!((&of["state"], &of["external_refuted"]), (&"CERTIFIED".into(), &true.into()), "{of}");
            assert_eq!(of["utc_refuted"], Value::from(vec![number]), "{of}");
        }
        let align = format!("{number} was not as near to UTC as it claims");
        assert!(self.align_text.contains(&align), "{}", self.align_text);
        let words = format!("the UTC of host{number} is not as good as claimed");
        for text in [&self.report_text, &self.journeys_text, &self.messages] {
            assert!(text.contains(&words), "{text}");
        }
    }
}

fn amid(recorded: &Recorded) -> i64 {
    let (from, to) = recorded.span;
    from + (to - from) / 2
}

#[test]
fn a_step_below_the_round_trip_is_suspect_in_every_output_and_an_undisturbed_world_is_not() {
    if !is_root("two hosts with a wire in user space") {
        return;
    }
    for (seed, recorded) in (0..).zip(&record(Kind::Lan)) {
        let mut world = World::new(recorded, Clocks::Rates, seed);
        Printed::of(&world).is_certified();
        let alignment = world.aligned();
        let pair = alignment.pair(0, 1).expect("packets");
        let trip_ns = pair.min_round_trip_ns().expect("both directions");
        // No packet contradicts it.
        let step_ns = trip_ns as i64 * 85 / 100;
        world.made[1].step = Some((amid(recorded), step_ns));
        Printed::of(&world).is_suspect(step_ns);
        world.made[1].step = None;
        let number = seed as usize % 2;
        world.made[number].set = Some((amid(recorded), 7_200_000_000_000));
        Printed::of(&world).names_wrong_utc(number);
    }
}
