//! Listeners of an agent or a relay, and the threads that serve viewers.

use super::Socket;
use crate::connect::explain;
use crate::failure::Usage;
use crate::output;
use anyhow::{Context, Result, anyhow};
use clap::Args;
use magscope_fleet::pki::Folder;
use magscope_fleet::{Credentials, FleetError, Hosts, Listen, READER_BYTES, Reporter, serve};
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Number of serving threads; each stream has an additional one.
const TALKERS: usize = 2;
/// Time for viewers at the end to receive the rest.
const PARTING: Duration = Duration::from_secs(2);

/// Where to listen.
#[derive(Clone, Debug, Args)]
pub struct ListenArgs {
    /// Let viewers come by TCP, with TLS at both ends: `0.0.0.0:6246`; can be given several times
    #[arg(long, value_name = "ADDRESS:PORT", requires = "tls")]
    listen: Vec<SocketAddr>,
    /// The folder with `ca.pem`, `crl.pem` and this host's certificate
    #[arg(long, value_name = "DIR")]
    tls: Option<PathBuf>,
    /// Which certificate there is this host's: `host-NAME`, of a relay `relay-NAME` [default: the only one]
    #[arg(long, value_name = "NAME", requires = "tls")]
    identity: Option<String>,
    /// Let every user of this host come without a certificate, by TCP on a loopback address
    #[arg(long, value_name = "127.0.0.1:PORT")]
    insecure_loopback: Option<SocketAddr>,
    /// The socket for root and the agent's own user [default: `/run/magnet-scope/agent.sock` if root starts it, else
    /// `$XDG_RUNTIME_DIR/magnet-scope/agent.sock`]
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
    /// How much memory may serve viewers, all of them together; one has at most half of it [default: 256MiB]
    #[arg(long, value_name = "SIZE", value_parser = crate::values::size::parse)]
    reader_memory: Option<u64>,
}

/// Open listeners without clients so far.
pub struct Listeners {
    open: Vec<Listen>,
    reader_bytes: u64,
    socket: Socket,
}

/// The threads that serve viewers.
pub struct Talker {
    hosts: Arc<Hosts>,
    end: Arc<AtomicBool>,
    thread: JoinHandle<Result<()>>,
    /// Removed on drop.
    _socket: Socket,
}

impl ListenArgs {
    /// Opens the listeners, with a certificate of this kind: `host`, `relay`. Called before privileges are
    /// dropped.
    pub fn open(&self, kind: &str) -> Result<Listeners> {
        let socket = Socket::bind(self.socket.as_deref())?;
        let mut open = self.listeners(kind)?;
        open.push(Listen::Unix(socket.listener.try_clone()?));
        Ok(Listeners { open, reader_bytes: self.reader_memory.unwrap_or(READER_BYTES), socket })
    }

    /// The certificate of this host, if any.
    pub fn host_credentials(&self, kind: &str) -> Result<Option<Credentials>> {
        self.tls.as_ref().map(|tls| self.credentials(tls, kind)).transpose()
    }

    fn credentials(&self, tls: &Path, kind: &str) -> Result<Credentials> {
        let folder = Folder::new(tls);
        let identity = match &self.identity {
            Some(identity) => identity.clone(),
            None => folder.only(kind).map_err(explain)?,
        };
        Ok(Credentials { folder, identity })
    }

    /// Opens TCP sockets while the process may still bind to any port.
    fn listeners(&self, kind: &str) -> Result<Vec<Listen>> {
        let mut listeners = Vec::new();
        if let Some(tls) = &self.tls {
            let Credentials { folder, identity } = self.credentials(tls, kind)?;
            if folder.has_authority_key() {
                let key = folder.path().join("ca.key");
                let why =
                    "who reads it can make certificates for everybody; keep it where no agent or relay runs";
                output::note(&format!("warning: {} is the authority's own key: {why}", key.display()));
            }
            // Reported now rather than at the first viewer.
            folder.agent(&identity).map_err(explain)?;
            for at in &self.listen {
                listeners.push(Listen::Tls(bind(*at)?, folder.clone(), identity.clone()));
            }
        }
        if let Some(at) = &self.insecure_loopback {
            if !at.ip().is_loopback() {
                return Err(Usage(format!(
                    "{at} is no loopback address; other hosts come by `--listen`, with TLS"
                ))
                .into());
            }
            listeners.push(Listen::Loopback(bind(*at)?));
        }
        Ok(listeners)
    }
}

/// Binds a TCP socket. Every address of a host without IPv6 is one of IPv4.
fn bind(at: SocketAddr) -> Result<TcpListener> {
    let (at, bound) = match TcpListener::bind(at) {
        Err(error) if is_for_want_of_ipv6(at, &error) => {
            let by_ipv4 = SocketAddr::from((Ipv4Addr::UNSPECIFIED, at.port()));
            output::note(&format!("this host has no IPv6 ({error}): {by_ipv4} takes the place of {at}"));
            (by_ipv4, TcpListener::bind(by_ipv4))
        }
        bound => (at, bound),
    };
    bound.map_err(|error| explain(FleetError::Listen { address: at.to_string(), because: error.to_string() }))
}

/// True if every address was asked for, and the kernel has no IPv6: it was built or booted without, or has it switched
/// off.
fn is_for_want_of_ipv6(at: SocketAddr, error: &io::Error) -> bool {
    let is_every = at.is_ipv6() && at.ip().is_unspecified();
    is_every && matches!(error.raw_os_error(), Some(libc::EAFNOSUPPORT | libc::EADDRNOTAVAIL))
}

impl Listeners {
    /// Starts to serve viewers in separate threads.
    pub fn serve(self, hosts: Arc<Hosts>) -> Result<Talker> {
        for listen in &self.open {
            output::note(&format!("listening at {}", listen.address()));
        }
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(TALKERS)
            .thread_name("magnet-talk")
            .enable_all()
            .build()
            .context("cannot start what talks to viewers")?;
        let (end, report): (_, Reporter) =
            (Arc::new(AtomicBool::new(false)), Arc::new(|text: &str| output::note(text)));
        let (served_hosts, stop, listeners, reader_bytes) =
            (hosts.clone(), end.clone(), self.open, self.reader_bytes);
        let thread = std::thread::Builder::new().name("magnet-serve".to_owned());
        let thread = thread.spawn(move || {
            let served = runtime.block_on(serve(served_hosts, listeners, reader_bytes, report, stop));
            runtime.shutdown_timeout(Duration::from_secs(1));
            served.map_err(anyhow::Error::from_boxed)
        })?;
        Ok(Talker { hosts, end, thread, _socket: self.socket })
    }
}

impl Talker {
    /// True if serving has ended unexpectedly.
    pub fn has_ended(&self) -> bool {
        self.thread.is_finished()
    }

    /// Gives viewers a short time to receive the rest, and ends.
    pub fn end(self) -> Result<()> {
        let since = Instant::now();
        while self.hosts.all().iter().any(|memory| memory.readers() > 0) && since.elapsed() < PARTING {
            std::thread::sleep(Duration::from_millis(20));
        }
        self.end.store(true, Ordering::Relaxed);
        self.thread.join().map_err(|_| anyhow!("what talks to viewers has failed"))?
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_without_ipv6_listens_by_ipv4_where_every_address_is_asked_for() {
        let is_replaced = |at: &str, code: i32| {
            is_for_want_of_ipv6(at.parse().expect("an address"), &io::Error::from_raw_os_error(code))
        };
        assert!(is_replaced("[::]:6246", libc::EAFNOSUPPORT) && is_replaced("[::]:6246", libc::EADDRNOTAVAIL));
        assert!(!is_replaced("[::]:6246", libc::EADDRINUSE), "another agent listens");
        assert!(!is_replaced("[::1]:6246", libc::EADDRNOTAVAIL), "one address has no replacement");
        assert!(!is_replaced("0.0.0.0:6246", libc::EADDRNOTAVAIL));
    }

    #[test]
    fn an_address_in_use_is_an_error_with_its_name() {
        let first = bind("127.0.0.1:0".parse().expect("an address")).expect("a free port");
        let at = first.local_addr().expect("its address");
        let error = bind(at).expect_err("it is in use");
        assert!(format!("{error:#}").contains(&at.to_string()), "{error:#}");
    }
}
