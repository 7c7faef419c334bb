//! The aggregate `journey_duration(hop, ts_ns, at_return)`: time from the first hop of a journey to its last.
//! As in `Journey::total_ns`, hops recorded at return and `dev.done`, which is not on the path, do not count.

use arrow::array::{ArrayRef, AsArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, FieldRef, Int64Type};
use datafusion::common::{ScalarValue, exec_err};
use datafusion::error::Result;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{Accumulator, AggregateUDFImpl, Signature, Volatility};
use magscope_core::Hop;
use std::sync::Arc;

/// `journey_duration(hop, ts_ns, at_return)`.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Duration(Signature);

impl Duration {
    pub fn new() -> Self {
        let arguments = vec![DataType::Utf8, DataType::Int64, DataType::Boolean];
        Duration(Signature::exact(arguments, Volatility::Immutable))
    }
}

impl AggregateUDFImpl for Duration {
    fn name(&self) -> &'static str {
        "journey_duration"
    }

    fn signature(&self) -> &Signature {
        &self.0
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Int64)
    }

    fn accumulator(&self, _: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        Ok(Box::new(Span::default()))
    }

    fn state_fields(&self, arguments: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        let field =
            |end: &str| Arc::new(Field::new(format!("{}[{end}]", arguments.name), DataType::Int64, true));
        Ok(vec![field("first_step"), field("first_ns"), field("last_step"), field("last_ns")])
    }
}

/// The lowest and the highest hop so far by path index, with times. With several copies: the first sent and the
/// first received; if none arrived, the last sent.
#[derive(Debug, Default)]
struct Span {
    ends: Option<((i64, i64), (i64, i64))>,
}

impl Span {
    fn add(&mut self, step: i64, ns: i64) {
        let here = (step, ns);
        let (first, last) = self.ends.unwrap_or((here, here));
        let is_received = Hop::DevRecv.rank().is_some_and(|lowest| step >= lowest as i64);
        let is_later = if is_received { ns < last.1 } else { ns > last.1 };
        let last = if step > last.0 || step == last.0 && is_later { here } else { last };
        self.ends = Some((first.min(here), last));
    }
}

impl Accumulator for Span {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let [hops, ns, at_return] = values else {
            return exec_err!("journey_duration takes hop, ts_ns and at_return");
        };
        let hops = cast(hops, &DataType::Utf8)?;
        let (Some(hops), Some(ns), Some(at_return)) =
            (hops.as_string_opt::<i32>(), ns.as_primitive_opt::<Int64Type>(), at_return.as_boolean_opt())
        else {
            return exec_err!("journey_duration takes hop, ts_ns and at_return");
        };
        for ((hop, ns), at_return) in hops.iter().zip(ns.iter()).zip(at_return.iter()) {
            let hop = hop.and_then(|hop| hop.parse::<Hop>().ok()).filter(|hop| *hop != Hop::DevDone);
            let step = hop.and_then(Hop::rank);
            if let (Some(step), Some(ns), Some(false)) = (step, ns, at_return) {
                self.add(step as i64, ns);
            }
        }
        Ok(())
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let ns = self.ends.filter(|(first, last)| first.0 != last.0);
        Ok(ScalarValue::Int64(ns.and_then(|(first, last)| last.1.checked_sub(first.1)).filter(|ns| *ns >= 0)))
    }

    fn size(&self) -> usize {
        size_of::<Self>()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let numbers = match self.ends {
            Some((first, last)) => [first.0, first.1, last.0, last.1].map(Some),
            None => [None; 4],
        };
        Ok(numbers.map(ScalarValue::Int64).to_vec())
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        for ends in states.chunks_exact(2) {
            let (Some(steps), Some(times)) =
                (ends[0].as_primitive_opt::<Int64Type>(), ends[1].as_primitive_opt::<Int64Type>())
            else {
                return exec_err!("a duration in parts has numbers");
            };
            for (step, ns) in steps.iter().zip(times.iter()) {
                if let (Some(step), Some(ns)) = (step, ns) {
                    self.add(step, ns);
                }
            }
        }
        Ok(())
    }
}
