//! `magnet-scope relay`: a client of agents, and an agent for its viewers.
//!
//! Many viewers then read each host's stream from its agent once. Relays can be chained.

use crate::agent::ListenArgs;
use crate::connect::{Until, address, explain};
use crate::signals::Stop;
use crate::{capture, output};
use anyhow::{Result, anyhow};
use magscope_core::Batch;
use magscope_core::source::{Progress, Source};
use magscope_fleet::{Address, Host, HostDiscovery, Hosts, Memory, ReadOptions, StartAt, Terms, Writer};
use std::time::Duration;

/// Arguments of `relay`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "magnet-scope relay --connect web-1,web-2 --listen 0.0.0.0:6246 --tls /etc/magnet-scope"
)]
pub struct Args {
    /// Agents and relays to read
    #[arg(long, value_name = "HOST,…", value_delimiter = ',', value_parser = address, required = true)]
    connect: Vec<Address>,
    #[command(flatten)]
    listen: ListenArgs,
    /// Memory for recent events of all hosts
    #[arg(long, value_name = "SIZE", value_parser = crate::values::size::parse, default_value = "1GiB")]
    memory: u64,
}

/// Reads and serves until a signal.
pub fn run(args: &Args) -> Result<()> {
    let stop = Stop::on_signals()?;
    let listeners = args.listen.open("relay")?;
    capture::drop_privileges()?;
    let credentials = args.listen.host_credentials("relay")?;
    let options = |address: &Address| ReadOptions {
        address: address.clone(),
        credentials: credentials.clone(),
        from: StartAt::Now,
        terms: Terms::default(),
    };
    let requests: Vec<ReadOptions> = args.connect.iter().map(options).collect();
    let (first, discovery) = HostDiscovery::enter(&requests, None).map_err(explain)?;
    let hosts = Hosts::of(Vec::new());
    let writers = first.into_iter().map(|host| take_in(host, &hosts, args.memory));
    let writers = writers.collect::<Result<Vec<_>>>()?;
    let talker = listeners.serve(hosts.clone())?;
    let until = Until::new(None, &stop);
    let result = std::thread::scope(|scope| {
        let spawn = |(host, writer)| scope.spawn(|| keep(host, writer));
        let mut threads: Vec<_> = writers.into_iter().map(spawn).collect();
        let (mut taken, mut written) = (Ok(()), Ok(()));
        let failed = |_| Err(anyhow!("a thread that keeps a host has failed"));
        // A host that has ended can return.
        while !(discovery.ticker().is_stopped() && threads.is_empty()) {
            std::thread::sleep(Duration::from_millis(50));
            if taken.is_err() || written.is_err() || talker.has_ended() {
                discovery.ticker().stop();
            } else if !discovery.ticker().is_stopped()
                && let Some(host) = discovery.arrived()
            {
                taken = take_in(host, &hosts, args.memory).map(|host| threads.push(spawn(host)));
            }
            for thread in threads.extract_if(.., |thread| thread.is_finished()) {
                written = written.and(thread.join().unwrap_or_else(failed));
            }
            until.look(discovery.ticker());
        }
        taken.and(written)
    });
    let talked = talker.end();
    result.and(talked)
}

/// Adds a host with its share of the memory.
fn take_in(host: Host, hosts: &Hosts, memory: u64) -> Result<(Host, Writer)> {
    let mut info = host.info().clone();
    hosts.name(&mut info);
    output::note(&format!("relays {}", info.host));
    let (store, writer) = Memory::new(info, memory)?;
    hosts.add(store);
    let all = hosts.all();
    for store in &all {
        store.limit(memory / all.len() as u64);
    }
    Ok((host, writer))
}

/// Stores a host's batches, including reported losses.
fn keep(mut source: Host, mut writer: Writer) -> Result<()> {
    let mut batch = Batch::default();
    while source.next(&mut batch, Duration::from_millis(100)).map_err(anyhow::Error::from_boxed)?
        == Progress::More
    {
        writer.push(&batch)?;
    }
    Ok(())
}
