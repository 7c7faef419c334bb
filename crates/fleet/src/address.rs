//! Address of an agent.

use crate::error::FleetError;
use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;

/// The port of agents.
pub const PORT: u16 = 6246;

/// Address of an agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// `web-1`, `web-1:6246`, `10.0.0.1`, `[2001:db8::1]:6246`: TLS.
    Host {
        /// A name or an address.
        host: String,
        /// TCP port.
        port: u16,
    },
    /// `unix:/run/magnet-scope/agent.sock`.
    Unix(PathBuf),
    /// `insecure:127.0.0.1:6246`: plain TCP on this host.
    Loopback(SocketAddr),
}

impl FromStr for Address {
    type Err = FleetError;

    fn from_str(text: &str) -> Result<Self, FleetError> {
        let bad = |because| FleetError::Address {
            text: text.chars().filter(|c| !c.is_control()).take(200).collect(),
            because,
        };
        if let Some(path) = text.strip_prefix("unix:") {
            return if path.is_empty() {
                Err(bad("`unix:` wants a path"))
            } else {
                Ok(Address::Unix(path.into()))
            };
        }
        if let Some(plain) = text.strip_prefix("insecure:") {
            let address: SocketAddr =
                plain.parse().map_err(|_| bad("`insecure:` wants an address and a port"))?;
            if !crate::link::is_loopback(address.ip()) {
                return Err(bad("`insecure:` is for this host alone; others are reached with TLS"));
            }
            return Ok(Address::Loopback(address));
        }
        if let Ok(address) = text.parse::<SocketAddr>() {
            return Ok(Address::Host { host: address.ip().to_string(), port: address.port() });
        }
        if let Ok(ip) = text.trim_matches(['[', ']']).parse::<std::net::IpAddr>() {
            return Ok(Address::Host { host: ip.to_string(), port: PORT });
        }
        let (host, port) = match text.split_once(':') {
            Some((host, port)) => (host, port.parse().map_err(|_| bad("a port is a number up to 65535"))?),
            None => (text, PORT),
        };
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        if host.is_empty() || !host.chars().all(plain) {
            return Err(bad("write HOST, HOST:PORT, unix:PATH or insecure:127.0.0.1:PORT"));
        }
        Ok(Address::Host { host: host.to_owned(), port })
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Host { host, port } if host.contains(':') => write!(f, "[{host}]:{port}"),
            Self::Host { host, port } => write!(f, "{host}:{port}"),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
            Self::Loopback(address) => write!(f, "insecure:{address}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_and_written() {
        for (text, written) in [
            ("web-1", "web-1:6246"),
            ("web-1:7000", "web-1:7000"),
            ("10.0.0.1", "10.0.0.1:6246"),
            ("10.0.0.1:7", "10.0.0.1:7"),
            ("2001:db8::1", "[2001:db8::1]:6246"),
            ("[2001:db8::1]:7", "[2001:db8::1]:7"),
            ("unix:/run/a.sock", "unix:/run/a.sock"),
            ("insecure:127.0.0.1:7", "insecure:127.0.0.1:7"),
        ] {
            assert_eq!(text.parse::<Address>().unwrap().to_string(), written);
        }
        for text in ["", ":7", "a:b", "a b", "unix:", "insecure:10.0.0.1:7", "insecure:localhost:7", "a:70000"]
        {
            assert!(text.parse::<Address>().is_err(), "{text}");
        }
    }
}
