//! The per-CPU rings and the collector of their records.

use crate::decode::{Record, decode, decode_event};
use crate::error::ProbeError;
use crate::gaps::Gaps;
use crate::order::Sorter;
use libbpf_rs::{MapCore, MapFlags, MapHandle, MapType, Object, RingBuffer, RingBufferBuilder};
use magscope_core::{Batch, LossCause};
use std::cell::RefCell;
use std::os::fd::AsRawFd;
use std::rc::Rc;

/// Size of the kernel's header before every ring record, bytes.
const RECORD_HEADER_BYTES: usize = 8;

/// State that the ring callbacks fill.
#[derive(Default)]
pub(super) struct Collector {
    pub sorter: Sorter,
    pub gaps: Vec<Gaps>,
    pub aside: Batch,
    pub undecodable: u64,
    /// Ring bytes of each CPU's records since the last drain began.
    pub taken: Vec<usize>,
    /// Numbered records so far.
    pub records: u64,
}

impl Collector {
    #[inline]
    fn numbered(&mut self, cpu: u16, number: u32, bytes: usize) {
        let cpu = usize::from(cpu);
        if let (Some(gaps), Some(taken)) = (self.gaps.get_mut(cpu), self.taken.get_mut(cpu)) {
            gaps.seen(number);
            *taken += bytes + RECORD_HEADER_BYTES;
            self.records += 1;
        }
    }

    #[inline]
    pub(super) fn take(&mut self, bytes: &[u8]) {
        if let Some(event) = decode_event(bytes) {
            self.numbered(event.cpu, event.record, bytes.len());
            self.sorter.push(event);
            return;
        }
        match decode(bytes) {
            Ok(Record::Event(_)) => {} // handled above
            Ok(Record::Flow(flow)) => self.aside.flows.push(flow),
            Ok(Record::Task(task)) => self.aside.tasks.push(task),
            Ok(Record::Tcp { sample, cpu, number }) => {
                self.numbered(cpu, number, bytes.len());
                self.aside.tcp.push(sample);
            }
            Ok(Record::Hit(hit)) => {
                self.numbered(hit.cpu, hit.record, bytes.len());
                self.aside.hits.push(hit);
            }
            Ok(Record::Head(head)) => {
                self.numbered(head.cpu, head.record, bytes.len());
                self.aside.heads.push(head);
            }
            Ok(Record::Loss(loss)) => {
                // An event of a program that did not run took no number.
                if loss.cause == LossCause::RingFull
                    && let Some(gaps) = self.gaps.get_mut(usize::from(loss.cpu))
                {
                    gaps.explained(loss.count);
                }
                self.aside.losses.push(loss);
            }
            Err(_) => self.undecodable += 1,
        }
    }
}

/// Creates the collector for `cpus` CPUs.
pub(super) fn collector(cpus: usize) -> Rc<RefCell<Collector>> {
    let gaps = vec![Gaps::default(); cpus];
    Rc::new(RefCell::new(Collector { gaps, taken: vec![0; cpus], ..Collector::default() }))
}

/// Rounds up to a power of two, at least one page, as the kernel requires.
pub(super) fn ring_size(bytes: usize) -> u32 {
    bytes.max(4096).checked_next_power_of_two().and_then(|size| u32::try_from(size).ok()).unwrap_or(1 << 31)
}

pub(super) fn make_rings(object: &Object, cpus: u32, bytes: usize) -> Result<Vec<MapHandle>, ProbeError> {
    let failed = |operation, cause: String| ProbeError::Map { operation, map: "rings", cause };
    let size = ring_size(bytes);
    let outer = object.maps().find(|m| m.name() == "rings");
    let outer = outer.ok_or_else(|| failed("write", "not in the object".to_owned()))?;
    let options = libbpf_rs::libbpf_sys::bpf_map_create_opts {
        sz: size_of::<libbpf_rs::libbpf_sys::bpf_map_create_opts>() as libbpf_rs::libbpf_sys::size_t,
        ..Default::default()
    };
    (0..cpus)
        .map(|cpu| {
            let ring = MapHandle::create(MapType::RingBuf, Some("magnet_ring"), 0, 0, size, &options)
                .map_err(|e| failed("create", format!("{e:#}")))?;
            let fd = std::os::fd::AsFd::as_fd(&ring).as_raw_fd();
            outer
                .update(&cpu.to_ne_bytes(), &fd.to_ne_bytes(), MapFlags::ANY)
                .map_err(|e| failed("write", format!("{e:#}")))?;
            Ok(ring)
        })
        .collect()
}

/// Opens the kernel's rings. With mapped rings, what these hold are wake-ups, which are read and dropped.
pub(super) fn open_rings(
    maps: &[MapHandle],
    collector: &Rc<RefCell<Collector>>,
    holds_records: bool,
) -> Result<RingBuffer<'static>, ProbeError> {
    let failed =
        |e: libbpf_rs::Error| ProbeError::Map { operation: "read", map: "rings", cause: format!("{e:#}") };
    let mut builder = RingBufferBuilder::new();
    for map in maps {
        let collector = Rc::clone(collector);
        let take = move |bytes: &[u8]| {
            if holds_records {
                collector.borrow_mut().take(bytes);
            }
            0
        };
        builder.add(map, take).map_err(failed)?;
    }
    builder.build().map_err(failed)
}
