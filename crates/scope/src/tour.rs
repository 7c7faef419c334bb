//! A tour of the screen: steps that each wait for the right key, on traffic in which two things go wrong.
//!
//! Pure, as all of the scope: a step is a text and a condition on what is shown. The owner of the traffic makes the
//! [fault](Scope::tour_fault) that the current step is about.

use crate::controls::Top;
use crate::scope::Scope;
use crate::views::View;
use magscope_report::GroupBy;

/// A fault in the traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TourFault {
    /// A reader of datagrams that is too slow: its receive buffer is full.
    FullBuffer,
    /// A server that takes 30 ms for an answer.
    SlowAnswers,
}

/// The step that a front end shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TourStep {
    /// Its number, from 1.
    pub number: usize,
    /// Number of steps.
    pub of: usize,
    /// What to see and which key to press. [`Self::lines`] replaces `{flows}` by the key of the command `flows`.
    pub words: &'static str,
}

impl TourStep {
    /// The text in lines of this many columns, with the keys of the commands that it names.
    pub fn lines(&self, width: usize, key_of: impl Fn(&str) -> String) -> Vec<String> {
        let mut text = String::new();
        let mut rest = self.words;
        while let Some((before, (name, after))) =
            rest.split_once('{').and_then(|(before, behind)| Some((before, behind.split_once('}')?)))
        {
            text.push_str(before);
            text.push_str(&key_of(name));
            rest = after;
        }
        text.push_str(rest);
        let mut wrapped = String::new();
        // Writing to a string does not fail.
        let _ = magscope_report::wrap(&mut wrapped, &text, width, "");
        wrapped.lines().map(str::to_owned).collect()
    }
}

/// A step of the table.
struct Step {
    words: &'static str,
    fault: Option<TourFault>,
    /// A condition during the step, before it can be done. Without it, a step is done if it was done before.
    first: Option<fn(&Scope) -> bool>,
    /// True once the user has done it.
    is_done: fn(&Scope) -> bool,
}

/// The position in the tour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct TourState {
    /// Index of the step.
    at: usize,
    /// True if the first condition of the step was met.
    first_met: bool,
}

impl TourState {
    const fn step(at: usize) -> Self {
        TourState { at, first_met: false }
    }
}

static STEPS: [Step; 10] = [
    Step {
        words: "Two hosts, real traffic. Each row is a hop of the kernel's network stack: the sender's below \
                the wire, the receiver's above. A line is a journey of bytes through it. {flows} shows the \
                flows.",
        fault: None,
        first: None,
        is_done: |scope| scope.controls().view == View::Flows,
    },
    Step {
        words: "A row is one direction of a connection: how long its bytes took, and where most of that time \
                went. {group} groups the rows by service, the port that clients send to.",
        fault: None,
        first: None,
        is_done: |scope| scope.controls().view == View::Flows && scope.controls().flows_by == GroupBy::Service,
    },
    Step {
        words: "Now something goes wrong. The first line names the worst that the capture proves: wait until \
                it speaks of :5206. Then {evidence} shows why.",
        fault: Some(TourFault::FullBuffer),
        first: None,
        is_done: |scope| scope.controls().top == Top::Inspector && is_lost(scope),
    },
    Step {
        words: "This datagram ends at ✕: the receiver's kernel dropped it. socket_rcvbuff is a full receive \
                buffer: the program reads too slowly. {back} closes it; {losses} shows all drops.",
        fault: Some(TourFault::FullBuffer),
        first: None,
        is_done: |scope| scope.controls().view == View::Losses && scope.controls().top == Top::Nothing,
    },
    Step {
        words: "Drops by reason, and below them events that the capture itself missed: the two never share a \
                number. The next fault begins: clients of :5202 wait. {requests} shows requests.",
        fault: Some(TourFault::SlowAnswers),
        first: None,
        is_done: |scope| scope.controls().view == View::Requests,
    },
    Step {
        words: "Is it the network or the server? The bars divide the slowest requests; *until answered* is the \
                server's time. {down} selects one, {open} shows its journey.",
        fault: Some(TourFault::SlowAnswers),
        first: None,
        is_done: |scope| scope.controls().view == View::Scope && scope.controls().top == Top::Inspector,
    },
    Step {
        words: "How its bytes moved, hop by hop. At the wire they took microseconds: the network is not to \
                blame. {back} closes it. Then {filter}, the words port 5202, and Enter: only this traffic.",
        fault: Some(TourFault::SlowAnswers),
        first: None,
        is_done: |scope| scope.controls().filter.is_some(),
    },
    Step {
        words: "The same words work in --filter and --where. The header shows what is chosen. {pause} stops \
                the picture, and the capture goes on.",
        fault: None,
        first: None,
        is_done: |scope| scope.controls().paused,
    },
    Step {
        words: "{earlier} and {later} move in time, {coarser} and {finer} zoom. The header has the age of the \
                picture, and the key that leads back: {follow}.",
        fault: None,
        first: Some(|scope| scope.controls().paused),
        is_done: |scope| !scope.controls().paused,
    },
    Step {
        words: "That was the tour. {help} lists the keys; {palette} finds commands by what they mean. \
                `magnet-scope record` stores what you saw, `report` sums it up. {tour-next} closes this.",
        fault: None,
        first: None,
        is_done: |_| false,
    },
];

fn is_lost(scope: &Scope) -> bool {
    scope.frame().inspector.is_some_and(|inspector| inspector.line.is_bad())
}

impl Scope {
    /// Begins the tour.
    pub fn begin_tour(&mut self) {
        self.tour = Some(TourState::step(0));
        self.follow_tour();
    }

    /// The step that is shown; `None` without a tour.
    pub fn tour_step(&self) -> Option<TourStep> {
        let at = self.tour?.at;
        STEPS.get(at).map(|step| TourStep { number: at + 1, of: STEPS.len(), words: step.words })
    }

    /// The fault that the traffic should have now.
    pub fn tour_fault(&self) -> Option<TourFault> {
        STEPS.get(self.tour?.at)?.fault
    }

    /// The next step, whether this one was done or not; ends the tour after the last.
    pub(crate) fn next_tour_step(&mut self) {
        let Some(TourState { at, .. }) = self.tour else {
            return self.show_message("`magnet-scope demo --tour` begins a tour".to_owned(), false);
        };
        self.tour = Some(at + 1).filter(|next| *next < STEPS.len()).map(TourState::step);
        self.follow_tour();
    }

    /// Goes on past the steps that were done.
    pub(crate) fn follow_tour(&mut self) {
        while let Some(TourState { at, first_met }) = self.tour
            && let Some(step) = STEPS.get(at)
        {
            let first_met = first_met || step.first.is_none_or(|is_met| is_met(self));
            let is_done = first_met && (step.is_done)(self);
            self.tour = Some(if is_done { TourState::step(at + 1) } else { TourState { at, first_met } });
            if !is_done {
                break;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::keys::KeyMap;
    use crate::command::{CommandKind, command};
    use crate::{Action, Options};
    use magscope_core::node::NodeInfo;

    /// The commands named in a text.
    fn named(words: &str) -> Vec<&str> {
        words.split('{').skip(1).filter_map(|rest| rest.split_once('}').map(|(name, _)| name)).collect()
    }

    #[test]
    fn every_step_names_a_command_that_has_a_key() {
        let keys = KeyMap::built_in();
        for step in &STEPS {
            let names = named(step.words);
            assert!(!names.is_empty(), "{}", step.words);
            for name in names {
                let command = command(name).unwrap_or_else(|| panic!("no command {name}"));
                assert!(keys.chords(command).next().is_some(), "{name} has no key");
            }
        }
    }

    #[test]
    fn a_step_fits_in_three_lines_of_a_small_screen() {
        let keys = KeyMap::built_in();
        let key_of = |name: &str| {
            let chord = command(name).and_then(|command| keys.chords(command).next());
            chord.map(|chord| chord.to_string()).unwrap_or_default()
        };
        for (at, step) in STEPS.iter().enumerate() {
            let step = TourStep { number: at + 1, of: STEPS.len(), words: step.words };
            let lines = step.lines(78, key_of);
            assert!(lines.len() <= 3 && !lines.concat().contains('{'), "{lines:?}");
        }
    }

    fn press(scope: &mut Scope, name: &str) {
        let action = match &command(name).expect("a command").does {
            CommandKind::Act(action) => Some(action.clone()),
            CommandKind::Own(own) => own.action(scope.controls()),
        };
        scope.apply(action.expect("an action"));
    }

    #[test]
    fn a_step_waits_for_its_key_and_can_be_skipped() {
        let mut scope = Scope::new(NodeInfo::default(), Options::default());
        assert_eq!((scope.tour_step(), scope.tour_fault()), (None, None));
        scope.begin_tour();
        let number = |scope: &Scope| scope.tour_step().map(|step| step.number);
        press(&mut scope, "hops");
        assert_eq!(number(&scope), Some(1), "not the right key");
        press(&mut scope, "flows");
        assert_eq!(number(&scope), Some(2));
        press(&mut scope, "group");
        assert_eq!((number(&scope), scope.tour_fault()), (Some(3), Some(TourFault::FullBuffer)));
        press(&mut scope, "evidence");
        assert_eq!(number(&scope), Some(3), "there is no evidence yet");
        press(&mut scope, "tour-next");
        press(&mut scope, "losses");
        assert_eq!((number(&scope), scope.tour_fault()), (Some(5), Some(TourFault::SlowAnswers)));
        press(&mut scope, "requests");
        press(&mut scope, "tour-next");
        scope.apply(Action::Filter("port 5202".to_owned()));
        assert_eq!((number(&scope), scope.tour_fault()), (Some(8), None));
        press(&mut scope, "tour-next");
        assert_eq!(number(&scope), Some(9), "a live picture was not led back");
        press(&mut scope, "follow");
        assert_eq!(number(&scope), Some(9), "nor was one that was not moved");
        press(&mut scope, "earlier");
        press(&mut scope, "follow");
        assert_eq!(number(&scope), Some(10));
        press(&mut scope, "tour-next");
        assert_eq!((scope.tour_step(), scope.tour_fault()), (None, None), "over");
    }
}
