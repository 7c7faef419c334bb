//! Samples per second of nodes on loopback: Figure 9 of *Scale up your monitoring with Supermon* (2002), on one
//! machine. Each node is a mon (`--no-capture`), and the client requests all fields continuously, as in the
//! article. `cargo bench --bench supermon`
//!
//! One machine runs all nodes, so the result is their total cost.

use std::error::Error;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Measurement time of each.
const ASKED: Duration = Duration::from_secs(5);

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// A mon or a supermon, ended on drop.
struct Answers {
    child: Child,
    at: String,
}

impl Answers {
    fn start(arguments: &[String]) -> Result<Self> {
        let mut child = Command::new(env!("CARGO_BIN_EXE_magnet-scope"))
            .args(arguments)
            .args(["--listen", "127.0.0.1:0"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()?;
        let stderr = child.stderr.take().ok_or("no stderr")?;
        let mut answers = Answers { child, at: String::new() };
        for line in BufReader::new(stderr).lines() {
            if let Some((_, at)) = line?.split_once("listening at ") {
                at.clone_into(&mut answers.at);
                return Ok(answers);
            }
        }
        Err("it does not listen".into())
    }

    fn mon(name: usize) -> Result<Self> {
        let name = format!("node-{name}");
        Self::start(&["mon", "--no-capture", "--name", &name].map(ToOwned::to_owned))
    }

    fn supermon(of: &[Answers]) -> Result<Self> {
        let addresses = of.iter().map(|answers| answers.at.clone());
        Self::start(&std::iter::once("supermon".to_owned()).chain(addresses).collect::<Vec<_>>())
    }
}

impl Drop for Answers {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Waits for `nodes` nodes, then requests samples continuously: samples per second, and bytes of one.
fn rate(at: &str, nodes: usize) -> Result<(f64, usize)> {
    let mut stream = BufReader::new(TcpStream::connect(at)?);
    stream.get_ref().set_nodelay(true)?;
    let mut line = String::new();
    let mut ask = || -> Result<(usize, usize)> {
        line.clear();
        stream.get_mut().write_all(b"s\n")?;
        stream.read_line(&mut line)?;
        Ok((line.len(), line.matches("(node ").count() - line.matches("(down ").count()))
    };
    let end = Instant::now() + Duration::from_secs(30);
    while ask()?.1 != nodes {
        if Instant::now() > end {
            return Err("not all nodes came".into());
        }
    }
    let began = Instant::now();
    let (mut samples, mut bytes) = (0_u32, 0);
    while began.elapsed() < ASKED {
        let (length, there) = ask()?;
        if there != nodes {
            return Err("a node went away".into());
        }
        (samples, bytes) = (samples + 1, length);
    }
    Ok((f64::from(samples) / began.elapsed().as_secs_f64(), bytes))
}

fn print(what: &str, at: &Answers, nodes: usize) -> Result<()> {
    let (rate, bytes) = rate(&at.at, nodes)?;
    println!("{what:<34} {rate:>9.0} samples/s  {bytes:>9} bytes each");
    Ok(())
}

fn main() -> Result<()> {
    let mons = (0..100).map(Answers::mon).collect::<Result<Vec<_>>>()?;
    let first = mons.first().ok_or("no mon")?;
    print("one mon", first, 1)?;
    for nodes in [1, 5, 10, 20, 100] {
        let top = Answers::supermon(mons.get(..nodes).ok_or("too few")?)?;
        print(&format!("supermon, {nodes} flat"), &top, nodes)?;
    }
    for fanout in [10, 50] {
        let branches = mons.chunks(fanout).map(Answers::supermon).collect::<Result<Vec<_>>>()?;
        let top = Answers::supermon(&branches)?;
        print(&format!("supermon, 100 with {fanout} to each branch"), &top, 100)?;
    }
    Ok(())
}
