//! Generated traffic through the correlator and the report.

use magscope_core::journey::{Correlator, Limits, Verdict};
use magscope_core::report::render_text;
use magscope_core::source::{Progress, Source};
use magscope_core::{Batch, Generator, GeneratorOptions, Hop, Proto, ReportBuilder};
use std::time::Duration;

fn all(options: GeneratorOptions) -> (Vec<magscope_core::Journey>, Correlator, magscope_core::Report) {
    let mut generator = Generator::new(options);
    let info = generator.info().clone();
    let mut correlator = Correlator::new(info.coverage.served(), Limits::default());
    let mut report = ReportBuilder::new(&info).top_flows(3);
    let (mut batch, mut done, mut kept) = (Batch::default(), Vec::new(), Vec::new());
    loop {
        let progress = generator.next(&mut batch, Duration::ZERO).unwrap();
        correlator.push(&batch, &mut done);
        report.batch(&batch);
        if progress == Progress::End {
            correlator.finish(&mut done);
        }
        for journey in done.drain(..) {
            report.journey(&journey, &correlator);
            kept.push(journey);
        }
        if progress == Progress::End {
            return (kept, correlator, report.finish());
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
    assert!(journeys.iter().any(|j| j.proto == Proto::UDP) && journeys.iter().any(|j| j.retransmits == 1));
    assert!(journeys.iter().all(|j| j.retransmits <= 1));
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
