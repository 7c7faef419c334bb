//! Query errors, as messages for the user.

use datafusion::error::DataFusionError;
use magscope_core::words::nearest;
use magscope_export::Table;

/// Why a query has no answer.
#[derive(Debug, thiserror::Error)]
pub enum QueryError {
    /// Invalid or unsupported query.
    #[error("{0}")]
    Query(String),
    /// The memory limit is exceeded.
    #[error("{0}")]
    Memory(String),
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
                "a join keeps one of its sides, DISTINCT and GROUP BY a row for each group",
                "allow more with --memory, or ask for less: a WHERE inside the join, fewer columns, --from and --to",
            ),
            QueryError::Threads(_) => ("", ""),
        }
    }
}

impl From<DataFusionError> for QueryError {
    fn from(error: DataFusionError) -> Self {
        let root = error.find_root();
        let said = root.message().trim_end().to_owned();
        match root {
            DataFusionError::ResourcesExhausted(_) => QueryError::Memory(said),
            _ => QueryError::Query(unknown_table(&said).unwrap_or(said)),
        }
    }
}

/// The engine's message for a missing table, with the most similar one.
fn unknown_table(said: &str) -> Option<String> {
    let name = said.strip_prefix("table '")?.strip_suffix("' not found")?;
    let name = name.rsplit('.').next().unwrap_or(name);
    let tables = Table::RECORDED.iter().map(|table| table.name());
    let all: Vec<&str> = tables.clone().collect();
    let near = nearest(name, tables).unwrap_or_default();
    Some(format!("no table is called `{name}`; the nearest is `{near}`. There are {}", all.join(", ")))
}
