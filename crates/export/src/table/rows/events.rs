//! Rows of `events`.

use super::proto;
use crate::names::Names;
use crate::table::column::Keys;
use crate::table::definition::columns;
use crate::timeline::TimeLine;
use magscope_core::Event;

/// Column by column, because events outnumber all other rows.
pub fn event_rows(rows: &mut columns::Events, line: TimeLine, names: &mut Names, node: u16, events: &[Event]) {
    let each = || events.iter();
    rows.rows += events.len();
    rows.ts_ns.extend(each().map(|event| line.ns(event.time_ns)));
    rows.ts.extend(each().map(|event| line.ns(event.time_ns)), line.to_utc_ns.is_some());
    let several = names.infos().get(usize::from(node)).is_some_and(|info| info.several.is_some());
    if !several {
        rows.host.repeat(&names.host(node), events.len());
    }
    let (mut places, mut hops, mut protos, mut comms) =
        (Keys::default(), Keys::default(), Keys::default(), Keys::default());
    for event in events {
        let netns = names.netns(node, event);
        let place =
            netns.and_then(|netns| places.get(netns, || rows.netns_name.key(&names.place(node, netns))));
        rows.netns_name.push_key(place);
        if several {
            let host = netns.map_or_else(|| names.host(node), |netns| names.host_of(node, netns));
            rows.host.push(&host);
        }
        let hop_key = hops.get(event.hop as u8, || rows.hop.key(event.hop.name()));
        rows.hop.push_key(hop_key);
        let proto_key = protos.get(event.proto.0, || rows.proto.key(&proto(event.proto)));
        rows.proto.push_key(proto_key);
        let comm_key = comms.get(event.tid, || rows.comm.key(names.comm(node, event.tid)));
        rows.comm.push_key(comm_key);
    }
    rows.cpu.extend(each().map(|event| u32::from(event.cpu)));
    rows.flow.extend(each().map(|event| event.flow.0));
    rows.socket.extend(each().map(|event| event.socket));
    rows.seq.extend(each().map(|event| i64::from(event.seq)));
    rows.len.extend(each().map(|event| i64::from(event.len)));
    rows.segs.extend(each().map(|event| u32::from(event.segs)));
    rows.ip_id.extend(each().map(|event| u32::from(event.ip_id)));
    rows.tcp_flags.extend(each().map(|event| u32::from(event.tcp_flags)));
    rows.ttl.extend(each().map(|event| u32::from(event.ttl)));
    rows.tos.extend(each().map(|event| u32::from(event.tos)));
    rows.flags.extend(each().map(|event| u32::from(event.flags.0)));
    rows.tgid.extend(each().map(|event| event.tgid));
    rows.tid.extend(each().map(|event| event.tid));
    rows.ifindex.extend(each().map(|event| event.ifindex));
    rows.skb.extend(each().map(|event| i64::from(event.skb)));
    rows.detail.extend(each().map(|event| i64::from(event.detail)));
    rows.record.extend(each().map(|event| i64::from(event.record)));
}
