//! The aggregate `percentile(ns, 99)`, with the histogram of `report`: the same result, in constant memory. An
//! optional third column gives the count of each value.

use arrow::array::{ArrayRef, AsArray};
use arrow::datatypes::{DataType, Field, FieldRef, Int64Type};
use datafusion::common::{ScalarValue, exec_err};
use datafusion::error::Result;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{Accumulator, AggregateUDFImpl, Signature, TypeSignature, Volatility};
use datafusion::physical_expr::expressions::Literal;
use magscope_report::stats::HopPairStats;
use std::sync::Arc;

/// `percentile(ns, p)` and `percentile(ns, p, n)`, `p` from 0 to 100.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Percentile(Signature);

impl Percentile {
    pub fn new() -> Self {
        use DataType::{Float64, Int64};
        let of = |types: &[DataType]| TypeSignature::Exact(types.to_vec());
        let signatures = vec![of(&[Int64, Float64]), of(&[Int64, Float64, Int64])];
        Percentile(Signature::one_of(signatures, Volatility::Immutable))
    }
}

impl AggregateUDFImpl for Percentile {
    fn name(&self) -> &'static str {
        "percentile"
    }

    fn signature(&self) -> &Signature {
        &self.0
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Int64)
    }

    fn accumulator(&self, arguments: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        let literal = arguments.exprs.get(1).and_then(|expr| expr.downcast_ref::<Literal>());
        let percent = literal.and_then(|literal| match literal.value() {
            ScalarValue::Float64(Some(percent)) => Some(*percent),
            ScalarValue::Int64(Some(percent)) => Some(*percent as f64),
            _ => None,
        });
        let Some(percent) = percent.filter(|percent| (0.0..=100.0).contains(percent)) else {
            return exec_err!(
                "percentile takes a number from 0 to 100 behind the column, as in percentile(total_ns, 99)"
            );
        };
        Ok(Box::new(Sum { stats: HopPairStats::new(), percent }))
    }

    fn state_fields(&self, arguments: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        let numbers = DataType::List(Arc::new(Field::new_list_field(DataType::Int64, true)));
        Ok(vec![Arc::new(Field::new(format!("{}[buckets]", arguments.name), numbers, true))])
    }
}

/// Maximum number of values.
const MOST: u64 = i64::MAX as u64;

#[derive(Debug)]
struct Sum {
    stats: HopPairStats,
    percent: f64,
}

impl Sum {
    /// Adds a value `n` times; fails if the total overflows, because column values are arbitrary.
    fn add(&mut self, ns: u64, n: u64) -> Result<()> {
        if n > MOST.saturating_sub(self.stats.n()) {
            return exec_err!("percentile is of {MOST} values at most");
        }
        self.stats.record_n(ns, n);
        Ok(())
    }
}

impl Accumulator for Sum {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let Some(ns) = values.first().and_then(|ns| ns.as_primitive_opt::<Int64Type>()) else {
            return exec_err!("percentile takes a column of nanoseconds");
        };
        let Some(often) = values.get(2) else {
            ns.iter().flatten().for_each(|ns| self.stats.record(u64::try_from(ns).unwrap_or(0)));
            return Ok(());
        };
        let Some(often) = often.as_primitive_opt::<Int64Type>() else {
            return exec_err!("percentile takes a column of whole numbers as how often each was");
        };
        for (ns, n) in ns.iter().zip(often) {
            // Null values and counts of 0 are ignored.
            if let (Some(ns), Some(n)) = (ns, n.and_then(|n| u64::try_from(n).ok())) {
                self.add(u64::try_from(ns).unwrap_or(0), n)?;
            }
        }
        Ok(())
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        if self.stats.n() == 0 {
            return Ok(ScalarValue::Int64(None));
        }
        let ns = self.stats.quantile_ns(self.percent / 100.0);
        Ok(ScalarValue::Int64(Some(i64::try_from(ns).unwrap_or(i64::MAX))))
    }

    fn size(&self) -> usize {
        size_of::<f64>() + self.stats.bytes()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        // Value and count of each bucket in turn.
        let numbers = self.stats.recorded().flat_map(|(ns, n)| [ns as i64, n as i64]);
        let values: Vec<ScalarValue> = numbers.map(|n| ScalarValue::Int64(Some(n))).collect();
        Ok(vec![ScalarValue::List(ScalarValue::new_list_nullable(&values, &DataType::Int64))])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let Some(lists) = states.first().and_then(|state| state.as_list_opt::<i32>()) else {
            return exec_err!("a percentile in parts has lists of buckets");
        };
        for list in lists.iter().flatten() {
            let Some(numbers) = list.as_primitive_opt::<Int64Type>() else { continue };
            for bucket in numbers.values().chunks_exact(2) {
                self.add(bucket[0] as u64, bucket[1] as u64)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::Int64Array;

    #[test]
    fn parts_make_the_same_as_the_whole() -> Result<()> {
        let sum = || Sum { stats: HopPairStats::new(), percent: 99.0 };
        let numbers = |from: i64, to: i64| Arc::new(Int64Array::from_iter_values(from..to)) as ArrayRef;
        let (mut whole, mut left, mut right) = (sum(), sum(), sum());
        whole.update_batch(&[numbers(0, 30_000)])?;
        left.update_batch(&[numbers(0, 7_000)])?;
        right.update_batch(&[numbers(7_000, 30_000)])?;
        let state = right.state()?.remove(0).to_array()?;
        left.merge_batch(&[state])?;
        assert_eq!(left.evaluate()?, whole.evaluate()?);
        assert_eq!(sum().evaluate()?, ScalarValue::Int64(None));
        Ok(())
    }

    #[test]
    fn how_often_is_the_same_as_one_by_one() -> Result<()> {
        let sum = || Sum { stats: HopPairStats::new(), percent: 90.0 };
        let (mut one_by_one, mut counted, mut never) = (sum(), sum(), sum());
        let numbers = |all: &[Option<i64>]| Arc::new(Int64Array::from(all.to_vec())) as ArrayRef;
        let percent = numbers(&[]);
        one_by_one.update_batch(&[numbers(&[Some(5), Some(5), Some(5), Some(70_000)])])?;
        let (ns, n) =
            ([Some(5), None, Some(9), Some(70_000), Some(8)], [Some(3), Some(7), None, Some(1), Some(-4)]);
        counted.update_batch(&[numbers(&ns), percent.clone(), numbers(&n)])?;
        assert_eq!((counted.stats.n(), counted.evaluate()?), (4, one_by_one.evaluate()?));
        // The greatest number: valid once; twice overflows.
        let most = numbers(&[Some(i64::MAX)]);
        never.update_batch(&[most.clone(), percent.clone(), most.clone()])?;
        assert!(never.evaluate()? > ScalarValue::Int64(Some(70_000)));
        assert!(never.update_batch(&[most.clone(), percent, most]).is_err());
        let state = never.state()?.remove(0).to_array()?;
        assert!(counted.merge_batch(&[state]).is_err());
        Ok(())
    }
}
