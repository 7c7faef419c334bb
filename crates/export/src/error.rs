//! Reasons for a failed export.

use std::io;

/// Reason for a failed export.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// Write error: a full disk, a closed pipe.
    #[error("it could not be written")]
    Io(#[from] io::Error),
    /// Arrow error.
    #[error("cannot put a table together")]
    Arrow(#[source] arrow::error::ArrowError),
    /// Parquet error.
    #[error("cannot write Parquet")]
    Parquet(#[source] parquet::errors::ParquetError),
    /// The file has another format than expected.
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
