//! The requests of a report: exchanges by service, beside its journeys.

use super::{RequestSums, RequestTable, RequestsBy};
use magscope_core::batch::Batch;
use magscope_core::context::Context;
use magscope_core::exchange::{Exchange, ExchangeBuilder};
use magscope_core::journey::Journey;
use magscope_core::node::NodeInfo;
use magscope_core::stored_context::StoredContext;

/// Builds exchanges and adds them up. Memory is bounded as that of [`ExchangeBuilder`], [`StoredContext`] and
/// [`RequestSums`].
#[derive(Debug)]
pub(crate) struct RequestSection {
    builder: ExchangeBuilder,
    /// Exchanges end after their journeys, when the reader's own context may have other names.
    context: StoredContext,
    sums: RequestSums,
    ready: Vec<Exchange>,
}

impl RequestSection {
    /// An empty one, for recordings of these hosts.
    pub fn new(infos: &[NodeInfo]) -> Self {
        RequestSection {
            builder: ExchangeBuilder::new(),
            context: StoredContext::new(infos.to_vec()),
            sums: RequestSums::new(RequestsBy::Service),
            ready: Vec::new(),
        }
    }

    /// Adds a recording that begins while the others run.
    pub fn join(&mut self, info: &NodeInfo) {
        self.context.join(info.clone());
    }

    /// Takes a batch of a recording.
    pub fn batch(&mut self, node: u16, batch: &Batch) {
        self.context.batch(node, batch);
        self.builder.batch(node, batch, &mut self.ready);
        self.collect();
    }

    /// Takes a journey; the context resolves its flows.
    pub fn journey(&mut self, journey: &Journey, context: &dyn Context) {
        self.builder.journey(journey, context, &mut self.ready);
        self.collect();
    }

    fn collect(&mut self) {
        self.ready.drain(..).for_each(|exchange| self.sums.add(&exchange, &self.context));
    }

    /// Closes what is open. The table of the `top` services; `None` without any exchange.
    pub fn finish(mut self, top: usize) -> Option<RequestTable> {
        self.builder.finish(&mut self.ready);
        self.collect();
        (!self.sums.is_empty()).then(|| self.sums.table(top))
    }
}
