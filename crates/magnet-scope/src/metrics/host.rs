//! Accepted host names of an HTTP server.
//!
//! A foreign web page can resolve its name to this host (DNS rebinding); the browser then sends requests with
//! that name and exposes the answers. Accepted are therefore only the connected address, `localhost` on
//! loopback, and configured names.

use hyper::header::{HOST, HeaderMap};
use hyper::http::uri::Authority;
use hyper::{Request, Uri};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

/// Configured names.
#[derive(Clone, Debug, Default)]
pub struct AllowedHosts(Arc<Vec<String>>);

impl AllowedHosts {
    /// These names, without a port.
    pub fn new(names: &[String]) -> Self {
        AllowedHosts(Arc::new(names.iter().map(|name| plain(name)).collect()))
    }

    /// True if the host of a request at `local` is accepted.
    pub fn allow<B>(&self, request: &Request<B>, local: SocketAddr) -> bool {
        let named = named(request.headers()).is_some_and(|host| self.answers(&host, local.ip()));
        named && self.target(request.uri(), local.ip())
    }

    /// An absolute URL in the request line overrides the header.
    fn target(&self, uri: &Uri, local: IpAddr) -> bool {
        uri.authority().is_none_or(|authority| self.answers(&plain(authority.host()), local))
    }

    fn answers(&self, host: &str, local: IpAddr) -> bool {
        let local = local.to_canonical();
        match host.parse::<IpAddr>() {
            Ok(ip) if ip.to_canonical() == local => true,
            _ if host == "localhost" && local.is_loopback() => true,
            _ => self.0.iter().any(|name| name == host),
        }
    }
}

/// The host of the only `Host:` header.
fn named(headers: &HeaderMap) -> Option<String> {
    let mut all = headers.get_all(HOST).iter();
    let (first, None) = (all.next()?, all.next()) else { return None };
    let authority: Authority = first.to_str().ok()?.parse().ok()?;
    Some(plain(authority.host()))
}

/// Without brackets and trailing dot, in lower case.
fn plain(host: &str) -> String {
    host.trim_start_matches('[').trim_end_matches(']').trim_end_matches('.').to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_own_addresses_and_given_names_are_answered() {
        let hosts = AllowedHosts::new(&["Metrics.example.org".to_owned()]);
        let allows = |local: &str, uri: &str, names: &[&str]| {
            let mut request = Request::builder().uri(uri);
            for name in names {
                request = request.header(HOST, *name);
            }
            hosts.allow(&request.body(()).expect("a request"), local.parse().expect("an address"))
        };
        let (v4, v6, far) = ("127.0.0.1:9464", "[::1]:9464", "10.0.0.7:9464");
        for (local, name) in [
            (v4, "127.0.0.1:9464"),
            (v4, "127.0.0.1"),
            (v4, "localhost:9464"),
            (v4, "LOCALHOST."),
            (v6, "[::1]:9464"),
            (v6, "localhost"),
            ("[::ffff:10.0.0.7]:9464", "10.0.0.7:9464"),
            (far, "10.0.0.7:80"),
            (far, "metrics.example.org:9464"),
        ] {
            assert!(allows(local, "/metrics", &[name]), "{local} {name}");
        }
        for (local, names) in [
            (v4, &["attacker.example:9464"][..]),
            (v4, &["127.0.0.1.attacker.example"]),
            (v4, &["10.0.0.7"]),
            (far, &["localhost:9464"]),
            (far, &["127.0.0.1"]),
            (v4, &[]),
            (v4, &[""]),
            (v4, &["localhost", "attacker.example"]),
            (v4, &["localhost@attacker.example"]),
        ] {
            assert!(!allows(local, "/metrics", names), "{local} {names:?}");
        }
        assert!(!allows(v4, "http://attacker.example/metrics", &["localhost"]));
        assert!(allows(v4, "http://localhost:9464/metrics", &["localhost"]));
    }
}
