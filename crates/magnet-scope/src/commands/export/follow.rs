//! `--follow`: exports a running recording continuously.

use super::format::Format;
use super::{Args, ExportFeed, print_written, target};
use crate::growing::Growing;
use crate::recordings::FoundDamage;
use crate::reporting;
use crate::signals::Stop;
use anyhow::{Context, Result};
use magscope_core::source::Source;
use magscope_export::{Chosen, TimeLine};
use std::sync::Arc;
use std::time::Instant;

/// Follows the recording to its end.
pub fn run(args: &Args, format: Format, chosen: Chosen, target: target::Target, stop: &Stop) -> Result<()> {
    let began = Instant::now();
    let target = target.growing();
    let dir = args.sessions.dirs.first().cloned().unwrap_or_default();
    let damage = Arc::new(FoundDamage::default());
    let mut source = Growing::new(dir, stop.clone(), damage.clone())?;
    let line = TimeLine { to_utc_ns: source.to_utc_ns()? };
    let infos = [source.info().clone()];
    let writer = format.writer(&target, &infos, line, chosen, &[], args);
    let mut fed = ExportFeed::new(writer.with_context(|| target::cannot(&args.output))?, format);
    let given_up = source.given_up();
    let walked = reporting::walk(&mut source, args.limits.limits(), |piece| {
        fed.piece(&piece);
        if let magscope_timeline::merged_reader::Piece::Batch(..) = piece
            && fed.error.is_none()
        {
            fed.error = fed.export.flush().err();
        }
        given_up.set(fed.error.is_some());
    });
    damage.note();
    let walked = walked?;
    reporting::note_evicted(&walked);
    let written = fed.finish().map_err(|error| target::failed(&args.output, error))?;
    let size = target.commit()?;
    print_written(&args.output, &written, size, began);
    Ok(())
}
