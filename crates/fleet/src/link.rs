//! Incoming connections: authentication, transports, and limits.

use crate::connections::{ConnectionLimiter, ConnectionLimits, ConnectionPermit, address_key};
use crate::grants::Grants;
use crate::hosts::Hosts;
use crate::io::Io;
use crate::log::{Kind, PeerLog};
use crate::pki::{Folder, Peer};
use std::net::{IpAddr, SocketAddr};
use std::os::unix::net::UnixListener as StdUnixListener;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use std::{io, net};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream, UnixListener};
use tokio::sync::mpsc::{Sender, channel};
use tokio::time::{Instant, Sleep, sleep_until};
use tokio_rustls::LazyConfigAcceptor;
use tokio_rustls::server::TlsStream;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::server::Connected;

/// Timeout of a handshake: first TLS, then the HTTP/2 preface.
const HANDSHAKE: Duration = Duration::from_secs(3);
/// Maximum number of pending handshakes per listener, and per address. They use no permit of a known identity.
const HANDSHAKES: ConnectionLimits = ConnectionLimits { total: 256, each: 64 };
/// Maximum number of connections of known identities per listener: base value, and per host of a relay.
const CONNECTIONS: (usize, usize) = (64, 16);
/// Size of the HTTP/2 preface and of the first frame header, bytes.
const GREETING: usize = 24 + 9;
/// Send buffer of a client's socket, bytes; the kernel doubles the value. The kernel's autotuning would use
/// megabytes for a slow client.
const SEND_BUFFER: usize = 512 << 10;
/// Pause after a failed accept, mostly for lack of file descriptors.
const RECOVERY: Duration = Duration::from_millis(200);

/// A listener of an agent.
pub enum Listen {
    /// TCP with TLS at both ends, by these keys.
    Tls(net::TcpListener, Folder, String),
    /// A Unix socket for root and the agent's user.
    Unix(StdUnixListener),
    /// Plain TCP on loopback: every user of this host may connect.
    Loopback(net::TcpListener),
}

impl Listen {
    /// The address.
    pub fn address(&self) -> String {
        match self {
            Self::Tls(listener, ..) => listener.local_addr().map_or_else(|e| e.to_string(), |a| a.to_string()),
            Self::Unix(listener) => {
                let path =
                    listener.local_addr().ok().and_then(|a| a.as_pathname().map(|p| p.display().to_string()));
                format!("unix:{}", path.unwrap_or_default())
            }
            Self::Loopback(listener) => {
                format!("insecure:{}", listener.local_addr().map_or_else(|e| e.to_string(), |a| a.to_string()))
            }
        }
    }
}

/// A connection with an authenticated peer.
pub struct Link {
    io: Box<dyn Io>,
    peer: Peer,
    /// Deadline of the preface, and the number of bytes received.
    greeting: Option<(Pin<Box<Sleep>>, usize)>,
    _permit: ConnectionPermit,
}

/// Prints a message for the user, one line at a time.
pub type Reporter = Arc<dyn Fn(&str) + Send + Sync>;

/// Listens and delivers authenticated connections. Each listener has separate limits, so that peers without a
/// certificate use no other's permits.
///
/// # Errors
/// A listener that cannot be used.
pub fn links(
    listeners: Vec<Listen>,
    hosts: &Arc<Hosts>,
    log: &Arc<PeerLog>,
) -> io::Result<ReceiverStream<io::Result<Link>>> {
    let (give, take) = channel(8);
    for listen in listeners {
        let acceptor = Acceptor {
            give: give.clone(),
            hosts: hosts.clone(),
            handshakes: ConnectionLimiter::default(),
            connections: ConnectionLimiter::default(),
            log: log.clone(),
        };
        match listen {
            Listen::Tls(listener, folder, identity) => {
                listener.set_nonblocking(true)?;
                tokio::spawn(acceptor.tls(TcpListener::from_std(listener)?, folder, identity));
            }
            Listen::Unix(listener) => {
                listener.set_nonblocking(true)?;
                tokio::spawn(acceptor.unix(UnixListener::from_std(listener)?));
            }
            Listen::Loopback(listener) => {
                listener.set_nonblocking(true)?;
                tokio::spawn(acceptor.loopback(TcpListener::from_std(listener)?));
            }
        }
    }
    Ok(ReceiverStream::new(take))
}

#[derive(Clone)]
struct Acceptor {
    give: Sender<io::Result<Link>>,
    hosts: Arc<Hosts>,
    /// Limiter by address.
    handshakes: ConnectionLimiter,
    /// Limiter by identity.
    connections: ConnectionLimiter,
    log: Arc<PeerLog>,
}

impl Acceptor {
    async fn tls(self, listener: TcpListener, folder: Folder, identity: String) {
        loop {
            let (stream, from) = accept(&listener).await;
            let (permit, replaces) = self.handshakes.admit_or_replace(&address_key(from.ip()), HANDSHAKES);
            if replaces {
                let most = HANDSHAKES.each;
                self.log.write(Kind::Replaced, || {
                    format!("an unfinished handshake ends, because {from} comes: at most {most} of one address")
                });
            }
            let (acceptor, folder, identity) = (self.clone(), folder.clone(), identity.clone());
            tokio::spawn(async move {
                let refuse = |because: &str| {
                    acceptor.log.write(Kind::Stranger, || format!("{from} is not let in: {because}"));
                };
                let handshake = tokio::time::timeout(HANDSHAKE, handshake(stream, &folder, &identity, &permit));
                let stream = tokio::select! {
                    done = handshake => match done {
                        Ok(Ok(stream)) => stream,
                        Ok(Err(NoHandshake::Peer(because))) => return refuse(&because),
                        Ok(Err(NoHandshake::OwnFiles(because))) => {
                            return acceptor.log.own_files_failed(&from, &because);
                        }
                        Err(_) => return refuse("it does not say who it is"),
                    },
                    () = permit.replaced() => return,
                };
                drop(permit);
                let (_, session) = stream.get_ref();
                let certificate = session.peer_certificates().and_then(<[_]>::first);
                match certificate.map(Peer::of) {
                    Some(Ok(peer)) => acceptor.enter(Box::new(stream), peer).await,
                    Some(Err(error)) => refuse(&error),
                    None => refuse("it has no certificate"),
                }
            });
        }
    }

    async fn unix(self, listener: UnixListener) {
        loop {
            let Ok((stream, _)) = listener.accept().await else {
                tokio::time::sleep(RECOVERY).await;
                continue;
            };
            let own = rustix::process::geteuid().as_raw();
            match stream.peer_cred().map(|cred| cred.uid()) {
                Ok(uid) if uid == 0 || uid == own => {
                    let peer = Peer { name: format!("uid {uid}"), grants: Grants::default() };
                    self.enter(Box::new(stream), peer).await;
                }
                Ok(uid) => {
                    self.log.write(Kind::Stranger, || format!("a process of uid {uid} is not let in"));
                }
                Err(error) => {
                    self.log.write(Kind::Stranger, || format!("a local process is not let in: {error}"));
                }
            }
        }
    }

    async fn loopback(self, listener: TcpListener) {
        loop {
            let (stream, from) = accept(&listener).await;
            if is_loopback(from.ip()) {
                // Every user and every loopback address is one identity, because they are indistinguishable.
                let peer = Peer { name: "loopback".to_owned(), grants: Grants::default() };
                self.enter(Box::new(stream), peer).await;
            }
        }
    }

    async fn enter(&self, io: Box<dyn Io>, peer: Peer) {
        let total = CONNECTIONS.0.max(self.hosts.len().saturating_mul(CONNECTIONS.1));
        let limited = peer.grants != Grants::default();
        let most = ConnectionLimits { total, each: total / if limited { 4 } else { 2 } };
        let Some(permit) = self.connections.admit(&peer.name, most) else {
            let name = &peer.name;
            return self.log.write(Kind::Refused, || {
                format!("{name} is not let in: there are {total} connections, or {} of this viewer", most.each)
            });
        };
        let greeting = Some((Box::pin(sleep_until(Instant::now() + HANDSHAKE)), 0));
        // Fails only after the end of the server.
        let _ = self.give.send(Ok(Link { io, peer, greeting, _permit: permit })).await;
    }
}

/// Accepts the next TCP connection.
async fn accept(listener: &TcpListener) -> (TcpStream, SocketAddr) {
    loop {
        let Ok((stream, from)) = listener.accept().await else {
            tokio::time::sleep(RECOVERY).await;
            continue;
        };
        // Failures are harmless: small messages are delayed a little, and the kernel has a default buffer
        // limit.
        let _ = stream.set_nodelay(true);
        let _ = rustix::net::sockopt::set_socket_send_buffer_size(&stream, SEND_BUFFER);
        return (stream, from);
    }
}

/// Why a handshake failed.
enum NoHandshake {
    /// The peer's error, or a timeout.
    Peer(String),
    /// The certificates or the list of this host.
    OwnFiles(String),
}

/// TLS handshake. Certificates and the revocation list are read after the client's hello: a silent connection
/// causes no work, and a new revocation takes effect at once.
async fn handshake(
    stream: TcpStream,
    folder: &Folder,
    identity: &str,
    permit: &ConnectionPermit,
) -> Result<TlsStream<TcpStream>, NoHandshake> {
    let peer = |error: io::Error| NoHandshake::Peer(error.to_string());
    let greeted = LazyConfigAcceptor::new(rustls::server::Acceptor::default(), stream).await.map_err(peer)?;
    permit.mark_active();
    let config = folder.agent(identity).map_err(|error| NoHandshake::OwnFiles(error.to_string()))?;
    greeted.into_stream(Arc::new(config)).await.map_err(peer)
}

/// True for addresses that only this host can use.
pub fn is_loopback(ip: IpAddr) -> bool {
    ip.to_canonical().is_loopback()
}

impl Connected for Link {
    type ConnectInfo = Peer;

    fn connect_info(&self) -> Peer {
        self.peer.clone()
    }
}

impl AsyncRead for Link {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let read = Pin::new(&mut self.io).poll_read(cx, buf);
        if let Some((deadline, came)) = &mut self.greeting {
            *came += buf.filled().len() - before;
            if *came >= GREETING {
                self.greeting = None;
            } else if deadline.as_mut().poll(cx).is_ready() {
                return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
            }
        }
        read
    }
}

impl AsyncWrite for Link {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }
}
