//! Columns that are filled row by row and handed over as arrays: only types that every engine reads.

use arrow::array::TimestampMicrosecondArray;
use arrow::array::{
    ArrayRef, BooleanBuilder, DictionaryArray, Float64Array, Int32Array, Int64Array, StringArray,
};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{DataType, Field, TimeUnit};
use magscope_core::hash::Map;
use std::hash::Hash;
use std::net::IpAddr;
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

/// 64-bit numbers.
#[derive(Debug, Default)]
pub struct Int(Vec<i64>);

/// 64-bit numbers that may be missing.
#[derive(Debug, Default)]
pub struct MaybeInt(Vec<i64>, Vec<bool>);

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
pub struct MaybeSmall(Vec<i32>, Vec<bool>);

/// Microseconds since 1970 UTC, missing where the recording does not know UTC.
#[derive(Debug, Default)]
pub struct Instant(MaybeInt);

/// Numbers with a fraction that may be missing.
#[derive(Debug, Default)]
pub struct Real(Vec<f64>, Vec<bool>);

/// Yes or no.
#[derive(Debug, Default)]
pub struct Flag(BooleanBuilder);

/// Text of which there are few different ones. Arrays that follow each other share their dictionary until it has grown.
#[derive(Debug, Default)]
pub struct Name {
    keys: Vec<i32>,
    known: Vec<bool>,
    values: Vec<Box<str>>,
    places: Map<Box<str>, i32>,
    last: usize,
    dictionary: Option<Arc<StringArray>>,
}

/// IP addresses, as text.
#[derive(Debug, Default)]
pub struct Address {
    names: Name,
    keys: Map<IpAddr, Key>,
}

/// Values that a dictionary is kept with; one that has grown larger begins anew.
const KEPT: usize = 1 << 10;

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
    pub fn push(&mut self, value: Option<u64>) {
        self.push_signed(value.map(signed));
    }

    /// Adds a row with a sign.
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
    pub fn push(&mut self, value: Option<impl Into<i64>>) {
        self.1.push(value.is_some());
        self.0.push(value.map_or(0, |value| i32::try_from(value.into()).unwrap_or(i32::MAX)));
    }
}

impl Instant {
    /// Adds a row: nanoseconds, cut to microseconds.
    pub fn push(&mut self, ns: Option<i64>) {
        self.0.push_signed(ns.map(|ns| ns.div_euclid(1_000)));
    }

    /// Adds rows, all of them known or none.
    pub fn extend(&mut self, ns: impl ExactSizeIterator<Item = i64>, known: bool) {
        self.0.1.resize(self.0.1.len() + ns.len(), known);
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

impl Flag {
    /// Adds a row.
    pub fn push(&mut self, value: bool) {
        self.0.append_value(value);
    }
}

/// What stands for a name in one column until its rows are handed over; `None` where there is none.
pub type Key = Option<i32>;

impl Name {
    /// Adds a row; empty text counts as missing.
    pub fn push(&mut self, value: &str) {
        let key = self.key(value);
        self.push_key(key);
    }

    /// What stands for a name, to be pushed as often as it is needed.
    pub fn key(&mut self, value: &str) -> Key {
        if value.is_empty() {
            return None;
        }
        // Rows that follow each other are mostly about the same thing.
        if self.values.get(self.last).is_none_or(|last| **last != *value) {
            self.last = self.place(value);
        }
        Some(self.last as i32)
    }

    /// Adds a row.
    pub fn push_key(&mut self, key: Key) {
        self.keys.push(key.unwrap_or_default());
        self.known.push(key.is_some());
    }

    /// Adds so many rows.
    pub fn repeat(&mut self, value: &str, rows: usize) {
        let key = self.key(value);
        self.keys.resize(self.keys.len() + rows, key.unwrap_or_default());
        self.known.resize(self.known.len() + rows, key.is_some());
    }

    fn place(&mut self, value: &str) -> usize {
        if let Some(key) = self.places.get(value) {
            return *key as usize;
        }
        let key = self.values.len();
        self.values.push(value.into());
        self.places.insert(value.into(), key as i32);
        self.dictionary = None;
        key
    }
}

impl Address {
    /// Adds a row.
    pub fn push(&mut self, address: Option<IpAddr>) {
        let Address { names, keys } = self;
        let key = address.and_then(|ip| *keys.entry(ip).or_insert_with(|| names.key(&ip.to_string())));
        names.push_key(key);
    }
}

/// Keys that were asked for, by what they were asked for with.
#[derive(Debug, Default)]
pub struct Keys<K> {
    known: Map<K, Key>,
    last: Option<(K, Key)>,
}

impl<K: Copy + Eq + Hash> Keys<K> {
    /// The key of `of`, made if it is asked for the first time.
    pub fn get(&mut self, of: K, make: impl FnOnce() -> Key) -> Key {
        if let Some((_, key)) = self.last.filter(|(last, _)| *last == of) {
            return key;
        }
        let key = *self.known.entry(of).or_insert_with(make);
        self.last = Some((of, key));
        key
    }
}

/// The low 63 bits: engines without unsigned numbers read them as they are.
pub const fn id(value: u64) -> i64 {
    (value & (i64::MAX as u64)) as i64
}

fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

fn nulls(known: &mut Vec<bool>) -> Option<NullBuffer> {
    let known = std::mem::take(known);
    (known.contains(&false)).then(|| NullBuffer::from(known))
}

impl Column for Int {
    fn field(name: &str) -> Field {
        Field::new(name, DataType::Int64, false)
    }

    fn finish(&mut self) -> ArrayRef {
        Arc::new(Int64Array::from(std::mem::take(&mut self.0)))
    }
}

impl Column for MaybeInt {
    fn field(name: &str) -> Field {
        Field::new(name, DataType::Int64, true)
    }

    fn finish(&mut self) -> ArrayRef {
        Arc::new(Int64Array::new(std::mem::take(&mut self.0).into(), nulls(&mut self.1)))
    }
}

/// Key of the metadata of a column that names something.
pub const ID: &str = "magscope.id";

impl Column for Id {
    fn field(name: &str) -> Field {
        Int::field(name).with_metadata([(ID.to_owned(), "63 bits".to_owned())].into())
    }

    fn finish(&mut self) -> ArrayRef {
        Arc::new(Int64Array::from(std::mem::take(&mut self.0)))
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
        Arc::new(Int32Array::from(std::mem::take(&mut self.0)))
    }
}

impl Column for MaybeSmall {
    fn field(name: &str) -> Field {
        Field::new(name, DataType::Int32, true)
    }

    fn finish(&mut self) -> ArrayRef {
        Arc::new(Int32Array::new(std::mem::take(&mut self.0).into(), nulls(&mut self.1)))
    }
}

impl Column for Instant {
    fn field(name: &str) -> Field {
        Field::new(name, DataType::Timestamp(TimeUnit::Microsecond, Some(UTC.into())), true)
    }

    fn finish(&mut self) -> ArrayRef {
        let MaybeInt(values, known) = &mut self.0;
        let array = TimestampMicrosecondArray::new(std::mem::take(values).into(), nulls(known));
        Arc::new(array.with_timezone(UTC))
    }
}

impl Column for Real {
    fn field(name: &str) -> Field {
        Field::new(name, DataType::Float64, true)
    }

    fn finish(&mut self) -> ArrayRef {
        Arc::new(Float64Array::new(std::mem::take(&mut self.0).into(), nulls(&mut self.1)))
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

impl Column for Address {
    fn field(name: &str) -> Field {
        Name::field(name)
    }

    fn finish(&mut self) -> ArrayRef {
        let array = self.names.finish();
        if self.names.values.is_empty() {
            self.keys.clear();
        }
        array
    }
}

impl Column for Name {
    fn field(name: &str) -> Field {
        Field::new(name, DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8)), true)
    }

    fn finish(&mut self) -> ArrayRef {
        let keys = Int32Array::new(std::mem::take(&mut self.keys).into(), nulls(&mut self.known));
        let made = || Arc::new(StringArray::from_iter_values(&self.values));
        let values = self.dictionary.get_or_insert_with(made).clone();
        if self.values.len() > KEPT {
            *self = Name::default();
        }
        // Every key was given out with its value, so this is never the plain one.
        DictionaryArray::try_new(keys, values.clone())
            .map_or_else(|_| values as ArrayRef, |array| Arc::new(array) as ArrayRef)
    }
}
