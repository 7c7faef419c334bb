//! Recordings with some false numbers, as in a damaged or hostile recording.

use magscope_core::node::NodeInfo;
use magscope_core::{Batch, DetailKind, Event, EventFlags, ExtentKind, FlowId, Hop, Loss, LossCause, Proto};
use magscope_session::{RecordOptions, Recorder};
use std::path::Path;

const TENTH_NS: u64 = 100_000_000;

/// Reproducible pseudo-random numbers below `n` (xorshift).
pub fn dice(seed: u64) -> impl FnMut(u64) -> u64 {
    let mut state = seed;
    move |n| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % n
    }
}

/// Falsifies one field of some events.
fn spoil(events: &mut [Event], dice: &mut impl FnMut(u64) -> u64) {
    for event in events {
        let wild = match dice(4) {
            0 => 0,
            1 => u64::MAX,
            2 => 1 << dice(64),
            _ => dice(u64::MAX),
        };
        match dice(80) {
            0 => event.time_ns = wild,
            1 => event.time_ns = event.time_ns.wrapping_add(wild >> 24),
            2 => event.len = wild as u32,
            3 => event.extent = ExtentKind::ALL[wild as usize % ExtentKind::ALL.len()].of(wild as u32),
            4 => event.cpu = wild as u16,
            5 => event.flow = FlowId(wild),
            6 => event.socket = wild,
            7 => (event.tid, event.tgid) = (wild as u32, wild as u32),
            8 => event.flags = EventFlags(wild as u16),
            9 => event.hop = Hop::ALL[wild as usize % Hop::ALL.len()],
            10 => event.proto = Proto(wild as u8),
            11 => (event.segs, event.ip_id) = (wild as u16, wild as u16),
            12 => event.detail = DetailKind::ALL[wild as usize % DetailKind::ALL.len()].of(wild as u32),
            _ => {}
        }
    }
}

/// Writes a recording of three tenths of a second per seed; `until` makes each tenth.
pub fn record(path: &Path, info: &NodeInfo, seed: u64, mut until: impl FnMut(u64) -> Batch) {
    let mut dice = dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let mut recorder = Recorder::create(path, info, RecordOptions::default()).expect("a place");
    for tenth in 1..=3 {
        let mut batch = until(tenth * TENTH_NS);
        spoil(&mut batch.events, &mut dice);
        annotations(&mut batch, &mut dice);
        recorder.append(&batch).expect("room");
    }
    recorder.close().expect("it is written");
}

/// Adds false losses, clock samples and other rows.
fn annotations(batch: &mut Batch, dice: &mut impl FnMut(u64) -> u64) {
    let (from_ns, to_ns, count) = (dice(u64::MAX), dice(u64::MAX), dice(u64::MAX));
    let cause = LossCause::ALL[dice(LossCause::ALL.len() as u64) as usize];
    batch.losses.push(Loss { cpu: count as u16, from_ns, to_ns, count, cause });
    for sample in &mut batch.tcp {
        match dice(20) {
            0 => (sample.cwnd, sample.srtt_us, sample.snd_una) = (u32::MAX, u32::MAX, u32::MAX),
            1 => sample.time_ns = from_ns,
            2 => sample.flow = FlowId(count),
            _ => {}
        }
    }
    for sample in &mut batch.clock {
        match dice(6) {
            0 => sample.monotonic_ns = from_ns,
            1 => sample.raw_ns = to_ns,
            2 => sample.realtime_ns = count as i64,
            3 => (sample.width_ns, sample.suspended_ns) = (u32::MAX, from_ns),
            4 => (sample.frequency, sample.utc_error_ns) = (i64::MIN, Some(u64::MAX)),
            _ => {}
        }
    }
    if dice(3) == 0 {
        batch.watermark_ns = from_ns;
    }
}
