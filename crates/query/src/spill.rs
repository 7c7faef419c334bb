//! Spill files of sorts and groups: files without a name, which the kernel removes however the process ends.

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
#[derive(Debug, Default)]
pub(crate) struct UnnamedFiles;

impl TempFileFactory for UnnamedFiles {
    fn create_temp_file(&self, _: &str) -> Result<Arc<dyn SpillFile>> {
        let file = tempfile::tempfile().map_err(DataFusionError::IoError)?;
        Ok(Arc::new(Unnamed(Arc::new(Written { file, bytes: AtomicU64::new(0) }))))
    }
}

/// A file and how many bytes it has.
#[derive(Debug)]
struct Written {
    file: File,
    bytes: AtomicU64,
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
        let n = (&self.0.file).write(bytes)?;
        self.0.bytes.fetch_add(n as u64, Ordering::Relaxed);
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
