//! Long jobs in their own threads, with a progress bar and a cancel button after half a second.

use crate::colours::Colours;
use crate::compare::Compared;
use crate::world::{Job, Opened, Trouble};
use egui::{Align2, Area, Context, Frame, Id, ProgressBar, RichText};
use std::sync::mpsc::{Receiver, TryRecvError, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

/// Shorter jobs have no progress bar.
const SHORT: Duration = Duration::from_millis(500);
/// Maximum number of concurrent jobs.
const MOST: usize = 4;

/// Result of a job.
pub enum Outcome {
    /// An opened session.
    Opened(Box<Opened>),
    /// A comparison.
    Compared(Box<Compared>),
    /// A written file, as a message.
    Written(String),
}

/// The running jobs.
#[derive(Default)]
pub struct Jobs(Vec<Running>);

struct Running {
    name: String,
    job: Job,
    since: Instant,
    end: Receiver<Result<Outcome, Trouble>>,
}

impl Jobs {
    /// Starts a job.
    pub fn start(
        &mut self,
        name: String,
        ctx: &Context,
        work: impl FnOnce(&Job) -> Result<Outcome, Trouble> + Send + 'static,
    ) -> Result<(), Trouble> {
        let refused = |why: String| Trouble {
            what: format!("{name} was not begun"),
            why,
            next: "try again when something else has ended".to_owned(),
        };
        if self.0.len() >= MOST {
            return Err(refused(format!("{MOST} jobs are running already")));
        }
        let (send, end) = sync_channel(1);
        let (job, ctx) = (Job::default(), ctx.clone());
        let watched = job.clone();
        let spawned = thread::Builder::new().name("job".to_owned()).spawn(move || {
            // the send fails if the window was closed
            let _ = send.send(work(&watched));
            ctx.request_repaint();
        });
        spawned.map_err(|error| refused(error.to_string()))?;
        self.0.push(Running { name, job, since: Instant::now(), end });
        Ok(())
    }

    /// Results of finished jobs, except cancelled ones.
    pub fn ended(&mut self) -> Vec<Result<Outcome, Trouble>> {
        let mut ended = Vec::new();
        self.0.retain(|running| match running.end.try_recv() {
            Ok(outcome) => {
                if !running.job.is_cancelled() {
                    ended.push(outcome);
                }
                false
            }
            Err(TryRecvError::Empty) => true,
            Err(TryRecvError::Disconnected) => {
                ended.push(Err(Trouble {
                    what: format!("{} ended without a result", running.name),
                    why: "its thread failed; the terminal says where".to_owned(),
                    next: "this is a mistake in magnet-scope; please report it".to_owned(),
                }));
                false
            }
        });
        ended
    }

    /// Draws the progress of long jobs.
    pub fn show(&self, ctx: &Context) {
        if self.0.is_empty() {
            return;
        }
        ctx.request_repaint_after(Duration::from_millis(100));
        if self.0.iter().all(|running| running.since.elapsed() < SHORT) {
            return;
        }
        let c = Colours::now(ctx);
        Area::new(Id::unique("jobs")).anchor(Align2::CENTER_BOTTOM, [0.0, -60.0]).show(ctx, |ui| {
            Frame::popup(ui.style()).show(ui, |ui| {
                for running in self.0.iter().filter(|running| running.since.elapsed() >= SHORT) {
                    ui.horizontal(|ui| {
                        ui.label(&running.name);
                        let part = running.job.part();
                        let bar = if part > 0.0 {
                            ProgressBar::new(part).text(format!("{:.0} %", part * 100.0))
                        } else {
                            ProgressBar::new(0.0).text(format!("{} s", running.since.elapsed().as_secs()))
                        };
                        ui.add(bar.desired_width(220.0).fill(c.quick));
                        let words = if running.job.is_cancelled() { "ending …" } else { "Cancel" };
                        if ui.button(RichText::new(words)).clicked() {
                            running.job.cancel();
                        }
                    });
                }
            });
        });
    }
}
