//! A TCP connection between the two hosts, held open so that the counters of both sockets remain readable.

use super::tcp_info::TcpInfo;
use super::{Host, Net, address, waits};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};

pub struct Connection {
    pub client: TcpStream,
    pub server: TcpStream,
}

impl Connection {
    pub fn open(net: &Net, to: &str, port: u16) -> Self {
        Self::accept(net, &listen(&net.server, to, port))
    }

    pub fn accept(net: &Net, listener: &TcpListener) -> Self {
        let to = listener.local_addr().expect("an address");
        let client = net.client.run(|| TcpStream::connect(to).expect("connect"));
        let (server, _) = listener.accept().expect("accept");
        Connection { client, server }
    }

    /// Address of the client's end.
    pub fn from(&self) -> SocketAddr {
        self.client.local_addr().expect("an address")
    }

    /// Address of the server's end.
    pub fn to(&self) -> SocketAddr {
        self.server.local_addr().expect("an address")
    }

    /// Writes `sizes` in turn from client to server; the reader reads up to `buffer` bytes at a time.
    pub fn upload(&self, sizes: impl IntoIterator<Item = usize>, buffer: usize) -> u64 {
        transfer(&self.client, &self.server, sizes, buffer)
    }

    /// The same from server to client.
    pub fn download(&self, sizes: impl IntoIterator<Item = usize>, buffer: usize) -> u64 {
        transfer(&self.server, &self.client, sizes, buffer)
    }

    /// Counters of both sockets after all data is acknowledged: client's, server's.
    pub fn counted(&self) -> (TcpInfo, TcpInfo) {
        TcpInfo::once_acknowledged(&self.server);
        let client = TcpInfo::once_acknowledged(&self.client);
        (client, TcpInfo::once_acknowledged(&self.server))
    }
}

impl Connection {
    /// As [`Connection::counted`], after every data segment has arrived, also one that was sent again needlessly.
    /// For networks that lose nothing.
    pub fn settled(&self) -> (TcpInfo, TcpInfo) {
        let mut counted = self.counted();
        waits::until("every data segment arrives", || {
            counted = self.counted();
            let (client, server) = &counted;
            (client.data_segs_out, server.data_segs_out) == (server.data_segs_in, client.data_segs_in)
        });
        counted
    }
}

fn transfer(
    mut from: &TcpStream,
    to: &TcpStream,
    sizes: impl IntoIterator<Item = usize>,
    buffer: usize,
) -> u64 {
    let sizes: Vec<usize> = sizes.into_iter().collect();
    let total: usize = sizes.iter().sum();
    std::thread::scope(|scope| {
        scope.spawn(|| read(to, total, buffer));
        let payload = vec![1; sizes.iter().copied().max().unwrap_or(0)];
        for size in sizes {
            from.write_all(&payload[..size]).expect("write");
        }
    });
    total as u64
}

pub fn listen(host: &Host, ip: &str, port: u16) -> TcpListener {
    host.run(|| TcpListener::bind(address(ip, port)).expect("bind"))
}

/// Reads exactly `total` bytes, up to `buffer` at a time.
pub fn read(mut stream: &TcpStream, total: usize, buffer: usize) {
    let (mut left, mut buffer) = (total, vec![0; buffer]);
    while left > 0 {
        let most = left.min(buffer.len());
        let got = stream.read(&mut buffer[..most]).expect("read");
        assert!(got > 0, "the stream ended {left} bytes early");
        left -= got;
    }
}
