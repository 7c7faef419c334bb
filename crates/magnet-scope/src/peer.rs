//! The peer of a Unix socket, from the kernel.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::net::UnixStream;

/// The process at the other end; `None` before Linux 6.5, or after the process was reaped.
#[allow(unsafe_code)]
pub fn process(stream: &UnixStream) -> Option<OwnedFd> {
    let fd: libc::c_int = option(stream, libc::SO_PEERPIDFD, -1).ok().filter(|fd| *fd >= 0)?;
    // SAFETY: the kernel created the descriptor for this process, and it has no other owner.
    Some(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Credentials of the peer at the connection. A wrapper that requires a process id is unsuitable: the id of an
/// invisible process is 0.
pub fn credentials(stream: &UnixStream) -> io::Result<libc::ucred> {
    option(stream, libc::SO_PEERCRED, libc::ucred { pid: 0, uid: u32::MAX, gid: u32::MAX })
}

/// A socket option of plain numbers.
#[allow(unsafe_code)]
fn option<T: Copy>(stream: &UnixStream, name: libc::c_int, mut value: T) -> io::Result<T> {
    let mut length = size_of::<T>() as libc::socklen_t;
    // SAFETY: the pointers refer to a value and its length, which outlive the call; any bytes are valid for
    // these types.
    let got = unsafe {
        libc::getsockopt(stream.as_raw_fd(), libc::SOL_SOCKET, name, (&raw mut value).cast(), &raw mut length)
    };
    if got == 0 { Ok(value) } else { Err(io::Error::last_os_error()) }
}
