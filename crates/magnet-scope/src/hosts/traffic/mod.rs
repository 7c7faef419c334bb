//! Traffic of the demo's two processes: paced flows that leave two CPUs far from saturation.
//!
//! | port | traffic | rate |
//! |---|---|---|
//! | 5201 | TCP over IPv4, bulk | 256 kB every 20 ms |
//! | 5202 | TCP over IPv6, request and response | 200 a second, 100 to 1,000 bytes each way |
//! | 5203 | TCP over IPv4, a reader that now and then sleeps 40 ms | 1 kB every 10 ms |
//! | 5204 | UDP over IPv4 | 500 a second, 64 to 1,200 bytes |
//! | 5205 | UDP over IPv6 | 100 a second, 64 to 1,200 bytes |
//! | 5206 | UDP over IPv4, during the tour's first fault, to a reader that takes 50 a second | 500 a second |
//!
//! In the tour's second fault the answers at 5202 take 30 ms.

mod client;
mod fault;
mod pace;
mod server;

pub use fault::word_of;

use super::{Role, link};
use crate::privileges;
use anyhow::{Context, Result, bail};
use rustix::process::{Signal, getppid, set_parent_process_death_signal};
use std::io::{self, BufRead, Write};
use std::net::{IpAddr, SocketAddr};
use std::thread;

const BULK: u16 = 5201;
const REQUESTS: u16 = 5202;
const SLOW: u16 = 5203;
const UDP_V4: u16 = 5204;
const UDP_V6: u16 = 5205;
const UNREAD: u16 = 5206;

/// Runs one host until the parent ends.
pub fn run(role: Role, parent: u32) -> Result<()> {
    die_with(parent)?;
    privileges::drop_all()?;
    rustix::thread::set_name(match role {
        Role::Client => c"demo-client",
        Role::Server => c"demo-server",
    })?;
    write_word("ready")?;
    let mut parent = io::stdin().lock().lines();
    if parent.next().transpose()?.is_none() {
        return Ok(()); // the parent cancelled
    }
    match role {
        Role::Server => {
            server::start()?;
            write_word("listening")?;
        }
        Role::Client => client::start()?,
    }
    // Second safeguard: end of file ends the process, independent of the death signal.
    while let Some(word) = parent.next().transpose()? {
        fault::set(&word);
    }
    Ok(())
}

fn die_with(parent: u32) -> Result<()> {
    set_parent_process_death_signal(Some(Signal::KILL)).context("cannot ask to die with the parent")?;
    // The parent may have ended before the request for the signal; the process then has another parent.
    match getppid() {
        Some(pid) if pid.as_raw_nonzero().get().cast_unsigned() == parent => Ok(()),
        _ => bail!("the process that started this one is gone"),
    }
}

fn write_word(word: &str) -> Result<()> {
    let mut stdout = io::stdout().lock();
    writeln!(stdout, "{word}")?;
    Ok(stdout.flush()?)
}

/// Starts a named thread. An early end of traffic ends the process, so that the parent reports it.
fn work(name: &str, body: impl FnOnce() -> io::Result<()> + Send + 'static) -> Result<()> {
    let label = name.to_owned();
    thread::Builder::new()
        .name(name.to_owned())
        .spawn(move || {
            if let Err(error) = body() {
                eprintln!("magnet-scope demo, {label}: {error}");
                std::process::exit(1);
            }
        })
        .with_context(|| format!("cannot start the thread {name}"))?;
    Ok(())
}

/// The server's address for a port: IPv6 if wanted and available.
fn server_address(port: u16) -> Result<SocketAddr> {
    let v6 = matches!(port, REQUESTS | UDP_V6) && link::has_ipv6();
    let ip: IpAddr = if v6 { link::SERVER.1 } else { link::SERVER.0 }.parse()?;
    Ok(SocketAddr::new(ip, port))
}
