//! Who is at the other end of a Unix socket, by what the kernel says.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::net::UnixStream;

/// The process at the other end; nothing where the kernel is older than Linux 6.5, or the process has been reaped.
#[allow(unsafe_code)]
pub fn process(stream: &UnixStream) -> Option<OwnedFd> {
    let fd: libc::c_int = option(stream, libc::SO_PEERPIDFD, -1).ok().filter(|fd| *fd >= 0)?;
    // SAFETY: the kernel has just made it for this process, and nobody else knows of it.
    Some(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Who was at the other end when it connected. Not by a wrapper that takes a process to have a number: it is 0 where it cannot be seen.
pub fn credentials(stream: &UnixStream) -> io::Result<libc::ucred> {
    option(stream, libc::SO_PEERCRED, libc::ucred { pid: 0, uid: u32::MAX, gid: u32::MAX })
}

/// An option of a socket that is plain numbers.
#[allow(unsafe_code)]
fn option<T: Copy>(stream: &UnixStream, name: libc::c_int, mut value: T) -> io::Result<T> {
    let mut length = size_of::<T>() as libc::socklen_t;
    // SAFETY: the pointers are to a value and to its length, both live until it returns, and any bytes are one of these values.
    let got = unsafe {
        libc::getsockopt(stream.as_raw_fd(), libc::SOL_SOCKET, name, (&raw mut value).cast(), &raw mut length)
    };
    if got == 0 { Ok(value) } else { Err(io::Error::last_os_error()) }
}
