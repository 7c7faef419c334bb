//! Columns that are filled row by row and handed over as arrays: only types that every engine reads.

mod name;

pub use name::{Address, Key, Keys, Name};

use arrow::array::TimestampMicrosecondArray;
use arrow::array::{
    ArrayRef, BooleanBufferBuilder, BooleanBuilder, Float64Array, Int32Array, Int64Array, StringArray,
};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{DataType, Field, TimeUnit};
use std::sync::Arc;

/// The zone of all instants, as an offset: a name would need a table of zones.
const UTC: &str = "+00:00";

/// A column that is being filled.
pub trait Column: Default {
    /// Its name, type and whether it has nulls.
    fn field(name: &str) -> Field;
    /// What was pushed since the last time; leaves it empty.
    fn finish(&mut self) -> ArrayRef;
}

/// Which rows are known. Most columns have no missing ones, and cost a count then.
#[derive(Debug, Default)]
struct Known {
    /// Rows before the first missing one.
    all: usize,
    /// From the first missing one on.
    rest: Vec<bool>,
}

impl Known {
    #[inline]
    fn push(&mut self, known: bool) {
        if known && self.rest.is_empty() {
            self.all += 1;
        } else {
            self.rest.push(known);
        }
    }

    fn extend(&mut self, known: impl Iterator<Item = bool>) {
        known.for_each(|known| self.push(known));
    }

    fn repeat(&mut self, known: bool, rows: usize) {
        if known && self.rest.is_empty() {
            self.all += rows;
        } else {
            self.rest.resize(self.rest.len() + rows, known);
        }
    }

    /// What was pushed since the last time, if anything of it is missing.
    fn finish(&mut self) -> Option<NullBuffer> {
        let (all, rest) = (std::mem::take(&mut self.all), taken(&mut self.rest));
        (!rest.is_empty()).then(|| {
            let mut bits = BooleanBufferBuilder::new(all + rest.len());
            bits.append_n(all, true);
            bits.append_slice(&rest);
            NullBuffer::new(bits.finish())
        })
    }
}

/// 64-bit numbers.
#[derive(Debug, Default)]
pub struct Int(Vec<i64>);

/// 64-bit numbers that may be missing.
#[derive(Debug, Default)]
pub struct MaybeInt(Vec<i64>, Known);

/// A number that names something: text in JSON, whose readers round 64 bits.
#[derive(Debug, Default)]
pub struct Id(Vec<i64>);

/// The same that may be missing.
#[derive(Debug, Default)]
pub struct MaybeId(MaybeInt);

/// Small numbers.
#[derive(Debug, Default)]
pub struct Small(Vec<i32>);

/// Small numbers that may be missing.
#[derive(Debug, Default)]
pub struct MaybeSmall(Vec<i32>, Known);

/// Microseconds since 1970 UTC, missing where the recording does not know UTC.
#[derive(Debug, Default)]
pub struct Instant(MaybeInt);

/// Numbers with a fraction that may be missing.
#[derive(Debug, Default)]
pub struct Real(Vec<f64>, Known);

/// Text of which each row has its own.
#[derive(Debug, Default)]
pub struct Text(Vec<String>);

/// Yes or no.
#[derive(Debug, Default)]
pub struct Flag(BooleanBuilder);

impl Int {
    /// Adds a row.
    pub fn push(&mut self, value: u64) {
        self.0.push(signed(value));
    }

    /// Adds a row with a sign.
    pub fn push_signed(&mut self, value: i64) {
        self.0.push(value);
    }

    /// Adds rows.
    pub fn extend(&mut self, values: impl Iterator<Item = i64>) {
        self.0.extend(values);
    }
}

impl MaybeInt {
    /// Adds a row.
    #[inline]
    pub fn push(&mut self, value: Option<u64>) {
        self.push_signed(value.map(signed));
    }

    /// Adds a row with a sign.
    #[inline]
    pub fn push_signed(&mut self, value: Option<i64>) {
        self.0.push(value.unwrap_or_default());
        self.1.push(value.is_some());
    }
}

impl Id {
    /// Adds a row: the low 63 bits.
    pub fn push(&mut self, value: u64) {
        self.0.push(id(value));
    }
}

impl MaybeId {
    /// Adds a row: the low 63 bits.
    #[inline]
    pub fn push(&mut self, value: Option<u64>) {
        self.0.push_signed(value.map(id));
    }

    /// Adds rows, missing where they are 0.
    pub fn extend(&mut self, values: impl Iterator<Item = u64> + Clone) {
        self.0.0.extend(values.clone().map(id));
        self.0.1.extend(values.map(|value| value != 0));
    }
}

impl Small {
    /// Adds a row.
    pub fn push(&mut self, value: impl Into<i64>) {
        self.0.push(i32::try_from(value.into()).unwrap_or(i32::MAX));
    }

    /// Adds rows.
    pub fn extend(&mut self, values: impl Iterator<Item = u32>) {
        self.0.extend(values.map(|value| i32::try_from(value).unwrap_or(i32::MAX)));
    }
}

impl MaybeSmall {
    /// Adds rows, missing where they are 0.
    pub fn extend(&mut self, values: impl Iterator<Item = u32> + Clone) {
        self.0.extend(values.clone().map(|value| i32::try_from(value).unwrap_or(i32::MAX)));
        self.1.extend(values.map(|value| value != 0));
    }

    /// Adds a row.
    #[inline]
    pub fn push(&mut self, value: Option<impl Into<i64>>) {
        self.1.push(value.is_some());
        self.0.push(value.map_or(0, |value| i32::try_from(value.into()).unwrap_or(i32::MAX)));
    }
}

impl Instant {
    /// Adds a row: nanoseconds, cut to microseconds.
    #[inline]
    pub fn push(&mut self, ns: Option<i64>) {
        self.0.push_signed(ns.map(|ns| ns.div_euclid(1_000)));
    }

    /// Adds rows, all of them known or none.
    pub fn extend(&mut self, ns: impl ExactSizeIterator<Item = i64>, known: bool) {
        self.0.1.repeat(known, ns.len());
        self.0.0.extend(ns.map(|ns| ns.div_euclid(1_000)));
    }
}

impl Real {
    /// Adds a row.
    pub fn push(&mut self, value: Option<f64>) {
        self.0.push(value.unwrap_or_default());
        self.1.push(value.is_some());
    }
}

impl Text {
    /// Adds a row.
    pub fn push(&mut self, value: String) {
        self.0.push(value);
    }
}

impl Flag {
    /// Adds a row.
    #[inline]
    pub fn push(&mut self, value: bool) {
        self.0.append_value(value);
    }
}

/// The low 63 bits: engines without unsigned numbers read them as they are.
pub const fn id(value: u64) -> i64 {
    (value & (i64::MAX as u64)) as i64
}

fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// What was pushed, with room left for as much again.
fn taken<T>(values: &mut Vec<T>) -> Vec<T> {
    let room = Vec::with_capacity(values.len());
    std::mem::replace(values, room)
}

impl Column for Int {
    fn field(name: &str) -> Field {
        Field::new(name, DataType::Int64, false)
    }

    fn finish(&mut self) -> ArrayRef {
        Arc::new(Int64Array::from(taken(&mut self.0)))
    }
}

impl Column for MaybeInt {
    fn field(name: &str) -> Field {
        Field::new(name, DataType::Int64, true)
    }

    fn finish(&mut self) -> ArrayRef {
        Arc::new(Int64Array::new(taken(&mut self.0).into(), self.1.finish()))
    }
}

/// Key of the metadata of a column that names something.
pub const ID: &str = "magscope.id";

impl Column for Id {
    fn field(name: &str) -> Field {
        Int::field(name).with_metadata([(ID.to_owned(), "63 bits".to_owned())].into())
    }

    fn finish(&mut self) -> ArrayRef {
        Arc::new(Int64Array::from(taken(&mut self.0)))
    }
}

impl Column for MaybeId {
    fn field(name: &str) -> Field {
        Id::field(name).with_nullable(true)
    }

    fn finish(&mut self) -> ArrayRef {
        self.0.finish()
    }
}

impl Column for Small {
    fn field(name: &str) -> Field {
        Field::new(name, DataType::Int32, false)
    }

    fn finish(&mut self) -> ArrayRef {
        Arc::new(Int32Array::from(taken(&mut self.0)))
    }
}

impl Column for MaybeSmall {
    fn field(name: &str) -> Field {
        Field::new(name, DataType::Int32, true)
    }

    fn finish(&mut self) -> ArrayRef {
        Arc::new(Int32Array::new(taken(&mut self.0).into(), self.1.finish()))
    }
}

impl Column for Instant {
    fn field(name: &str) -> Field {
        Field::new(name, DataType::Timestamp(TimeUnit::Microsecond, Some(UTC.into())), true)
    }

    fn finish(&mut self) -> ArrayRef {
        let MaybeInt(values, known) = &mut self.0;
        let array = TimestampMicrosecondArray::new(taken(values).into(), known.finish());
        Arc::new(array.with_timezone(UTC))
    }
}

impl Column for Real {
    fn field(name: &str) -> Field {
        Field::new(name, DataType::Float64, true)
    }

    fn finish(&mut self) -> ArrayRef {
        Arc::new(Float64Array::new(taken(&mut self.0).into(), self.1.finish()))
    }
}

impl Column for Text {
    fn field(name: &str) -> Field {
        Field::new(name, DataType::Utf8, false)
    }

    fn finish(&mut self) -> ArrayRef {
        Arc::new(StringArray::from_iter_values(std::mem::take(&mut self.0)))
    }
}

impl Column for Flag {
    fn field(name: &str) -> Field {
        Field::new(name, DataType::Boolean, false)
    }

    fn finish(&mut self) -> ArrayRef {
        Arc::new(self.0.finish())
    }
}
