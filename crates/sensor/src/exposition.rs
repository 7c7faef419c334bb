//! Formats for scrapes of the Prometheus family over HTTP.

use crate::snapshot::Snapshot;
use crate::{openmetrics, protobuf};

/// A format of a scrape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// `OpenMetrics`' text, 1.0.0.
    OpenMetrics,
    /// Prometheus' own text, 0.0.4.
    Text,
    /// Prometheus' length-delimited protobuf messages: the only format with native histograms.
    Protobuf,
}

impl Format {
    /// Every format.
    pub const ALL: [Self; 3] = [Self::OpenMetrics, Self::Text, Self::Protobuf];

    /// Its MIME type.
    pub const fn content_type(self) -> &'static str {
        match self {
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Self::Text => "text/plain; version=0.0.4; charset=utf-8",
            Self::Protobuf => {
                "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited"
            }
        }
    }

    /// The format for an `Accept` header: the supported one with the highest weight, and the first of equals.
    /// The default is `OpenMetrics`.
    pub fn accepted(accept: &str) -> Self {
        let accept = accept.to_ascii_lowercase();
        let ranges = accept.split(',').filter_map(|range| {
            let mut parts = range.split(';').map(str::trim);
            let format = match parts.next()? {
                "application/openmetrics-text" => Self::OpenMetrics,
                "text/plain" => Self::Text,
                "application/vnd.google.protobuf" => Self::Protobuf,
                _ => return None,
            };
            // only the delimited encoding is supported
            let written = |part: &str| {
                part.strip_prefix("encoding=").is_none_or(|encoding| encoding == "delimited")
                    && part
                        .strip_prefix("proto=")
                        .is_none_or(|proto| proto == "io.prometheus.client.metricfamily")
            };
            let mut weight = 1.0;
            for part in parts {
                if let Some(q) = part.strip_prefix("q=") {
                    weight = q.parse().ok().filter(|q| (0.0..=1.0).contains(q)).unwrap_or(0.0);
                }
                if !written(part) {
                    return None;
                }
            }
            (weight > 0.0).then_some((weight, format))
        });
        let heaviest = ranges.reduce(|first, next| if next.0 > first.0 { next } else { first });
        heaviest.map_or(Self::OpenMetrics, |(_, format): (f64, Self)| format)
    }

    /// The snapshot in this format.
    pub fn write(self, snapshot: &Snapshot) -> Vec<u8> {
        match self {
            Self::OpenMetrics => openmetrics::write(snapshot, openmetrics::Dialect::OpenMetrics).into_bytes(),
            Self::Text => openmetrics::write(snapshot, openmetrics::Dialect::Prometheus).into_bytes(),
            Self::Protobuf => protobuf::write(snapshot),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_asks_for_a_format_gets_it() {
        // Prometheus' own headers, with native histograms and without.
        let native = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited,\
            application/openmetrics-text;version=1.0.0;q=0.8,application/openmetrics-text;version=0.0.1;q=0.75,\
            text/plain;version=0.0.4;q=0.5,*/*;q=0.1";
        let classic = "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,\
            text/plain;version=0.0.4;q=0.5,*/*;q=0.1";
        let all = [
            ("", Format::OpenMetrics),
            ("*/*", Format::OpenMetrics),
            ("text/plain; version=0.0.4", Format::Text),
            ("Application/OpenMetrics-Text;version=1.0.0,text/plain;q=0.5", Format::OpenMetrics),
            ("text/plain;q=0.3, application/openmetrics-text;q=0.9", Format::OpenMetrics),
            (native, Format::Protobuf),
            (classic, Format::OpenMetrics),
            ("application/vnd.google.protobuf;encoding=text,text/plain", Format::Text),
            ("application/vnd.google.protobuf;proto=some.other.Message", Format::OpenMetrics),
            ("text/plain;q=0,application/vnd.google.protobuf;q=nonsense", Format::OpenMetrics),
        ];
        for (accept, format) in all {
            assert_eq!(Format::accepted(accept), format, "{accept}");
        }
    }
}
