//! NATS servers: addresses, credentials and errors.

use crate::dial::{Credentials, likely};
use crate::error::{FleetError, Likely};
use crate::grants::Grants;
use async_nats::jetstream::{self, Context};
use async_nats::{Client, ConnectErrorKind, ConnectOptions, Event, ServerAddr};
use std::error::Error;
use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

/// Timeout for an answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// The port of NATS.
const PORT: u16 = 4222;

/// A server of the bus. `Display` omits the credentials.
#[derive(Clone, PartialEq, Eq)]
pub struct Server {
    /// URL for the client.
    url: String,
    /// User and password, or a token alone.
    login: Option<(String, Option<String>)>,
    /// `nats://host:4222`.
    shown: String,
    is_plain: bool,
}

impl FromStr for Server {
    type Err = FleetError;

    fn from_str(text: &str) -> Result<Self, FleetError> {
        // The error quotes only the scheme, because the text may contain a password.
        let scheme: String = text.split_once("://").map_or("", |(scheme, _)| scheme).chars().take(8).collect();
        let bad = |because| FleetError::Address { text: format!("{}://…", scheme.escape_default()), because };
        let is_plain = match scheme.as_str() {
            "nats" => true,
            "tls" => false,
            _ => return Err(bad("write nats://127.0.0.1:4222 or tls://HOST:4222")),
        };
        let rest = &text[scheme.len() + 3..];
        let (user, place) = rest.rsplit_once('@').map_or((None, rest), |(user, place)| (Some(user), place));
        let place = place.strip_suffix('/').unwrap_or(place);
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_.:[]".contains(c);
        if place.is_empty() || !place.chars().all(plain) || user.is_some_and(str::is_empty) {
            return Err(bad("write nats://127.0.0.1:4222 or tls://HOST:4222"));
        }
        let url = format!("{scheme}://{place}");
        let address: ServerAddr =
            url.parse().map_err(|_| bad("write nats://127.0.0.1:4222 or tls://HOST:4222"))?;
        let login = user.map(|user| match user.split_once(':') {
            Some((user, password)) => Some((decoded(user)?, Some(decoded(password)?))),
            None => Some((decoded(user)?, None)),
        });
        let login =
            login.map(|login| login.ok_or_else(|| bad("user and password are not understood"))).transpose()?;
        let host = address.host().to_owned();
        let ip: Option<IpAddr> = host.trim_matches(['[', ']']).parse().ok();
        if is_plain && !ip.map_or(host == "localhost", crate::link::is_loopback) {
            return Err(bad("`nats://` is for this host alone; others are reached with `tls://`"));
        }
        let port = if address.port() == 0 { PORT } else { address.port() };
        let host = if ip.is_some_and(|ip| ip.is_ipv6()) {
            format!("[{}]", host.trim_matches(['[', ']']))
        } else {
            host
        };
        Ok(Server { url, login, shown: format!("{scheme}://{host}:{port}"), is_plain })
    }
}

impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown)
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Server({})", self.shown)
    }
}

/// A bus and the credentials.
#[derive(Clone, Debug)]
pub struct Via {
    /// Servers of one cluster; the client uses any of them.
    pub servers: Vec<Server>,
    /// The certificate for `tls://`.
    pub credentials: Option<Credentials>,
    /// A file of NATS credentials.
    pub creds: Option<PathBuf>,
}

/// A connection that reconnects by itself.
#[derive(Clone)]
pub struct Bus {
    /// `JetStream` requests.
    pub jetstream: Context,
    /// The connection.
    pub client: Client,
    /// The address for messages.
    pub shown: String,
}

impl Via {
    /// The addresses for messages.
    pub fn shown(&self) -> String {
        self.servers.iter().map(Server::to_string).collect::<Vec<_>>().join(",")
    }

    /// True if any server uses TLS.
    pub fn wants_certificate(&self) -> bool {
        self.servers.iter().any(|server| !server.is_plain)
    }

    fn failed(&self, because: impl fmt::Display, likely: Likely) -> FleetError {
        FleetError::Bus { address: self.shown(), because: because.to_string(), likely }
    }

    /// The viewer's grants: those of its certificate, or all if none is needed.
    pub fn grants(&self) -> Result<Grants, FleetError> {
        match &self.credentials {
            Some(Credentials { folder, identity }) => folder.grants(identity),
            None => Ok(Grants::default()),
        }
    }

    /// An error of a request.
    pub fn refused(&self, what: &str, error: &(dyn Error + 'static)) -> FleetError {
        let because = format!("{what}: {}", innermost_message(error));
        let no_jetstream = ["not enabled", "no responders", "JetStream resource does not exist"]
            .iter()
            .any(|words| because.contains(words));
        let likely = if no_jetstream { Likely::Agent } else { Likely::Unknown };
        self.failed(because, likely)
    }

    /// Connects. The callback receives every later change of the connection state.
    pub async fn connect(
        &self,
        name: &str,
        report: impl Fn(bool) + Send + Sync + 'static,
    ) -> Result<Bus, FleetError> {
        let mut options =
            ConnectOptions::new().name(name).connection_timeout(PATIENCE).event_callback(move |event| {
                match event {
                    Event::Connected => report(true),
                    Event::Disconnected | Event::Closed => report(false),
                    _ => {}
                }
                std::future::ready(())
            });
        if self.wants_certificate() {
            let Some(Credentials { folder, identity }) = &self.credentials else {
                return Err(self.failed("there is no certificate to say who you are", Likely::Viewer));
            };
            // Checked here, because the error message is clearer.
            folder.connects(identity)?;
            let file = |name: String| folder.path().join(name);
            options = options.require_tls(true).add_root_certificates(file("ca.pem".to_owned()));
            options = options
                .add_client_certificate(file(format!("{identity}.pem")), file(format!("{identity}.key")));
        }
        if self.servers.iter().any(|server| server.is_plain) {
            // Other members of the cluster may be on other hosts.
            options = options.ignore_discovered_servers();
        }
        options = match self.servers.iter().find_map(|server| server.login.clone()) {
            Some((user, Some(password))) => options.user_and_password(user, password),
            Some((token, None)) => options.token(token),
            None => options,
        };
        if let Some(creds) = &self.creds {
            let read = options.credentials_file(creds).await;
            options =
                read.map_err(|error| FleetError::Key { path: creds.clone(), because: error.to_string() })?;
        }
        let parsed: Result<Vec<ServerAddr>, _> = self.servers.iter().map(|server| server.url.parse()).collect();
        let servers = parsed.map_err(|_| self.failed("an address is wrong", Likely::Unknown))?;
        let connected = tokio::time::timeout(PATIENCE * 2, options.connect(servers)).await;
        let connected = connected.map_err(|_| self.failed("it does not answer", Likely::Nobody))?;
        let client = connected.map_err(|error| {
            let likely = match error.kind() {
                ConnectErrorKind::Authentication | ConnectErrorKind::AuthorizationViolation => Likely::Viewer,
                ConnectErrorKind::TimedOut | ConnectErrorKind::Dns => Likely::Nobody,
                _ if refuses(&error) => Likely::Nobody,
                _ => likely(&error),
            };
            self.failed(innermost_message(&error), likely)
        })?;
        let mut jetstream = jetstream::new(client.clone());
        jetstream.set_timeout(PATIENCE);
        Ok(Bus { jetstream, client, shown: self.shown() })
    }
}

/// Decodes percent encoding, such as `%40` for `@`.
fn decoded(text: &str) -> Option<String> {
    let mut pieces = text.split('%');
    let mut bytes = pieces.next()?.as_bytes().to_vec();
    for piece in pieces {
        let (code, rest) = piece.split_at_checked(2)?;
        bytes.push(u8::from_str_radix(code, 16).ok()?);
        bytes.extend(rest.as_bytes());
    }
    String::from_utf8(bytes).ok()
}

/// True if the port is closed.
fn refuses(error: &(dyn Error + 'static)) -> bool {
    let mut at = Some(error);
    while let Some(error) = at {
        let kind = error.downcast_ref::<std::io::Error>().map(std::io::Error::kind);
        if kind == Some(std::io::ErrorKind::ConnectionRefused) {
            return true;
        }
        at = error.source();
    }
    false
}

/// Short message of the innermost error of a chain.
pub fn innermost_message(error: &(dyn Error + 'static)) -> String {
    let mut innermost = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    innermost.to_string().chars().filter(|c| !c.is_control()).take(300).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logins_are_decoded() {
        let login = |text: &str| text.parse::<Server>().unwrap().login;
        assert_eq!(login("nats://me:s%40t%3a@[::1]"), Some(("me".to_owned(), Some("s@t:".to_owned()))));
        assert_eq!(login("nats://t0ken@127.0.0.1"), Some(("t0ken".to_owned(), None)));
        assert_eq!(login("nats://127.0.0.1"), None);
    }

    #[test]
    fn servers_are_read_and_shown_without_secrets() {
        for (text, shown) in [
            ("nats://127.0.0.1", "nats://127.0.0.1:4222"),
            ("nats://localhost:7", "nats://localhost:7"),
            ("nats://[::1]:7", "nats://[::1]:7"),
            ("nats://me:secret@127.0.0.1:7/", "nats://127.0.0.1:7"),
            ("tls://bus.example.org", "tls://bus.example.org:4222"),
            ("tls://s3cr3t@10.0.0.1:4223", "tls://10.0.0.1:4223"),
        ] {
            let server: Server = text.parse().unwrap();
            assert_eq!(server.to_string(), shown);
            assert!(!format!("{server:?}").contains("s3cr3t") && !format!("{server:?}").contains("secret"));
        }
        for text in [
            "",
            "127.0.0.1:4222",
            "http://127.0.0.1",
            "nats://",
            "nats://10.0.0.1:4222",
            "nats://user:secret@web-1",
            "nats://127.0.0.1.example.org",
            "nats://user:secret@",
            "nats://user:secret%zz@127.0.0.1",
            "nats://@127.0.0.1",
            "tls://a b",
        ] {
            let error = text.parse::<Server>().unwrap_err().to_string();
            assert!(!error.contains("secret"), "{error}");
        }
    }
}
