//! Feeds a sensor until its source ends.

use super::own;
use crate::connect::Until;
use crate::output;
use crate::reporting::note_evicted;
use crate::screen::{Followed, Received};
use crate::signals::Stop;
use anyhow::{Result, bail};
use magscope_core::journey::Limits;
use magscope_core::source::{Progress, Source};
use magscope_sensor::{LatestSnapshot, Publisher, Sensor};
use magscope_timeline::join::OneClock;
use magscope_timeline::merged_reader::Walker;
use std::time::Duration;

/// Maximum wait of a source, the maximum delay of a signal.
const PATIENCE: Duration = Duration::from_millis(100);

/// This host's capture; `serves` returns false if requests can no longer be answered.
pub fn local(
    source: impl Source,
    limits: Limits,
    board: &LatestSnapshot,
    serves: &dyn Fn() -> bool,
) -> Result<()> {
    let mut sensor = Sensor::new(std::slice::from_ref(source.info()), false);
    let mut walker = Walker::new(vec![Box::new(source)], &OneClock, limits, PATIENCE);
    let mut publisher = Publisher::new(board, own);
    while walker.step(&mut |piece| sensor.add(&piece)).map_err(anyhow::Error::from_boxed)? == Progress::More {
        publisher.offer(&sensor);
        if !serves() {
            bail!("what answers has ended");
        }
    }
    publisher.put(&sensor);
    note_evicted(&walker.walked());
    Ok(())
}

/// Agents, for a duration or until a signal.
pub fn agents(
    mut followed: Followed,
    limits: Limits,
    duration: Option<Duration>,
    stop: &Stop,
    board: &LatestSnapshot,
    serves: &dyn Fn() -> bool,
) -> Result<()> {
    let mut sensor = Sensor::new(followed.infos(), true);
    let mut follower = followed.follower(limits);
    let mut publisher = Publisher::new(board, own);
    let until = Until::new(duration, stop);
    loop {
        let progress = follower.step(&mut |came| match came {
            Received::Host(info) => {
                output::note(&format!("{} is here", info.host));
                sensor.join(info);
            }
            Received::Piece(piece) => sensor.add(&piece),
        });
        if progress.map_err(anyhow::Error::from_boxed)? == Progress::End {
            break;
        }
        follower.ticker().inspect(|ticker| until.look(ticker));
        if publisher.is_due() {
            sensor.read_clocks(follower.online());
            publisher.put(&sensor);
        }
        if !serves() {
            bail!("what answers has ended");
        }
    }
    publisher.put(&sensor);
    note_evicted(&follower.walked());
    Ok(())
}
