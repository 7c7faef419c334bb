//! One walk over the recordings: whatever has not arrived yet is carried to the store, in order.

use crate::error::ShipError;
use crate::ledger::Ledger;
use crate::shelf::{Lot, Shelf, has_arrived};
use crate::store::{Parcel, Store};
use magscope_session::{META, Meta, Shipped, Table, is_being_recorded};
use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs::{self, File};
use std::path::PathBuf;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::SystemTime;

/// Most bytes of a `meta.toml` in the store that are looked at.
const LONGEST_META: u64 = 4 << 20;

/// A recording that is being recorded.
#[derive(Clone, Debug)]
pub(crate) struct Running {
    pub(crate) dir: PathBuf,
    /// Segments below this number are closed.
    pub(crate) segment: u32,
    /// Told what has arrived.
    pub(crate) shipped: Shipped,
}

/// What has been done, for whoever looks from another thread.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) segments: AtomicU64,
    pub(crate) bytes: AtomicU64,
    pub(crate) waiting: AtomicU64,
}

/// What is known of a recording that has not arrived as a whole.
struct Parted {
    ledger: Ledger,
    /// Nothing until the store has answered for the first time.
    greeted: Option<Greeted>,
    /// When its `meta.toml` was last written, and how long it was, when it was last held against the one that is there.
    meta_of: Option<(SystemTime, u64)>,
}

/// What the store said of a recording.
struct Greeted {
    /// `host/recording`
    key: String,
    /// What is there may be ours though the ledger does not know it: someone was killed before the line was written.
    may_be_there: bool,
}

/// Carries to one store.
pub(crate) struct Carrier {
    store: Box<dyn Store>,
    place: String,
    shelf: Shelf,
    parted: HashMap<PathBuf, Parted>,
    /// What has arrived as a whole.
    done: HashSet<PathBuf>,
    /// What cannot be shipped at all.
    refused: HashSet<PathBuf>,
}

impl Carrier {
    pub(crate) fn new(store: Box<dyn Store>, place: String, shelf: Shelf) -> Self {
        let (parted, done, refused) = Default::default();
        Carrier { store, place, shelf, parted, done, refused }
    }

    /// Carries all that is closed. The first error ends the walk; the next walk goes on there. `may_go_on` is asked before each file.
    pub(crate) fn walk(
        &mut self,
        running: &dyn Fn() -> Vec<Running>,
        counts: &Counts,
        may_go_on: &dyn Fn() -> bool,
    ) -> Result<(), ShipError> {
        for lot in self.open_lots()? {
            // Asked anew for each: what was running before is closed now.
            let its = running().into_iter().find(|running| running.dir == lot.dir);
            match self.lot(&lot, its.as_ref(), counts, may_go_on) {
                Ok(()) => {}
                Err(error) if error.is_gone() && !lot.dir.join(META).exists() => {
                    self.parted.remove(&lot.dir);
                }
                Err(error) => {
                    if error.is_for_good() {
                        self.refused.insert(lot.dir);
                    }
                    return Err(error);
                }
            }
            if !may_go_on() {
                break;
            }
        }
        Ok(())
    }

    /// Counts the closed segments that have not arrived.
    pub(crate) fn count(&mut self, running: &[Running], counts: &Counts) -> Result<(), ShipError> {
        let mut waiting = 0;
        for lot in self.open_lots()? {
            let its = running.iter().find(|running| running.dir == lot.dir);
            // What cannot be read is told by the walk.
            let (Ok(segments), Ok(parted)) = (lot.segments(), self.parted(&lot)) else { continue };
            let ledger = &parted.ledger;
            let closed = segments.iter().filter(|(number, _)| its.is_none_or(|its| **number < its.segment));
            waiting += closed.filter(|(number, tables)| !has_arrived(ledger, **number, tables)).count();
        }
        counts.waiting.store(waiting as u64, Relaxed);
        Ok(())
    }

    /// Those that have not arrived as a whole. What is not on the shelf any more is forgotten.
    fn open_lots(&mut self) -> Result<Vec<Lot>, ShipError> {
        let mut lots = self.shelf.lots()?;
        let there: HashSet<&PathBuf> = lots.iter().map(|lot| &lot.dir).collect();
        self.done.retain(|dir| there.contains(dir));
        self.refused.retain(|dir| there.contains(dir));
        self.parted.retain(|dir, _| there.contains(dir));
        lots.retain(|lot| !self.done.contains(&lot.dir) && !self.refused.contains(&lot.dir));
        Ok(lots)
    }

    fn parted(&mut self, lot: &Lot) -> Result<&mut Parted, ShipError> {
        Ok(match self.parted.entry(lot.dir.clone()) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(unknown) => {
                let ledger = Ledger::read(&lot.dir, &self.place)?;
                unknown.insert(Parted { ledger, greeted: None, meta_of: None })
            }
        })
    }

    /// Carries what is closed of one recording.
    fn lot(
        &mut self,
        lot: &Lot,
        running: Option<&Running>,
        counts: &Counts,
        may_go_on: &dyn Fn() -> bool,
    ) -> Result<(), ShipError> {
        if running.is_none() && is_being_recorded(&lot.dir) {
            let because = "it is being recorded; it can be shipped when that has ended".to_owned();
            return Err(refused(lot, because));
        }
        self.parted(lot)?;
        let Some(mut parted) = self.parted.remove(&lot.dir) else { return Ok(()) };
        let result = self.whole(lot, &mut parted, running, counts, may_go_on);
        if matches!(result, Ok(true)) && running.is_none() {
            self.done.insert(lot.dir.clone());
        } else {
            self.parted.insert(lot.dir.clone(), parted);
        }
        result.map(|_| ())
    }

    fn whole(
        &self,
        lot: &Lot,
        parted: &mut Parted,
        running: Option<&Running>,
        counts: &Counts,
        may_go_on: &dyn Fn() -> bool,
    ) -> Result<bool, ShipError> {
        if parted.greeted.is_none() {
            parted.greeted = Some(self.greet(lot)?);
        }
        self.rest(lot, parted, running, counts, may_go_on)
    }

    /// Looks at a recording for the first time, here and there.
    fn greet(&self, lot: &Lot) -> Result<Greeted, ShipError> {
        let meta = meta_of(lot)?;
        let key = format!("{}/{}", plain(&meta.node.host), plain(&lot.name));
        let there = self.store.get(&format!("{key}/{META}"), LONGEST_META)?;
        if let Some(there) = &there {
            let session = Meta::session_of(&String::from_utf8_lossy(there));
            if session.is_some_and(|session| session != meta.session) {
                let place = format!("{}/{key}", self.place);
                return Err(ShipError::Taken { place, dir: lot.dir.clone() });
            }
        }
        Ok(Greeted { may_be_there: there.is_some(), key })
    }

    /// Whether it went to the end.
    fn rest(
        &self,
        lot: &Lot,
        parted: &mut Parted,
        running: Option<&Running>,
        counts: &Counts,
        may_go_on: &dyn Fn() -> bool,
    ) -> Result<bool, ShipError> {
        // First of all what makes the rest readable, so that a part of the recording is one.
        if parted.ledger.arrived(META).is_none() {
            self.meta(lot, parted)?;
        }
        let segments: BTreeMap<u32, Vec<Table>> = lot.segments()?;
        let closed = segments.into_iter().filter(|(number, _)| running.is_none_or(|its| *number < its.segment));
        for (number, tables) in closed {
            if !has_arrived(&parted.ledger, number, &tables) {
                match self.segment(lot, parted, (number, &tables), counts, may_go_on) {
                    Ok(true) => {
                        counts.segments.fetch_add(1, Relaxed);
                        // Counted anew now and then; in between it is near enough.
                        let _ = counts.waiting.fetch_update(Relaxed, Relaxed, |waiting| waiting.checked_sub(1));
                    }
                    Ok(false) => return Ok(false),
                    // The recorder's limit was faster, and has counted it.
                    Err(error) if error.is_gone() && parted.ledger.is_there() => continue,
                    Err(error) => return Err(error),
                }
            }
            if let Some(running) = running {
                running.shipped.set_below(number + 1);
            }
        }
        if running.is_none() {
            // At the end it is read whatever the clock of the file system says.
            parted.meta_of = None;
        }
        self.meta(lot, parted)?;
        Ok(true)
    }

    /// Carries one segment; whether to its end.
    fn segment(
        &self,
        lot: &Lot,
        parted: &mut Parted,
        (number, tables): (u32, &[Table]),
        counts: &Counts,
        may_go_on: &dyn Fn() -> bool,
    ) -> Result<bool, ShipError> {
        for table in tables {
            let name = table.file_name(number);
            if parted.ledger.arrived(&name).is_some() {
                continue;
            }
            if !may_go_on() {
                return Ok(false);
            }
            let path = lot.dir.join(&name);
            let file = File::open(&path).map_err(ShipError::local("open", &path))?;
            let parcel = Parcel::file(&file).map_err(ShipError::local("read", &path))?;
            self.carry(parted, &name, &parcel)?;
            counts.bytes.fetch_add(parcel.bytes, Relaxed);
        }
        Ok(true)
    }

    /// Carries `meta.toml` if it is another than the one that is there.
    fn meta(&self, lot: &Lot, parted: &mut Parted) -> Result<(), ShipError> {
        let path = lot.dir.join(META);
        let found = fs::metadata(&path).map_err(ShipError::local("look at", &path))?;
        // It is replaced as a whole, so it is another where these are.
        let written = found.modified().ok().map(|at| (at, found.len()));
        if written.is_some() && parted.meta_of == written {
            return Ok(());
        }
        let text = meta_of(lot)?.of_copy().map_err(|error| refused(lot, error.to_string()))?;
        let parcel = Parcel::bytes(text.as_bytes());
        if parted.ledger.arrived(META) != Some((parcel.bytes, parcel.crc)) {
            self.carry(parted, META, &parcel)?;
        }
        parted.meta_of = written;
        Ok(())
    }

    fn carry(&self, parted: &mut Parted, name: &str, parcel: &Parcel<'_>) -> Result<(), ShipError> {
        let Some(Greeted { key, may_be_there }) = &parted.greeted else { return Ok(()) };
        let key = format!("{key}/{name}");
        let is_there = *may_be_there
            && self
                .store
                .stat(&key)?
                .is_some_and(|stat| stat.bytes == parcel.bytes && stat.crc == Some(parcel.crc));
        if !is_there {
            self.store.put(&key, parcel)?;
        }
        parted.ledger.add(name, parcel.bytes, parcel.crc)
    }
}

/// What a recording says of itself.
fn meta_of(lot: &Lot) -> Result<Meta, ShipError> {
    match Meta::load(&lot.dir) {
        Ok(Some(meta)) => Ok(meta),
        Ok(None) | Err(_) if !lot.dir.join(META).exists() => {
            let (path, source) = (lot.dir.join(META), std::io::ErrorKind::NotFound.into());
            Err(ShipError::Local { operation: "read", path, source })
        }
        Ok(None) => Err(refused(lot, "its meta.toml cannot be read".to_owned())),
        Err(error) => Err(refused(lot, error.to_string())),
    }
}

fn refused(lot: &Lot, because: String) -> ShipError {
    ShipError::NoRecording { dir: lot.dir.clone(), because }
}

/// A name as a part of a key: nothing that a path or a URL would read something into.
fn plain(name: &str) -> String {
    let plain: String = name
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.') { c } else { '_' })
        .take(200)
        .collect();
    if plain.chars().all(|c| c == '.') { "_".repeat(plain.len().max(1)) } else { plain }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_parts_of_keys() {
        for (name, expected) in [
            ("web-1", "web-1"),
            ("a b/c", "a_b_c"),
            ("..", "__"),
            ("", "_"),
            ("2026-11-22T12-00-00Z", "2026-11-22T12-00-00Z"),
        ] {
            assert_eq!(plain(name), expected);
        }
    }
}
