//! `magnet-scope relay`: reads agents, and is one to its own viewers.
//!
//! Many viewers then take each host's stream from its agent once. Relays can stand behind relays.

use crate::agent::ListenArgs;
use crate::connect::{address, explain};
use crate::signals::Stop;
use crate::{capture, output};
use anyhow::{Result, anyhow};
use magscope_core::Batch;
use magscope_core::node::{NodeInfo, tell_apart};
use magscope_core::source::{Progress, Source};
use magscope_fleet::{Address, From, Memory, Remote, Terms, Ticker, Wish, Writer};
use std::time::Duration;

/// Arguments of `relay`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "magnet-scope relay --connect web-1,web-2 --listen 0.0.0.0:6246 --tls tls --identity host-relay"
)]
pub struct Args {
    /// The agents, and relays, that are read
    #[arg(long, value_name = "HOST,…", value_delimiter = ',', value_parser = address, required = true)]
    connect: Vec<Address>,
    #[command(flatten)]
    listen: ListenArgs,
    /// How much of the past is kept of all hosts together
    #[arg(long, value_name = "SIZE", value_parser = crate::values::size::parse, default_value = "1GiB")]
    memory: u64,
}

/// Reads and serves until a signal.
pub fn run(args: &Args) -> Result<()> {
    let stop = Stop::on_signals()?;
    let doors = args.listen.open()?;
    capture::drop_privileges()?;
    let credentials = args.listen.known_by()?;
    let mut sources = Vec::new();
    for address in &args.connect {
        let (address, credentials) = (address.clone(), credentials.clone());
        let wish = Wish { address, credentials, from: From::Now, terms: Terms::default() };
        sources.extend(Remote::connect(&wish).map_err(explain)?);
    }
    let tickers: Vec<Ticker> = sources.iter().map(Remote::ticker).collect();
    let mut infos: Vec<NodeInfo> = sources.iter().map(|source| source.info().clone()).collect();
    tell_apart(&mut infos);
    let each = args.memory / infos.len().max(1) as u64;
    let (mut memories, mut writers) = (Vec::new(), Vec::new());
    for info in infos {
        output::note(&format!("relays {}", info.host));
        let (memory, writer) = Memory::new(info, each)?;
        memories.push(memory);
        writers.push(writer);
    }
    let talker = doors.serve(memories)?;
    let result = std::thread::scope(|scope| {
        let threads: Vec<_> = sources
            .into_iter()
            .zip(writers)
            .map(|(source, writer)| scope.spawn(|| keep(source, writer)))
            .collect();
        while threads.iter().any(|thread| !thread.is_finished()) {
            std::thread::sleep(Duration::from_millis(50));
            if stop.is_raised() || talker.has_ended() {
                tickers.iter().for_each(Ticker::stop);
            }
            for news in tickers.iter().flat_map(Ticker::news) {
                output::note(&news.text);
            }
        }
        let failed = || Err(anyhow!("a thread that keeps a host has failed"));
        threads.into_iter().map(|thread| thread.join().unwrap_or_else(|_| failed())).collect::<Result<Vec<_>>>()
    });
    let talked = talker.end();
    result.and(talked)
}

/// Keeps what a host sends, what it is told to have missed with it.
fn keep(mut source: Remote, mut writer: Writer) -> Result<()> {
    let mut batch = Batch::default();
    while source.next(&mut batch, Duration::from_millis(100)).map_err(anyhow::Error::from_boxed)?
        == Progress::More
    {
        writer.push(&batch)?;
    }
    Ok(())
}
