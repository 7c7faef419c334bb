//! By which names an HTTP server may be asked.
//!
//! A web page of somebody else can have its name resolve to this host (DNS rebinding); the browser then asks with that name, and shows the
//! page the answer. So only the address that was connected to, `localhost` on loopback, and names that an option gives are answered.

use hyper::header::{HOST, HeaderMap};
use hyper::http::uri::Authority;
use hyper::{Request, Uri};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

/// Names that an option gives.
#[derive(Clone, Debug, Default)]
pub struct AllowedHosts(Arc<Vec<String>>);

impl AllowedHosts {
    /// These names, without a port.
    pub fn new(names: &[String]) -> Self {
        AllowedHosts(Arc::new(names.iter().map(|name| plain(name)).collect()))
    }

    /// Whether a request that came to `local` asks for a host that is answered.
    pub fn allow<B>(&self, request: &Request<B>, local: SocketAddr) -> bool {
        let named = named(request.headers()).is_some_and(|host| self.answers(&host, local.ip()));
        named && self.target(request.uri(), local.ip())
    }

    /// A whole URL in the first line counts more than the header.
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

/// The host of the only `Host:` there is.
fn named(headers: &HeaderMap) -> Option<String> {
    let mut all = headers.get_all(HOST).iter();
    let (first, None) = (all.next()?, all.next()) else { return None };
    let authority: Authority = first.to_str().ok()?.parse().ok()?;
    Some(plain(authority.host()))
}

/// Without brackets, the dot of a full name, and capitals.
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
