//! The join of two hosts' exports over several worker processes, with `datafusion-distributed`.
//!
//! `magnet-scope export --to parquet --buckets` writes a file a bucket of the wire key. Equal keys are in files of the same number, so
//! that is what the engine is told: the table is partitioned by `wire_key`, a file a partition. Then both sides of the join have
//! their rows where they are needed, and what goes over the network is the answer.

use async_trait::async_trait;
use datafusion::arrow::array::RecordBatch;
use datafusion::datasource::file_format::parquet::ParquetFormat;
use datafusion::datasource::listing::{ListingOptions, ListingTable, ListingTableConfig, ListingTableUrl};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::SessionStateBuilder;
use datafusion::logical_expr::Partitioning;
use datafusion::physical_plan::{collect, displayable};
use datafusion::prelude::{SessionConfig, SessionContext, col};
use datafusion_distributed::{DistributedExt, SessionStateBuilderExt, WorkerResolver, display_plan_ascii};
use std::path::Path;
use std::sync::Arc;
use url::Url;

/// Both halves of what crossed, found by the wire key.
pub const JOIN: &str = "SELECT count(*) AS packets, min(b.ts_ns - a.ts_ns) AS min_ns, max(b.ts_ns - a.ts_ns) AS max_ns, sum(b.bytes) AS bytes \
     FROM a JOIN b ON a.wire_key = b.wire_key WHERE a.hop = 'dev.xmit' AND b.hop = 'dev.recv'";

/// Files of a table: 64 buckets, and one of rows that have no key.
const FILES: usize = 65;

/// A query's plan and its answer.
pub struct Answer {
    /// As the engine prints it.
    pub plan: String,
    /// The rows.
    pub rows: Vec<RecordBatch>,
}

impl Answer {
    /// The rows as a table of text.
    pub fn table(&self) -> Result<String> {
        Ok(datafusion::arrow::util::pretty::pretty_format_batches(&self.rows)?.to_string())
    }
}

/// Asks for a join of the tables `a` and `b`, the hops of two exports; of `workers` if there are any, else in this process.
pub async fn ask(a: &Path, b: &Path, workers: &[Url], sql: &str) -> Result<Answer> {
    let mut config = SessionConfig::new();
    let options = config.options_mut();
    // A file is a partition: no worker's share is too small to be worth a partition of its own, and no side of a join to be sent to all.
    options.optimizer.preserve_file_partitions = 1;
    options.optimizer.hash_join_single_partition_threshold = 0;
    options.optimizer.hash_join_single_partition_threshold_rows = 0;
    let mut state = SessionStateBuilder::new().with_default_features().with_config(config);
    if !workers.is_empty() {
        state = state
            .with_distributed_worker_resolver(Workers(workers.to_vec()))
            .with_distributed_planner()
            .with_distributed_file_scan_config_bytes_per_partition(1)?;
    }
    let context = SessionContext::from(state.build());
    hops(&context, "a", a).await?;
    hops(&context, "b", b).await?;
    let plan = context.sql(sql).await?.create_physical_plan().await?;
    let text = if workers.is_empty() {
        displayable(plan.as_ref()).indent(false).to_string()
    } else {
        display_plan_ascii(plan.as_ref(), false)
    };
    Ok(Answer { plan: text, rows: collect(plan, context.task_ctx()).await? })
}

/// Registers the hops of an export under a name.
async fn hops(context: &SessionContext, name: &str, export: &Path) -> Result<()> {
    let place = export.join("hops").canonicalize().map_err(|error| {
        let next = "next step: magnet-scope export DIR --to parquet --buckets --tables hops -o OUT";
        DataFusionError::Execution(format!("{}: {error}; {next}", export.join("hops").display()))
    })?;
    let files = place.read_dir()?.count();
    if files != FILES {
        let message = format!("{}: {FILES} buckets are expected and {files} are there", place.display());
        return Err(DataFusionError::Execution(message));
    }
    let url = ListingTableUrl::parse(format!("{}/", place.display()))?;
    let by_key = Partitioning::Hash(vec![col("wire_key")], FILES);
    let options =
        ListingOptions::new(Arc::new(ParquetFormat::default())).with_output_partitioning(Some(by_key));
    let schema = options.infer_schema(&context.state(), &url).await?;
    let config = ListingTableConfig::new(url).with_listing_options(options).with_schema(schema);
    context.register_table(name, Arc::new(ListingTable::try_new(config)?))?;
    Ok(())
}

/// Workers that do not change.
struct Workers(Vec<Url>);

#[async_trait]
impl WorkerResolver for Workers {
    fn get_urls(&self) -> Result<Vec<Url>> {
        Ok(self.0.clone())
    }
}
