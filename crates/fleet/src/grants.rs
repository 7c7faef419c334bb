//! What a viewer may see, as its certificate says.

use magscope_core::{CaptureFilter, Hop, HopSet};
use std::fmt;
use std::str::FromStr;

/// What every such name in a certificate begins with.
const SCHEME: &str = "magnet-scope:viewer";

/// Limits on a viewer; none by default. Written as a URI among a certificate's names:
/// `magnet-scope:viewer?no-payload&hops=dev.xmit,dev.recv&containers=4fa2`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Grants {
    /// No bytes of payload, and no values of custom probes, which could be some.
    pub no_payload: bool,
    /// These hops only.
    pub hops: Option<HopSet>,
    /// What processes of these containers do, by the beginnings of their ids.
    pub containers: Vec<String>,
}

/// A text says nothing about what a viewer may see.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` limits no viewer: write `no-payload`, `hops=NAME,…` or `containers=ID,…`")]
pub struct BadGrant(String);

impl Grants {
    /// The filter that keeps only what is granted.
    ///
    /// # Errors
    /// Where a container's name makes no filter.
    pub fn filter(&self) -> Result<Option<CaptureFilter>, String> {
        if self.containers.is_empty() {
            return Ok(None);
        }
        let any: Vec<_> = self.containers.iter().map(|id| format!("container = \"{id}\"")).collect();
        CaptureFilter::parse(&any.join(" or ")).map(Some).map_err(|error| error.to_string())
    }

    /// What the names of a certificate grant: no limit where none of them speaks of a viewer. One that is not understood is an error,
    /// because it was meant as a limit.
    ///
    /// # Errors
    /// See above.
    pub fn of_names<'a>(mut names: impl Iterator<Item = &'a str>) -> Result<Self, BadGrant> {
        names.find(|name| name.starts_with(SCHEME)).map_or_else(|| Ok(Grants::default()), str::parse)
    }
}

impl FromStr for Grants {
    type Err = BadGrant;

    fn from_str(text: &str) -> Result<Self, BadGrant> {
        let bad = || BadGrant(text.chars().filter(|c| !c.is_control()).take(200).collect());
        let rest = text.strip_prefix(SCHEME).ok_or_else(bad)?;
        let mut grants = Grants::default();
        let Some(list) = rest.strip_prefix('?') else {
            return if rest.is_empty() { Ok(grants) } else { Err(bad()) };
        };
        for one in list.split('&') {
            match one.split_once('=') {
                None if one == "no-payload" => grants.no_payload = true,
                Some(("hops", names)) => {
                    let hop = |name: &str| Hop::ALL.iter().copied().find(|hop| hop.name() == name);
                    let hops: Option<HopSet> = names.split(',').map(hop).collect();
                    grants.hops = Some(hops.ok_or_else(bad)?);
                }
                Some(("containers", ids)) => {
                    let plain = |id: &str| {
                        !id.is_empty() && id.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
                    };
                    if !ids.split(',').all(plain) {
                        return Err(bad());
                    }
                    grants.containers = ids.split(',').map(str::to_owned).collect();
                }
                _ => return Err(bad()),
            }
        }
        Ok(grants)
    }
}

impl fmt::Display for Grants {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts = Vec::new();
        if self.no_payload {
            parts.push("no-payload".to_owned());
        }
        if let Some(hops) = self.hops {
            let names: Vec<_> = hops.iter().map(Hop::name).collect();
            parts.push(format!("hops={}", names.join(",")));
        }
        if !self.containers.is_empty() {
            parts.push(format!("containers={}", self.containers.join(",")));
        }
        let sign = if parts.is_empty() { "" } else { "?" };
        write!(f, "{SCHEME}{sign}{}", parts.join("&"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        for text in [
            "magnet-scope:viewer",
            "magnet-scope:viewer?no-payload",
            "magnet-scope:viewer?no-payload&hops=dev.xmit,dev.recv&containers=4fa2,web-1",
        ] {
            assert_eq!(text.parse::<Grants>().unwrap().to_string(), text);
        }
        let names = ["spiffe://x", "magnet-scope:viewer?no-payload"];
        assert!(Grants::of_names(names.into_iter()).unwrap().no_payload);
        assert_eq!(Grants::of_names(["host"].into_iter()), Ok(Grants::default()));
    }

    #[test]
    fn a_limit_that_is_not_understood_lets_nobody_in() {
        for text in ["?hops=", "?hops=dev.nothing", "?payload", "?containers=a\"b", "?", "s"] {
            assert!(Grants::of_names([&*format!("{SCHEME}{text}")].into_iter()).is_err(), "{text}");
        }
    }
}
