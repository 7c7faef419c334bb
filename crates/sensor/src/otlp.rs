//! A snapshot as an OTLP metrics request, for OpenTelemetry collectors.
//!
//! The metrics and their names are those of [`openmetrics`](crate::openmetrics). Every host is a resource with
//! its `host.name`, and so is the program, which has the relations of the hosts' clocks. Sums and histograms are cumulative since the host's start, so a lost
//! request loses no data.

use crate::figures::{Figures, Kind, Pairs, began_utc_ns, of_hosts, of_pairs, own};
use crate::histogram::{LE_NS, Times};
use crate::snapshot::{HostSnapshot, Snapshot};
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::common::v1::{AnyValue, InstrumentationScope, KeyValue, any_value};
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value;
use opentelemetry_proto::tonic::metrics::v1::{
    AggregationTemporality, Gauge, Histogram, HistogramDataPoint, Metric, NumberDataPoint, ResourceMetrics,
    ScopeMetrics, Sum,
};
use opentelemetry_proto::tonic::resource::v1::Resource;

/// The snapshot, taken at an instant of UTC, nanoseconds since 1970.
pub fn request(snapshot: &Snapshot, at_utc_ns: u64) -> ExportMetricsServiceRequest {
    let service = [("service.name", "magnet-scope"), ("service.version", snapshot.own.version.as_str())];
    let mut out = Metrics { at_utc_ns, metrics: Vec::new() };
    own(&mut out, snapshot);
    of_pairs(&mut out, snapshot);
    let mut resources = vec![resource(&service, out.metrics)];
    for host in &snapshot.hosts {
        let (own, hosts) = (snapshot.own.clone(), vec![host.clone()]);
        let alone = Snapshot { own, hosts, ..Snapshot::default() };
        let mut out = Metrics { at_utc_ns, metrics: Vec::new() };
        of_hosts(&mut out, &alone);
        let about =
            [("host.name", host.host.as_str()), ("os.type", "linux"), ("os.version", host.kernel.as_str())];
        resources.push(resource(&[&service[..], &about[..]].concat(), out.metrics));
    }
    ExportMetricsServiceRequest { resource_metrics: resources }
}

fn resource(about: &Pairs<'_>, metrics: Vec<Metric>) -> ResourceMetrics {
    let name = "magnet-scope".to_owned();
    // OTLP forbids metrics without data points.
    let metrics = metrics.into_iter().filter(|metric| !is_empty(metric)).collect();
    let scope = InstrumentationScope { name, ..InstrumentationScope::default() };
    let scope = ScopeMetrics { scope: Some(scope), metrics, ..ScopeMetrics::default() };
    let resource = Resource { attributes: attributes(about), ..Resource::default() };
    ResourceMetrics { resource: Some(resource), scope_metrics: vec![scope], ..ResourceMetrics::default() }
}

fn is_empty(metric: &Metric) -> bool {
    match &metric.data {
        Some(Data::Gauge(gauge)) => gauge.data_points.is_empty(),
        Some(Data::Sum(sum)) => sum.data_points.is_empty(),
        Some(Data::Histogram(histogram)) => histogram.data_points.is_empty(),
        _ => true,
    }
}

fn attributes(labels: &Pairs<'_>) -> Vec<KeyValue> {
    let value = |text: &str| AnyValue { value: Some(any_value::Value::StringValue(text.to_owned())) };
    let pair = |(name, text): &(&str, &str)| KeyValue {
        key: (*name).to_owned(),
        value: Some(value(text)),
        ..KeyValue::default()
    };
    labels.iter().map(pair).collect()
}

struct Metrics {
    at_utc_ns: u64,
    metrics: Vec<Metric>,
}

impl Metrics {
    fn point(&mut self, labels: &Pairs<'_>, since_utc_ns: Option<u64>, value: Value) {
        let point = NumberDataPoint {
            attributes: attributes(labels),
            start_time_unix_nano: since_utc_ns.unwrap_or(0),
            time_unix_nano: self.at_utc_ns,
            value: Some(value),
            ..NumberDataPoint::default()
        };
        match self.metrics.last_mut().and_then(|metric| metric.data.as_mut()) {
            Some(Data::Gauge(gauge)) => gauge.data_points.push(point),
            Some(Data::Sum(sum)) => sum.data_points.push(point),
            _ => {}
        }
    }
}

/// A count, saturated at the largest signed value.
fn whole(n: u64) -> Value {
    Value::AsInt(i64::try_from(n).unwrap_or(i64::MAX))
}

fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

impl Figures for Metrics {
    fn family(&mut self, name: &'static str, kind: Kind, unit: &'static str, help: &'static str) {
        let cumulative = AggregationTemporality::Cumulative.into();
        let data = match kind {
            Kind::Counter => {
                Data::Sum(Sum { aggregation_temporality: cumulative, is_monotonic: true, ..Sum::default() })
            }
            Kind::Gauge | Kind::Info => Data::Gauge(Gauge::default()),
            Kind::Histogram => {
                Data::Histogram(Histogram { aggregation_temporality: cumulative, ..Histogram::default() })
            }
        };
        // Units of the Unified Code for Units of Measure.
        let unit = match unit {
            "seconds" => "s",
            "bytes" => "By",
            _ => "1",
        };
        self.metrics.push(Metric {
            name: name.to_owned(),
            description: help.to_owned(),
            unit: unit.to_owned(),
            data: Some(data),
            ..Metric::default()
        });
    }

    fn number(&mut self, labels: &Pairs<'_>, n: u64) {
        self.point(labels, None, whole(n));
    }

    fn float(&mut self, labels: &Pairs<'_>, value: f64) {
        self.point(labels, None, Value::AsDouble(value));
    }

    fn seconds(&mut self, labels: &Pairs<'_>, ns: u64) {
        self.point(labels, None, Value::AsDouble(seconds(ns)));
    }

    fn counter(&mut self, labels: &Pairs<'_>, host: &HostSnapshot, n: u64) {
        self.point(labels, began_utc_ns(host), whole(n));
    }

    fn histogram(&mut self, labels: &Pairs<'_>, host: &HostSnapshot, times: &Times) {
        let mut counts: Vec<u64> =
            (0..LE_NS.len()).map(|at| times.bounds.get(at).copied().unwrap_or(0)).collect();
        counts.push(times.bounds.iter().skip(LE_NS.len()).fold(0, |all, n| all.saturating_add(*n)));
        let count = counts.iter().fold(0_u64, |all, n| all.saturating_add(*n));
        let point = HistogramDataPoint {
            attributes: attributes(labels),
            start_time_unix_nano: began_utc_ns(host).unwrap_or(0),
            time_unix_nano: self.at_utc_ns,
            count,
            sum: Some(if count == 0 { 0.0 } else { seconds(times.sum_ns) }),
            max: (count > 0).then(|| seconds(times.max_ns)),
            bucket_counts: counts,
            explicit_bounds: LE_NS.iter().map(|le| seconds(*le)).collect(),
            ..HistogramDataPoint::default()
        };
        if let Some(Data::Histogram(histogram)) =
            self.metrics.last_mut().and_then(|metric| metric.data.as_mut())
        {
            histogram.data_points.push(point);
        }
    }
}
