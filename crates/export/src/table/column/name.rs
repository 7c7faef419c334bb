//! Dictionary columns of names.

use super::{Column, ValidRows, taken};
use arrow::array::{ArrayRef, DictionaryArray, Int32Array, StringArray};
use arrow::datatypes::{DataType, Field};
use magscope_core::hash::Map;
use std::hash::Hash;
use std::net::IpAddr;
use std::sync::Arc;

/// Text with few distinct values. Consecutive arrays share their dictionary until it has grown.
#[derive(Debug, Default)]
pub struct Name {
    keys: Vec<i32>,
    valid: ValidRows,
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

/// Maximum size of a shared dictionary; a larger one is restarted.
const MAX_DICTIONARY: usize = 1 << 10;

/// Dictionary key of a name, valid until the rows are taken; `None` for null.
pub type Key = Option<i32>;

impl Name {
    /// Adds a row; empty text becomes null.
    pub fn push(&mut self, value: &str) {
        let key = self.key(value);
        self.push_key(key);
    }

    /// Returns a name's key for repeated use.
    pub fn key(&mut self, value: &str) -> Key {
        if value.is_empty() {
            return None;
        }
        // Consecutive rows mostly repeat the name.
        if self.values.get(self.last).is_none_or(|last| **last != *value) {
            self.last = self.place(value);
        }
        Some(self.last as i32)
    }

    /// Adds a row.
    #[inline]
    pub fn push_key(&mut self, key: Key) {
        self.keys.push(key.unwrap_or_default());
        self.valid.push(key.is_some());
    }

    /// Adds `rows` equal rows.
    pub fn repeat(&mut self, value: &str, rows: usize) {
        let key = self.key(value);
        self.keys.resize(self.keys.len() + rows, key.unwrap_or_default());
        self.valid.repeat(key.is_some(), rows);
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
        let key = self.key(address);
        self.push_key(key);
    }

    /// Returns an address's key.
    pub fn key(&mut self, address: Option<IpAddr>) -> Key {
        let Address { names, keys } = self;
        address.and_then(|ip| *keys.entry(ip).or_insert_with(|| names.key(&ip.to_string())))
    }

    /// Adds a row.
    #[inline]
    pub fn push_key(&mut self, key: Key) {
        self.names.push_key(key);
    }
}

/// Cache of keys by source value.
#[derive(Debug, Default)]
pub struct Keys<K> {
    cached: Map<K, Key>,
    last: Option<(K, Key)>,
}

impl<K: Copy + Eq + Hash> Keys<K> {
    /// The key of `of`, created at its first use.
    pub fn get(&mut self, of: K, make: impl FnOnce() -> Key) -> Key {
        if let Some((_, key)) = self.last.filter(|(last, _)| *last == of) {
            return key;
        }
        let key = *self.cached.entry(of).or_insert_with(make);
        self.last = Some((of, key));
        key
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
        let keys = Int32Array::new(taken(&mut self.keys).into(), self.valid.finish());
        let made = || Arc::new(StringArray::from_iter_values(&self.values));
        let values = self.dictionary.get_or_insert_with(made).clone();
        if self.values.len() > MAX_DICTIONARY {
            *self = Name::default();
        }
        // Every key belongs to a value, so the fallback never occurs.
        DictionaryArray::try_new(keys, values.clone())
            .map_or_else(|_| values as ArrayRef, |array| Arc::new(array) as ArrayRef)
    }
}
