//! ULM and BP: what was written, read and written again is the same, line by line.

mod common;

use common::{Files, Recording, recordings};
use magscope_core::GeneratorOptions;
use magscope_export::format::marked::Marked;
use magscope_export::format::netlogger::{Dialect, Events, NetLogger, parse};
use magscope_export::mark::Marks;
use magscope_export::{Chosen, TimeLine};
use proptest::prelude::*;

fn written(recording: &Recording, dialect: Dialect, to_utc_ns: i64) -> String {
    let files = Files::default();
    let line = TimeLine { to_utc_ns: Some(to_utc_ns) };
    let marks = Marks::new(std::slice::from_ref(&recording.info), line, Chosen::default());
    let writer = NetLogger::new(files.create("log"), dialect);
    recording.export(&mut Marked::new(marks, writer));
    String::from_utf8(files.bytes("log")).expect("text")
}

fn read(log: &str) -> Recording {
    let mut events = Events::new([]);
    for line in log.lines() {
        events.line(&parse(line).unwrap_or_else(|error| panic!("{error}: {line}")));
    }
    assert_eq!(events.unknown.len(), 0, "{:?}", events.unknown);
    let batches = vec![events.take(true)];
    Recording { info: events.info("the log"), batches }
}

/// The lines without the number of their journey, which is given in the order in which they end.
fn lines(log: &str) -> Vec<String> {
    let number = |field: &str| field.starts_with("ID=") || field.starts_with("guid=");
    let mut lines: Vec<String> = log
        .lines()
        .map(|line| line.split(' ').filter(|field| !number(field)).collect::<Vec<_>>().join(" "))
        .collect();
    lines.sort_unstable();
    lines
}

fn comes_back(options: GeneratorOptions, names: &[String]) -> Result<(), TestCaseError> {
    let recording = Recording::generated(options, names);
    for dialect in [Dialect::Ulm, Dialect::Bp] {
        let log = written(&recording, dialect, 1_767_323_045_000_000_000);
        let again = written(&read(&log), dialect, 0);
        let (was, is) = (lines(&log), lines(&again));
        prop_assert!(was.len() > 100);
        let other = was.iter().zip(&is).find(|(was, is)| was != is);
        prop_assert!(was == is, "{} lines were {}; first other {other:#?}", is.len(), was.len());
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn every_line_comes_back((options, names) in recordings()) {
        comes_back(options, &names)?;
    }
}
