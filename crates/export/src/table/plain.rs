//! Columns without dictionaries.
//!
//! Arrow's `cast` does the same, but contains the conversions between all types: 1.8 MB of a binary.

use arrow::array::{ArrayRef, AsArray};
use arrow::compute::take;
use arrow::error::ArrowError;

/// The values of a dictionary-coded column; another column as it is.
///
/// # Errors
/// Fails on keys without a value.
pub fn plain(column: &ArrayRef) -> Result<ArrayRef, ArrowError> {
    match column.as_any_dictionary_opt() {
        Some(coded) => take(coded.values(), coded.keys(), None),
        None => Ok(column.clone()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{DictionaryArray, Int64Array, StringArray};
    use arrow::datatypes::{Int8Type, Int32Type};
    use std::sync::Arc;

    #[test]
    fn values_replace_codes_and_nulls_stay() {
        let names = [Some("a"), None, Some("b"), Some("a")];
        let wanted: ArrayRef = Arc::new(StringArray::from(names.to_vec()));
        let small: ArrayRef = Arc::new(names.into_iter().collect::<DictionaryArray<Int8Type>>());
        let large: ArrayRef = Arc::new(names.into_iter().collect::<DictionaryArray<Int32Type>>());
        for coded in [&small, &large, &wanted] {
            assert_eq!(&plain(coded).expect("it has values"), &wanted);
        }
        let numbers: ArrayRef = Arc::new(Int64Array::from(vec![Some(1), None]));
        assert_eq!(&plain(&numbers).expect("it has no codes"), &numbers);
    }
}
