//! Why an export cannot go on.

use std::io;

/// Why an export cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// What is written to does not take it: a full disk, a closed pipe.
    #[error("it could not be written")]
    Io(#[from] io::Error),
    /// Columns could not be put together.
    #[error("cannot put a table together")]
    Arrow(#[source] arrow::error::ArrowError),
    /// Parquet could not be written.
    #[error("cannot write Parquet")]
    Parquet(#[source] parquet::errors::ParquetError),
    /// The file is not of the format it was taken for.
    #[error("{0}")]
    Format(String),
}

impl From<arrow::error::ArrowError> for ExportError {
    fn from(error: arrow::error::ArrowError) -> Self {
        match error {
            arrow::error::ArrowError::IoError(_, source) => ExportError::Io(source),
            error => ExportError::Arrow(error),
        }
    }
}

impl From<parquet::errors::ParquetError> for ExportError {
    fn from(error: parquet::errors::ParquetError) -> Self {
        match error {
            parquet::errors::ParquetError::External(source) => match source.downcast::<io::Error>() {
                Ok(source) => ExportError::Io(*source),
                Err(source) => ExportError::Parquet(parquet::errors::ParquetError::External(source)),
            },
            error => ExportError::Parquet(error),
        }
    }
}
