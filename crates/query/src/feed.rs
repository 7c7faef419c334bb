//! Where rows come from: the recordings, walked anew for each scan.

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::stream::RecordBatchReceiverStream;
use datafusion::physical_plan::streaming::PartitionStream;
use magscope_core::Hop;
use magscope_export::Table;
use std::fmt;
use std::sync::Arc;
use tokio::sync::mpsc::Sender;

/// Batches that wait for the query.
const WAITING: usize = 4;

/// What a scan wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Want {
    /// A flat table.
    Table(Table),
    /// Each journey's time from one hop to another.
    Between(Hop, Hop),
    /// Times on the wire of journeys from one host or namespace to another.
    Nodes(String, String),
}

/// Where a feed's rows go.
#[derive(Debug)]
pub struct Out(Sender<Result<RecordBatch>>);

impl Out {
    /// Hands over rows; waits while the query is busy with those before. Nothing comes of it if nobody wants them any more.
    pub fn give(&self, batch: RecordBatch) {
        let _ = self.0.blocking_send(Ok(batch));
    }

    /// Whether anybody waits for rows: not if the query has enough of them, or was cancelled.
    pub fn is_wanted(&self) -> bool {
        !self.0.is_closed()
    }
}

/// Walks the recordings and hands over the rows that are wanted, as long as they are.
pub type Feed = Arc<dyn Fn(&Want, &Out) -> Result<(), String> + Send + Sync>;

/// Rows of what is wanted, read when they are asked for.
pub(crate) struct Rows {
    pub feed: Feed,
    pub want: Want,
    pub schema: SchemaRef,
}

impl fmt::Debug for Rows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rows of {:?}", self.want)
    }
}

impl PartitionStream for Rows {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, _: Arc<TaskContext>) -> SendableRecordBatchStream {
        let mut stream = RecordBatchReceiverStream::builder(self.schema.clone(), WAITING);
        let (out, feed, want) = (Out(stream.tx()), self.feed.clone(), self.want.clone());
        stream.spawn_blocking(move || feed(&want, &out).map_err(DataFusionError::Execution));
        stream.build()
    }
}
