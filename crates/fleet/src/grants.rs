//! Grants of a viewer, from its certificate.

use magscope_core::{Hop, HopSet};
use std::fmt;
use std::str::FromStr;

/// Prefix of all names of this program in a certificate.
const OURS: &str = "magnet-scope:";
/// The name of a viewer, followed by its limits.
const VIEWER: &str = "magnet-scope:viewer";
/// The name of a relay: a relay reads everything and applies its viewers' certificates.
pub const RELAY: &str = "magnet-scope:relay";

/// Limits on a viewer; none by default. Written as a URI among a certificate's names:
/// `magnet-scope:viewer?no-payload&hops=dev.xmit,dev.recv&containers=4fa2`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Grants {
    /// No payload bytes, and no values of custom probes, which may be payload.
    pub no_payload: bool,
    /// Only these hops.
    pub hops: Option<HopSet>,
    /// Only processes of these containers, by a substring of their cgroup names.
    pub containers: Vec<String>,
}

/// The text is no valid grant.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` limits no viewer: write `no-payload`, `hops=NAME,…` or `containers=ID,…`, each once")]
pub struct BadGrant(String);

/// Reason why a certificate permits no reading.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoGrant {
    /// The certificate belongs to a host or to another system.
    #[error("its certificate is neither a viewer's nor a relay's")]
    None,
    /// Several permissions are ambiguous.
    #[error("its certificate has several permissions")]
    Several,
    /// The limit is invalid.
    #[error(transparent)]
    Bad(#[from] BadGrant),
}

impl Grants {
    /// True if the cgroup at this path is granted.
    pub fn grant_cgroup(&self, path: &str) -> bool {
        let named = |id: &String| path.split('/').any(|part| part.contains(id.as_str()));
        self.containers.is_empty() || self.containers.iter().any(named)
    }

    /// The grants in the names of a certificate. Exactly one name must be a viewer's or a relay's permission.
    ///
    /// # Errors
    /// There is no permission, there are several, or it is invalid.
    pub fn of_names<'a>(names: impl Iterator<Item = &'a str>) -> Result<Self, NoGrant> {
        let mut ours = names.filter(|name| name.starts_with(OURS));
        match (ours.next(), ours.next()) {
            (None, _) => Err(NoGrant::None),
            (Some(_), Some(_)) => Err(NoGrant::Several),
            (Some(RELAY), None) => Ok(Grants::default()),
            (Some(one), None) => Ok(one.parse()?),
        }
    }
}

impl FromStr for Grants {
    type Err = BadGrant;

    fn from_str(text: &str) -> Result<Self, BadGrant> {
        let bad = || BadGrant(text.chars().filter(|c| !c.is_control()).take(200).collect());
        let rest = text.strip_prefix(VIEWER).ok_or_else(bad)?;
        let mut grants = Grants::default();
        let Some(list) = rest.strip_prefix('?') else {
            return if rest.is_empty() { Ok(grants) } else { Err(bad()) };
        };
        for one in list.split('&') {
            match one.split_once('=') {
                None if one == "no-payload" && !grants.no_payload => grants.no_payload = true,
                Some(("hops", names)) if grants.hops.is_none() => {
                    let hop = |name: &str| Hop::ALL.iter().copied().find(|hop| hop.name() == name);
                    let hops: Option<HopSet> = names.split(',').map(hop).collect();
                    grants.hops = Some(hops.ok_or_else(bad)?);
                }
                Some(("containers", ids)) if grants.containers.is_empty() => {
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
        write!(f, "{VIEWER}{sign}{}", parts.join("&"))
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
        assert_eq!(Grants::of_names(["magnet-scope:relay"].into_iter()), Ok(Grants::default()));
    }

    #[test]
    fn a_certificate_needs_exactly_one_permission() {
        let of = |names: &[&'static str]| Grants::of_names(names.iter().copied());
        for names in [&[][..], &["host"], &["spiffe://x"]] {
            assert_eq!(of(names), Err(NoGrant::None), "{names:?}");
        }
        for other in ["magnet-scope:viewer", "magnet-scope:viewer?no-payload", RELAY, "magnet-scope:agent"] {
            assert_eq!(of(&["magnet-scope:viewer", other]), Err(NoGrant::Several), "{other}");
        }
        for text in ["magnet-scope:agent", "magnet-scope:relay?no-payload", "magnet-scope:relays"] {
            assert!(matches!(of(&[text]), Err(NoGrant::Bad(_))), "{text}");
        }
    }

    #[test]
    fn a_limit_that_is_not_understood_lets_nobody_in() {
        for text in [
            "?hops=",
            "?hops=dev.nothing",
            "?payload",
            "?containers=a\"b",
            "?",
            "s",
            "?containers=a&containers=b",
            "?hops=dev.xmit&hops=dev.recv",
            "?no-payload&no-payload",
        ] {
            assert!(Grants::of_names([&*format!("{VIEWER}{text}")].into_iter()).is_err(), "{text}");
        }
    }
}
