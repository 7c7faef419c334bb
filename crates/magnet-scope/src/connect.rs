//! Agents on other hosts as sources: `--connect HOST,…` and related options.

use crate::cli::{CaptureArgs, NetnsArgs, StampClock};
use crate::failure::{Hint, Usage};
use crate::screen::config_dir;
use crate::signals::Stop;
use crate::via::{self, ViaArgs};
use crate::{capture, output};
use anyhow::{Context, Result};
use clap::{ArgGroup, Args};
use magscope_core::source::Source;
use magscope_fleet::pki::Folder;
use magscope_fleet::{
    Address, Credentials, FleetError, Host, HostDiscovery, Likely, ReadOptions, StartAt, Terms, Ticker,
};
use magscope_probe::Setting;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Where the agents are, and who asks.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Agents", group = ArgGroup::new("agents").args(["connect", "via"]).multiple(true))]
pub struct ConnectArgs {
    /// Show these agents' hosts on one time line instead of capturing here: `web-1,10.0.0.2:6246`, `unix:PATH` (docs/agents.md)
    #[arg(long, value_name = "HOST,…", value_delimiter = ',', value_parser = address)]
    connect: Vec<Address>,
    /// The folder with `ca.pem` and your certificate [default: ~/.config/magnet-scope/tls]
    #[arg(long, value_name = "DIR", requires = "agents")]
    tls: Option<PathBuf>,
    /// Certificate in that folder to present: `viewer-NAME` [default: the only one]
    #[arg(long, value_name = "NAME", requires = "agents")]
    identity: Option<String>,
    /// Begin so long ago, as far as the agents remember: `30s`
    #[arg(long, value_name = "TIME", value_parser = crate::values::duration::parse, requires = "agents")]
    back: Option<Duration>,
    /// Take at most so many events a second from each; the rest is counted as missed
    #[arg(long, value_name = "N", requires = "agents")]
    max_rate: Option<u64>,
    #[command(flatten)]
    via: ViaArgs,
}

/// An agent's address.
pub fn address(text: &str) -> Result<Address, String> {
    text.parse().map_err(|error: FleetError| error.to_string())
}

/// The connected agents.
pub struct Connected {
    /// Available hosts in the order of the request.
    pub hosts: Vec<Host>,
    /// Discovery of further hosts.
    pub discovery: HostDiscovery,
}

/// End of reading agents without a screen: a duration or a signal.
pub struct Until<'s> {
    end: Option<Instant>,
    stop: &'s Stop,
}

impl<'s> Until<'s> {
    /// Starts now.
    pub fn new(duration: Option<Duration>, stop: &'s Stop) -> Self {
        Until { end: duration.and_then(|duration| Instant::now().checked_add(duration)), stop }
    }

    /// Ends the sources if due, and prints messages about connections.
    pub fn look(&self, ticker: &Ticker) {
        if self.stop.is_raised() || self.end.is_some_and(|end| Instant::now() >= end) {
            ticker.stop();
        }
        for news in ticker.news() {
            output::note(&news.text);
        }
    }
}

impl ConnectArgs {
    /// True if agents are requested.
    pub fn is_asked(&self) -> bool {
        !self.connect.is_empty() || self.via.is_asked()
    }

    /// Connects to all available agents. No privilege is needed, so all are dropped before.
    pub fn open(&self, capture: &CaptureArgs, netns: &NetnsArgs) -> Result<Connected> {
        capture::drop_privileges()?;
        let terms = self.terms(capture, netns)?;
        let credentials = self.credentials()?;
        let from = self.back.map_or(StartAt::Now, StartAt::Back);
        let options = |address: &Address| ReadOptions {
            address: address.clone(),
            credentials: credentials.clone(),
            from,
            terms: terms.clone(),
        };
        let requests: Vec<ReadOptions> = self.connect.iter().map(options).collect();
        let credentials = || self::credentials(self.tls.as_deref(), self.identity.as_deref());
        let bus = self.via.read_options(from, &terms, credentials)?;
        let (hosts, discovery) = HostDiscovery::enter(&requests, bus.as_ref()).map_err(explain)?;
        for host in &hosts {
            output::note(&format!("{}, Linux {}", host.info().host, host.info().kernel));
        }
        Ok(Connected { hosts, discovery })
    }

    /// Credentials; `None` if no agent requires them.
    pub fn credentials(&self) -> Result<Option<Credentials>> {
        if !self.connect.iter().any(|address| matches!(address, Address::Host { .. })) {
            return Ok(None);
        }
        credentials(self.tls.as_deref(), self.identity.as_deref()).map(Some)
    }

    /// The capture options that an agent supports per client.
    fn terms(&self, args: &CaptureArgs, netns: &NetnsArgs) -> Result<Terms> {
        let own = |what: &str| {
            let why = "what is captured is the agent's business; change it there with `magnet-scope ctl`";
            Err(Usage(format!("`{what}` cannot be asked of agents: {why}")).into())
        };
        // Those that change what a viewer gets. Options of cost alone, as a configuration may have them for all captures,
        // say nothing to agents.
        let asked = [
            ("--hops", !args.hops.is_default()),
            ("--netns", !netns.netns.is_empty()),
            ("--backend", args.backend.is_some()),
            ("--clock", args.clock != StampClock::default()),
            ("--detail", args.detail.is_some()),
            ("--probe", !args.probe.is_empty()),
            ("--pcap", args.pcap.is_some()),
        ];
        if let Some((option, _)) = asked.into_iter().find(|(_, is_asked)| *is_asked) {
            return own(option);
        }
        let mut terms = Terms {
            filter: capture::filter(args).map(|filter| filter.to_string()),
            records_a_second: self.max_rate,
            ..Terms::default()
        };
        for setting in &args.sample {
            let Setting::SampleFlows(one_in) = setting else { return own("--sample 1/N") };
            terms.flows_one_in = Some(*one_in);
        }
        for setting in &args.snap {
            if let Setting::Snap(hops, bytes) = setting {
                if !matches!("snap 1".parse(), Ok(Setting::Snap(all, _)) if all == *hops) {
                    return own("--snap HOP=BYTES");
                }
                terms.snap = Some(*bytes);
            }
        }
        // Refused here rather than by every agent.
        terms.filter().map_err(Usage)?;
        Ok(terms)
    }
}

/// The selected certificate in the selected folder.
pub fn credentials(folder: Option<&Path>, identity: Option<&str>) -> Result<Credentials> {
    let folder = match (folder, config_dir(std::env::var_os("XDG_CONFIG_HOME"), std::env::var_os("HOME"))) {
        (Some(folder), _) => folder.to_owned(),
        (None, Some(config)) => config.join("tls"),
        (None, None) => return Err(Usage("say where your certificate is: `--tls DIR`".to_owned()).into()),
    };
    let folder = Folder::new(folder);
    let identity = match identity {
        Some(identity) => identity.to_owned(),
        None => folder.only("viewer").map_err(explain)?,
    };
    Ok(Credentials { folder, identity })
}

/// The error with its likely cause and what to do next.
pub fn explain(error: FleetError) -> anyhow::Error {
    let (likely, next) = match &error {
        FleetError::Bus { .. } | FleetError::Taken { .. } => return via::explain(error),
        FleetError::Connect { likely: Likely::Nobody, .. } => (
            "no agent listens there, or a firewall is between",
            "on that host: `sudo magnet-scope agent --listen ADDRESS --tls DIR`",
        ),
        FleetError::Connect { likely: Likely::Agent, .. } => (
            "its certificate is of another authority, has expired, or is for another name",
            "`magnet-scope agent init DIR --host NAME,ADDRESS` makes one with every name it is reached by",
        ),
        FleetError::Connect { likely: Likely::Viewer, .. } => (
            "your certificate is missing, of another authority, has expired, was revoked, or is neither a viewer's nor a relay's",
            "have one made where the authority is: `magnet-scope agent init DIR --viewer NAME`",
        ),
        FleetError::Connect { .. } => ("it broke off", "look at what the agent says"),
        FleetError::Key { .. } => (
            "the file is missing, damaged, of another authority, or open to the wrong users",
            "`magnet-scope agent init DIR` makes them; docs/agents.md says which goes where",
        ),
        FleetError::Several { .. } => ("", "say which one with `--identity NAME`"),
        FleetError::Listen { .. } => ("another program listens there already", "choose another address"),
        FleetError::Address { .. } | FleetError::Certificate { .. } => {
            ("", "`magnet-scope agent --help` has examples")
        }
        FleetError::Refused { .. } | FleetError::Start(_) => ("", ""),
    };
    let what = match &error {
        FleetError::Bus { .. } | FleetError::Taken { .. } => "the bus cannot be used",
        FleetError::Key { .. } => "the certificates cannot be used",
        FleetError::Several { .. } => "which certificate is meant is not clear",
        FleetError::Certificate { .. } => "a certificate cannot be made",
        FleetError::Listen { .. } | FleetError::Start(_) => "the agent cannot serve",
        FleetError::Address { .. } => "an address is wrong",
        FleetError::Connect { .. } | FleetError::Refused { .. } => "cannot read an agent",
    };
    Err::<(), _>(error).context(Hint::new(what, likely, next)).unwrap_err()
}
