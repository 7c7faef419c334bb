//! Generated traffic through the correlator and the report.

use magscope_core::context::NodeContext;
use magscope_core::journey::{Correlator, Limits, Verdict};
use magscope_core::source::{Progress, Source};
use magscope_core::{Batch, Generator, GeneratorOptions, Hop, Part, Proto};
use magscope_report::ReportBuilder;
use magscope_report::render_text;
use std::time::Duration;

fn all(options: GeneratorOptions) -> (Vec<magscope_core::Journey>, Correlator, magscope_report::Report) {
    let mut generator = Generator::new(options);
    let info = generator.info().clone();
    let mut correlator = Correlator::new(info.coverage.served(), Limits::default());
    let mut report = ReportBuilder::new(&info).top_flows(3);
    let (mut batch, mut done, mut journeys) = (Batch::default(), Vec::new(), Vec::new());
    loop {
        let progress = generator.next(&mut batch, Duration::ZERO).unwrap();
        correlator.push(&batch, &mut done);
        report.batch(&batch);
        if progress == Progress::End {
            correlator.finish(&mut done);
        }
        for journey in done.drain(..) {
            report.journey(&journey, &NodeContext { correlator: &correlator, node: generator.info() });
            journeys.push(journey);
        }
        if progress == Progress::End {
            return (journeys, correlator, report.finish());
        }
    }
}

#[test]
fn everything_generated_arrives() {
    let options = GeneratorOptions { events: 100_000, flows: 20, lose_every: 7, ..GeneratorOptions::default() };
    let (journeys, correlator, report) = all(options);
    assert!(journeys.len() > 4000);
    for journey in &journeys {
        assert_eq!(journey.verdict, Verdict::Complete, "{journey:?}");
        assert_eq!((journey.disordered(), journey.ambiguous), (0, false));
        assert!(journey.rungs.has(Hop::AppRecv) && journey.rungs.has(Hop::DevXmit));
        assert_eq!(journey.sender.map(|w| w.tid), Some(100));
    }
    assert!(journeys.iter().any(|j| j.proto == Proto::UDP) && journeys.iter().any(|j| j.retransmits() == 1));
    assert!(journeys.iter().all(|j| j.retransmits() <= 1));
    let counters = correlator.counters();
    assert_eq!(
        (counters.unattributed, counters.unmatched_reads, counters.after_end),
        (0, 0, 0),
        "{counters:?}"
    );
    assert_eq!(report.denominator.measured, report.denominator.journeys);
    assert_eq!(report.flows.len(), 3);
    assert_eq!(report.flows_total, 20);
}

#[test]
fn the_same_options_give_the_same_report() {
    let options = GeneratorOptions { events: 20_000, flows: 4, lose_every: 9, ..GeneratorOptions::default() };
    let (first, second) = (all(options).2, all(options).2);
    assert_eq!(first, second);
    let json = serde_json::to_value(&first).unwrap();
    assert_eq!(json["flows"][0]["sender"], "sender");
    assert!(json["hops"][0]["hop"].is_string() && json["duration_ns"].is_u64());
    let text = render_text(&first, 80);
    println!("{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    assert!(text.contains("client") && text.contains("dev.xmit"));
}

#[test]
fn the_blame_table_splits_all_of_the_time() {
    let options = GeneratorOptions { events: 50_000, flows: 8, ..GeneratorOptions::default() };
    let (journeys, _, report) = all(options);
    assert_eq!(report.blame.iter().map(|row| row.proto).collect::<Vec<_>>(), [Proto::TCP, Proto::UDP]);
    for row in &report.blame {
        let mine = || journeys.iter().filter(|j| j.proto == row.proto);
        assert_eq!(row.journeys, mine().count() as u64);
        assert_eq!(row.total_ns, mine().filter_map(magscope_core::Journey::total_ns).sum::<u64>());
        assert_eq!(row.parts.iter().map(|p| p.total_ns).sum::<u64>(), row.total_ns);
        assert!((row.parts.iter().map(|p| p.share).sum::<f64>() - 1.0).abs() < 1e-9);
        assert_eq!(row.parts.iter().map(|p| p.largest).sum::<u64>(), row.journeys);
        let n = |part| row.parts.iter().find(|p| p.part == part).and_then(|p| p.time).map_or(0, |q| q.n);
        assert_eq!(n(Part::Scheduler) + n(Part::ReaderAway), row.journeys, "{row:?}");
        assert_eq!(n(Part::Unknown), 0);
    }
    let json = serde_json::to_value(&report).unwrap();
    assert_eq!(json["blame"][0]["parts"][0]["part"], "sender-stack");
    let text = render_text(&report, 80);
    assert!(text.contains("tcp: time of") && text.contains("held in TCP's send queue"), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
}
