//! The record layout as Rust types, generated from `bpf/record.h` at build time.

#![allow(
    missing_docs,
    unsafe_code,
    clippy::all,
    clippy::pedantic,
    non_camel_case_types,
    non_upper_case_globals,
    dead_code
)]

include!(concat!(env!("OUT_DIR"), "/record.rs"));

#[cfg(test)]
mod tests {
    use super::*;
    use magscope_core::{EventFlags, Hop};

    #[test]
    fn both_hop_tables_say_the_same() {
        let kernel = [
            (mag_hop_MAG_APP_SEND, Hop::AppSend),
            (mag_hop_MAG_TCP_SEND, Hop::TcpSend),
            (mag_hop_MAG_UDP_SEND, Hop::UdpSend),
            (mag_hop_MAG_TCP_XMIT, Hop::TcpXmit),
            (mag_hop_MAG_IP_OUT, Hop::IpOut),
            (mag_hop_MAG_IP_POST, Hop::IpPost),
            (mag_hop_MAG_DEV_QUEUE, Hop::DevQueue),
            (mag_hop_MAG_DEV_XMIT, Hop::DevXmit),
            (mag_hop_MAG_DEV_DONE, Hop::DevDone),
            (mag_hop_MAG_DEV_RECV, Hop::DevRecv),
            (mag_hop_MAG_IP_PRE, Hop::IpPre),
            (mag_hop_MAG_IP_IN, Hop::IpIn),
            (mag_hop_MAG_TCP_RECV, Hop::TcpRecv),
            (mag_hop_MAG_UDP_RECV, Hop::UdpRecv),
            (mag_hop_MAG_SOCK_READY, Hop::SockReady),
            (mag_hop_MAG_TASK_WAKE, Hop::TaskWake),
            (mag_hop_MAG_TASK_RUN, Hop::TaskRun),
            (mag_hop_MAG_APP_COPY, Hop::AppCopy),
            (mag_hop_MAG_APP_RECV, Hop::AppRecv),
            (mag_hop_MAG_TCP_RETRANSMIT, Hop::TcpRetransmit),
            (mag_hop_MAG_TCP_STATE, Hop::TcpState),
            (mag_hop_MAG_SKB_DROP, Hop::SkbDrop),
            (mag_hop_MAG_SOCK_FULL, Hop::SockFull),
            (mag_hop_MAG_SCHED_SWITCH, Hop::SchedSwitch),
            (mag_hop_MAG_SCHED_WAKEUP, Hop::SchedWakeup),
            (mag_hop_MAG_SCHED_FORK, Hop::SchedFork),
            (mag_hop_MAG_SCHED_EXIT, Hop::SchedExit),
            (mag_hop_MAG_SCHED_SWITCHED, Hop::SchedSwitched),
        ];
        assert_eq!(kernel.len(), Hop::ALL.len());
        for (number, hop) in kernel {
            assert_eq!(number, hop as u32, "{hop}");
        }
    }

    #[test]
    fn both_flag_tables_say_the_same() {
        let kernel = [
            (mag_flag_MAG_F_IPV6, EventFlags::IPV6),
            (mag_flag_MAG_F_AT_RETURN, EventFlags::AT_RETURN),
            (mag_flag_MAG_F_PEEK, EventFlags::PEEK),
            (mag_flag_MAG_F_ORDER, EventFlags::ORDER),
            (mag_flag_MAG_F_FRAGMENT, EventFlags::FRAGMENT),
            (mag_flag_MAG_F_PARTIAL, EventFlags::PARTIAL),
        ];
        for (bit, flag) in kernel {
            assert_eq!(bit, u32::from(flag.0));
        }
    }

    #[test]
    fn records_are_whole_words_and_a_plain_event_has_64_bytes() {
        assert_eq!(size_of::<mag_event>(), 64);
        for size in [
            size_of::<mag_loss>(),
            size_of::<mag_flow>(),
            size_of::<mag_task>(),
            size_of::<mag_tcp>(),
            size_of::<mag_hit>(),
        ] {
            assert_eq!(size % 8, 0);
        }
    }
}
