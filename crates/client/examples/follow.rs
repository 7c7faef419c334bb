//! Prints changes of the receive rate above a tenth while reading from a connection.
//!
//! `cargo run -p magscope-client --example follow HOST:PORT`, with a sender at that address.

use magscope_client::{Watch, Window};
use std::error::Error;
use std::io::{Read, Write};
use std::net::TcpStream;

fn main() -> Result<(), Box<dyn Error>> {
    let at = std::env::args().nth(1).ok_or("say where to connect: HOST:PORT")?;
    let mut stream = TcpStream::connect(at)?;
    let mut watched = Watch::socket(&stream).window(Window::Seconds(1.0)).on_change(0.1).open()?;
    std::thread::spawn(move || while stream.read(&mut [0; 8192]).is_ok_and(|n| n > 0) {});
    let mut stdout = std::io::stdout();
    loop {
        let reported = watched.next()?;
        if let Some(rate) = reported.received.get() {
            let mbit = rate.window.bytes_per_s.unwrap_or(0.0) * 8.0 / 1e6;
            writeln!(stdout, "{mbit:.1} Mbit/s, {:.0} ms ago", reported.age_ns as f64 / 1e6)?;
        }
    }
}
