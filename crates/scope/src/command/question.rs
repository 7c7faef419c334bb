//! Prompts: the kind of each line of text, and the resulting action.

use crate::transport::{FASTEST, SLOWEST};
use crate::trigger::HoldOff;
use crate::{Action, Channel, Scope, SeekPlace};

/// The kind of a prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Question {
    /// A filter for journeys.
    Filter,
    /// The trigger condition.
    Trigger,
    /// A channel computed from others.
    Math,
    /// A part of the recording.
    Seek,
    /// Playback speed.
    Speed,
    /// XY display: one signal against another.
    Xy,
    /// The trigger's hold-off.
    HoldOff,
    /// The pre-trigger.
    PreTrigger,
    /// Length of the captured window.
    Window,
}

impl Question {
    /// Title above the line.
    pub const fn title(self) -> &'static str {
        match self {
            Self::Filter => "only journeys and requests for which this holds",
            Self::Trigger => "wait for",
            Self::Math => "compute",
            Self::Seek => "go to",
            Self::Speed => "play at",
            Self::Xy => "draw one signal against another",
            Self::HoldOff => "after it fired leave out",
            Self::PreTrigger => "of what is kept, before the trigger",
            Self::Window => "at every trigger keep",
        }
    }

    /// Examples of an answer, which a terminal of 80 columns shows whole.
    pub const fn example(self) -> &'static str {
        match self {
            Self::Filter => "port 443 · proc nginx · not lost · request > 20ms · Tab, ↑ · empty: all",
            Self::Trigger => "hop(dev.recv,app.recv) > 2ms · request > 50ms · srtt rises 5ms · drop · Tab",
            Self::Math => "srtt - rttvar · rate(retransmits) · ratio(cwnd, packets_out) · empty: none",
            Self::Seek => "part: 37.5 % · from the beginning: 2s · from the end: -2s · UTC: 14:13:22.5",
            Self::Speed => "0.001 to 100 times its own speed: 0.1 · 1 · 10",
            Self::Xy => "to the right, then up: srtt cwnd · rate.ip send_queue · empty: none",
            Self::HoldOff => "a time: 10ms · 1s; or so many matches: 100 · empty: nothing",
            Self::PreTrigger => "per cent: 0 · 50 · 100",
            Self::Window => "a time: 100ms · 2s",
        }
    }

    /// The current answer, for correction; empty without one.
    pub fn now(self, scope: &Scope) -> String {
        let frame = scope.frame();
        match self {
            Self::Filter => frame.controls.filter.as_ref().map(ToString::to_string).unwrap_or_default(),
            Self::Trigger => frame.trigger.text.clone(),
            Self::Math => frame.controls.math.map(|math| math.to_string()).unwrap_or_default(),
            Self::Xy => frame.controls.xy.map(|(x, y)| format!("{x} {y}")).unwrap_or_default(),
            Self::PreTrigger => frame.trigger.settings.pre_per_cent.to_string(),
            Self::Seek | Self::Speed | Self::HoldOff | Self::Window => String::new(),
        }
    }

    /// Applies the answer to a prompt. The error describes an invalid answer.
    pub fn answer(self, text: &str, scope: &mut Scope) -> Result<(), String> {
        scope.apply(self.action(text)?);
        // The scope reports an invalid answer, so that the user can correct it.
        let message = scope.frame().controls.message.as_ref().filter(|message| message.is_error);
        let result = message.map_or(Ok(()), |message| Err(message.text.clone()));
        if result.is_ok() {
            scope.remember(self, text);
        }
        result
    }

    /// The action of an answer, or the error in it.
    pub fn action(self, text: &str) -> Result<Action, String> {
        let text = text.trim();
        let number = |text: &str| text.parse::<f64>().ok().filter(|number| number.is_finite());
        match self {
            Self::Filter => Ok(Action::Filter(text.to_owned())),
            Self::Trigger => Ok(Action::TriggerText(text.to_owned())),
            Self::Math => Ok(Action::MathText(text.to_owned())),
            Self::Seek => {
                let place = place(text);
                place
                    .map(Action::SeekTo)
                    .ok_or_else(|| format!("`{text}` is no place: write `50 %`, `2s`, `-2s` or `14:13:22`"))
            }
            Self::Speed => {
                let speed = number(text.trim_end_matches(['x', '×']).trim_end());
                let speed = speed.filter(|speed| (SLOWEST..=FASTEST).contains(speed));
                let wrong = || format!("`{text}` is no speed: write {SLOWEST} to {FASTEST}");
                speed.map(Action::SetSpeed).ok_or_else(wrong)
            }
            Self::Xy => xy(text).map(Action::SetXy),
            Self::HoldOff => {
                let off = match text {
                    "" => Some(HoldOff::Nothing),
                    _ => text.parse().map(HoldOff::Matches).ok().or_else(|| time_ns(text).map(HoldOff::Time)),
                };
                off.map(Action::SetHoldOff)
                    .ok_or_else(|| format!("`{text}` is neither a time nor a number of matches"))
            }
            Self::PreTrigger => {
                let per_cent = text.trim_end_matches('%').trim_end().parse().ok().filter(|n| *n <= 100);
                per_cent.map(Action::PreTrigger).ok_or_else(|| format!("`{text}` is not 0 to 100 per cent"))
            }
            Self::Window => {
                let ns = time_ns(text).filter(|ns| *ns > 0);
                ns.map(Action::TriggerWindow)
                    .ok_or_else(|| format!("`{text}` is no time: write `100ms` or `2s`"))
            }
        }
    }
}

/// A part of all, a time from the beginning or before the end, or a time of day.
fn place(text: &str) -> Option<SeekPlace> {
    if let Some(before_end) = text.strip_prefix('-') {
        return time_ns(before_end.trim_start()).map(SeekPlace::BeforeEnd);
    }
    if text.contains(':') {
        return time_of_day_ns(text).map(SeekPlace::TimeOfDay);
    }
    if let Some(ns) = time_ns(text.trim_start_matches('+')) {
        return Some(SeekPlace::AfterBegin(ns));
    }
    let per_cent = text.trim_end_matches('%').trim_end().parse::<f64>().ok().filter(|n| n.is_finite())?;
    Some(SeekPlace::Part(per_cent / 100.0)).filter(|_| (0.0..=100.0).contains(&per_cent))
}

/// `14:13`, `14:13:22`, `14:13:22.5`: nanoseconds since midnight.
fn time_of_day_ns(text: &str) -> Option<u64> {
    let mut parts = text.split(':');
    let (hours, minutes) = (parts.next()?.parse::<u64>().ok()?, parts.next()?.parse::<u64>().ok()?);
    let seconds = parts.next().map_or(Some(0.0), |text| text.replace(' ', "").parse::<f64>().ok())?;
    let is_valid = hours < 24 && minutes < 60 && (0.0..60.0).contains(&seconds) && parts.next().is_none();
    is_valid.then(|| (hours * 3_600 + minutes * 60) * 1_000_000_000 + (seconds * 1e9).round() as u64)
}

fn xy(text: &str) -> Result<Option<(Channel, Channel)>, String> {
    let channel = |word: &str| word.parse::<Channel>().map_err(|error| error.to_string());
    match text.split_whitespace().collect::<Vec<_>>().as_slice() {
        [] => Ok(None),
        [x, y] => Ok(Some((channel(x)?, channel(y)?))),
        _ => Err("two signals are needed: the one to the right, then the one upwards".to_owned()),
    }
}

/// A time as a user writes it: `250us`, `10 ms`, `1.5s`, `2m`, `1h`.
fn time_ns(text: &str) -> Option<u64> {
    const UNITS: [(&str, f64); 7] =
        [("ns", 1.0), ("us", 1e3), ("µs", 1e3), ("ms", 1e6), ("s", 1e9), ("m", 60e9), ("h", 3600e9)];
    let number = text.trim_end_matches(|c: char| c.is_alphabetic());
    let (_, factor) = UNITS.iter().find(|(unit, _)| text[number.len()..] == **unit)?;
    let ns = number.trim_end().parse::<f64>().ok()? * factor;
    (0.0..=1e18).contains(&ns).then_some(ns as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn examples_fit_a_terminal_of_80_columns() {
        let questions = crate::command::COMMANDS.iter().filter_map(|command| match command.does {
            crate::command::CommandKind::Own(crate::command::FrontEndCommand::Ask(question)) => Some(question),
            _ => None,
        });
        let examples: Vec<&str> = questions.map(Question::example).collect();
        assert!(examples.len() >= 9);
        for example in examples {
            assert!(example.chars().count() <= 76, "{example}");
        }
    }

    #[test]
    fn lines_become_actions() {
        let table = [
            (Question::Filter, " tcp ", Some(Action::Filter("tcp".to_owned()))),
            (Question::Trigger, "drop", Some(Action::TriggerText("drop".to_owned()))),
            (Question::Seek, "37.5 %", Some(Action::SeekTo(SeekPlace::Part(0.375)))),
            (Question::Seek, "100", Some(Action::SeekTo(SeekPlace::Part(1.0)))),
            (Question::Seek, "2.5 s", Some(Action::SeekTo(SeekPlace::AfterBegin(2_500_000_000)))),
            (Question::Seek, "+3ms", Some(Action::SeekTo(SeekPlace::AfterBegin(3_000_000)))),
            (Question::Seek, "-2s", Some(Action::SeekTo(SeekPlace::BeforeEnd(2_000_000_000)))),
            (Question::Seek, "00:01", Some(Action::SeekTo(SeekPlace::TimeOfDay(60_000_000_000)))),
            (Question::Seek, "1:00:00.5", Some(Action::SeekTo(SeekPlace::TimeOfDay(3_600_500_000_000)))),
            (Question::Seek, "24:00", None),
            (Question::Seek, "12:60", None),
            (Question::Seek, "12:00:60", None),
            (Question::Seek, "1:2:3:4", None),
            (Question::Seek, "-5", None),
            (Question::Seek, "101 %", None),
            (Question::Seek, "", None),
            (Question::Speed, "0.1×", Some(Action::SetSpeed(0.1))),
            (Question::Speed, "1e9", None),
            (Question::Speed, "NaN", None),
            (Question::Xy, "srtt cwnd", Some(Action::SetXy(Some((Channel::Srtt, Channel::Cwnd))))),
            (Question::Xy, "", Some(Action::SetXy(None))),
            (Question::Xy, "srtt", None),
            (Question::HoldOff, "10 ms", Some(Action::SetHoldOff(HoldOff::Time(10_000_000)))),
            (Question::HoldOff, "100", Some(Action::SetHoldOff(HoldOff::Matches(100)))),
            (Question::HoldOff, "soon", None),
            (Question::PreTrigger, "50 %", Some(Action::PreTrigger(50))),
            (Question::PreTrigger, "101", None),
            (Question::Window, "1.5s", Some(Action::TriggerWindow(1_500_000_000))),
            (Question::Window, "-1s", None),
            (Question::Window, "1e99h", None),
        ];
        for (question, text, action) in table {
            assert_eq!(question.action(text).ok(), action, "{text}");
        }
    }
}
