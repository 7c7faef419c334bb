//! The table functions `hop_pair('dev.queue', 'dev.xmit')`, `between_nodes('a', 'b')` and `periods(1000)`. The first
//! gives every journey's time between two hops, adjacent or not; the second the time on the wire between two nodes;
//! the third sums over intervals.

use crate::feed::{Feed, Rows, Want};
use datafusion::catalog::streaming::StreamingTable;
use datafusion::catalog::{TableFunctionArgs, TableFunctionImpl, TableProvider};
use datafusion::common::{ScalarValue, plan_err};
use datafusion::error::Result;
use datafusion::logical_expr::Expr;
use magscope_core::Hop;
use magscope_export::Table;
use std::fmt;
use std::sync::Arc;

/// `hop_pair(from, to)`.
pub(crate) struct HopPair(pub Feed);

impl fmt::Debug for HopPair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("hop_pair")
    }
}

impl TableFunctionImpl for HopPair {
    fn call_with_args(&self, arguments: TableFunctionArgs<'_, '_>) -> Result<Arc<dyn TableProvider>> {
        let [from, to] = arguments.exprs() else {
            return plan_err!("hop_pair takes two hops, as in hop_pair('dev.queue', 'dev.xmit')");
        };
        table(&self.0, Want::Between(hop(from)?, hop(to)?), Table::Pairs)
    }
}

/// `between_nodes(from, to)`.
pub(crate) struct BetweenNodes(pub Feed);

impl fmt::Debug for BetweenNodes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("between_nodes")
    }
}

impl TableFunctionImpl for BetweenNodes {
    fn call_with_args(&self, arguments: TableFunctionArgs<'_, '_>) -> Result<Arc<dyn TableProvider>> {
        let [from, to] = arguments.exprs() else {
            return plan_err!(
                "between_nodes takes two hosts or namespaces, as in between_nodes('client', 'server')"
            );
        };
        table(&self.0, Want::Nodes(text(from)?.to_owned(), text(to)?.to_owned()), Table::Pairs)
    }
}

/// `periods(every_ms)`.
pub(crate) struct Periods(pub Feed);

impl fmt::Debug for Periods {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("periods")
    }
}

impl TableFunctionImpl for Periods {
    fn call_with_args(&self, arguments: TableFunctionArgs<'_, '_>) -> Result<Arc<dyn TableProvider>> {
        if let [Expr::Literal(ScalarValue::Int64(Some(every_ms)), _)] = arguments.exprs()
            && let Ok(every_ms) = u64::try_from(*every_ms)
            && let Some(every_ns) = every_ms.checked_mul(1_000_000).filter(|ns| *ns > 0)
        {
            return table(&self.0, Want::Periods(every_ns), Table::Periods);
        }
        plan_err!("periods takes the length of its intervals in milliseconds, as in periods(1000)")
    }
}

fn table(feed: &Feed, want: Want, rows: Table) -> Result<Arc<dyn TableProvider>> {
    let schema = rows.schema();
    let rows = Rows { feed: feed.clone(), want, schema: schema.clone() };
    Ok(Arc::new(StreamingTable::try_new(schema, vec![Arc::new(rows)])?))
}

fn hop(argument: &Expr) -> Result<Hop> {
    text(argument)?.parse().or_else(|error: magscope_core::hop::UnknownHop| plan_err!("{error}"))
}

fn text(argument: &Expr) -> Result<&str> {
    if let Expr::Literal(
        ScalarValue::Utf8(Some(text)) | ScalarValue::LargeUtf8(Some(text)) | ScalarValue::Utf8View(Some(text)),
        _,
    ) = argument
    {
        return Ok(text);
    }
    plan_err!("this function takes names in quotes, as in 'dev.queue'")
}
