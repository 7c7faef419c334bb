//! What connections are to those who use them, whatever they go over.

use tokio::io::{AsyncRead, AsyncWrite};

/// Bytes both ways.
pub trait Io: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> Io for T {}
