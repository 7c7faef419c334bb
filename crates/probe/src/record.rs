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
    fn no_hop_has_the_number_of_another_slot() {
        let first = [mag_slot_MAG_HEADS, mag_slot_MAG_CUSTOM].into_iter().min();
        assert!(Hop::ALL.iter().all(|hop| Some(u32::from(hop.id())) < first));
        assert_eq!(mag_slot_MAG_HOPS as usize, magscope_core::hop::HOP_IDS);
        assert_eq!(
            mag_hop_MAG_SCHED_SWITCHED,
            u32::from(Hop::SchedSwitched.id()),
            "the header is that of the table"
        );
    }

    #[test]
    fn both_flag_tables_say_the_same() {
        let kernel = [
            (mag_flag_MAG_F_IPV6, EventFlags::IPV6),
            (mag_flag_MAG_F_AT_RETURN, EventFlags::AT_RETURN),
            (mag_flag_MAG_F_PEEK, EventFlags::PEEK),
            (mag_flag_MAG_F_QUEUE_EMPTY, EventFlags::QUEUE_EMPTY),
            (mag_flag_MAG_F_URGENT, EventFlags::URGENT),
            (mag_flag_MAG_F_OUT_OF_BAND, EventFlags::OUT_OF_BAND),
            (mag_flag_MAG_F_IN_KERNEL, EventFlags::IN_KERNEL),
            (mag_flag_MAG_F_ORDER, EventFlags::ORDER),
            (mag_flag_MAG_F_FRAGMENT, EventFlags::FRAGMENT),
            (mag_flag_MAG_F_PARTIAL, EventFlags::PARTIAL),
            (mag_flag_MAG_F_MORE, EventFlags::MORE),
            (mag_flag_MAG_F_GROUP, EventFlags::GROUP),
            (mag_flag_MAG_F_WHOLE, EventFlags::WHOLE),
        ];
        for (bit, flag) in kernel {
            assert_eq!(bit, u32::from(flag.0));
        }
        assert_eq!(kernel.len() + 1, EventFlags::ALL.len(), "the kernel knows no ambiguous packets");
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
