//! Answers of the control socket.

use super::server::Question;
use magscope_core::hop::Hop;
use magscope_probe::{Capture, Setting};
use serde::{Deserialize, Serialize};

/// An answer, as JSON.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Answer {
    /// True on success.
    pub ok: bool,
    /// The error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The executed change, as in the session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub done: Option<String>,
    /// Hops and settings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub list: Option<List>,
    /// Counters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stats: Option<Stats>,
}

/// Active hops and settings.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct List {
    /// The capture's command line.
    pub command: String,
    /// Active filters, samplers and extras.
    pub settings: Vec<String>,
    /// Hops that are on.
    pub on: Vec<Hop>,
    /// Hops that can be switched on.
    pub off: Vec<Hop>,
    /// Those of them that stay attached, because a new attachment would need privileges.
    pub lingering: Vec<Hop>,
}

/// Counters of the kernel since the capture began.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Stats {
    /// Records made or lost.
    pub records: u64,
    /// Records lost for lack of ring space.
    pub lost: u64,
    /// Outcome counters of hits.
    pub hops: Vec<magscope_core::HopCount>,
}

/// Executes and answers a question.
pub fn reply(capture: &mut Capture, question: Question) {
    let answer = answer(capture, &question.text);
    let json = serde_json::to_string(&answer);
    question.answer(json.unwrap_or_else(|e| format!(r#"{{"ok":false,"error":"{e}"}}"#)));
}

fn answer(capture: &mut Capture, text: &str) -> Answer {
    let refused = |error: String| Answer { error: Some(error), ..Answer::default() };
    match text {
        "list" => Answer { ok: true, list: Some(list(capture)), ..Answer::default() },
        "stats" => match capture.counters() {
            Ok(counters) => {
                let stats = Stats { records: counters.hits, lost: counters.lost(), hops: counters.hops };
                Answer { ok: true, stats: Some(stats), ..Answer::default() }
            }
            Err(error) => refused(error.to_string()),
        },
        _ => match text.parse::<Setting>() {
            Err(error) => refused(error.to_string()),
            Ok(setting) => match capture.change(&setting) {
                Ok(()) => Answer { ok: true, done: Some(setting.to_string()), ..Answer::default() },
                Err(error) => refused(error.to_string()),
            },
        },
    }
}

fn list(capture: &Capture) -> List {
    let (on, all) = (capture.hops(), capture.switchable());
    List {
        command: std::env::args().collect::<Vec<_>>().join(" "),
        settings: capture.in_force(),
        on: on.iter().collect(),
        off: all.iter().filter(|hop| !on.contains(*hop)).collect(),
        lingering: Hop::ALL.iter().copied().filter(|hop| capture.lingers(*hop)).collect(),
    }
}
