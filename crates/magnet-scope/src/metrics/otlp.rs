//! Pushes the newest snapshot to an OpenTelemetry collector periodically, in a separate thread. Sums are
//! cumulative, so a failed push loses no data.

use crate::failure::Usage;
use crate::output;
use anyhow::{Context, Result};
use magscope_sensor::{LatestSnapshot, otlp};
use opentelemetry_proto::tonic::collector::metrics::v1::metrics_service_client::MetricsServiceClient;
use std::net::IpAddr;
use std::str::FromStr;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::sync::oneshot;
use tokio::time::MissedTickBehavior;
use tonic::transport::{Channel, Endpoint};

/// Timeout of a collector.
const PATIENCE: Duration = Duration::from_secs(5);

/// A collector's address for OTLP over gRPC: on this host only, because the connection is unauthenticated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Collector(String);

impl FromStr for Collector {
    type Err = Usage;

    fn from_str(text: &str) -> Result<Self, Usage> {
        let shown: String = text.chars().filter(|c| !c.is_control()).take(60).collect();
        let wrong =
            |because: &str| Usage(format!("`{shown}` is no collector: {because}, as in http://127.0.0.1:4317"));
        let place =
            text.strip_prefix("http://").ok_or_else(|| wrong("write http:// and where it listens for gRPC"))?;
        let place = place.strip_suffix('/').unwrap_or(place);
        let (host, port) = place.rsplit_once(':').ok_or_else(|| wrong("a port is missing"))?;
        if port.parse::<u16>().is_err() {
            return Err(wrong("a port is a number"));
        }
        let ip: Option<IpAddr> = host.trim_matches(['[', ']']).parse().ok();
        if host != "localhost" && !ip.is_some_and(|ip| ip.is_loopback()) {
            return Err(wrong(
                "it has to be on this host; a collector here can pass everything on, with certificates",
            ));
        }
        Ok(Collector(format!("http://{place}")))
    }
}

/// The pushing thread, with a final push at its end.
pub struct Pushing {
    end: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Pushing {
    /// Starts to push. Called after privileges are dropped.
    pub fn start(to: &Collector, every: Duration, board: Arc<LatestSnapshot>) -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .context("cannot start what pushes to a collector")?;
        let endpoint = Endpoint::from_shared(to.0.clone())?.connect_timeout(PATIENCE).timeout(PATIENCE);
        output::note(&format!("pushing to {} every {} s", to.0, every.as_secs_f64()));
        let (end, ended) = oneshot::channel();
        let pusher = Pusher { to: to.0.clone(), board, trouble: None };
        let thread = std::thread::Builder::new().name("magnet-otlp".to_owned());
        let thread = thread.spawn(move || runtime.block_on(pusher.run(&endpoint, every, ended)))?;
        Ok(Pushing { end: Some(end), thread: Some(thread) })
    }
}

impl Drop for Pushing {
    fn drop(&mut self) {
        drop(self.end.take());
        if let Some(thread) = self.thread.take() {
            // No receiver remains for an error.
            let _ = thread.join();
        }
    }
}

struct Pusher {
    to: String,
    board: Arc<LatestSnapshot>,
    /// The last reported problem.
    trouble: Option<String>,
}

impl Pusher {
    async fn run(mut self, endpoint: &Endpoint, every: Duration, mut ended: oneshot::Receiver<()>) {
        // Connects on demand and reconnects.
        let mut client = MetricsServiceClient::new(endpoint.connect_lazy());
        let mut ticks = tokio::time::interval(every);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let is_over = tokio::select! { _ = ticks.tick() => false, _ = &mut ended => true };
            let pushed = self.push(&mut client).await;
            self.log_status(pushed.err());
            if is_over {
                return;
            }
        }
    }

    /// Pushes the newest snapshot, if any.
    async fn push(&self, client: &mut MetricsServiceClient<Channel>) -> Result<(), String> {
        let newest = self.board.newest();
        if newest.hosts.is_empty() {
            return Ok(());
        }
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let request = otlp::request(&newest, u64::try_from(now.as_nanos()).unwrap_or(u64::MAX));
        let answer = client.export(request).await;
        let answer = answer.map_err(|status| format!("{}: {}", status.code(), status.message()))?.into_inner();
        match answer.partial_success {
            Some(partial) if partial.rejected_data_points > 0 => {
                Err(format!("it refuses {} figures: {}", partial.rejected_data_points, partial.error_message))
            }
            _ => Ok(()),
        }
    }

    /// Reports a problem and its end, once each.
    fn log_status(&mut self, trouble: Option<String>) {
        let trouble =
            trouble.map(|text| text.chars().filter(|c| !c.is_control()).take(200).collect::<String>());
        if trouble == self.trouble {
            return;
        }
        match &trouble {
            Some(trouble) => output::note(&format!(
                "the collector at {} does not take the figures ({trouble}); trying again, nothing is lost by it",
                self.to
            )),
            None => output::note(&format!("the collector at {} takes the figures", self.to)),
        }
        self.trouble = trouble;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_collector_is_on_this_host() {
        for good in ["http://127.0.0.1:4317", "http://localhost:4317/", "http://[::1]:4317"] {
            assert!(good.parse::<Collector>().is_ok(), "{good}");
        }
        let bad = [
            "",
            "127.0.0.1:4317",
            "https://127.0.0.1:4317",
            "http://127.0.0.1",
            "http://10.0.0.1:4317",
            "http://a:b",
        ];
        for bad in bad {
            assert!(bad.parse::<Collector>().is_err(), "{bad}");
        }
    }
}
