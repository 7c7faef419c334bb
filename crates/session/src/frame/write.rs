//! Encodes rows into messages.

use arrow::array::RecordBatch;
use arrow::datatypes::Schema;
use arrow::error::ArrowError;
use arrow::ipc::writer::{
    DictionaryTracker, IpcDataGenerator, IpcWriteContext, IpcWriteOptions, write_message,
};
use arrow::ipc::{CompressionType, MetadataVersion};

/// Compression of a batch's body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Codec {
    /// zstd, level 1: small enough and fast enough.
    Zstd,
    /// No compression: for a few rows, and if zstd is too slow.
    Plain,
}

/// Encoder; reuses the compressor's memory.
pub(crate) struct Encoder {
    generator: IpcDataGenerator,
    context: IpcWriteContext,
    zstd: IpcWriteOptions,
    plain: IpcWriteOptions,
}

impl Encoder {
    pub(crate) fn new() -> Result<Self, ArrowError> {
        // Alignment of eight bytes instead of 64: with many columns half of a small batch would be padding.
        let plain = IpcWriteOptions::try_new(8, false, MetadataVersion::V5)?;
        Ok(Encoder {
            generator: IpcDataGenerator::default(),
            context: IpcWriteContext::default(),
            zstd: plain
                .clone()
                .try_with_compression(Some(CompressionType::ZSTD))?
                .try_with_compression_level(Some(1))?,
            plain,
        })
    }

    /// The message that opens a file.
    pub(crate) fn schema(&self, schema: &Schema) -> Result<Vec<u8>, ArrowError> {
        let mut tracker = DictionaryTracker::new(false);
        let message = self.generator.schema_to_bytes_with_dictionary_tracker(schema, &mut tracker, &self.plain);
        let mut bytes = Vec::with_capacity(4_096);
        write_message(&mut bytes, message, &self.plain)?;
        Ok(bytes)
    }

    /// The message of one batch, whole: prefix, metadata and body, a multiple of eight bytes.
    pub(crate) fn batch(&mut self, batch: &RecordBatch, codec: Codec) -> Result<Vec<u8>, ArrowError> {
        let options = match codec {
            Codec::Zstd => &self.zstd,
            Codec::Plain => &self.plain,
        };
        // No column has a dictionary, so there are no dictionary messages.
        let mut tracker = DictionaryTracker::new(false);
        self.context.set_reserve_scratch(true);
        let (_, message) = self.generator.encode(batch, &mut tracker, options, &mut self.context)?;
        let mut bytes = Vec::with_capacity(message.ipc_message.len() + message.arrow_data.len() + 64);
        write_message(&mut bytes, message, options)?;
        Ok(bytes)
    }
}
