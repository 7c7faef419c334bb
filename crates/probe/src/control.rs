//! Runtime control of loaded programs: hops, filter, samplers and watermarks, in memory shared with the kernel.
//!
//! None of this needs privileges after the load, because the programs only read the data. A filter changes
//! atomically: the inactive slot is written, then one store swaps the slots. The old slot is reused only when
//! no program can still read it.

use crate::error::ProbeError;
use crate::filter::Program;
use crate::record::{
    MAG_CUSTOMS, MAG_FILTER_SLOTS, MAG_PCAP_INSNS, mag_control, mag_filter, mag_functions,
    mag_gate_MAG_GATE_CHOOSE, mag_gate_MAG_GATE_DETAIL, mag_insn, mag_pcap, mag_slot_MAG_CUSTOM,
};
use crate::setting::Detail;
use libbpf_rs::{MapCore, MapFlags, MapHandle, Object};
use magscope_core::Hop;
use magscope_core::hop::HopSet;
use magscope_core::synthesis::rated;
use std::os::fd::{AsFd, AsRawFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::SeqCst};
use std::time::Duration;

/// Which of a hop's events become records. Zeros let every one through.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sampler {
    /// The first of so many, counted on each CPU by itself.
    pub one_in: u32,
    /// At most one event per interval, over all CPUs.
    pub interval: Duration,
}

impl Sampler {
    /// True if the sampler rejects any event.
    pub fn samples(self) -> bool {
        self.one_in > 1 || !self.interval.is_zero()
    }
}

/// Wake-up policy of the reader: the first limit reached wakes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Watermark {
    /// Unread records of one CPU; 0 disables this limit.
    pub events: u32,
    /// Unread bytes of one CPU; 0 disables this limit.
    pub bytes: u32,
    /// Maximum delay of a wake-up.
    pub time: Duration,
}

impl Watermark {
    /// Time limit only, short enough for a display.
    pub const SCREEN: Self = Watermark { events: 0, bytes: 0, time: Duration::from_millis(20) };
    /// One wake-up per record, for a display with minimum delay. Each wake-up slows the traffic.
    pub const LATENCY: Self = Watermark { events: 1, bytes: 0, time: Duration::from_millis(20) };

    /// Fewest wake-ups for this ring size: at a quarter full, or after half a second.
    pub const fn bulk(ring_bytes: u32) -> Self {
        Watermark { events: 0, bytes: ring_bytes / 4, time: Duration::from_millis(500) }
    }
}

/// Number of addresses in `mag_functions`.
const FUNCTIONS: usize = size_of::<mag_functions>() / 8;

/// The shared memory and the filter's slots.
pub(crate) struct Control {
    memory: Memory,
    filters: MapHandle,
    pcaps: MapHandle,
    /// A map of maps: the kernel does not return from a change of it before every program that began earlier has ended.
    barrier: MapHandle,
    ring: MapHandle,
    program: Option<Program>,
    flow_one_in: u32,
    left_out: bool,
    /// Bits of custom probes that are on.
    custom: u64,
}

impl Control {
    /// Maps the control memory of a loaded object. Everything is off until [`Control::set_hops`].
    pub(crate) fn new(object: &Object, ring: &MapHandle) -> Result<Self, ProbeError> {
        let failed = |map: &'static str, cause: String| ProbeError::Map { operation: "open", map, cause };
        let find = |map: &'static str, ending: &str| {
            let found = object.maps().find(|m| m.name().to_string_lossy().ends_with(ending));
            let found = found.ok_or_else(|| failed(map, "not in the object".to_owned()))?;
            MapHandle::try_from(&found).map_err(|e| failed(map, format!("{e:#}")))
        };
        let shared = find("control", ".data.control")?;
        let control = Control {
            memory: Memory::map(&shared).map_err(|e| failed("control", format!("{e:#}")))?,
            filters: find("filters", "filters")?,
            pcaps: find("pcaps", "pcaps")?,
            barrier: find("rings", "rings")?,
            ring: MapHandle::try_from(ring).map_err(|e| failed("rings", format!("{e:#}")))?,
            program: None,
            flow_one_in: 1,
            left_out: false,
            custom: 0,
        };
        control.memory.word32(std::mem::offset_of!(mag_control, flow_limit)).store(u32::MAX, SeqCst);
        Ok(control)
    }

    pub(crate) fn hops(&self) -> HopSet {
        HopSet(self.memory.word64(std::mem::offset_of!(mag_control, hops)).load(SeqCst) & HopSet::all().0)
    }

    pub(crate) fn set_hops(&self, hops: HopSet) {
        self.memory.word64(std::mem::offset_of!(mag_control, rated)).store(rated(hops).0, SeqCst);
        // start to record sockets before the first event that needs them
        if self.learning(hops) {
            self.word(std::mem::offset_of!(mag_control, learn)).store(1, SeqCst);
        }
        self.memory.word64(std::mem::offset_of!(mag_control, hops)).store(hops.0 | self.custom, SeqCst);
        self.settle();
    }

    /// Enables this many custom probes with the next [`Control::set_hops`].
    pub(crate) fn set_custom(&mut self, count: usize) {
        self.custom = ((1_u64 << count.min(MAG_CUSTOMS as usize)) - 1) << mag_slot_MAG_CUSTOM;
    }

    /// Switches one custom probe, at once.
    pub(crate) fn switch_custom(&mut self, number: usize, on: bool) {
        let bit = 1 << (mag_slot_MAG_CUSTOM as usize + number.min(MAG_CUSTOMS as usize - 1));
        self.custom = if on { self.custom | bit } else { self.custom & !bit };
        self.set_hops(self.hops());
    }

    /// True if the custom probe is on.
    pub(crate) fn custom_is_on(&self, number: usize) -> bool {
        self.custom & 1 << (mag_slot_MAG_CUSTOM as usize + number.min(MAG_CUSTOMS as usize - 1)) != 0
    }

    /// True if sockets are recorded.
    pub(crate) fn learns(&self) -> bool {
        self.word(std::mem::offset_of!(mag_control, learn)).load(SeqCst) != 0
    }

    pub(crate) fn set_filter(&mut self, program: Option<Program>) -> Result<(), ProbeError> {
        let failed = |e: libbpf_rs::Error| ProbeError::Map {
            operation: "write",
            map: "filters",
            cause: format!("{e:#}"),
        };
        let slot = std::mem::offset_of!(mag_control, filter);
        let now = self.word(slot).load(SeqCst);
        let mut next = 0;
        if let Some(program) = &program {
            next = now % MAG_FILTER_SLOTS + 1;
            let filter = program.to_map();
            self.filters.update(&(next - 1).to_ne_bytes(), bytes_of(&filter), MapFlags::ANY).map_err(failed)?;
        }
        self.program = program;
        // a filter on unrecorded sockets would reject everything: recording starts first and stops last
        if self.learning(self.hops()) {
            self.word(std::mem::offset_of!(mag_control, learn)).store(1, SeqCst);
        }
        self.word(std::mem::offset_of!(mag_control, gate)).fetch_or(mag_gate_MAG_GATE_CHOOSE, SeqCst);
        self.word(slot).store(next, SeqCst);
        self.settle();
        self.wait_for_programs()
    }

    /// Activates a pcap program in addition to the filter.
    pub(crate) fn set_pcap(&self, insns: Option<&[mag_insn]>) -> Result<(), ProbeError> {
        let failed =
            |e: libbpf_rs::Error| ProbeError::Map { operation: "write", map: "pcaps", cause: format!("{e:#}") };
        let slot = std::mem::offset_of!(mag_control, pcap);
        let mut next = 0;
        if let Some(insns) = insns {
            next = self.word(slot).load(SeqCst) % MAG_FILTER_SLOTS + 1;
            let mut program = mag_pcap { insns: [mag_insn::default(); MAG_PCAP_INSNS as usize] };
            program.insns.iter_mut().zip(insns).for_each(|(to, from)| *to = *from);
            self.pcaps
                .update(&(next - 1).to_ne_bytes(), bytes_of_pcap(&program), MapFlags::ANY)
                .map_err(failed)?;
        }
        self.word(std::mem::offset_of!(mag_control, gate)).fetch_or(mag_gate_MAG_GATE_CHOOSE, SeqCst);
        self.word(slot).store(next, SeqCst);
        self.settle();
        self.wait_for_programs()
    }

    /// True if a pcap program is active.
    fn has_pcap(&self) -> bool {
        self.word(std::mem::offset_of!(mag_control, pcap)).load(SeqCst) != 0
    }

    /// Sets the level of detail.
    pub(crate) fn set_detail(&self, detail: Detail) {
        self.word(std::mem::offset_of!(mag_control, detail)).store(detail as u32, SeqCst);
        self.settle();
    }

    pub(crate) fn detail(&self) -> Detail {
        let now = self.word(std::mem::offset_of!(mag_control, detail)).load(SeqCst);
        Detail::ALL.into_iter().find(|detail| *detail as u32 == now).unwrap_or_default()
    }

    /// Selects the map for rates. On return no program writes to the other map any more.
    pub(crate) fn set_rate_slot(&self, slot: u32) -> Result<(), ProbeError> {
        self.word(std::mem::offset_of!(mag_control, rate_slot)).store(slot, SeqCst);
        self.wait_for_programs()
    }

    /// Sets the payload bytes captured at a hop.
    pub(crate) fn set_snap(&self, hop: Hop, bytes: u32) {
        self.word(std::mem::offset_of!(mag_control, snap) + usize::from(hop.id()) * 4).store(bytes, SeqCst);
    }

    pub(crate) fn snap(&self, hop: Hop) -> u32 {
        self.word(std::mem::offset_of!(mag_control, snap) + usize::from(hop.id()) * 4).load(SeqCst)
    }

    /// Sets the address of the page memory.
    pub(crate) fn set_page_base(&self, base: u64) {
        self.memory.word64(std::mem::offset_of!(mag_control, page_base)).store(base, SeqCst);
    }

    /// The addresses of the kernel's functions, in the order of `mag_functions`; 0 for one that was not found.
    pub(crate) fn functions(&self) -> [u64; FUNCTIONS] {
        let at = std::mem::offset_of!(mag_control, functions);
        std::array::from_fn(|n| self.memory.word64(at + 8 * n).load(SeqCst))
    }

    pub(crate) fn set_sampler(&self, hop: Hop, sampler: Sampler) {
        let at = std::mem::offset_of!(mag_control, samplers) + usize::from(hop.id()) * 16;
        let interval_ns = u64::try_from(sampler.interval.as_nanos()).unwrap_or(u64::MAX >> 1);
        self.memory.word64(at).store(interval_ns, SeqCst);
        self.memory.word32(at + 8).store(sampler.one_in, SeqCst);
        self.settle();
    }

    pub(crate) fn sampler(&self, hop: Hop) -> Sampler {
        let at = std::mem::offset_of!(mag_control, samplers) + usize::from(hop.id()) * 16;
        Sampler {
            interval: Duration::from_nanos(self.memory.word64(at).load(SeqCst)),
            one_in: self.memory.word32(at + 8).load(SeqCst),
        }
    }

    /// Keeps one in so many flows; the same ones on every host, and both directions of each.
    pub(crate) fn set_flow_sampling(&mut self, one_in: u32) {
        self.flow_one_in = one_in.max(1);
        let limit = u32::MAX / self.flow_one_in;
        self.word(std::mem::offset_of!(mag_control, flow_limit)).store(limit, SeqCst);
        self.settle();
    }

    /// True if a filter, a sampler or the level of detail rejects events, now or earlier. Their counters are
    /// then reported until the end.
    pub(crate) fn leaves_out(&mut self) -> bool {
        self.left_out |=
            self.program.is_some() || self.has_pcap() || self.samples() || self.detail() == Detail::Histograms;
        self.left_out
    }

    /// True if a sampler leaves out hits or flows now.
    pub(crate) fn samples(&self) -> bool {
        self.flow_one_in > 1 || self.samples_hits()
    }

    /// True if the sampler of a hop leaves out hits now: times in the kernel would lead from one packet to another.
    pub(crate) fn samples_hits(&self) -> bool {
        Hop::ALL.iter().any(|hop| self.sampler(*hop).samples())
    }

    pub(crate) fn flow_one_in(&self) -> u32 {
        self.flow_one_in
    }

    pub(crate) fn set_watermark(&self, watermark: Watermark) {
        self.word(std::mem::offset_of!(mag_control, wake_events)).store(watermark.events, SeqCst);
        self.word(std::mem::offset_of!(mag_control, wake_bytes)).store(watermark.bytes, SeqCst);
    }

    /// True if sockets must be recorded: for process fields of the filter, and for wake-ups, whose events carry
    /// only a socket cookie.
    fn learning(&self, hops: HopSet) -> bool {
        let wakes = hops.contains(Hop::TaskWake) || hops.contains(Hop::TaskRun);
        self.program.as_ref().is_some_and(|program| program.learn || wakes)
            || self.has_pcap() && wakes
            || self.flow_one_in > 1 && wakes
    }

    /// Sets the flags that a hit checks to match the settings in force.
    fn settle(&self) {
        let learn = self.learning(self.hops());
        let special = Hop::ALL.iter().map(|hop| self.sampler(*hop)).any(Sampler::samples);
        let gate = learn || special || self.program.is_some() || self.has_pcap() || self.flow_one_in > 1;
        let choose = if gate { mag_gate_MAG_GATE_CHOOSE } else { 0 };
        let detail = if self.detail() == Detail::Full { 0 } else { mag_gate_MAG_GATE_DETAIL };
        self.word(std::mem::offset_of!(mag_control, learn)).store(u32::from(learn), SeqCst);
        self.word(std::mem::offset_of!(mag_control, gate)).store(choose | detail, SeqCst);
    }

    /// Returns when no program runs any more that started before the call.
    fn wait_for_programs(&self) -> Result<(), ProbeError> {
        let fd = self.ring.as_fd().as_raw_fd();
        let same = self.barrier.update(&0u32.to_ne_bytes(), &fd.to_ne_bytes(), MapFlags::ANY);
        same.map_err(|e| ProbeError::Map { operation: "write", map: "rings", cause: format!("{e:#}") })
    }

    fn word(&self, offset: usize) -> &AtomicU32 {
        self.memory.word32(offset)
    }
}

fn bytes_of(filter: &mag_filter) -> &[u8] {
    // SAFETY: plain integers, every byte of which was set: the structure has no padding (checked below).
    #[allow(unsafe_code)]
    unsafe {
        std::slice::from_raw_parts(std::ptr::from_ref(filter).cast::<u8>(), size_of::<mag_filter>())
    }
}

fn bytes_of_pcap(program: &mag_pcap) -> &[u8] {
    // SAFETY: as above; an instruction has 8 bytes and no padding.
    #[allow(unsafe_code)]
    unsafe {
        std::slice::from_raw_parts(std::ptr::from_ref(program).cast::<u8>(), size_of::<mag_pcap>())
    }
}

// The layout that the offsets above and `bytes_of` rely on.
const _: () =
    assert!(size_of::<crate::record::mag_test>() == 40 && size_of::<mag_filter>() == 8 + 48 + 64 * 40);
const _: () = assert!(size_of::<crate::record::mag_sampler>() == 16);

/// A `mag_control` that is shared with the kernel's programs.
struct Memory {
    base: NonNull<u8>,
}

impl Memory {
    fn map(map: &MapHandle) -> std::io::Result<Self> {
        // SAFETY: a fresh mapping of a map that is at least this long (the kernel refuses a longer one); it is unmapped
        // in `drop` alone.
        #[allow(unsafe_code)]
        let base = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                size_of::<mag_control>(),
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                map.as_fd().as_raw_fd(),
                0,
            )
        };
        match NonNull::new(base.cast::<u8>()) {
            Some(base) if base.as_ptr().cast() != libc::MAP_FAILED => Ok(Memory { base }),
            _ => Err(std::io::Error::last_os_error()),
        }
    }

    fn word32(&self, offset: usize) -> &AtomicU32 {
        assert!(offset.is_multiple_of(4) && offset + 4 <= size_of::<mag_control>());
        // SAFETY: inside the mapping, aligned, and accessed on this side only as an atomic.
        #[allow(unsafe_code)]
        unsafe {
            AtomicU32::from_ptr(self.base.as_ptr().add(offset).cast())
        }
    }

    fn word64(&self, offset: usize) -> &AtomicU64 {
        assert!(offset.is_multiple_of(8) && offset + 8 <= size_of::<mag_control>());
        // SAFETY: as in `word32`.
        #[allow(unsafe_code)]
        unsafe {
            AtomicU64::from_ptr(self.base.as_ptr().add(offset).cast())
        }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: mapped in `map` with this length, and no reference outlives `self`.
        #[allow(unsafe_code)]
        unsafe {
            libc::munmap(self.base.as_ptr().cast(), size_of::<mag_control>());
        }
    }
}
