//! A recording that is switched on and off from the screen.

use jiff::Timestamp;
use magscope_core::node::NodeInfo;
use magscope_core::{Batch, Flow, FlowId, Task};
use magscope_scope::{Recording, Scope};
use magscope_session::{RecordOptions, Recorder};
use std::collections::HashMap;
use std::path::Path;

/// Maximum number of flows, and of threads; announcements repeat.
const MOST_NAMES: usize = 1 << 16;

/// The current recording, if any, and the announcements for its start.
#[derive(Default)]
pub struct Switch {
    recorder: Option<(String, Recorder)>,
    flows: HashMap<FlowId, Flow>,
    tasks: HashMap<u32, Task>,
}

impl Switch {
    /// Starts, continues or ends the recording as the user of `scope` requests.
    pub fn pass(&mut self, scope: &mut Scope, info: &NodeInfo, batch: &Batch) {
        self.learn(batch);
        match (&mut self.recorder, scope.wants_recording()) {
            (None, true) => self.begin(scope, info),
            (Some(_), false) => self.end(scope),
            (Some((name, recorder)), true) => {
                if let Err(error) = recorder.append(batch) {
                    scope.show_message(format!("the recording {name} ended: {error}"), true);
                    scope.stop_recording();
                    self.recorder = None;
                }
            }
            (None, false) => {}
        }
    }

    /// State of the recording.
    pub fn recording(&self) -> Option<Recording> {
        let (name, recorder) = self.recorder.as_ref()?;
        let status = recorder.status();
        Some(Recording { name: name.clone(), bytes: status.bytes_on_disk, events: status.events })
    }

    fn learn(&mut self, batch: &Batch) {
        if self.flows.len() + batch.flows.len() > MOST_NAMES {
            self.flows.clear();
        }
        if self.tasks.len() + batch.tasks.len() > MOST_NAMES {
            self.tasks.clear();
        }
        self.flows.extend(batch.flows.iter().map(|flow| (flow.id, *flow)));
        self.tasks.extend(batch.tasks.iter().map(|task| (task.tid, task.clone())));
    }

    fn begin(&mut self, scope: &mut Scope, info: &NodeInfo) {
        let name = format!("magnet-scope-{}.session", Timestamp::now().strftime("%Y%m%dT%H%M%SZ"));
        let names = Batch {
            flows: self.flows.values().copied().collect(),
            tasks: self.tasks.values().cloned().collect(),
            ..Batch::default()
        };
        let began = Recorder::create(Path::new(&name), info, RecordOptions::default())
            .and_then(|mut recorder| recorder.append(&names).map(|()| recorder));
        match began {
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
