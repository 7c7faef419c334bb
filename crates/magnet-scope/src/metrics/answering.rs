//! A thread with its own runtime that answers requests, independent of the capture.

use crate::output;
use anyhow::{Context, Result};
use std::io;
use std::net::TcpListener;
use std::thread::JoinHandle;
use tokio::sync::oneshot;

/// The answering thread, ended on drop.
pub struct Answering {
    thread: Option<JoinHandle<()>>,
    end: Option<oneshot::Sender<()>>,
}

impl Answering {
    /// Starts at this listener: `serve` runs until its second argument completes. Called after privileges are
    /// dropped.
    pub fn start<F>(
        listener: TcpListener,
        serve: impl FnOnce(tokio::net::TcpListener, oneshot::Receiver<()>) -> F + Send + 'static,
    ) -> Result<Self>
    where
        F: Future<Output = ()>,
    {
        listener.set_nonblocking(true)?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .context("cannot start what answers")?;
        let (end, ended) = oneshot::channel();
        let thread = std::thread::Builder::new().name("magnet-answer".to_owned());
        let thread = thread.spawn(move || {
            let served: io::Result<()> = runtime.block_on(async {
                serve(tokio::net::TcpListener::from_std(listener)?, ended).await;
                Ok(())
            });
            if let Err(error) = served {
                output::note(&format!("cannot answer: {error}"));
            }
        })?;
        Ok(Answering { thread: Some(thread), end: Some(end) })
    }

    /// True while requests are answered.
    pub fn serves(&self) -> bool {
        self.thread.as_ref().is_some_and(|thread| !thread.is_finished())
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        drop(self.end.take());
        if let Some(thread) = self.thread.take() {
            // No receiver remains for an error.
            let _ = thread.join();
        }
    }
}
