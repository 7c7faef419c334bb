//! Rows of `events`.

use super::proto;
use crate::names::Names;
use crate::table::column::Keys;
use crate::table::definition::columns;
use crate::timeline::TimeLine;
use magscope_core::{Detail, Event, Extent};

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
        let hop_key = hops.get(event.hop.id(), || rows.hop.key(event.hop.name()));
        rows.hop.push_key(hop_key);
        let proto_key = protos.get(event.proto.0, || rows.proto.key(&proto(event.proto)));
        rows.proto.push_key(proto_key);
        let comm_key = comms.get(event.tid, || rows.comm.key(names.comm(node, event.tid)));
        rows.comm.push_key(comm_key);
    }
    rows.cpu.extend(each().map(|event| u32::from(event.cpu)));
    rows.flow.extend(each().map(|event| event.flow.0));
    rows.socket.extend(each().map(|event| event.socket));
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
    rows.record.extend(each().map(|event| i64::from(event.record)));
    number_rows(rows, events);
}

/// The columns of numbers, one per meaning.
fn number_rows(rows: &mut columns::Events, events: &[Event]) {
    let extents = || events.iter().map(|event| event.extent);
    rows.seq.extend(extents().map(Extent::seq));
    rows.segment_bytes.extend(extents().map(Extent::segment_bytes));
    rows.echo_number.extend(extents().map(Extent::echo_number));
    rows.fragment_bytes.extend(extents().map(Extent::fragment_bytes));
    rows.fragment_offset.extend(extents().map(Extent::fragment_offset));
    rows.switch_ns.extend(extents().map(Extent::switch_ns));
    rows.copied_buffer.extend(extents().map(Extent::copied_buffer));
    rows.next_buffer.extend(extents().map(Extent::next_buffer));
    rows.open_error.extend(extents().map(Extent::open_error));
    let details = || events.iter().map(|event| event.detail);
    rows.ack.extend(details().map(Detail::ack));
    rows.drop_reason.extend(events.iter().map(Event::drop_reason));
    rows.driver_code.extend(details().map(Detail::driver_code));
    rows.resend_reason.extend(details().map(Detail::resend_reason));
    rows.poller_tid.extend(details().map(Detail::poller_tid));
    rows.empty_read_ns.extend(details().map(Detail::empty_read_ns));
    rows.other_tid.extend(details().map(Detail::other_tid));
    rows.reset_reason.extend(details().map(Detail::reset_reason));
    rows.connection_state.extend(details().map(Detail::connection_state));
    rows.synacks.extend(details().map(Detail::synacks));
    rows.consumer.extend(details().map(Detail::consumer));
    rows.write_seq.extend(details().map(Detail::write_seq));
    // The reason, which is in the same number, has a column.
    rows.filter_drop.extend(details().map(|detail| detail.filter_drop() >> 8));
}

#[cfg(test)]
mod tests {
    use super::*;
    use magscope_core::{DetailKind, ExtentKind};

    #[test]
    fn every_meaning_of_a_number_has_its_column() {
        let schema = columns::Events::schema();
        let extents = ExtentKind::ALL.iter().map(|kind| kind.name());
        for name in
            extents.chain(DetailKind::ALL.iter().map(|kind| kind.name())).filter(|name| !name.is_empty())
        {
            assert!(schema.field_with_name(name).is_ok_and(arrow::datatypes::Field::is_nullable), "{name}");
        }
    }
}
