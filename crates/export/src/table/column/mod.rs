//! Column builders that produce arrays of widely supported types.

mod name;

pub use name::{Address, Key, Keys, Name};

use arrow::array::TimestampMicrosecondArray;
use arrow::array::{
    ArrayRef, BooleanBufferBuilder, BooleanBuilder, Float64Array, Int32Array, Int64Array, StringArray,
};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{DataType, Field, TimeUnit};
use std::sync::Arc;

/// Time zone of all instants, as an offset: a name would need a zone database.
const UTC: &str = "+00:00";

/// A column builder.
pub trait Column: Default {
    /// Name, type and nullability.
    fn field(name: &str) -> Field;
    /// Returns the pushed values and resets the builder.
    fn finish(&mut self) -> ArrayRef;
}

/// Validity of rows. A column without nulls costs only a counter.
#[derive(Debug, Default)]
struct ValidRows {
    /// Rows before the first null.
    all: usize,
    /// Rows from the first null on.
    rest: Vec<bool>,
}

impl ValidRows {
    #[inline]
    fn push(&mut self, is_valid: bool) {
        if is_valid && self.rest.is_empty() {
            self.all += 1;
        } else {
            self.rest.push(is_valid);
        }
    }

    fn extend(&mut self, validity: impl Iterator<Item = bool>) {
        validity.for_each(|is_valid| self.push(is_valid));
    }

    fn repeat(&mut self, is_valid: bool, rows: usize) {
        if is_valid && self.rest.is_empty() {
            self.all += rows;
        } else {
            self.rest.resize(self.rest.len() + rows, is_valid);
        }
    }

    /// Validity since the last call; `None` without nulls.
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

/// 64-bit numbers, nullable.
#[derive(Debug, Default)]
pub struct MaybeInt(Vec<i64>, ValidRows);

/// An identifier: text in JSON, whose readers round 64-bit numbers.
#[derive(Debug, Default)]
pub struct Id(Vec<i64>);

/// An identifier, nullable.
#[derive(Debug, Default)]
pub struct MaybeId(MaybeInt);

/// Small numbers.
#[derive(Debug, Default)]
pub struct SmallInts(Vec<i32>);

/// Small numbers, nullable.
#[derive(Debug, Default)]
pub struct MaybeSmall(Vec<i32>, ValidRows);

/// Microseconds since 1970 UTC, null if the recording has no UTC.
#[derive(Debug, Default)]
pub struct Instant(MaybeInt);

/// Fractional numbers, nullable.
#[derive(Debug, Default)]
pub struct Floats(Vec<f64>, ValidRows);

/// Text that differs in each row.
#[derive(Debug, Default)]
pub struct Text(Vec<String>);

/// Booleans.
#[derive(Debug, Default)]
pub struct Flag(BooleanBuilder);

impl Int {
    /// Adds a row.
    pub fn push(&mut self, value: u64) {
        self.0.push(signed(value));
    }

    /// Adds a signed value.
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

    /// Adds a signed value.
    #[inline]
    pub fn push_signed(&mut self, value: Option<i64>) {
        self.0.push(value.unwrap_or_default());
        self.1.push(value.is_some());
    }
}

impl MaybeInt {
    /// Adds rows; 0 becomes null.
    pub fn extend(&mut self, values: impl Iterator<Item = u32> + Clone) {
        self.0.extend(values.clone().map(i64::from));
        self.1.extend(values.map(|value| value != 0));
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

    /// Adds rows; 0 becomes null.
    pub fn extend(&mut self, values: impl Iterator<Item = u64> + Clone) {
        self.0.0.extend(values.clone().map(id));
        self.0.1.extend(values.map(|value| value != 0));
    }
}

impl SmallInts {
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
    /// Adds rows; 0 becomes null.
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
    /// Adds a row: nanoseconds, truncated to microseconds.
    #[inline]
    pub fn push(&mut self, ns: Option<i64>) {
        self.0.push_signed(ns.map(|ns| ns.div_euclid(1_000)));
    }

    /// Adds rows, either all valid or all null.
    pub fn extend(&mut self, ns: impl ExactSizeIterator<Item = i64>, is_valid: bool) {
        self.0.1.repeat(is_valid, ns.len());
        self.0.0.extend(ns.map(|ns| ns.div_euclid(1_000)));
    }
}

impl Floats {
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

/// The low 63 bits, for engines without unsigned numbers.
pub const fn id(value: u64) -> i64 {
    (value & (i64::MAX as u64)) as i64
}

fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// The pushed values; reserves the same capacity again.
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

/// Metadata key of identifier columns.
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

impl Column for SmallInts {
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
        let MaybeInt(values, validity) = &mut self.0;
        let array = TimestampMicrosecondArray::new(taken(values).into(), validity.finish());
        Arc::new(array.with_timezone(UTC))
    }
}

impl Column for Floats {
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
