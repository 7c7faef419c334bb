//! The tables and their columns.

use super::column::{
    Address, Column, Flag, Floats, Id, Instant, Int, MaybeId, MaybeInt, MaybeSmall, Name, SmallInts, Text,
};
use arrow::array::RecordBatch;
use arrow::datatypes::{Schema, SchemaRef};
use std::fmt;
use std::str::FromStr;
use std::sync::{Arc, LazyLock};

macro_rules! tables {
    ($( $(#[$doc:meta])* $table:ident $name:literal { $( $field:ident: $kind:ident ),* $(,)? } )*) => {
        /// A flat table.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Table { $( $(#[$doc])* $table, )* }

        impl Table {
            /// Every table.
            pub const ALL: &'static [Table] = &[ $( Table::$table, )* ];

            /// Name in files and queries.
            pub const fn name(self) -> &'static str { match self { $( Table::$table => $name, )* } }

            /// True if a filter of journeys chooses its rows.
            pub const fn is_filtered(self) -> bool {
                matches!(self, Self::Journeys | Self::Hops | Self::Pairs | Self::Periods)
            }

            /// Its columns.
            pub fn schema(self) -> SchemaRef { match self { $( Table::$table => columns::$table::schema(), )* } }
        }

        /// Table builders.
        #[allow(missing_docs, clippy::struct_field_names)] // columns have the names that queries use
        pub(super) mod columns {
            use super::{Arc, Column, LazyLock, RecordBatch, Schema, SchemaRef};
            use super::{Address, Flag, Id, Instant, Int, MaybeId, MaybeInt, MaybeSmall, Floats, Name, SmallInts, Text};
            $(
                #[derive(Debug, Default)]
                pub struct $table { pub rows: usize, $( pub $field: $kind, )* }

                impl $table {
                    pub fn schema() -> SchemaRef {
                        static SCHEMA: LazyLock<SchemaRef> = LazyLock::new(|| {
                            Arc::new(Schema::new(vec![$( <$kind as Column>::field(stringify!($field)), )*]))
                        });
                        SCHEMA.clone()
                    }

                    /// Returns the rows since the last call.
                    pub fn finish(&mut self) -> Result<RecordBatch, arrow::error::ArrowError> {
                        self.rows = 0;
                        RecordBatch::try_new(Self::schema(), vec![$( Column::finish(&mut self.$field), )*])
                    }
                }
            )*
        }
    };
}

tables! {
    /// A hit of a hop.
    Events "events" {
        ts_ns: Int, ts: Instant, host: Name, netns_name: Name, hop: Name, cpu: SmallInts, proto: Name, flow: MaybeId,
        socket: MaybeId, len: Int, segs: SmallInts, ip_id: SmallInts, tcp_flags: SmallInts, ttl: SmallInts, tos: SmallInts, flags: SmallInts,
        tgid: MaybeSmall, tid: MaybeSmall, comm: Name, ifindex: SmallInts, skb: Int, record: Int,
        seq: MaybeInt, segment_bytes: MaybeSmall, echo_number: MaybeSmall, fragment_bytes: MaybeSmall, fragment_offset: MaybeSmall,
        switch_ns: MaybeInt, copied_buffer: MaybeInt, next_buffer: MaybeInt, open_error: MaybeSmall, ack: MaybeInt, drop_reason: MaybeSmall, driver_code: MaybeInt, resend_reason: MaybeSmall,
        poller_tid: MaybeSmall, empty_read_ns: MaybeInt, other_tid: MaybeSmall, reset_reason: MaybeSmall, connection_state: MaybeSmall,
        synacks: MaybeSmall, consumer: MaybeSmall, write_seq: MaybeInt, filter_drop: MaybeSmall,
    }
    /// A hop that a journey passed.
    Hops "hops" {
        ts_ns: Int, ts: Instant, journey: Id, host: Name, netns_name: Name, hop: Name, step: SmallInts, direction: Name,
        cpu: SmallInts, tgid: MaybeSmall, tid: MaybeSmall, comm: Name, proto: Name, flow: MaybeId, bytes: Int,
        at_return: Flag, from_hop: Name, latency_ns: MaybeInt, half_width_ns: MaybeInt, copy: MaybeSmall,
        waited_ns: MaybeInt, copy_dropped: Name, verdict: Name, whole: Flag, wire_key: MaybeId, wire_bucket: MaybeSmall,
        lower_ns: MaybeInt, upper_ns: MaybeInt, forwarder: MaybeSmall,
    }
    /// A journey.
    Journeys "journeys" {
        ts_ns: Int, ts: Instant, journey: Id, end_ns: Int, total_ns: MaybeInt, half_width_ns: MaybeInt, across: Name,
        proto: Name, verdict: Name, whole: Flag, verdict_hop: Name, drop_reason: MaybeSmall, drop_name: Name,
        bytes: Int,
        range_start: Int, range_end: Int, ip_id: SmallInts, src_addr: Address, src_port: MaybeSmall, dst_addr: Address,
        dst_port: MaybeSmall, tx_host: Name, tx_netns_name: Name, rx_host: Name, rx_netns_name: Name, tx_flow: MaybeId,
        rx_flow: MaybeId, sender: Name, sender_tgid: MaybeSmall, sender_tid: MaybeSmall, sender_cgroup: Name,
        reader: Name, reader_tgid: MaybeSmall, reader_tid: MaybeSmall, reader_cgroup: Name, hops: SmallInts,
        retransmits: SmallInts, ambiguous: Flag, wire_key: MaybeId, wire_bucket: MaybeSmall, lower_ns: MaybeInt,
        upper_ns: MaybeInt, dropped_by: Name, sender_container: Name, sender_pod: Name, sender_unit: Name,
        reader_container: Name, reader_pod: Name, reader_unit: Name,
    }
    /// A request and its response.
    Exchanges "exchanges" {
        ts_ns: Int, ts: Instant, exchange: Id, end_ns: MaybeInt, total_ns: MaybeInt, half_width_ns: MaybeInt,
        request_ns: MaybeInt, answer_ns: MaybeInt, response_ns: MaybeInt, on_cpu_ns: MaybeInt, runnable_ns: MaybeInt,
        blocked_ns: MaybeInt, pause_ns: MaybeInt, longest_idle_ns: Int, envelope_ns: MaybeInt, grade: Name,
        broken_because: Name, captured_ends: Name, requester_by: Name, proto: Name, request_bytes: Int, response_bytes: Int,
        request_journeys: SmallInts, response_journeys: SmallInts, retransmits: SmallInts,
        first_request_journey: MaybeId, last_request_journey: MaybeId, first_response_journey: MaybeId,
        last_response_journey: MaybeId, requester_addr: Address, requester_port: MaybeSmall, responder_addr: Address,
        responder_port: MaybeSmall, requester_host: Name, requester_netns_name: Name, responder_host: Name,
        responder_netns_name: Name, requester_flow: MaybeId, responder_flow: MaybeId, requester: Name, requester_tgid: MaybeSmall,
        requester_tid: MaybeSmall, requester_cgroup: Name, responder: Name, responder_tgid: MaybeSmall,
        responder_tid: MaybeSmall, responder_cgroup: Name, during: SmallInts,
        requester_container: Name, requester_pod: Name, requester_unit: Name, responder_container: Name,
        responder_pod: Name, responder_unit: Name,
    }
    /// An exchange that the responder of another one began and ended meanwhile.
    Nested "nested" {
        ts_ns: Int, ts: Instant, exchange: Id, inner_exchange: Id, nested_by: Name,
    }
    /// A flow id and its flow.
    Flows "flows" {
        ts_ns: Int, ts: Instant, flow: Id, host: Name, netns_name: Name, netns: Int, proto: Name, local_addr: Address,
        local_port: SmallInts, remote_addr: Address, remote_port: SmallInts,
    }
    /// A sample of a TCP connection's state.
    Tcp "tcp" {
        ts_ns: Int, ts: Instant, host: Name, flow: MaybeId, socket: Id, cwnd: Int, ssthresh: Int, srtt_us: Int,
        rttvar_us: Int, rto_us: Int, packets_out: Int, total_retrans: Int, snd_wnd: Int, rcv_wnd: Int,
        snd_una: Int, snd_nxt: Int, send_queue_bytes: Int, recv_queue_bytes: Int, state: SmallInts, ca_state: SmallInts,
    }
    /// Lost records.
    Losses "losses" {
        ts_ns: Int, ts: Instant, to_ns: Int, host: Name, cpu: MaybeSmall, lost: Int, cause: Name,
    }
    /// Samples of a host's clocks.
    Clock "clock" {
        ts_ns: Int, ts: Instant, host: Name, monotonic_ns: Int, raw_ns: Int, realtime_ns: Int, width_ns: Int,
        suspended_ns: Int, tai_offset_s: SmallInts, realtime_steps: SmallInts, clocksource: SmallInts, frequency: Int,
        status: Int, utc_error_ns: MaybeInt,
    }
    /// A hit of a custom probe, with its values.
    Hits "hits" {
        ts_ns: Int, ts: Instant, host: Name, netns_name: Name, probe: Name, point: Name, cpu: SmallInts, proto: Name, flow: MaybeId,
        socket: MaybeId, seq: MaybeInt, len: Int, ip_id: SmallInts, tgid: MaybeSmall, tid: MaybeSmall, comm: Name,
        name0: Name, value0: MaybeInt, name1: Name, value1: MaybeInt, name2: Name, value2: MaybeInt, name3: Name,
        value3: MaybeInt, record: Int,
    }
    /// The first bytes of a packet's payload.
    Heads "heads" {
        ts_ns: Int, ts: Instant, host: Name, netns_name: Name, hop: Name, cpu: SmallInts, proto: Name, flow: MaybeId, seq: MaybeInt,
        ip_id: SmallInts, of_bytes: Int, event: Int, hex: Text,
    }
    /// The kernel's counters of a hop, with the numbers rejected by sampler and filter.
    Counts "counts" {
        ts_ns: Int, ts: Instant, host: Name, hop: Name, kept: Int, filtered: Int, undecided: Int, sampled: Int, weight: Floats,
        synthesised: Int,
    }
    /// Sums of the kernel over an interval.
    Sums "sums" {
        ts_ns: Int, ts: Instant, to_ns: Int, host: Name, hop: Name, sum_of: Name, from_hop: Name, netns_name: Name, proto: Name,
        flow: MaybeId, local_addr: Address, local_port: MaybeSmall, remote_addr: Address, remote_port: MaybeSmall,
        cgroup: Name, drop_reason: MaybeSmall, drop_name: Name, n: Int, sum_ns: MaybeInt, bytes: MaybeInt,
    }
    /// Buckets of the kernel's histograms of times between hops.
    Histograms "histograms" {
        ts_ns: Int, ts: Instant, to_ns: Int, host: Name, from_hop: Name, hop: Name, min_ns: MaybeInt, max_ns: MaybeInt, n: Int,
    }
    /// Aggregates per period, hop and group: the synthesis of the 2007 paper.
    Periods "periods" {
        ts_ns: Int, ts: Instant, every_ns: Int, host: Name, group_by: Name, name: Name, hop: Name, proto: Name, journeys: Int,
        bytes: Int, latencies: Int, mean_ns: Floats, stddev_ns: Floats, min_ns: MaybeInt, p50_ns: MaybeInt,
        p90_ns: MaybeInt, p99_ns: MaybeInt, max_ns: MaybeInt, half_width_ns: MaybeInt, lower_ns: MaybeInt,
        upper_ns: MaybeInt,
    }
    /// Each journey's time between two hops, for queries.
    Pairs "hop_pair" {
        ts_ns: Int, ts: Instant, journey: Id, ns: Int, half_width_ns: Int, proto: Name, bytes: Int, verdict: Name,
        whole: Flag, tx_host: Name, tx_netns_name: Name, rx_host: Name, rx_netns_name: Name, sender: Name, reader: Name,
        wire_key: MaybeId, wire_bucket: MaybeSmall, lower_ns: Int, upper_ns: Int,
    }
}

impl Table {
    /// The tables of recordings. Computed ones that need a parameter (an interval, two hops) are not among them.
    pub const RECORDED: &'static [Table] = &[
        Table::Events,
        Table::Hops,
        Table::Journeys,
        Table::Exchanges,
        Table::Nested,
        Table::Flows,
        Table::Tcp,
        Table::Losses,
        Table::Clock,
        Table::Hits,
        Table::Heads,
        Table::Counts,
        Table::Sums,
        Table::Histograms,
    ];
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Unknown table name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "no table is called `{0}`; there are events, hops, journeys, exchanges, nested, flows, tcp, losses, clock, hits, heads, counts, sums and histograms"
)]
pub struct UnknownTable(String);

impl FromStr for Table {
    type Err = UnknownTable;

    fn from_str(name: &str) -> Result<Self, UnknownTable> {
        let found = Self::RECORDED.iter().find(|table| table.name().eq_ignore_ascii_case(name.trim()));
        found.copied().ok_or_else(|| UnknownTable(name.chars().take(40).collect()))
    }
}
