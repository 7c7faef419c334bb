//! Query errors, as messages for the user.

use arrow::error::ArrowError;
use datafusion::error::DataFusionError;
use magscope_core::words::nearest;
use magscope_export::Table;
use std::error::Error;
use std::io;

/// What has to stay in memory.
const CANNOT_SPILL: &str = "a join keeps one of its sides in memory, and an aggregate as count(DISTINCT …) all values of a group; \
    ORDER BY, DISTINCT and GROUP BY go to a temporary file, for which a few MiB are needed";

/// Why a query has no answer.
#[derive(Debug, thiserror::Error)]
pub enum QueryError {
    /// Invalid or unsupported query.
    #[error("{0}")]
    Query(String),
    /// The memory limit is exceeded.
    #[error("{0}")]
    Memory(String),
    /// Its temporary files have no room.
    #[error("{0}")]
    Disk(String),
    /// Its temporary files cannot be had.
    #[error("cannot use the directory of temporary files, {}", std::env::temp_dir().display())]
    Spill(#[source] std::io::Error),
    /// Threads for it cannot be had.
    #[error("cannot start the query's threads")]
    Threads(#[source] std::io::Error),
}

impl QueryError {
    /// The likely cause and the next step; empty if the error is sufficient.
    pub fn hint(&self) -> (&'static str, &'static str) {
        match self {
            QueryError::Query(_) => ("", "docs/queries.md has queries to begin with"),
            QueryError::Memory(_) => (
                CANNOT_SPILL,
                "allow more with --memory, or ask for less: a WHERE inside the join, fewer columns, --from and --until",
            ),
            QueryError::Disk(_) => (
                "the disk of temporary files is full, or a query took half of what was free there",
                "free space there, name another directory in TMPDIR, allow more with --memory, or ask for less",
            ),
            QueryError::Spill(_) => ("it does not exist, or may not be read", "name another one in TMPDIR"),
            QueryError::Threads(_) => ("", ""),
        }
    }
}

impl From<DataFusionError> for QueryError {
    fn from(error: DataFusionError) -> Self {
        if is_full(&error) {
            return QueryError::Disk(error.to_string());
        }
        let root = error.find_root();
        let message = root.message().trim_end().to_owned();
        match root {
            DataFusionError::ResourcesExhausted(_) => QueryError::Memory(message),
            // Its message is the variant's debug text; this one has words, line and column.
            DataFusionError::SQL(error, _) => QueryError::Query(error.to_string()),
            _ => QueryError::Query(unknown_table(&message).unwrap_or(message)),
        }
    }
}

/// Whether a disk without room is behind it.
fn is_full(error: &(dyn Error + 'static)) -> bool {
    let io = match error.downcast_ref::<ArrowError>() {
        Some(ArrowError::IoError(_, error)) => Some(error),
        _ => error.downcast_ref::<io::Error>(),
    };
    let full =
        |error: &io::Error| matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded);
    io.is_some_and(full) || error.source().is_some_and(is_full)
}

/// The engine's words for a table that is not there, with the nearest that is.
fn unknown_table(message: &str) -> Option<String> {
    let name = message.strip_prefix("table '")?.strip_suffix("' not found")?;
    let name = name.rsplit('.').next().unwrap_or(name);
    let tables = Table::RECORDED.iter().map(|table| table.name());
    let all: Vec<&str> = tables.clone().collect();
    let near = nearest(name, tables).unwrap_or_default();
    Some(format!("no table is called `{name}`; the nearest is `{near}`. There are {}", all.join(", ")))
}
