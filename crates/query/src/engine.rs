//! The engine: tables, functions, a query, its answer.

use crate::between::{BetweenNodes, HopPair, Periods};
use crate::duration::Duration;
use crate::error::QueryError;
use crate::feed::{Feed, Rows, Want};
use crate::percentile::Percentile;
use crate::spill::UnnamedFiles;
use arrow::array::RecordBatch;
use datafusion::catalog::streaming::StreamingTable;
use datafusion::error::DataFusionError;
use datafusion::execution::disk_manager::DiskManagerBuilder;
use datafusion::execution::memory_pool::FairSpillPool;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::logical_expr::AggregateUDF;
use datafusion::prelude::{SQLOptions, SessionConfig, SessionContext};
use futures::StreamExt;
use magscope_export::Table;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};

/// Time between two looks at whether a query that gives no rows is to stop.
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

/// Memory for each part of a query that runs beside the others: with less of it, a part has no room to sort what it spills.
const PART_BYTES: usize = 64 << 20;
/// Memory for each row of a batch: an operator holds several batches before it can spill, and a group may have a histogram.
const ROW_BYTES: usize = 16 << 10;
/// Rows of a batch.
const BATCH_ROWS: std::ops::RangeInclusive<usize> = 64..=8_192;
/// Most memory that a sort keeps to merge its spill files.
const MERGE_BYTES: usize = 10 << 20;

/// Settings with which sorts and groups find room to spill within so much memory.
fn config(memory_bytes: usize) -> SessionConfig {
    let cpus = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    // Rows keep the order they are read in, unless the query asks for another.
    SessionConfig::new()
        .with_round_robin_repartition(false)
        .with_information_schema(true)
        .with_target_partitions((memory_bytes / PART_BYTES).clamp(1, cpus))
        .with_batch_size((memory_bytes / ROW_BYTES).clamp(*BATCH_ROWS.start(), *BATCH_ROWS.end()))
        .with_sort_spill_reservation_bytes((memory_bytes / 8).min(MERGE_BYTES))
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
        let spills = DiskManagerBuilder::default()
            .with_temp_file_factory(Arc::new(UnnamedFiles::new().map_err(QueryError::Spill)?));
        let environment = RuntimeEnvBuilder::new()
            .with_memory_pool(Arc::new(FairSpillPool::new(memory_bytes)))
            .with_disk_manager_builder(spills)
            .build_arc()?;
        let context = SessionContext::new_with_config_rt(config(memory_bytes), environment);
        for table in Table::RECORDED {
            let schema = table.schema();
            let rows = Rows { feed: feed.clone(), want: Want::Table(*table), schema: schema.clone() };
            let provider = StreamingTable::try_new(schema, vec![Arc::new(rows)])?;
            context.register_table(table.name(), Arc::new(provider))?;
        }
        context.register_udtf("hop_pair", Arc::new(HopPair(feed.clone())));
        context.register_udtf("between_nodes", Arc::new(BetweenNodes(feed.clone())));
        context.register_udtf("periods", Arc::new(Periods(feed.clone())));
        context.register_udaf(AggregateUDF::from(Percentile::new()));
        context.register_udaf(AggregateUDF::from(Duration::new()));
        Ok(Engine { context, runtime })
    }

    /// Answers a query, batch by batch, until `stop` is true. The first batch is empty and has the columns. Nothing but reading is
    /// allowed: no files, no settings. A query does not wait for its threads, which last until the process ends: none of them holds
    /// anything beyond memory and unnamed files.
    pub fn query<E: From<QueryError>>(
        self,
        sql: &str,
        stop: &dyn Fn() -> bool,
        mut take: impl FnMut(&RecordBatch) -> Result<(), E>,
    ) -> Result<Ended, E> {
        if sql.len() > LONGEST_BYTES {
            return Err(QueryError::Query(format!("a query has {LONGEST_BYTES} bytes at most")).into());
        }
        let (rows, answers) = sync_channel(1);
        let task = self.runtime.spawn(answer(self.context, sql.to_owned(), rows));
        // The runtime's own timers do not fire while a join or an aggregate computes on every worker, so this thread waits by itself.
        let ended = loop {
            if stop() {
                break Ok(Ended::Stopped);
            }
            match answers.recv_timeout(LOOK) {
                Ok(batch) => {
                    if let Err(error) = take(&batch) {
                        break Err(error);
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => match self.runtime.block_on(task) {
                    Ok(ended) => {
                        break ended.map(|()| Ended::Whole).map_err(|error| QueryError::from(error).into());
                    }
                    Err(panic) => std::panic::resume_unwind(panic.into_panic()),
                },
            }
        };
        // Its threads end with the process. To let go of each, as a shutdown does that waits for none, can crash while they
        // end: `pthread_detach` of glibc reads the memory of a thread that has just ended (its bug 19951).
        std::mem::forget(self.runtime);
        ended
    }
}

/// Plans and runs a query and hands over its rows, until nobody takes them.
async fn answer(
    context: SessionContext,
    sql: String,
    rows: SyncSender<RecordBatch>,
) -> Result<(), DataFusionError> {
    let options = SQLOptions::new().with_allow_ddl(false).with_allow_dml(false).with_allow_statements(false);
    let frame = context.sql_with_options(&sql, options).await?;
    let empty = RecordBatch::new_empty(Arc::new(frame.schema().as_arrow().clone()));
    let mut stream = frame.execute_stream().await?;
    let mut next = Some(empty);
    while let Some(batch) = next {
        // Other work of this thread goes on while the answer is written.
        if tokio::task::block_in_place(|| rows.send(batch)).is_err() {
            break;
        }
        next = stream.next().await.transpose()?;
    }
    Ok(())
}
