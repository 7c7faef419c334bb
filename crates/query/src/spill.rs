//! Spill files of sorts and groups: files without a name, which the kernel removes however the process ends.
//!
//! A query takes at most half of what is free when it begins, so that a recorder on the same disk has room.

use bytes::Bytes;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{SpillFile, SpillWriter, TempFileFactory};
use futures::{Stream, stream};
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes of one read.
const READ_BYTES: usize = 128 << 10;

/// Makes spill files in the system's temporary directory.
#[derive(Debug)]
pub(crate) struct UnnamedFiles {
    /// Bytes that they may still take together.
    left: Arc<AtomicU64>,
}

impl UnnamedFiles {
    /// With half of the room that is free.
    pub fn new() -> io::Result<Self> {
        let disk = rustix::fs::statvfs(std::env::temp_dir())?;
        let free = disk.f_bavail.saturating_mul(disk.f_frsize);
        Ok(Self::with(free / 2))
    }

    fn with(bytes: u64) -> Self {
        UnnamedFiles { left: Arc::new(AtomicU64::new(bytes)) }
    }
}

impl TempFileFactory for UnnamedFiles {
    fn create_temp_file(&self, _: &str) -> Result<Arc<dyn SpillFile>> {
        let file = tempfile::tempfile().map_err(DataFusionError::IoError)?;
        let written = Written { file, bytes: AtomicU64::new(0), left: self.left.clone() };
        Ok(Arc::new(Unnamed(Arc::new(written))))
    }
}

/// A file and how many bytes it has.
#[derive(Debug)]
struct Written {
    file: File,
    bytes: AtomicU64,
    left: Arc<AtomicU64>,
}

impl Drop for Written {
    fn drop(&mut self) {
        self.left.fetch_add(self.bytes.load(Ordering::Relaxed), Ordering::Relaxed);
    }
}

struct Unnamed(Arc<Written>);

impl SpillFile for Unnamed {
    fn size(&self) -> Option<u64> {
        Some(self.0.bytes.load(Ordering::Relaxed))
    }

    fn read_stream(&self) -> Result<Pin<Box<dyn Stream<Item = Result<Bytes>> + Send>>> {
        let file = self.0.clone();
        Ok(Box::pin(stream::try_unfold(0, move |at| {
            let file = file.clone();
            async move {
                let mut bytes = vec![0; READ_BYTES];
                let n = file.file.read_at(&mut bytes, at).map_err(DataFusionError::IoError)?;
                bytes.truncate(n);
                Ok((n > 0).then(|| (Bytes::from(bytes), at + n as u64)))
            }
        })))
    }

    fn open_writer(&self) -> Result<Box<dyn SpillWriter>> {
        Ok(Box::new(Unnamed(self.0.clone())))
    }
}

impl Write for Unnamed {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Written { file, bytes: written, left } = &*self.0;
        let take = |left: u64| left.checked_sub(bytes.len() as u64);
        if left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_err() {
            return Err(io::Error::new(
                io::ErrorKind::StorageFull,
                "a query takes half of the free disk at most",
            ));
        }
        let n = (&mut &*file).write(bytes).inspect_err(|_| {
            left.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        })?;
        left.fetch_add((bytes.len() - n) as u64, Ordering::Relaxed);
        written.fetch_add(n as u64, Ordering::Relaxed);
        Ok(n)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl SpillWriter for Unnamed {
    fn finish(&mut self) -> Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::StreamExt;

    #[test]
    fn files_take_no_more_than_their_room_and_give_it_back() {
        let files = UnnamedFiles::with(1_000);
        let bytes: Vec<u8> = (0..=255).cycle().take(600).collect();
        let first = files.create_temp_file("a test").expect("a file");
        first.open_writer().expect("a writer").write_all(&bytes).expect("room");
        let second = files.create_temp_file("a test").expect("a file");
        let full = second.open_writer().expect("a writer").write_all(&bytes).expect_err("no room");
        assert_eq!(
            (full.kind(), first.size(), second.size()),
            (io::ErrorKind::StorageFull, Some(600), Some(0))
        );
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a thread");
        let stream = first.read_stream().expect("a stream").map(|read| read.expect("it is there"));
        let read: Vec<Bytes> = runtime.block_on(stream.collect());
        assert_eq!(read.concat(), bytes);
        drop(first);
        second.open_writer().expect("a writer").write_all(&bytes).expect("room again");
    }
}
