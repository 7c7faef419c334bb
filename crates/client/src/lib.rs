//! Running averages of one's own traffic, for applications that adapt to it.
//!
//! A `magnet-scope agent` on this host captures; a program asks it how fast bytes come to its socket and how long they took, over a sliding
//! window. It needs no privilege for that: holding a socket is the right to ask about it.
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
//! Being told is as short: [`Watch::on_change`], and [`Watched::next`] or a poll of the watch's file descriptor. From C: `magnet_scope.h`.
//! What goes over the socket, for other languages, and what the figures say and do not say: `docs/client.md`.
//!
//! # Modules
//!
//! - `wire`: the language, the same types at both ends. `link`: a connection that can pass a file descriptor. `watch`: what a program sees.
//!   `c`: the same for C.

mod c;
mod error;
mod link;
mod watch;
pub mod wire;

pub use error::Error;
pub use watch::{SOCKET, Watch, Watched};
pub use wire::{Averages, Figure, Known, Latency, Rate, Span, Window};
