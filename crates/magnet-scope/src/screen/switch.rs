//! A recording that is switched on and off from the screen.

use jiff::Timestamp;
use magscope_core::Batch;
use magscope_core::node::NodeInfo;
use magscope_scope::{Recording, Scope};
use magscope_session::{Prefix, RecordOptions, Recorder, SessionError};
use std::path::Path;

/// The current recording, if any, and what a recording needs of the time before it.
#[derive(Default)]
pub struct Switch {
    recorder: Option<(String, Recorder)>,
    prefix: Prefix,
}

impl Switch {
    /// Starts, continues or ends the recording as the user of `scope` requests.
    pub fn pass(&mut self, scope: &mut Scope, info: &NodeInfo, batch: &Batch) {
        match (&mut self.recorder, scope.wants_recording()) {
            (None, true) => {
                self.prefix.learn(batch);
                self.begin(scope, info);
            }
            (Some(_), false) => {
                self.prefix.learn(batch);
                self.end(scope);
            }
            (Some((name, recorder)), true) => {
                // The prefix takes flows and tasks out of a batch that others read.
                let mut copy = batch.clone();
                if let Err(error) = self.prefix.with(&mut copy, |batch| recorder.append(batch)) {
                    scope.show_message(format!("the recording {name} ended: {error}"), true);
                    scope.stop_recording();
                    self.recorder = None;
                }
            }
            (None, false) => self.prefix.learn(batch),
        }
    }

    /// State of the recording.
    pub fn recording(&self) -> Option<Recording> {
        let (name, recorder) = self.recorder.as_ref()?;
        let status = recorder.status();
        Some(Recording { name: name.clone(), bytes: status.bytes_on_disk, events: status.events })
    }

    fn begin(&mut self, scope: &mut Scope, info: &NodeInfo) {
        let name = format!("magnet-scope-{}.session", Timestamp::now().strftime("%Y%m%dT%H%M%SZ"));
        match self.create(Path::new(&name), info) {
            Ok(recorder) => {
                scope.show_message(format!("recording into {name}"), false);
                self.recorder = Some((name, recorder));
            }
            Err(error) => {
                scope.show_message(
                    format!("cannot record here: {error}; start in a directory of your own"),
                    true,
                );
                scope.stop_recording();
            }
        }
    }

    /// Starts a recording with the changes, clock and names of the time before it. Flows and tasks follow with their
    /// first events.
    fn create(&mut self, path: &Path, info: &NodeInfo) -> Result<Recorder, SessionError> {
        let mut recorder = Recorder::create(path, info, RecordOptions::default())?;
        self.prefix.begin();
        self.prefix.with(&mut Batch::default(), |batch| recorder.append(batch))?;
        Ok(recorder)
    }

    /// Ends it, if one runs.
    pub fn end(&mut self, scope: &mut Scope) {
        let Some((name, recorder)) = self.recorder.take() else { return };
        match recorder.close() {
            Ok(summary) => {
                let lost = summary.losses.total();
                scope.show_message(format!("{name}: {} events, {lost} lost", summary.events), lost > 0);
            }
            Err(error) => scope.show_message(format!("{name} was not ended well: {error}"), true),
        }
        scope.set_recording(None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use magscope_core::source::{Progress, Source};
    use magscope_core::{Change, Event, Flow, FlowId, Hop, HopCount, Proto};
    use magscope_scope::{Action, Options};
    use magscope_session::Session;
    use std::time::Duration;

    fn count(recorded: u64, sampled: u64) -> HopCount {
        HopCount {
            time_ns: 20,
            hop: Hop::DevXmit,
            kept: recorded,
            filtered: 0,
            undecided: 0,
            sampled,
            synthesised: 0,
        }
    }

    #[test]
    fn a_recording_begun_after_a_change_has_it_and_the_flows_before() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("switched.session");
        let info = NodeInfo::default();
        let mut scope = Scope::new(info.clone(), Options::default());
        let mut switch = Switch::default();
        let (local, remote) = ("10.0.0.1:1000".parse().expect("valid"), "10.0.0.2:80".parse().expect("valid"));
        let flow = Flow { id: FlowId(7), netns: 1, proto: Proto::TCP, local, remote };
        let change = Change { from_ns: 1, to_ns: 2, what: "sample 1/100 all".to_owned() };
        let changes = vec![change.clone()];
        let before = Batch { flows: vec![flow], changes, counts: vec![count(10, 90)], ..Batch::default() };
        switch.pass(&mut scope, &info, &before);

        let recorder = switch.create(&path, &info).expect("the directory is ours");
        switch.recorder = Some(("switched".to_owned(), recorder));
        scope.apply(Action::ToggleRecording);
        let event = Event { flow: FlowId(7), ..Event::at(Hop::DevXmit, 20) };
        let during = Batch { events: vec![event], counts: vec![count(15, 130)], ..Batch::default() };
        switch.pass(&mut scope, &info, &during);
        assert!(switch.recording().is_some(), "it goes on");
        switch.end(&mut scope);

        let session = Session::open(&path).expect("a session");
        assert_eq!(session.changes(), (vec![change], vec![count(5, 40)]), "counts of this recording alone");
        let (mut replay, mut batch) = (session.replay(None, None), Batch::default());
        let (mut events, mut flows) = (Vec::new(), Vec::new());
        while replay.next(&mut batch, Duration::ZERO).expect("it never fails") == Progress::More {
            events.extend_from_slice(&batch.events);
            flows.extend_from_slice(&batch.flows);
        }
        assert_eq!((events, flows), (vec![event], vec![flow]));
    }
}
