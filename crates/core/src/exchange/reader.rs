//! A builder of exchanges with the names that their ends have.

use super::builder::ExchangeBuilder;
use super::exchange::Exchange;
use crate::batch::Batch;
use crate::context::Context;
use crate::journey::Journey;
use crate::node::NodeInfo;
use crate::stored_context::StoredContext;

/// Builds exchanges of recordings. An exchange is complete after its journeys, when the context of their reader may have
/// other names; so the names are stored here. Memory is bounded as that of [`ExchangeBuilder`] and [`StoredContext`].
#[derive(Debug)]
pub struct ExchangeReader {
    builder: ExchangeBuilder,
    context: StoredContext,
    ready: Vec<Exchange>,
}

impl ExchangeReader {
    /// An empty one, for recordings of these hosts.
    pub fn new(infos: &[NodeInfo]) -> Self {
        let context = StoredContext::new(infos.to_vec());
        ExchangeReader { builder: ExchangeBuilder::new(), context, ready: Vec::new() }
    }

    /// Adds a recording that begins while the others run.
    pub fn join(&mut self, info: &NodeInfo) {
        self.context.join(info.clone());
    }

    /// The names of the exchanges' ends.
    pub fn context(&self) -> &StoredContext {
        &self.context
    }

    /// Takes a batch of a recording. Returns the exchanges that are complete.
    pub fn batch(&mut self, node: u16, batch: &Batch) -> Vec<Exchange> {
        self.context.batch(node, batch);
        self.builder.batch(node, batch, &mut self.ready);
        std::mem::take(&mut self.ready)
    }

    /// Takes a journey; the context of its reader resolves its flows. Returns the exchanges that are complete.
    pub fn journey(&mut self, journey: &Journey, context: &dyn Context) -> Vec<Exchange> {
        self.builder.journey(journey, context, &mut self.ready);
        std::mem::take(&mut self.ready)
    }

    /// Ends the input. Returns the exchanges that were open.
    pub fn finish(&mut self) -> Vec<Exchange> {
        self.builder.finish(&mut self.ready);
        std::mem::take(&mut self.ready)
    }
}
