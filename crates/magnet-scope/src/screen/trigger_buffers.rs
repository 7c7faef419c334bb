//! A trigger of several hosts: a hit on one host saves the same window on all, each by its own clock.

use super::Triggered;
use crate::recording::Directory;
use crate::trigger::TriggerRecorder;
use anyhow::Result;
use magscope_core::Batch;
use magscope_core::node::NodeInfo;
use magscope_core::source::{Progress, Source, SourceError};
use magscope_scope::trigger::Capture;
use magscope_timeline::align::Online;
use magscope_timeline::join::Timeline;
use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

/// One trigger buffer per host; none without a target.
#[derive(Default)]
pub struct TriggerBuffers {
    all: Vec<Rc<RefCell<TriggerRecorder>>>,
    into: Option<SaveTarget>,
}

/// Target directory, removed if nothing was saved; and the total memory, bytes.
struct SaveTarget {
    made: Directory,
    memory: u64,
}

/// A host whose batches are buffered on its own clock.
struct HostBuffer {
    inner: Box<dyn Source>,
    recorder: Rc<RefCell<TriggerRecorder>>,
}

impl TriggerBuffers {
    /// Buffers for these sources; none without a target directory.
    pub fn of(
        triggered: Triggered<'_>,
        infos: &[NodeInfo],
        sources: &mut Vec<Box<dyn Source>>,
    ) -> Result<Self> {
        let into = triggered.directory().map(|(made, memory)| SaveTarget { made, memory });
        let mut buffers = TriggerBuffers { all: Vec::new(), into };
        for (info, inner) in infos.iter().zip(std::mem::take(sources)) {
            sources.push(buffers.hold(info, inner)?);
        }
        Ok(buffers)
    }

    /// Adds a buffer for another host with a unique name.
    pub fn hold(&mut self, info: &NodeInfo, inner: Box<dyn Source>) -> Result<Box<dyn Source>> {
        let Some(SaveTarget { made, memory }) = &self.into else { return Ok(inner) };
        let own = Directory::prepare(&below(made.path(), &info.host))?;
        let each = memory / (self.all.len() as u64 + 1);
        self.all.iter().for_each(|trigger_recorder| trigger_recorder.borrow_mut().limit(each));
        let trigger_recorder = Rc::new(RefCell::new(TriggerRecorder::new(own, info, each)));
        self.all.push(trigger_recorder.clone());
        Ok(Box::new(HostBuffer { inner, recorder: trigger_recorder }))
    }

    /// Saves the window of a trigger on every host; returns a message and an error flag.
    pub fn save(&self, capture: &Capture, online: &Online) -> (String, bool) {
        if self.all.is_empty() {
            return (capture.because.clone(), false);
        }
        let mut summaries = Vec::new();
        for (node, trigger_recorder) in self.all.iter().enumerate() {
            let own = |ns: u64| own_ns(online, node as u16, ns);
            let own = Capture {
                from_ns: own(capture.from_ns),
                to_ns: own(capture.to_ns),
                at_ns: own(capture.at_ns),
                ..capture.clone()
            };
            match trigger_recorder.borrow_mut().save(&own) {
                Ok(what) => summaries.push(what),
                Err(error) => return (format!("not saved: {error:#}"), true),
            }
        }
        (format!("saved {}", summaries.join("; ")), false)
    }
}

/// Converts an instant of the picture to a host's own clock.
fn own_ns(online: &Online, node: u16, picture_ns: u64) -> u64 {
    // The clocks run at nearly equal rates, so the second iteration is exact within the bound.
    let mut own_ns = picture_ns;
    for _ in 0..2 {
        let off_ns = online.rough_ns(node, own_ns).wrapping_sub(picture_ns as i64);
        own_ns = own_ns.saturating_add_signed(off_ns.wrapping_neg());
    }
    own_ns
}

/// A host's directory; its name is untrusted and must not contain a path.
pub fn below(dir: &Path, host: &str) -> PathBuf {
    let plain = |c: char| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '_' };
    let name: String = host.chars().map(plain).take(64).collect();
    dir.join(if name.trim_matches('.').is_empty() { "host" } else { &name })
}

impl Source for HostBuffer {
    fn info(&self) -> &NodeInfo {
        self.inner.info()
    }

    fn next(&mut self, batch: &mut Batch, timeout: Duration) -> Result<Progress, SourceError> {
        let progress = self.inner.next(batch, timeout)?;
        self.recorder.borrow_mut().hold(batch);
        Ok(progress)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hosts_name_is_never_a_path() {
        let name = |host: &str| below(Path::new("d"), host);
        assert_eq!(name("web-1"), PathBuf::from("d/web-1"));
        assert_eq!(name("../../etc"), PathBuf::from("d/.._.._etc"));
        assert_eq!((name(".."), name("")), (PathBuf::from("d/host"), PathBuf::from("d/host")));
    }
}
