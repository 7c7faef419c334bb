//! Destinations as the user writes them.

use crate::error::ShipError;
use crate::store::{Folder, Store};
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// A destination for uploads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Destination {
    /// A local directory, on any file system.
    Folder(PathBuf),
    /// A prefix in a bucket.
    Bucket {
        /// Bucket name.
        bucket: String,
        /// Without leading and trailing slashes; may be empty.
        prefix: String,
    },
}

impl Destination {
    /// The store of this destination, without a connection so far.
    ///
    /// # Errors
    /// This build lacks the store, or its settings in the environment are invalid.
    pub fn open(&self) -> Result<Box<dyn Store>, ShipError> {
        match self {
            Self::Folder(path) => Ok(Box::new(Folder::new(path))),
            #[cfg(feature = "s3")]
            Self::Bucket { bucket, prefix } => Ok(Box::new(crate::store::Bucket::open(bucket, prefix)?)),
            #[cfg(not(feature = "s3"))]
            Self::Bucket { .. } => Err(ShipError::NoPlace {
                given: self.to_string(),
                because:
                    "this magnet-scope was built without buckets (the feature `s3`); directories are there"
                        .to_owned(),
            }),
        }
    }
}

impl FromStr for Destination {
    type Err = ShipError;

    fn from_str(given: &str) -> Result<Self, ShipError> {
        let no = |because: &str| ShipError::NoPlace { given: given.to_owned(), because: because.to_owned() };
        if given.is_empty() || given.contains(char::is_control) {
            return Err(no("write a directory, or `s3://BUCKET/PREFIX`"));
        }
        let Some((scheme, rest)) = given.split_once("://") else {
            return Ok(Self::Folder(PathBuf::from(given)));
        };
        match scheme {
            "file" if rest.starts_with('/') && !rest.contains(['%', '?', '#']) => {
                Ok(Self::Folder(PathBuf::from(rest)))
            }
            "file" => Err(no("after `file://` comes the whole path, as in `file:///srv/magnet`")),
            "s3" => {
                let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
                let prefix = prefix.trim_matches('/');
                if bucket.is_empty() || bucket.contains([':', '@', '?']) {
                    return Err(no(
                        "write `s3://BUCKET/PREFIX`; keys and endpoints are in AWS_* of the environment",
                    ));
                }
                if !prefix.is_empty() && prefix.split('/').any(|part| matches!(part, "" | "." | "..")) {
                    return Err(no("its prefix has an empty part, or one of dots"));
                }
                Ok(Self::Bucket { bucket: bucket.to_owned(), prefix: prefix.to_owned() })
            }
            _ => Err(no("directories, `file://` and `s3://` are known")),
        }
    }
}

impl fmt::Display for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Folder(path) => write!(f, "{}", path.display()),
            Self::Bucket { bucket, prefix } if prefix.is_empty() => write!(f, "s3://{bucket}"),
            Self::Bucket { bucket, prefix } => write!(f, "s3://{bucket}/{prefix}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_read_and_nonsense_is_not() {
        for (given, shown) in [
            ("/srv/magnet", "/srv/magnet"),
            ("here/there", "here/there"),
            ("file:///srv/magnet", "/srv/magnet"),
            ("s3://bucket", "s3://bucket"),
            ("s3://bucket/", "s3://bucket"),
            ("s3://bucket/a/b/", "s3://bucket/a/b"),
        ] {
            assert_eq!(given.parse::<Destination>().unwrap().to_string(), shown, "{given}");
        }
        for given in [
            "",
            "file://srv",
            "file:///a%20b",
            "s3://",
            "s3:///a",
            "s3://k:s@b",
            "s3://b/a//c",
            "s3://b/../c",
            "gs://b",
            "a\nb",
        ] {
            let error = given.parse::<Destination>().unwrap_err();
            assert!(matches!(error, ShipError::NoPlace { .. }), "{given}: {error}");
        }
    }
}
