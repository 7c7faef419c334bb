//! Hosts on a bus as sources: `--via URL` and related options.

use crate::connect;
use crate::failure::Hint;
use anyhow::{Context, Result};
use clap::Args;
use magscope_fleet::{Buckets, BusReadOptions, Credentials, FleetError, Likely, Server, StartAt, Terms, Via};
use std::convert::Infallible;
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// Where the bus is, and what of it.
#[derive(Clone, Debug, Default, Args)]
pub struct ViaArgs {
    /// Show the hosts that publish on this bus (NATS with `JetStream`): `tls://bus:4222`, on this host `nats://127.0.0.1:4222`; with commas
    /// between servers of one cluster
    #[arg(long, value_name = "URL,…", value_delimiter = ',')]
    via: Vec<Url>,
    /// Of the bus only these hosts
    #[arg(long, value_name = "NAME,…", value_delimiter = ',', requires = "via")]
    hosts: Vec<String>,
    /// Of the bus only connections of these of 64 buckets, as one of several workers: `0-15`
    #[arg(long, value_name = "N-M,…", requires = "via", value_parser = Buckets::from_str)]
    buckets: Option<Buckets>,
    /// A file of NATS credentials, where the bus wants some
    #[arg(long, value_name = "FILE", requires = "via")]
    via_creds: Option<PathBuf>,
}

/// A server's URL as typed. `Display` is omitted because it may contain a password.
#[derive(Clone)]
pub struct Url(String);

impl FromStr for Url {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(Url(text.to_owned()))
    }
}

impl fmt::Debug for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Url(…)")
    }
}

impl ViaArgs {
    /// True if a bus is requested.
    pub fn is_asked(&self) -> bool {
        !self.via.is_empty()
    }

    /// The bus subscription, if requested: start position and filters. `known` returns the certificate, if
    /// needed.
    pub fn read_options(
        &self,
        from: StartAt,
        terms: &Terms,
        credentials: impl Fn() -> Result<Credentials>,
    ) -> Result<Option<BusReadOptions>> {
        if !self.is_asked() {
            return Ok(None);
        }
        let via = via(&self.via, self.via_creds.as_deref(), credentials)?;
        let (only, buckets) = (self.hosts.clone(), self.buckets.unwrap_or_default());
        Ok(Some(BusReadOptions { via, only, buckets, from, terms: terms.clone() }))
    }
}

/// The bus at these URLs.
pub fn via(urls: &[Url], creds: Option<&Path>, credentials: impl Fn() -> Result<Credentials>) -> Result<Via> {
    let servers =
        urls.iter().map(|Url(url)| url.parse::<Server>().map_err(explain)).collect::<Result<Vec<_>>>()?;
    let mut via = Via { servers, credentials: None, creds: creds.map(Path::to_owned) };
    if via.wants_certificate() {
        via.credentials = Some(credentials()?);
    }
    Ok(via)
}

/// The error with its likely cause and what to do next.
pub fn explain(error: FleetError) -> anyhow::Error {
    let (likely, next) = match &error {
        FleetError::Bus { likely: Likely::Nobody, .. } => (
            "no NATS server listens there, or a firewall is between",
            "start one with JetStream: `nats-server --jetstream --store_dir DIR`",
        ),
        FleetError::Bus { likely: Likely::Agent, .. } => (
            "the server has no JetStream, or its certificate is of another authority or for another name",
            "start it with `--jetstream` and with a certificate of `magnet-scope agent init DIR --host NAME`",
        ),
        FleetError::Bus { likely: Likely::Viewer, .. } => (
            "the server does not let you in: your certificate, credentials or password are not what it knows",
            "look at --tls, --identity and --via-creds, and at the server's own log",
        ),
        FleetError::Bus { likely: Likely::NoAgent, .. } => (
            "no agent has published there yet, or what it published was forgotten",
            "on a host: `sudo magnet-scope agent --via URL`",
        ),
        FleetError::Bus { because, .. } if because.contains("insufficient") => (
            "the server may not keep as much as it was asked for",
            "ask for less with --via-keep, or give it more (`max_file` in its configuration)",
        ),
        FleetError::Bus { .. } => ("", "look at the server's own log"),
        FleetError::Taken { .. } => (
            "two hosts have one name, or an agent runs there already",
            "give this one another: `--via-name NAME`",
        ),
        _ => return connect::explain(error),
    };
    Err::<(), _>(error).context(Hint::new("the bus cannot be used", likely, next)).unwrap_err()
}
