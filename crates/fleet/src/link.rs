//! Connections: who may come in, over what, and how many at a time.

use crate::grants::Grants;
use crate::io::Io;
use crate::pki::{Folder, Peer};
use crate::seats::{Seat, Seats};
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
use tokio_rustls::TlsAcceptor;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::server::Connected;

/// How long somebody may take to say who they are.
const PATIENCE: Duration = Duration::from_secs(5);
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
    _seat: Seat,
}

/// Says what happened to people, a line at a time.
pub type Tell = Arc<dyn Fn(&str) + Send + Sync>;

/// Listens, and hands over connections as they come. There are as many seats at each place, so that who is let in without a certificate
/// takes nobody else's.
///
/// # Errors
/// A listener that cannot be used.
pub fn links(
    listeners: Vec<Listen>,
    seats: &Seats,
    tell: &Tell,
) -> io::Result<ReceiverStream<io::Result<Link>>> {
    let (give, take) = channel(8);
    for listen in listeners {
        let door = Door { give: give.clone(), seats: seats.apart(), tell: tell.clone() };
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
    seats: Seats,
    tell: Tell,
}

impl Door {
    async fn tls(self, listener: TcpListener, folder: Folder, identity: String) {
        loop {
            let (stream, from, seat) = self.by_tcp(&listener).await;
            // Read anew each time: who was revoked a moment ago is let in no longer.
            let acceptor = match folder.agent(&identity) {
                Ok(config) => TlsAcceptor::from(Arc::new(config)),
                Err(error) => {
                    (self.tell)(&format!("{from} is not let in: {error}"));
                    continue;
                }
            };
            let door = self.clone();
            tokio::spawn(async move {
                let refuse = |because: &str| (door.tell)(&format!("{from} is not let in: {because}"));
                let stream = match tokio::time::timeout(PATIENCE, acceptor.accept(stream)).await {
                    Ok(Ok(stream)) => stream,
                    Ok(Err(error)) => return refuse(&error.to_string()),
                    Err(_) => return refuse("it does not say who it is"),
                };
                let (_, session) = stream.get_ref();
                let certificate = session.peer_certificates().and_then(<[_]>::first);
                match certificate.map(Peer::of) {
                    Some(Ok(peer)) => door.enter(Box::new(stream), peer, seat).await,
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
            let Some(seat) = self.seat("a local process") else { continue };
            let own = rustix::process::geteuid().as_raw();
            match stream.peer_cred().map(|cred| cred.uid()) {
                Ok(uid) if uid == 0 || uid == own => {
                    let peer = Peer { name: format!("uid {uid}"), grants: Grants::default() };
                    self.enter(Box::new(stream), peer, seat).await;
                }
                Ok(uid) => (self.tell)(&format!("a process of uid {uid} is not let in")),
                Err(error) => (self.tell)(&format!("a local process is not let in: {error}")),
            }
        }
    }

    async fn loopback(self, listener: TcpListener) {
        loop {
            let (stream, from, seat) = self.by_tcp(&listener).await;
            if is_loopback(from.ip()) {
                let peer = Peer { name: from.to_string(), grants: Grants::default() };
                self.enter(Box::new(stream), peer, seat).await;
            }
        }
    }

    /// The next one that comes by TCP and finds a seat.
    async fn by_tcp(&self, listener: &TcpListener) -> (TcpStream, SocketAddr, Seat) {
        loop {
            let Ok((stream, from)) = listener.accept().await else {
                tokio::time::sleep(RECOVERY).await;
                continue;
            };
            if let Some(seat) = self.seat(&from.to_string()) {
                // Without it messages only wait a little for each other.
                let _ = stream.set_nodelay(true);
                return (stream, from, seat);
            }
        }
    }

    fn seat(&self, who: &str) -> Option<Seat> {
        let seat = self.seats.take();
        if seat.is_none() {
            (self.tell)(&format!("{who} is not let in: {} are connected already", self.seats.most()));
        }
        seat
    }

    async fn enter(&self, io: Box<dyn Io>, peer: Peer, seat: Seat) {
        // Fails only where the server has ended.
        let _ = self.give.send(Ok(Link { io, peer, _seat: seat })).await;
    }
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
        Pin::new(&mut self.io).poll_read(cx, buf)
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
