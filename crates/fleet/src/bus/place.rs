//! Host discovery on a bus.

use super::server::Via;
use super::subject::Buckets;
use super::subscribe::Subscriber;
use crate::discovery::{ActiveHosts, Host, Place};
use crate::error::{FleetError, Likely};
use crate::remote::{StartAt, Ticker};
use crate::request::Terms;
use magscope_core::source::Source;
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;

/// Margin before the last query: a host found later is read from there on, so that none of its data is lost.
const SLACK: Duration = Duration::from_secs(1);

/// Parameters of a bus subscription.
#[derive(Clone)]
pub struct BusReadOptions {
    /// The bus and the viewer's credentials.
    pub via: Via,
    /// Restriction to these hosts; empty for all.
    pub only: Vec<String>,
    /// Restriction to connections in these buckets.
    pub buckets: Buckets,
    /// Start position.
    pub from: StartAt,
    /// Filters of the stream.
    pub terms: Terms,
}

/// A bus as a source of hosts.
pub struct BusPlace {
    options: BusReadOptions,
    subscriber: Option<Subscriber>,
    /// Time of the last query, and the position in the host stream at that time.
    looked: Option<Instant>,
    mark: Option<u64>,
}

impl BusPlace {
    /// A bus without queries so far.
    pub fn new(options: BusReadOptions) -> Self {
        BusPlace { options, subscriber: None, looked: None, mark: None }
    }
}

impl Place for BusPlace {
    fn name(&self) -> String {
        self.options.via.shown()
    }

    fn look(
        &mut self,
        _: &Runtime,
        active_hosts: &mut ActiveHosts,
        ticker: &Ticker,
    ) -> Result<Vec<Host>, FleetError> {
        let bus_options = &self.options;
        let subscriber = match &mut self.subscriber {
            Some(subscriber) => subscriber,
            none => none.insert(Subscriber::connect(&bus_options.via)?),
        };
        // The client reconnects by itself, and each host's reader reports the outage.
        if !subscriber.is_there() {
            return Ok(Vec::new());
        }
        let (since, now) = (self.looked, Instant::now());
        let found = subscriber.hosts(&bus_options.only, &mut self.mark)?;
        if let (None, Some(found)) = (since, &found) {
            let names: Vec<&str> = found.iter().map(|host| host.node.host.as_str()).collect();
            let mut missing = bus_options.only.iter().filter(|name| !names.contains(&name.as_str()));
            if names.is_empty() {
                self.mark = None;
                let host =
                    missing.next().map_or_else(|| "no host".to_owned(), |name| format!("no host `{name}`"));
                let because = format!("{host} publishes there");
                return Err(FleetError::Bus {
                    address: bus_options.via.shown(),
                    because,
                    likely: Likely::NoAgent,
                });
            }
            missing.for_each(|name| {
                ticker.notify(format!("no host `{name}` publishes there yet, waiting for it"), true);
            });
        }
        self.looked = Some(now);
        let from = match (since, bus_options.from) {
            (None, from) => from,
            (Some(since), _) => StartAt::Back(now - since + SLACK),
        };
        let mut come: Vec<Host> = Vec::new();
        for host in found.unwrap_or_default() {
            let (name, boot_id) = (&host.node.host, &host.node.boot_id);
            if active_hosts.is_reading(name, boot_id) {
                continue;
            }
            active_hosts.make_room(bus_options.via.shown(), name)?;
            let source =
                subscriber.read(&host, bus_options.buckets, from, &bus_options.terms, ticker.clone())?;
            active_hosts.add(name, &source.info().boot_id, source.over());
            come.push(Host::new(source));
        }
        Ok(come)
    }
}
