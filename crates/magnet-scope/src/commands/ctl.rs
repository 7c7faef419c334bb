//! `magnet-scope ctl`: inspects and changes a running capture.

use crate::control::answer::{Answer, List, Stats};
use crate::control::client;
use crate::failure::{Hint, Usage};
use crate::output;
use anyhow::Result;
use magscope_core::Hop;
use std::fmt::Write;

/// Arguments of `ctl`.
#[derive(Debug, clap::Args)]
#[command(after_help = "For example:\n  \
    magnet-scope ctl list\n  \
    magnet-scope ctl disable dev.queue,ip.post\n  \
    magnet-scope ctl filter 'port 443 and not comm = sshd'\n  \
    magnet-scope ctl pcap 'tcp port 443 and net 10.0.0.0/8'\n  \
    magnet-scope ctl snap 64 dev.recv\n  \
    magnet-scope ctl sample 1/100 dev.xmit,dev.recv\n  \
    magnet-scope ctl sample flows 1/16\n  \
    magnet-scope ctl detail histograms\n  \
    magnet-scope ctl probe off refill\n  \
    magnet-scope ctl watermark latency")]
pub struct Args {
    /// Process id of the capture, if several run
    #[arg(long, value_name = "PID")]
    pid: Option<u32>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// `list`, `stats`, or a change: `enable HOPS`, `disable HOPS`, `filter EXPR|off`, `pcap EXPR|off`, `snap BYTES|off [HOPS]`,
    /// `sample 1/N|TIME|off [HOPS]`, `sample flows 1/N|off`, `sample off` of both, `detail full|histograms|both`, `probe on|off NAME`, `watermark latency|screen|N events|...`
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_name = "WORDS")]
    words: Vec<String>,
}

/// Sends the command and prints the answer.
pub fn run(args: &Args) -> Result<()> {
    // What follows the first word belongs to the command, also where it begins with a hyphen.
    if let Some(option) = args.words.iter().find(|word| *word == "--json" || word.starts_with("--pid")) {
        let text = format!("`{option}` stands before the command, as in `magnet-scope ctl --json list`");
        return Err(Usage(text).into());
    }
    let words = args.words.join(" ");
    if words == "list" && args.pid.is_none() && !args.json {
        return list_all();
    }
    let mut capture = client::find(args.pid)?;
    let mut answer = capture.ask(&words)?;
    // Without a hop, no sampler stays: neither of events nor of flows.
    if words == "sample off" && answer.error.is_none() {
        let flows = capture.ask("sample flows off")?;
        answer.error = flows.error;
        answer.done = answer.done.zip(flows.done).map(|(events, flows)| format!("{events}\n{flows}"));
    }
    if args.json {
        output::json(&answer)?;
    }
    if let Some(error) = answer.error {
        let what = format!("the capture of process {} refused `{words}`: {error}", capture.pid);
        return Err(Hint::error(what, "", "`magnet-scope ctl --help` shows what can be asked"));
    }
    if args.json { Ok(()) } else { output::text(&text(capture.pid, &answer)) }
}

fn list_all() -> Result<()> {
    let mut text = String::new();
    for mut capture in client::running() {
        // a capture may end meanwhile
        if let Ok(Answer { list: Some(list), .. }) = capture.ask("list") {
            text.push_str(&list_text(capture.pid, &list));
        }
    }
    if text.is_empty() {
        "no capture runs (of this user)".clone_into(&mut text);
    }
    output::text(&text)
}

fn text(pid: u32, answer: &Answer) -> String {
    if let Some(list) = &answer.list {
        return list_text(pid, list);
    }
    if let Some(stats) = &answer.stats {
        return stats_text(stats);
    }
    answer.done.clone().unwrap_or_default()
}

fn list_text(pid: u32, list: &List) -> String {
    let names = |hops: &[Hop]| hops.iter().map(|hop| hop.name()).collect::<Vec<_>>().join(" ");
    // a command line is text of the other process
    let command: String = list.command.chars().map(|c| if c.is_control() { '?' } else { c }).collect();
    let mut text = format!("{pid}  {command}\n    on   {}\n    off  {}\n", names(&list.on), names(&list.off));
    if !list.lingering.is_empty() {
        // Writing into a String cannot fail.
        let _ = writeln!(text, "    of these still attached: {}", names(&list.lingering));
    }
    for setting in &list.settings {
        let _ = writeln!(text, "    {setting}");
    }
    text
}

fn stats_text(stats: &Stats) -> String {
    let mut text = format!(
        "{:<16}{:>12}{:>12}{:>12}{:>12}{:>12}{:>12}\n",
        "hop", "seen", "kept", "filtered", "undecided", "sampled out", "added up"
    );
    for hop in &stats.hops {
        let _ = writeln!(
            text,
            "{:<16}{:>12}{:>12}{:>12}{:>12}{:>12}{:>12}",
            hop.hop.name(),
            hop.seen(),
            hop.kept,
            hop.filtered,
            hop.undecided,
            hop.sampled,
            hop.synthesised
        );
    }
    let _ = writeln!(text, "{} records, {} lost because a ring was full", stats.records, stats.lost);
    text
}
