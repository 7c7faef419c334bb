//! Connections: who may come in, over what, and how many at a time.

use crate::connections::{ConnectionLimiter, ConnectionPermit, Most, address_key};
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

/// How long a handshake may take: first TLS, then the greeting of HTTP/2.
const HANDSHAKE: Duration = Duration::from_secs(3);
/// Handshakes under way at each place, and those of one address. They take no place of a known identity.
const HANDSHAKES: Most = Most { total: 256, each: 64 };
/// Connections of known identities at each place: at least, and for each host of a relay.
const CONNECTIONS: (usize, usize) = (64, 16);
/// Bytes of the greeting of HTTP/2: its preface, and the header of the first frame.
const GREETING: usize = 24 + 9;
/// The kernel's buffer to one client, bytes; the kernel takes twice as much. Its own choice grows to megabytes for a client that is slow.
const SEND_BUFFER: usize = 512 << 10;
/// After a socket could not accept: out of file descriptors, most likely.
const RECOVERY: Duration = Duration::from_millis(200);

/// A place that an agent listens at.
pub enum Listen {
    /// TCP with TLS at both ends, by these keys.
    Tls(net::TcpListener, Folder, String),
    /// A Unix socket: root, and the user that the agent belongs to.
    Unix(StdUnixListener),
    /// Plain TCP, on loopback alone: every user of this host may come.
    Loopback(net::TcpListener),
}

impl Listen {
    /// Where it is.
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

/// A connection whose other end is known.
pub struct Link {
    io: Box<dyn Io>,
    peer: Peer,
    /// Until when the greeting must have come, and how much of it has.
    greeting: Option<(Pin<Box<Sleep>>, usize)>,
    _permit: ConnectionPermit,
}

/// Says what happened to people, a line at a time.
pub type Tell = Arc<dyn Fn(&str) + Send + Sync>;

/// Listens, and hands over connections as they come. Each place has limits of its own, so that a peer that is let in without a certificate
/// takes no other's permit.
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
        let door = Door {
            give: give.clone(),
            hosts: hosts.clone(),
            handshakes: ConnectionLimiter::default(),
            connections: ConnectionLimiter::default(),
            log: log.clone(),
        };
        match listen {
            Listen::Tls(listener, folder, identity) => {
                listener.set_nonblocking(true)?;
                tokio::spawn(door.tls(TcpListener::from_std(listener)?, folder, identity));
            }
            Listen::Unix(listener) => {
                listener.set_nonblocking(true)?;
                tokio::spawn(door.unix(UnixListener::from_std(listener)?));
            }
            Listen::Loopback(listener) => {
                listener.set_nonblocking(true)?;
                tokio::spawn(door.loopback(TcpListener::from_std(listener)?));
            }
        }
    }
    Ok(ReceiverStream::new(take))
}

#[derive(Clone)]
struct Door {
    give: Sender<io::Result<Link>>,
    hosts: Arc<Hosts>,
    /// By address.
    handshakes: ConnectionLimiter,
    /// By identity.
    connections: ConnectionLimiter,
    log: Arc<PeerLog>,
}

impl Door {
    async fn tls(self, listener: TcpListener, folder: Folder, identity: String) {
        loop {
            let (stream, from) = accept(&listener).await;
            let (permit, replaces) = self.handshakes.admit_or_replace(&address_key(from.ip()), HANDSHAKES);
            if replaces {
                let most = HANDSHAKES.each;
                self.log.say(Kind::Stranger, || {
                    format!("an unfinished handshake ends, because {from} comes: at most {most} of one address")
                });
            }
            let (door, folder, identity) = (self.clone(), folder.clone(), identity.clone());
            tokio::spawn(async move {
                let refuse = |because: &str| {
                    door.log.say(Kind::Stranger, || format!("{from} is not let in: {because}"));
                };
                let handshake = tokio::time::timeout(HANDSHAKE, handshake(stream, &folder, &identity, &permit));
                let stream = tokio::select! {
                    done = handshake => match done {
                        Ok(Ok(stream)) => stream,
                        Ok(Err(NoHandshake::Peer(because))) => return refuse(&because),
                        Ok(Err(NoHandshake::OwnFiles(because))) => {
                            return door.log.own_files_failed(&from, &because);
                        }
                        Err(_) => return refuse("it does not say who it is"),
                    },
                    () = permit.replaced() => return,
                };
                drop(permit);
                let (_, session) = stream.get_ref();
                let certificate = session.peer_certificates().and_then(<[_]>::first);
                match certificate.map(Peer::of) {
                    Some(Ok(peer)) => door.enter(Box::new(stream), peer).await,
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
                    self.log.say(Kind::Stranger, || format!("a process of uid {uid} is not let in"));
                }
                Err(error) => {
                    self.log.say(Kind::Stranger, || format!("a local process is not let in: {error}"));
                }
            }
        }
    }

    async fn loopback(self, listener: TcpListener) {
        loop {
            let (stream, from) = accept(&listener).await;
            if is_loopback(from.ip()) {
                // Every user and every loopback address is one identity: nothing tells them apart.
                let peer = Peer { name: "loopback".to_owned(), grants: Grants::default() };
                self.enter(Box::new(stream), peer).await;
            }
        }
    }

    async fn enter(&self, io: Box<dyn Io>, peer: Peer) {
        let total = CONNECTIONS.0.max(self.hosts.len().saturating_mul(CONNECTIONS.1));
        let limited = peer.grants != Grants::default();
        let most = Most { total, each: total / if limited { 4 } else { 2 } };
        let Some(permit) = self.connections.admit(&peer.name, most) else {
            let name = &peer.name;
            return self.log.say(Kind::Refused, || {
                format!("{name} is not let in: there are {total} connections, or {} of this viewer", most.each)
            });
        };
        let greeting = Some((Box::pin(sleep_until(Instant::now() + HANDSHAKE)), 0));
        // Fails only where the server has ended.
        let _ = self.give.send(Ok(Link { io, peer, greeting, _permit: permit })).await;
    }
}

/// The next connection by TCP.
async fn accept(listener: &TcpListener) -> (TcpStream, SocketAddr) {
    loop {
        let Ok((stream, from)) = listener.accept().await else {
            tokio::time::sleep(RECOVERY).await;
            continue;
        };
        // Without it messages only wait a little for each other, and without a bound the kernel has one of its own.
        let _ = stream.set_nodelay(true);
        let _ = rustix::net::sockopt::set_socket_send_buffer_size(&stream, SEND_BUFFER);
        return (stream, from);
    }
}

/// Why a handshake failed.
enum NoHandshake {
    /// The peer's words, or their absence.
    Peer(String),
    /// The certificates or the list of this host.
    OwnFiles(String),
}

/// The handshake of TLS. Certificates and the list of revoked ones are read when a client has said what it wants: a connection without a
/// word costs no work, and a client that was revoked a moment ago is not let in.
async fn handshake(
    stream: TcpStream,
    folder: &Folder,
    identity: &str,
    permit: &ConnectionPermit,
) -> Result<TlsStream<TcpStream>, NoHandshake> {
    let peer = |error: io::Error| NoHandshake::Peer(error.to_string());
    let greeted = LazyConfigAcceptor::new(rustls::server::Acceptor::default(), stream).await.map_err(peer)?;
    permit.heard();
    let config = folder.agent(identity).map_err(|error| NoHandshake::OwnFiles(error.to_string()))?;
    greeted.into_stream(Arc::new(config)).await.map_err(peer)
}

/// Whether only this host can come from there.
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
