//! Running averages of an application's own traffic, for applications that adapt to it.
//!
//! A `magnet-scope agent` on this host captures. A program queries the receive rate and latency of its socket
//! over a sliding window. No privilege is needed: possession of the socket grants access.
//!
//! ```no_run
//! use magscope_client::{Watch, Window};
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let stream = std::net::TcpStream::connect("192.0.2.1:9000")?;
//! let mut watch = Watch::socket(&stream).window(Window::Receives(1_000)).open()?;
//! // … the program reads from the stream, and now and then:
//! match watch.ask()?.received.get() {
//!     Some(rate) => println!("{:?} bytes/s", rate.window.bytes_per_s),
//!     None => println!("not known"),
//! }
//! # Ok(())
//! # }
//! ```
//!
//! Notifications use [`Watch::on_change`], and [`Watched::next`] or a poll of the watch's file descriptor. C
//! programs use `magnet_scope.h`. `docs/client.md` describes the protocol for other languages, and the meaning
//! of the figures.
//!
//! # Modules
//!
//! - `wire`: the protocol, with the same types at both ends. `link`: a connection that can pass a file
//!   descriptor. `watch`: the program's interface. `c`: the interface for C.

mod c;
mod error;
mod link;
mod watch;
pub mod wire;

pub use error::Error;
pub use watch::{SOCKET, Watch, Watched};
pub use wire::{Averages, Figure, FigureOrReason, Latency, Rate, Span, Window};
