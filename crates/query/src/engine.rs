//! The engine: tables, functions, a query, its answer.

use crate::between::{BetweenNodes, HopPair};
use crate::duration::Duration;
use crate::error::QueryError;
use crate::feed::{Feed, Rows, Want};
use crate::percentile::Percentile;
use arrow::array::RecordBatch;
use datafusion::catalog::streaming::StreamingTable;
use datafusion::error::DataFusionError;
use datafusion::execution::memory_pool::FairSpillPool;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::logical_expr::AggregateUDF;
use datafusion::prelude::{SQLOptions, SessionConfig, SessionContext};
use futures::StreamExt;
use magscope_export::Table;
use std::sync::Arc;

/// Interval at which a query without rows checks for a stop request.
const LOOK: std::time::Duration = std::time::Duration::from_millis(50);

/// Maximum length of a query, bytes: the engine plans a sum of n terms in O(n²).
const LONGEST_BYTES: usize = 8 << 10;
/// Stack of the planning and query threads: sufficient for the deepest nesting of a query of maximum length,
/// and committed on use.
const STACK_BYTES: usize = 512 << 20;

/// Result of a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// All rows were returned.
    Whole,
    /// Stopped on request.
    Stopped,
}

/// Answers queries about recordings.
pub struct Engine {
    context: SessionContext,
    runtime: tokio::runtime::Runtime,
}

impl Engine {
    /// An engine with the tables of `feed`, and at most `memory_bytes` of query state. Sorts and groups beyond
    /// that spill to a temporary file; others fail.
    pub fn new(feed: &Feed, memory_bytes: usize) -> Result<Self, QueryError> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .thread_name("magscope-query")
            .thread_stack_size(STACK_BYTES)
            .enable_time()
            .build()
            .map_err(QueryError::Threads)?;
        // Rows stay in read order unless the query sorts them.
        let config = SessionConfig::new().with_round_robin_repartition(false).with_information_schema(true);
        let environment = RuntimeEnvBuilder::new()
            .with_memory_pool(Arc::new(FairSpillPool::new(memory_bytes)))
            .build_arc()?;
        let context = SessionContext::new_with_config_rt(config, environment);
        for table in Table::RECORDED {
            let schema = table.schema();
            let rows = Rows { feed: feed.clone(), want: Want::Table(*table), schema: schema.clone() };
            let provider = StreamingTable::try_new(schema, vec![Arc::new(rows)])?;
            context.register_table(table.name(), Arc::new(provider))?;
        }
        context.register_udtf("hop_pair", Arc::new(HopPair(feed.clone())));
        context.register_udtf("between_nodes", Arc::new(BetweenNodes(feed.clone())));
        context.register_udaf(AggregateUDF::from(Percentile::new()));
        context.register_udaf(AggregateUDF::from(Duration::new()));
        Ok(Engine { context, runtime })
    }

    /// Runs a query, batch by batch, until `stop` returns true. The first batch is empty and has the columns.
    /// Queries are read-only: no files, no settings.
    pub fn query<E: From<QueryError> + Send>(
        &self,
        sql: &str,
        stop: &(dyn Fn() -> bool + Sync),
        take: impl FnMut(&RecordBatch) -> Result<(), E> + Send,
    ) -> Result<Ended, E> {
        if sql.len() > LONGEST_BYTES {
            return Err(QueryError::Query(format!("a query has {LONGEST_BYTES} bytes at most")).into());
        }
        std::thread::scope(|scope| {
            let thread = std::thread::Builder::new().stack_size(STACK_BYTES);
            let asked = thread.spawn_scoped(scope, || self.runtime.block_on(self.answer(sql, stop, take)));
            match asked.map_err(QueryError::Threads)?.join() {
                Ok(ended) => ended,
                Err(panic) => std::panic::resume_unwind(panic),
            }
        })
    }

    async fn answer<E: From<QueryError>>(
        &self,
        sql: &str,
        stop: &(dyn Fn() -> bool + Sync),
        mut take: impl FnMut(&RecordBatch) -> Result<(), E>,
    ) -> Result<Ended, E> {
        let options =
            SQLOptions::new().with_allow_ddl(false).with_allow_dml(false).with_allow_statements(false);
        let failed = |error: DataFusionError| E::from(QueryError::from(error));
        let frame = self.context.sql_with_options(sql, options).await.map_err(failed)?;
        let empty = RecordBatch::new_empty(Arc::new(frame.schema().as_arrow().clone()));
        let mut stream = frame.execute_stream().await.map_err(failed)?;
        take(&empty)?;
        loop {
            if stop() {
                return Ok(Ended::Stopped);
            }
            match tokio::time::timeout(LOOK, stream.next()).await {
                Ok(Some(batch)) => take(&batch.map_err(failed)?)?,
                Ok(None) => return Ok(Ended::Whole),
                Err(_) => {}
            }
        }
    }
}
