//! Values of a list, chosen by name.

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};

/// Parser of names; an invalid one is answered with all names and the nearest.
///
/// `value` gives the name of an entry, and its explanation in the help.
pub fn parser<T, const N: usize>(all: [T; N], value: fn(T) -> PossibleValue) -> impl TypedValueParser<Value = T>
where
    T: Copy + Send + Sync + 'static,
{
    PossibleValuesParser::new(all.map(value)).try_map(move |given| {
        let named = |entry: &T| value(*entry).get_name() == given;
        all.into_iter().find(named).ok_or("not in the list")
    })
}
