//! Description of the binary streams in the Trace Stream Description Language.

use magscope_core::Hop;
use magscope_core::node::NodeInfo;
use std::fmt::Write;

const HIT: &str = "string host; string place; uint64_t journey; uint16_t cpu; uint32_t tgid; uint32_t tid; string comm; \
     uint64_t bytes; string from_hop; int64_t latency_ns; uint64_t half_width_ns; \
     int64_t lower_ns; int64_t upper_ns; int64_t waited_ns; uint32_t again; string verdict; \
     string src; string dst;";
const ENDED: &str =
    "string host; string place; uint64_t journey; string verdict; string after; uint32_t reason;";
const LOSS: &str = "string host; string place; uint64_t lost; uint16_t cpu; int64_t to_ns; string cause;";
const SAMPLE: &str = "string host; string place; uint64_t socket; string local; string remote; uint32_t cwnd; \
     uint32_t ssthresh; uint32_t srtt_us; uint32_t packets_out; uint32_t send_queue; uint32_t recv_queue;";
const PROBE: &str = "string host; string place; string probe; string point; string values; uint16_t cpu; \
     uint32_t tgid; uint32_t tid; string comm; uint64_t socket; uint32_t seq; uint32_t len; string local; string remote;";
const LEFT_OUT: &str = "string host; string place; string hop; string by; uint64_t count; uint64_t kept;";

/// The text of the `metadata` file.
pub fn metadata(uuid: [u8; 16], infos: &[NodeInfo]) -> String {
    let uuid = hyphenated(uuid);
    let hosts: Vec<&str> = infos.iter().map(|info| info.host.as_str()).collect();
    let kernels: Vec<&str> = infos.iter().map(|info| info.kernel.as_str()).collect();
    let mut text = String::from("/* CTF 1.8 */\n\n");
    for (name, bits, signed) in [
        ("uint16_t", 16, "false"),
        ("uint32_t", 32, "false"),
        ("uint64_t", 64, "false"),
        ("int64_t", 64, "true"),
    ] {
        // Writing into a String cannot fail.
        let _ =
            writeln!(text, "typealias integer {{ size = {bits}; align = 8; signed = {signed}; }} := {name};");
    }
    let _ = write!(
        text,
        "typealias integer {{ size = 8; align = 8; signed = false; }} := uint8_t;\n\n\
         trace {{\n  major = 1;\n  minor = 8;\n  uuid = \"{uuid}\";\n  byte_order = le;\n  \
         packet.header := struct {{ uint32_t magic; uint8_t uuid[16]; uint32_t stream_id; }};\n}};\n\n\
         env {{\n  tracer_name = \"magnet-scope\";\n  hosts = {};\n  kernels = {};\n}};\n\n\
         clock {{\n  name = utc;\n  description = \"nanoseconds since 1970 UTC\";\n  freq = 1000000000;\n  \
         offset = 0;\n  absolute = true;\n}};\n\n\
         typealias integer {{ size = 64; align = 8; signed = false; map = clock.utc.value; }} := instant_t;\n\n\
         stream {{\n  id = 0;\n  \
         packet.context := struct {{ instant_t timestamp_begin; instant_t timestamp_end; uint64_t content_size; \
         uint64_t packet_size; uint64_t events_discarded; }};\n  \
         event.header := struct {{ uint16_t id; instant_t timestamp; }};\n}};\n\n",
        quoted(&hosts.join(" ")),
        quoted(&kernels.join(" ")),
    );
    for hop in Hop::ALL {
        event(&mut text, u16::from(hop.id()), hop.name(), HIT);
    }
    event(&mut text, super::ENDED, "journey.ended", ENDED);
    event(&mut text, super::LOSS, "events.lost", LOSS);
    event(&mut text, super::SAMPLE, "tcp.sample", SAMPLE);
    event(&mut text, super::PROBE, "probe.hit", PROBE);
    event(&mut text, super::LEFT_OUT, "events.left_out", LEFT_OUT);
    text
}

fn event(text: &mut String, id: u16, name: &str, fields: &str) {
    let _ = writeln!(
        text,
        "event {{ name = \"{name}\"; id = {id}; stream_id = 0; fields := struct {{ {fields} }}; }};"
    );
}

fn hyphenated(uuid: [u8; 16]) -> String {
    let mut text = String::new();
    for (at, byte) in uuid.iter().enumerate() {
        if matches!(at, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        let _ = write!(text, "{byte:02x}");
    }
    text
}

/// A string literal: quotes and backslashes escaped, control characters removed.
fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars().filter(|c| !c.is_control()) {
        if matches!(c, '"' | '\\') {
            out.push('\\');
        }
        out.push(c);
    }
    out.push('"');
    out
}
