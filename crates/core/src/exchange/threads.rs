//! The time of a thread between two of its calls: on a CPU, waiting for one, or blocked.
//!
//! The scheduler's events show each switch and each wake-up. A thread that loses its CPU and gets it back without a
//! wake-up in between was runnable all the time. A lost event may have been one of these, whatever the place of its loss, so
//! the times around it are not claimed.

use super::losses::Intervals;
use crate::batch::Loss;
use crate::change::Change as SettingChange;
use crate::event::Event;
use crate::hash::Map;
use crate::hop::Hop;
use serde::Serialize;
use std::collections::VecDeque;

/// Maximum number of threads with stored changes.
const MOST_THREADS: usize = 1 << 14;
/// Maximum number of stored changes of one thread.
const MOST_CHANGES: usize = 1 << 10;

/// How a thread spent a time. The three add up to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ThreadTime {
    /// On a CPU, nanoseconds.
    pub on_cpu_ns: u64,
    /// Ready to run, without a CPU, nanoseconds.
    pub runnable_ns: u64,
    /// Asleep until something woke it, nanoseconds.
    pub blocked_ns: u64,
}

impl ThreadTime {
    /// Adds a time in a state that ended with a change. Whether it slept shows only then.
    const fn add(&mut self, state: Change, change: Change, ns: u64) {
        match (state, change) {
            (Change::On, Change::Woken) => {} // it runs on
            (Change::On, _) => self.on_cpu_ns += ns,
            (Change::Off, Change::Woken) => self.blocked_ns += ns,
            (Change::Off | Change::Woken, _) => self.runnable_ns += ns,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    /// It got a CPU.
    On,
    /// It lost its CPU.
    Off,
    /// It was woken.
    Woken,
}

#[derive(Debug, Default)]
struct Changes {
    list: VecDeque<(u64, Change)>,
    /// Changes up to this instant may have been forgotten.
    forgotten_ns: u64,
}

/// The latest changes of every thread. Memory is bounded.
#[derive(Debug, Default)]
pub(super) struct Threads {
    changes: Map<(u16, u32), Changes>,
    /// By recording: instants of its first switch and of its first wake-up.
    since_ns: Map<u16, (Option<u64>, Option<u64>)>,
    /// When events were lost.
    lost: Intervals,
}

impl Threads {
    pub fn event(&mut self, node: u16, event: &Event) {
        if event.hop == Hop::SchedSwitch {
            self.since_ns.entry(node).or_default().0.get_or_insert(event.time_ns);
            self.change(node, event.detail.other_tid(), event.time_ns, Change::Off);
            self.change(node, event.tid, event.time_ns, Change::On);
        } else if event.hop == Hop::SchedWakeup {
            self.since_ns.entry(node).or_default().1.get_or_insert(event.time_ns);
            self.change(node, event.tid, event.time_ns, Change::Woken);
        }
    }

    /// Takes the losses of a recording's batch, also those of runs that the kernel refused.
    pub fn lose(&mut self, node: u16, losses: &[Loss]) {
        for loss in losses {
            self.lost.push(node, loss.from_ns, loss.to_ns);
        }
    }

    /// True if a change between two instants, both included, may have been lost.
    pub fn may_lack(&self, node: u16, from_ns: u64, to_ns: u64) -> bool {
        self.lost.any(node, from_ns, to_ns)
    }

    /// Forgets the changes of a recording's threads if its settings changed: a filter, a sampler, or hops that are switched
    /// hide some.
    pub fn forget(&mut self, node: u16, changes: &[SettingChange]) {
        if changes.iter().any(|change| !change.is_of_rules()) {
            self.changes.retain(|(of, _), _| *of != node);
            self.since_ns.remove(&node);
        }
    }

    fn change(&mut self, node: u16, tid: u32, ns: u64, change: Change) {
        if tid == 0 {
            return; // idle
        }
        if self.changes.len() >= MOST_THREADS && !self.changes.contains_key(&(node, tid)) {
            self.changes.clear();
            self.since_ns.clear(); // what follows is known again
        }
        let changes = self.changes.entry((node, tid)).or_default();
        if changes.list.len() >= MOST_CHANGES
            && let Some((ns, _)) = changes.list.pop_front()
        {
            changes.forgotten_ns = changes.forgotten_ns.max(ns);
        }
        // Events that the sort window was too short for come late.
        let at = changes.list.iter().rposition(|(earlier_ns, _)| *earlier_ns <= ns).map_or(0, |at| at + 1);
        changes.list.insert(at, (ns, change));
    }

    /// A thread's time between two instants, at both of which it had a CPU; `None` if its changes are not known.
    pub fn between(&self, node: u16, tid: u32, from_ns: u64, to_ns: u64) -> Option<ThreadTime> {
        self.spent(node, tid, from_ns, to_ns, |_| (from_ns, Change::On))
    }

    /// A thread's time until an instant at which it had a CPU; `None` if its changes are not known.
    pub fn until(&self, node: u16, tid: u32, from_ns: u64, to_ns: u64) -> Option<ThreadTime> {
        self.spent(node, tid, from_ns, to_ns, |changes| {
            let before = changes.list.iter().rev().find(|(ns, _)| *ns <= from_ns);
            let mut later = changes.list.iter().filter(|(ns, _)| *ns > from_ns && *ns < to_ns);
            // All changes are seen, so without an earlier one the next two show what it was.
            match (before, later.next(), later.next()) {
                (Some(before), ..) => *before,
                (None, Some((_, Change::On)), _) => (from_ns, Change::Woken),
                (None, Some((_, Change::Woken)), Some((_, Change::On))) => (from_ns, Change::Off),
                (None, ..) => (from_ns, Change::On),
            }
        })
    }

    /// `first` finds the state at the first instant, and the instant of the event that shows it.
    fn spent(
        &self,
        node: u16,
        tid: u32,
        from_ns: u64,
        to_ns: u64,
        first: impl FnOnce(&Changes) -> (u64, Change),
    ) -> Option<ThreadTime> {
        if tid == 0 {
            return None; // not known, or idle
        }
        let (Some(switches_ns), Some(wake_ups_ns)) = *self.since_ns.get(&node)? else { return None };
        let none = Changes::default();
        let changes = self.changes.get(&(node, tid)).unwrap_or(&none);
        if from_ns < switches_ns.max(wake_ups_ns) || changes.forgotten_ns >= from_ns || to_ns < from_ns {
            return None;
        }
        let mut time = ThreadTime::default();
        let (shown_ns, mut state) = first(changes);
        let mut since_ns = from_ns;
        if self.may_lack(node, shown_ns, to_ns) {
            return None;
        }
        let within = changes.list.iter().filter(|(ns, _)| *ns > from_ns && *ns < to_ns);
        for (ns, change) in within.copied() {
            // It lost its CPU without an event, as in a recording whose filter kept switches to a process alone.
            if (state, change) == (Change::On, Change::On) {
                return None;
            }
            time.add(state, change, ns - since_ns);
            // One that was woken while it ran runs on.
            if (state, change) != (Change::On, Change::Woken) {
                (since_ns, state) = (ns, change);
            }
        }
        time.add(state, Change::On, to_ns - since_ns);
        Some(time)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::LossCause;
    use crate::event::DetailKind;

    fn switch(ns: u64, from: u32, to: u32) -> Event {
        let detail = DetailKind::OtherThread.of(from);
        Event { tid: to, detail, ..Event::at(Hop::SchedSwitch, ns) }
    }

    fn wake(ns: u64, tid: u32) -> Event {
        Event { tid, ..Event::at(Hop::SchedWakeup, ns) }
    }

    #[test]
    fn a_thread_that_gets_its_cpu_back_without_a_wake_up_was_runnable() {
        let mut threads = Threads::default();
        for event in [wake(1, 9), switch(2, 0, 7), switch(100, 7, 8), switch(130, 8, 7), switch(200, 7, 0)] {
            threads.event(0, &event);
        }
        threads.event(0, &wake(260, 7));
        threads.event(0, &switch(300, 0, 7));
        let time = threads.between(0, 7, 50, 350).expect("known");
        assert_eq!(time, ThreadTime { on_cpu_ns: 50 + 70 + 50, runnable_ns: 30 + 40, blocked_ns: 60 });
        assert_eq!(time.on_cpu_ns + time.runnable_ns + time.blocked_ns, 300);
    }

    #[test]
    fn before_a_read_a_thread_may_have_been_anywhere() {
        let mut threads = Threads::default();
        for event in [wake(1, 9), switch(2, 0, 7), switch(100, 7, 8), switch(130, 8, 7), switch(200, 7, 0)] {
            threads.event(0, &event);
        }
        threads.event(0, &wake(260, 7));
        threads.event(0, &switch(300, 0, 7));
        let until = |from_ns| {
            let time = threads.until(0, 7, from_ns, 310).expect("known");
            (time.on_cpu_ns, time.runnable_ns, time.blocked_ns)
        };
        assert_eq!(until(110), (70 + 10, 20 + 40, 60), "it had lost its CPU");
        assert_eq!(until(210), (10, 40, 50), "it slept");
        assert_eq!(until(270), (10, 30, 0), "it had been woken");
        // Without an earlier change, the next ones show what it was.
        for event in [switch(400, 12, 11), wake(410, 13), switch(420, 11, 13)] {
            threads.event(0, &event);
        }
        let of = |tid| threads.until(0, tid, 320, 430).map(|t| (t.on_cpu_ns, t.runnable_ns, t.blocked_ns));
        assert_eq!(of(11), Some((20, 80 + 10, 0)), "it had been ready to run");
        assert_eq!(of(13), Some((10, 10, 90)), "it had been asleep");
        assert_eq!(of(14), Some((110, 0, 0)), "it ran all the time");
    }

    #[test]
    fn events_that_come_late_have_their_place() {
        let mut threads = Threads::default();
        for event in [wake(1, 9), switch(2, 0, 7), switch(200, 7, 0), switch(100, 7, 8), switch(130, 8, 7)] {
            threads.event(0, &event);
        }
        threads.event(0, &switch(300, 0, 7));
        threads.event(0, &wake(260, 7));
        let time = threads.between(0, 7, 50, 350).expect("all changes");
        assert_eq!(time, ThreadTime { on_cpu_ns: 50 + 70 + 50, runnable_ns: 30 + 40, blocked_ns: 60 });
        assert_eq!(threads.between(0, 0, 50, 350), None, "no thread");
    }

    #[test]
    fn a_refused_run_may_have_been_a_switch() {
        let mut threads = Threads::default();
        for event in [wake(1, 9), switch(2, 0, 7), switch(400, 7, 0), wake(410, 7), switch(420, 0, 7)] {
            threads.event(0, &event);
            threads.event(1, &event);
        }
        assert!(threads.between(0, 7, 50, 200).is_some());
        let loss = Loss { cpu: u16::MAX, from_ns: 100, to_ns: 110, count: 1, cause: LossCause::Refused };
        threads.lose(0, &[loss]);
        for (from_ns, to_ns, is_seen) in [(50, 200, false), (105, 107, false), (50, 99, true), (111, 200, true)]
        {
            assert_eq!(threads.between(0, 7, from_ns, to_ns).is_some(), is_seen, "{from_ns} to {to_ns}");
        }
        assert!(threads.between(1, 7, 50, 200).is_some(), "the other recording");
        // What a thread did before is shown by its last change, and one after that may be lost.
        assert_eq!(threads.until(0, 7, 150, 200), None);
        assert!(threads.until(0, 7, 405, 430).is_some(), "it has lost its CPU since");
    }

    #[test]
    fn changed_settings_hide_what_a_thread_did() {
        let change = |what: &str| [SettingChange { from_ns: 110, to_ns: 120, what: what.to_owned() }];
        let mut threads = Threads::default();
        for event in [wake(1, 9), switch(2, 0, 7)] {
            threads.event(0, &event);
            threads.event(1, &event);
        }
        threads.forget(0, &change("rules changed in network namespace 4"));
        assert!(threads.between(0, 7, 50, 350).is_some());
        threads.forget(0, &change("disable sched.switch"));
        assert_eq!(threads.between(0, 7, 50, 350), None);
        assert!(threads.between(1, 7, 50, 350).is_some(), "the other recording");
    }

    #[test]
    fn a_thread_that_gets_a_cpu_twice_was_away_in_between() {
        let mut threads = Threads::default();
        // A filter of the process leaves out its switch to the idle task.
        for event in [wake(1, 9), switch(2, 0, 7), wake(140, 7), switch(150, 0, 7)] {
            threads.event(0, &event);
        }
        assert_eq!(threads.between(0, 7, 50, 200), None);
        assert_eq!(threads.until(0, 7, 50, 200), None);
        let all = ThreadTime { on_cpu_ns: 40, ..ThreadTime::default() };
        assert_eq!(threads.between(0, 7, 160, 200), Some(all));
    }

    #[test]
    fn without_the_schedulers_events_nothing_is_claimed() {
        let mut threads = Threads::default();
        assert_eq!(threads.between(0, 7, 50, 60), None);
        threads.event(0, &switch(20, 0, 7));
        assert_eq!(threads.between(0, 7, 50, 60), None);
        threads.event(0, &wake(55, 7));
        assert_eq!(threads.between(0, 7, 50, 60), None);
        assert_eq!(threads.between(1, 7, 56, 60), None);
        let all = ThreadTime { on_cpu_ns: 4, ..ThreadTime::default() };
        assert_eq!(threads.between(0, 7, 56, 60), Some(all));
    }

    #[test]
    fn forgotten_changes_are_not_guessed() {
        let mut threads = Threads::default();
        threads.event(0, &wake(1, 7));
        for n in 0..2_000 {
            threads.event(0, &switch(10 + n, 7, 8));
        }
        assert_eq!(threads.between(0, 7, 20, 1_900), None);
        assert!(threads.between(0, 7, 1_990, 2_000).is_some());
    }
}
