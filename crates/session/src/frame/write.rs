//! Rows to messages.

use arrow::array::RecordBatch;
use arrow::datatypes::Schema;
use arrow::error::ArrowError;
use arrow::ipc::writer::{
    DictionaryTracker, IpcDataGenerator, IpcWriteContext, IpcWriteOptions, write_message,
};
use arrow::ipc::{CompressionType, MetadataVersion};

/// How the body of a batch is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Codec {
    /// zstd, level 1: small enough and fast enough.
    Zstd,
    /// Not at all: for a few rows, and for when zstd cannot keep up.
    Plain,
}

/// Makes messages; keeps the compressor's memory between them.
pub(crate) struct Encoder {
    generator: IpcDataGenerator,
    context: IpcWriteContext,
    zstd: IpcWriteOptions,
    plain: IpcWriteOptions,
}

impl Encoder {
    pub(crate) fn new() -> Result<Self, ArrowError> {
        // Eight bytes of alignment instead of 64: small batches of many columns would be half padding.
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
        // No column has a dictionary, so there is nothing to track and no dictionary message.
        let mut tracker = DictionaryTracker::new(false);
        self.context.set_reserve_scratch(true);
        let (_, message) = self.generator.encode(batch, &mut tracker, options, &mut self.context)?;
        let mut bytes = Vec::with_capacity(message.ipc_message.len() + message.arrow_data.len() + 64);
        write_message(&mut bytes, message, options)?;
        Ok(bytes)
    }
}
