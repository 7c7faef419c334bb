//! Source of rows: a pass over the recordings for each scan.

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::stream::RecordBatchReceiverStream;
use datafusion::physical_plan::streaming::PartitionStream;
use magscope_core::Hop;
use magscope_export::{ExportError, Table, TableWriter};
use std::fmt;
use std::sync::Arc;
use tokio::sync::mpsc::Sender;

/// Batches that wait for the query.
const WAITING: usize = 4;

/// Content of a scan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Want {
    /// A flat table.
    Table(Table),
    /// Each journey's time from one hop to another.
    Between(Hop, Hop),
    /// Times on the wire of journeys from one host or namespace to another.
    Nodes(String, String),
    /// Sums over intervals of this length, nanoseconds.
    Periods(u64),
}

/// Output of a feed.
#[derive(Clone, Debug)]
pub struct Out(Sender<Result<RecordBatch>>);

impl Out {
    /// Sends rows and blocks while the query is busy. After the end of the query the call has no effect.
    pub fn give(&self, batch: RecordBatch) {
        let _ = self.0.blocking_send(Ok(batch));
    }

    /// True while the query accepts rows: false after a LIMIT or a cancellation.
    pub fn is_wanted(&self) -> bool {
        !self.0.is_closed()
    }
}

impl TableWriter for Out {
    fn rows(&mut self, _: Table, _: u16, batch: &RecordBatch) -> std::result::Result<(), ExportError> {
        self.give(batch.clone());
        Ok(())
    }

    fn finish(&mut self) -> std::result::Result<(), ExportError> {
        Ok(())
    }
}

/// Reads the recordings and sends the requested rows while accepted.
pub type Feed = Arc<dyn Fn(&Want, &Out) -> Result<(), String> + Send + Sync>;

/// Rows that are read on demand.
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
