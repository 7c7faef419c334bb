//! Small messages that a thread sends to itself, in a network namespace of its own.

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::time::Instant;

/// Sockets that this thread sends to itself through.
pub struct Traffic {
    udp: UdpSocket,
    near: TcpStream,
    far: TcpStream,
}

impl Traffic {
    /// Moves the calling thread into a new namespace and pins it to its current CPU, permanently. The thread
    /// must be created for this purpose.
    ///
    /// # Errors
    /// The kernel's error; a new namespace needs `CAP_SYS_ADMIN`.
    pub fn apart() -> io::Result<Self> {
        // SAFETY: this thread was made for it and ends after; no other thread changes namespace.
        #[allow(unsafe_code)]
        unsafe { rustix::thread::unshare_unsafe(rustix::thread::UnshareFlags::NEWNET) }?;
        raise_loopback()?;
        let mut cpus = rustix::thread::CpuSet::new();
        cpus.set(rustix::thread::sched_getcpu());
        // staying on one CPU only makes the figure steadier
        let _unpinned = rustix::thread::sched_setaffinity(None, &cpus);
        Self::new()
    }

    fn new() -> io::Result<Self> {
        let udp = UdpSocket::bind("127.0.0.1:0")?;
        udp.connect(udp.local_addr()?)?;
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let near = TcpStream::connect(listener.local_addr()?)?;
        near.set_nodelay(true)?;
        let (far, _) = listener.accept()?;
        Ok(Traffic { udp, near, far })
    }

    /// Nanoseconds for one message of each kind, sent and received: the median over `messages`, because
    /// preemption affects only few of them.
    pub fn round(&mut self, messages: usize) -> io::Result<f64> {
        let mut buffer = [0u8; 64];
        let mut each_ns = vec![0; messages.max(1)];
        for ns in &mut each_ns {
            let start = Instant::now();
            self.udp.send(&buffer)?;
            self.udp.recv(&mut buffer)?;
            self.near.write_all(&buffer)?;
            self.far.read_exact(&mut buffer)?;
            *ns = start.elapsed().as_nanos() as u64;
        }
        let (_, median_ns, _) = each_ns.select_nth_unstable(messages / 2);
        Ok(*median_ns as f64)
    }
}

/// Brings up `lo` in a new namespace, where it is down.
fn raise_loopback() -> io::Result<()> {
    let socket = UdpSocket::bind("0.0.0.0:0")?;
    // SAFETY: an all-zero `ifreq` is valid; the name is shorter than its field; the kernel reads and writes only the
    // structure that the pointer leads to, which outlives both calls.
    #[allow(unsafe_code)]
    unsafe {
        let mut request: libc::ifreq = std::mem::zeroed();
        request.ifr_name[0] = b'l' as libc::c_char;
        request.ifr_name[1] = b'o' as libc::c_char;
        let fd = std::os::fd::AsRawFd::as_raw_fd(&socket);
        if libc::ioctl(fd, libc::SIOCGIFFLAGS as libc::Ioctl, &raw mut request) < 0 {
            return Err(io::Error::last_os_error());
        }
        request.ifr_ifru.ifru_flags |= libc::IFF_UP as libc::c_short;
        if libc::ioctl(fd, libc::SIOCSIFFLAGS as libc::Ioctl, &raw mut request) < 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}
