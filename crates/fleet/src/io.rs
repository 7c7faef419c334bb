//! Abstraction of connections over any transport.

use tokio::io::{AsyncRead, AsyncWrite};

/// A bidirectional byte stream.
pub trait Io: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> Io for T {}
