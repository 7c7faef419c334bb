//! A bucket of an S3 object store.
//!
//! The environment holds keys, region and endpoint, under the names of Amazon's own tools (`AWS_ACCESS_KEY_ID`,
//! `AWS_SECRET_ACCESS_KEY`, `AWS_REGION`, `AWS_ENDPOINT_URL` …). The store verifies the SHA-256 in each signed
//! request. The uploader then reads back the size and the checksum attribute of the object.

use super::{Stat, Store, Upload};
use crate::error::ShipError;
use bytes::Bytes;
use object_store::aws::{AmazonS3, AmazonS3Builder};
use object_store::path::Path;
use object_store::{
    Attribute, Attributes, ClientOptions, Error, GetOptions, MultipartUpload, ObjectStore, PutMultipartOptions,
    PutOptions, RetryConfig,
};
use std::fmt::Write;
use std::future::Future;
use std::io::{self, Read};
use std::time::Duration;
use tokio::runtime::Runtime;

/// Part size of multipart uploads, bytes. Parts are sent one by one, so this bounds the memory.
const PART: u64 = 8 << 20;

/// Timeout of a part: a slow connection is no broken one.
const LONGEST: Duration = Duration::from_mins(5);

/// Immediate retries of one request. The shipper makes the longer pauses.
const RETRIES: usize = 1;

/// The attribute with an object's checksum.
const CRC: Attribute = Attribute::Metadata(std::borrow::Cow::Borrowed("crc32"));

/// A bucket, below a prefix.
pub(crate) struct Bucket {
    store: AmazonS3,
    runtime: Runtime,
    /// `s3://bucket/prefix/`
    place: String,
    prefix: String,
}

impl Bucket {
    pub(crate) fn open(bucket: &str, prefix: &str) -> Result<Self, ShipError> {
        // Another part of the program may have installed the same provider already.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let prefix = if prefix.is_empty() { String::new() } else { format!("{prefix}/") };
        let place = format!("s3://{bucket}/{prefix}");
        let failed = |error: &dyn std::fmt::Display| ShipError::store("reach", &place, error);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let mut builder = AmazonS3Builder::from_env().with_bucket_name(bucket);
        // Explicit client options replace those of the environment, including plain HTTP.
        let plain = std::env::var("AWS_ALLOW_HTTP").is_ok_and(|value| matches!(&*value, "true" | "1"));
        let client = ClientOptions::new().with_timeout(LONGEST).with_connect_timeout(Duration::from_secs(10));
        builder = builder.with_client_options(client).with_allow_http(plain);
        let retry = RetryConfig { max_retries: RETRIES, retry_timeout: LONGEST, ..RetryConfig::default() };
        Ok(Bucket {
            store: builder.with_retry(retry).build().map_err(|error| failed(&error))?,
            runtime: runtime.map_err(|error| failed(&error))?,
            place,
            prefix,
        })
    }

    fn path(&self, key: &str) -> Path {
        Path::from(format!("{}{key}", self.prefix))
    }

    /// Runs a request to completion.
    fn ask<T>(
        &self,
        operation: &'static str,
        key: &str,
        answer: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, ShipError> {
        self.runtime.block_on(answer).map_err(|error| self.failed(operation, key, &error))
    }

    fn failed(&self, operation: &'static str, key: &str, error: &dyn std::error::Error) -> ShipError {
        let mut because = error.to_string();
        let mut cause = error.source();
        while let Some(next) = cause {
            let text = next.to_string();
            if !because.contains(&text) {
                let _ = write!(because, ": {text}");
            }
            cause = next.source();
        }
        if because.contains("scheme is not allowed") || because.contains("builder error") {
            because += "; for a store without TLS set AWS_ALLOW_HTTP=true";
        }
        // Some stores answer with an HTML page.
        let because: String = because.chars().map(|c| if c.is_control() { ' ' } else { c }).take(600).collect();
        ShipError::store(operation, format_args!("{}{key}", self.place), because)
    }

    fn put_in_parts(
        &self,
        key: &str,
        content: &Upload<'_>,
        attributes: Attributes,
        from: &mut dyn Read,
    ) -> Result<(), ShipError> {
        let options = PutMultipartOptions { attributes, ..PutMultipartOptions::default() };
        let path = self.path(key);
        let mut upload = self.ask("begin to write", key, self.store.put_multipart_opts(&path, options))?;
        let result = self.put_parts(key, content, upload.as_mut(), from);
        if result.is_err() {
            // Uploads that cannot be aborted are removed by the bucket's lifecycle rule.
            let _ = self.runtime.block_on(upload.abort());
        }
        result
    }

    fn put_parts(
        &self,
        key: &str,
        content: &Upload<'_>,
        upload: &mut dyn MultipartUpload,
        from: &mut dyn Read,
    ) -> Result<(), ShipError> {
        let mut left = content.bytes;
        while left > 0 {
            let part = read(from, left.min(PART)).map_err(|error| self.failed("read for", key, &error))?;
            left -= part.len() as u64;
            self.ask("write a part of", key, upload.put_part(part.into()))?;
        }
        self.ask("end", key, upload.complete()).map(|_| ())
    }
}

/// Exactly so many bytes.
fn read(from: &mut dyn Read, bytes: u64) -> io::Result<Bytes> {
    let mut part = vec![0; bytes as usize];
    from.read_exact(&mut part)?;
    Ok(part.into())
}

impl Store for Bucket {
    fn put(&self, key: &str, content: &Upload<'_>) -> Result<(), ShipError> {
        let mut from = content.reader().map_err(|error| self.failed("read for", key, &error))?;
        let mut attributes = Attributes::new();
        attributes.insert(CRC, format!("{:08x}", content.crc).into());
        if content.bytes > PART {
            self.put_in_parts(key, content, attributes, &mut from)?;
        } else {
            let whole = read(&mut from, content.bytes).map_err(|error| self.failed("read for", key, &error))?;
            let options = PutOptions { attributes, ..PutOptions::default() };
            let path = self.path(key);
            self.ask("write", key, self.store.put_opts(&path, whole.into(), options))?;
        }
        let arrived = self.stat(key)?;
        if arrived
            .is_some_and(|stat| stat.bytes == content.bytes && stat.crc.is_none_or(|crc| crc == content.crc))
        {
            return Ok(());
        }
        let because = format!("what arrived is not what was sent: {arrived:?}");
        Err(ShipError::store("write", format_args!("{}{key}", self.place), because))
    }

    fn stat(&self, key: &str) -> Result<Option<Stat>, ShipError> {
        let options = GetOptions { head: true, ..GetOptions::default() };
        match self.runtime.block_on(self.store.get_opts(&self.path(key), options)) {
            Ok(found) => {
                let crc =
                    found.attributes.get(&CRC).and_then(|text| u32::from_str_radix(text.as_ref(), 16).ok());
                Ok(Some(Stat { bytes: found.meta.size, crc }))
            }
            Err(Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(self.failed("look at", key, &error)),
        }
    }

    fn get(&self, key: &str, most: u64) -> Result<Option<Vec<u8>>, ShipError> {
        let path = self.path(key);
        let fetched = self.runtime.block_on(async {
            let options = GetOptions { range: Some((0..most).into()), ..GetOptions::default() };
            self.store.get_opts(&path, options).await?.bytes().await
        });
        match fetched {
            Ok(bytes) => Ok(Some(bytes.to_vec())),
            Err(Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(self.failed("read", key, &error)),
        }
    }
}
