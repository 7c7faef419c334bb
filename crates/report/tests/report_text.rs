//! The text of a report: generated captures, with the expected text in this directory.

use magscope_core::batch::{Loss, LossCause};
use magscope_core::context::NodeContext;
use magscope_core::journey::{Correlator, Limits};
use magscope_core::node::Service;
use magscope_core::source::{Progress, Source};
use magscope_core::{Batch, Generator, GeneratorOptions, Hop};
use magscope_report::stats::running::Window;
use magscope_report::{GroupBy, render_text};
use magscope_report::{Report, ReportBuilder};
use std::time::Duration;

/// A report about two hosts: one loses packets, and some records were lost.
fn report(ask: impl FnOnce(ReportBuilder) -> ReportBuilder) -> Report {
    let options =
        GeneratorOptions { flows: 7, events: 60_000, lose_every: 40, seed: 3, ..GeneratorOptions::default() };
    let mut generator = Generator::new(options);
    let mut node = generator.info().clone();
    for row in node.coverage.hops.iter_mut().filter(|row| row.hop == Hop::TcpXmit) {
        row.service = Service::Missing { because: "no tracepoint at __tcp_transmit_skb".to_owned() };
    }
    let mut correlator = Correlator::new(node.coverage.served(), Limits::default());
    let mut report = ask(ReportBuilder::new(&node));
    let (mut batch, mut done, mut n) = (Batch::default(), Vec::new(), 0);
    loop {
        let progress = generator.next(&mut batch, Duration::ZERO).unwrap();
        batch.events.retain(|event| event.hop != Hop::TcpXmit);
        n += 1;
        if n == 3 {
            let (from_ns, to_ns) = (batch.events[400].time_ns, batch.events[800].time_ns);
            batch.events.drain(400..800);
            batch.losses.push(Loss { cpu: u16::MAX, from_ns, to_ns, count: 400, cause: LossCause::RingFull });
        }
        report.batch(&batch);
        correlator.push(&batch, &mut done);
        if progress == Progress::End {
            correlator.finish(&mut done);
        }
        for journey in done.drain(..) {
            report.journey(&journey, &NodeContext { correlator: &correlator, node: &node });
        }
        if progress == Progress::End {
            return report.finish();
        }
    }
}

fn text(width: usize, ask: impl FnOnce(ReportBuilder) -> ReportBuilder) -> String {
    let text = render_text(&report(ask), width);
    assert!(text.lines().all(|line| line.chars().count() <= width), "{text}");
    assert!(text.lines().all(|line| line == line.trim_end()), "{text}");
    text
}

/// The additional section of a report.
fn section(width: usize, from: &str, ask: impl FnOnce(ReportBuilder) -> ReportBuilder) -> String {
    let text = text(width, ask);
    let (start, end) = (text.find(from).expect(from), text.find("400 events were missed").expect("losses"));
    text[start..end].to_owned()
}

#[test]
fn plain() {
    insta::assert_snapshot!(text(80, |report| report.top_flows(4)));
}

#[test]
fn wide() {
    insta::assert_snapshot!(text(110, |report| report.top_flows(4)));
}

#[test]
fn by_flow() {
    insta::assert_snapshot!(section(80, "by flow", |report| report.by(GroupBy::Flow).top_flows(3)));
}

#[test]
fn by_process() {
    insta::assert_snapshot!(section(80, "by process", |report| report.by(GroupBy::Process)));
}

#[test]
fn requests_by_service() {
    let ask = |report: ReportBuilder| report.requests().top_flows(3);
    insta::assert_snapshot!(section(80, "requests and responses", ask));
}

#[test]
fn by_cgroup() {
    insta::assert_snapshot!(section(80, "by cgroup", |report| report.by(GroupBy::Cgroup)));
}

#[test]
fn by_node() {
    insta::assert_snapshot!(section(80, "by node", |report| report.by(GroupBy::Node)));
}

#[test]
fn throughput() {
    insta::assert_snapshot!(section(80, "tcp, layer by layer", ReportBuilder::throughput));
}

#[test]
fn running_average_of_receives() {
    let ask = |report: ReportBuilder| report.window(Window::Receives(100)).top_flows(3);
    insta::assert_snapshot!(section(80, "over the last 100 receives", ask));
}

#[test]
fn running_average_of_time() {
    let ask = |report: ReportBuilder| report.window(Window::Time(2_000_000)).top_flows(2);
    insta::assert_snapshot!(section(80, "over the last 2.00 ms", ask));
}
