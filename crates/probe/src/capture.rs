//! Driving libbpf: load what the plan says, attach it, drain the rings, and leave nothing behind.
//!
//! Nothing is pinned: programs, maps and links belong to file descriptors of this process, so the kernel removes
//! all of them however the process ends.

use crate::candidates::{CANDIDATES, Candidate, is_at_function};
use crate::change::{put_in_force, teachers};
use crate::clock::{ClockSampler, EventClock};
use crate::control::{Control, Sampler, Watermark};
use crate::custom::{self, Attached};
use crate::decode::{Record, decode, decode_event};
use crate::doorbell::Doorbell;
use crate::error::ProbeError;
use crate::facts::HostFacts;
use crate::filter::Program;
use crate::filter::names::HostNames;
use crate::gaps::Gaps;
use crate::messages;
use crate::netns::NetnsTarget;
use crate::order::{HOLD_NS, Sorter};
use crate::pages;
use crate::pcap;
use crate::plan::{Plan, plan_by};
use crate::record::{
    MAG_MAX_NETNS, mag_config, mag_cpu, mag_hop_MAG_CUSTOM, mag_hop_MAG_HEADS, mag_hop_MAG_HOPS,
};
use crate::symbols;
use crate::tsc::Tsc;
use libbpf_rs::{
    ErrorKind, Link, MapCore, MapFlags, MapHandle, MapType, NetfilterOpts, Object, ObjectBuilder, OpenObject,
    ProgramAttachType, ProgramMut, RingBuffer, RingBufferBuilder,
};
use magscope_core::custom::CustomProbe;
use magscope_core::hop::HopSet;
use magscope_core::node::{Backend, NetnsName, NodeInfo, Service};
use magscope_core::source::{Progress, Source, SourceError};
use magscope_core::{Batch, CaptureFilter, Change, Hop, HopCount, Loss, LossCause};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::rc::Rc;
use std::time::{Duration, Instant};

/// What the kernel puts before every record of a ring.
const RECORD_HEADER_BYTES: usize = 8;
/// How often the kernel's counters go along with the events, at most, where something is left out.
const COUNTS_INTERVAL: Duration = Duration::from_secs(1);

/// What to capture and how.
#[derive(Clone, Debug)]
pub struct CaptureOptions {
    /// Hops that are wanted; those the host cannot serve are in the coverage as missing.
    pub hops: HopSet,
    /// Network namespaces to attach in. Events of all others are left out, unless `every_netns`.
    pub netns: Vec<NetnsTarget>,
    /// Keep events of every namespace, also of those that come into being later (whose netfilter hops are then
    /// missing).
    pub every_netns: bool,
    /// Size of one CPU's ring, bytes; rounded up to a power of two of at least a page.
    pub ring_bytes_per_cpu: usize,
    /// Only this kind of probe; hops that it cannot serve are then missing. For comparing kinds.
    pub backend: Option<Backend>,
    /// When the reader comes. Wake-ups cost the traffic: 20 ms or more, and none by events.
    pub watermark: Watermark,
    /// What is left out from the beginning. Names in it are looked up on this host.
    pub filter: Option<CaptureFilter>,
    /// A filter expression of libpcap, which has to hold as well.
    pub pcap: Option<String>,
    /// Bytes of payload to keep at hops: none unless asked for.
    pub snap: Vec<(Hop, u32)>,
    /// Samplers of hops.
    pub samplers: Vec<(Hop, Sampler)>,
    /// Keep one in so many flows; 0 and 1 keep all.
    pub flow_one_in: u32,
    /// Stamp events with the TSC itself, where this host's can be read; else with `CLOCK_MONOTONIC`, see
    /// [`Capture::clock_fallback`].
    pub tsc: bool,
    /// Hops to load along, so that they can be attached later without privileges. Loaded alone they cost nothing.
    pub switchable: HopSet,
    /// Probes that a person named.
    pub probes: Vec<CustomProbe>,
}

impl Default for CaptureOptions {
    fn default() -> Self {
        CaptureOptions {
            hops: crate::plan::default_hops(),
            netns: Vec::new(),
            every_netns: false,
            ring_bytes_per_cpu: 8 << 20,
            backend: None,
            watermark: Watermark::SCREEN,
            filter: None,
            pcap: None,
            snap: Vec::new(),
            samplers: Vec::new(),
            flow_one_in: 1,
            tsc: false,
            switchable: HopSet::EMPTY,
            probes: Vec::new(),
        }
    }
}

/// What the kernel side counted, over all CPUs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Events that should have become records.
    pub hits: u64,
    /// What became of every hit, by hop; hops without one are not there.
    pub hops: Vec<HopCount>,
    /// Of those, how many found no room, by hop.
    pub lost_by_hop: BTreeMap<Hop, u64>,
    /// Payload heads that should have become records, and how many of them found no room.
    pub heads: (u64, u64),
    /// What became of every hit of a custom probe, in their order.
    pub probes: Vec<ProbeCount>,
    /// Of those lost, how many no loss record has reported yet.
    pub unreported: u64,
}

/// What became of the hits of a custom probe.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProbeCount {
    /// Became records, or should have.
    pub kept: u64,
    /// Left out by the filter.
    pub filtered: u64,
    /// Left out because the filter asks for something that could not be known.
    pub undecided: u64,
    /// Left out by a sampler.
    pub sampled: u64,
    /// Of those kept, found no room.
    pub lost: u64,
}

impl Counters {
    /// Events that found no room.
    pub fn lost(&self) -> u64 {
        self.lost_by_hop.values().sum::<u64>()
            + self.probes.iter().map(|probe| probe.lost).sum::<u64>()
            + self.heads.1
    }
}

/// What the ring callbacks fill.
#[derive(Default)]
struct Collector {
    sorter: Sorter,
    gaps: Vec<Gaps>,
    aside: Batch,
    undecodable: u64,
    /// Bytes of the rings that this CPU's records took, since the last drain began.
    taken: Vec<usize>,
}

impl Collector {
    #[inline]
    fn numbered(&mut self, cpu: u16, number: u32, bytes: usize) {
        let cpu = usize::from(cpu);
        if let (Some(gaps), Some(taken)) = (self.gaps.get_mut(cpu), self.taken.get_mut(cpu)) {
            gaps.seen(number);
            *taken += bytes + RECORD_HEADER_BYTES;
        }
    }

    #[inline]
    fn take(&mut self, bytes: &[u8]) {
        if let Some(event) = decode_event(bytes) {
            self.numbered(event.cpu, event.record, bytes.len());
            self.sorter.push(event);
            return;
        }
        match decode(bytes) {
            Ok(Record::Event(_)) => {} // taken above
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
                if let Some(gaps) = self.gaps.get_mut(usize::from(loss.cpu)) {
                    gaps.explained(loss.count);
                }
                self.aside.losses.push(loss);
            }
            Err(_) => self.undecodable += 1,
        }
    }
}

/// A live capture: a [`Source`] of what the kernel sees.
pub struct Capture {
    // Dropped in this order: links first, so that nothing runs while the rest goes.
    pub(crate) links: Links,
    customs: Vec<Attached>,
    rings: RingBuffer<'static>,
    pub(crate) object: Object,
    _ring_maps: Vec<MapHandle>,
    doorbell: Doorbell,
    pub(crate) control: Control,
    pub(crate) facts: HostFacts,
    /// Everything that is loaded, attached or not.
    pub(crate) loaded: Plan,
    pub(crate) names: HostNames,
    pub(crate) changes: Vec<Change>,
    collector: Rc<RefCell<Collector>>,
    pub(crate) info: NodeInfo,
    pub(crate) options: CaptureOptions,
    last_counts: Option<Instant>,
    clock: ClockSampler,
    pub(crate) event_clock: EventClock,
    clock_fallback: Option<String>,
    /// What the programs read; closed with the capture.
    _tsc: Option<Tsc>,
    last_watermark_ns: u64,
    /// Probes attach and detach one after the other. What was seen while only some of them were there is left out, so
    /// that at every instant of the capture every hop of the coverage could be seen.
    complete_from_ns: u64,
    stopped_at_ns: Option<u64>,
    outside: u64,
    finished: bool,
}

impl Capture {
    /// Reads the host's facts, plans, loads and attaches.
    ///
    /// # Errors
    /// Missing BTF or privileges, namespaces that cannot be entered, a kernel that refuses a program.
    pub fn start(options: CaptureOptions) -> Result<Self, ProbeError> {
        Self::start_on(&HostFacts::read()?, options)
    }

    /// As [`Capture::start`], with facts already read.
    ///
    /// # Errors
    /// As [`Capture::start`].
    pub fn start_on(facts: &HostFacts, mut options: CaptureOptions) -> Result<Self, ProbeError> {
        if !facts.btf {
            return Err(ProbeError::NoBtf { kernel: facts.kernel.clone() });
        }
        let missing = facts.missing_capabilities();
        if !missing.is_empty() {
            return Err(ProbeError::Privileges { missing });
        }
        complete(&mut options)?;
        let names = HostNames::read(&options.netns, facts.cgroup2.clone());
        let program = options.filter.as_ref().map(|filter| Program::compile(filter, &names)).transpose()?;
        let pcap = options.pcap.as_deref().map(pcap::compile).transpose()?;
        let mut along = HopSet(options.hops.0 | options.switchable.0);
        if program.as_ref().is_some_and(|program| program.learn) {
            along = HopSet(along.0 | teachers().0);
        }
        let mut facts = facts.clone();
        let (mut tsc, mut clock_fallback) = opened(&mut facts, options.tsc);
        let (plan, loaded, object, ring_maps, links) = loop {
            let plan = plan_by(&facts, options.hops, options.backend);
            if plan.probes.is_empty() {
                return Err(nothing_to_serve(&plan, options.hops));
            }
            let loaded = plan_by(&facts, along, options.backend);
            let object = match load(&facts, &loaded, &options, tsc.as_ref()) {
                Err(ProbeError::Load { .. }) if tsc.take().is_some() => {
                    // Without the TSC it may load, and with it it was only wished for.
                    clock_fallback = Some("the kernel refuses programs that read it".to_owned());
                    without_tsc().for_each(|(place, _)| drop(facts.refused.remove(&place)));
                    continue;
                }
                loaded => loaded?,
            };
            let ring_maps = make_rings(&object, facts.cpus, options.ring_bytes_per_cpu)?;
            match attach_all(&facts, &object, &plan, &options.netns) {
                Ok(links) => break (plan, loaded, object, ring_maps, links),
                // A function may be there and yet not be open to probes; what comes next may serve. Each round takes one
                // place away, so this ends.
                Err(ProbeError::Attach { backend, point, cause, .. }) if is_at_function(backend) => {
                    facts.refused.insert((backend, point), cause);
                }
                Err(error) => return Err(error),
            }
        };
        let config = config(&facts, &loaded, &options, tsc.as_ref());
        let (probes, customs) = custom::attach_all(&facts, &object, &config, &options.probes)?;
        let collector = collector(facts.cpus as usize);
        let rings = open_rings(&ring_maps, &collector)?;
        let mut control = Control::new(&object, &ring_maps[0])?;
        let doorbell = Doorbell::new(&ring_maps)?;

        let event_clock = tsc.as_ref().map_or(EventClock::Monotonic, |tsc| EventClock::Tsc(tsc.rate));
        let netns = options.netns.iter().map(|n| NetnsName { netns: n.inode, name: n.name.clone() }).collect();
        let info = NodeInfo {
            host: facts.host.clone(),
            kernel: facts.kernel.clone(),
            boot_id: facts.boot_id.clone(),
            cpus: facts.cpus,
            clock: event_clock.name().to_owned(),
            netns,
            cgroups: facts.cgroup2.as_deref().map(crate::cgroups::names).unwrap_or_default(),
            settings: Vec::new(),
            probes,
            coverage: plan.coverage.clone(),
        };
        put_in_force(&mut control, &options, program, pcap.as_deref())?;
        if let Some(base) = pages::base(&object) {
            control.set_page_base(base);
        }
        let mut capture = Capture {
            links,
            customs,
            rings,
            object,
            _ring_maps: ring_maps,
            doorbell,
            control,
            facts,
            loaded,
            names,
            changes: Vec::new(),
            last_counts: None,
            collector,
            info,
            options,
            clock: ClockSampler::new().of(event_clock),
            event_clock,
            clock_fallback,
            _tsc: tsc,
            last_watermark_ns: 0,
            complete_from_ns: event_clock.now_ns(),
            stopped_at_ns: None,
            outside: 0,
            finished: false,
        };
        capture.info.settings = capture.in_force();
        capture.rewire(plan.served())?;
        capture.control.set_custom(capture.customs.len());
        // all at once, and only now that every one is attached
        capture.control.set_hops(plan.served());
        capture.complete_from_ns = event_clock.now_ns();
        Ok(capture)
    }

    /// Detaches every probe. What is still in the rings comes with the next batches, the last of which says `End`.
    pub fn stop(&mut self) {
        let event_clock = self.event_clock;
        self.stopped_at_ns.get_or_insert_with(|| event_clock.now_ns());
        self.control.set_custom(0);
        self.control.set_hops(HopSet::EMPTY);
        self.links.clear();
        self.customs.clear();
    }

    /// Why events do not carry the TSC though it was asked for.
    pub fn clock_fallback(&self) -> Option<&str> {
        self.clock_fallback.as_deref()
    }

    /// Events left out because they came while probes were still being attached or already detached.
    pub fn outside(&self) -> u64 {
        self.outside
    }

    /// How full the fullest ring was at the last drain, 0 to 1 (and a little more if it was written to meanwhile).
    pub fn ring_fill_ratio(&self) -> f64 {
        let taken = self.collector.borrow().taken.iter().copied().max().unwrap_or(0);
        taken as f64 / f64::from(ring_size(self.options.ring_bytes_per_cpu))
    }

    /// Reads the kernel's own counters.
    ///
    /// # Errors
    /// [`ProbeError::Map`] if the kernel does not give them.
    pub fn counters(&self) -> Result<Counters, ProbeError> {
        let failed = |cause: String| ProbeError::Map { operation: "read", map: "cpus", cause };
        let map = self
            .object
            .maps()
            .find(|m| m.name() == "cpus")
            .ok_or_else(|| failed("not in the object".to_owned()))?;
        let values = map
            .lookup_percpu(&0u32.to_ne_bytes(), MapFlags::ANY)
            .map_err(|e| failed(e.to_string()))?
            .unwrap_or_default();
        let mut counters = Counters::default();
        let time_ns = self.event_clock.now_ns();
        let word = |bytes: &[u8], index: usize| -> u64 {
            let at = index * 8;
            bytes.get(at..at + 8).and_then(|b| b.try_into().ok()).map_or(0, u64::from_ne_bytes)
        };
        for bytes in &values {
            counters.hits += word(bytes, std::mem::offset_of!(mag_cpu, number) / 8);
            counters.unreported += word(bytes, std::mem::offset_of!(mag_cpu, lost) / 8);
            for hop in Hop::ALL {
                let lost = word(bytes, std::mem::offset_of!(mag_cpu, lost_by_hop) / 8 + *hop as usize);
                if lost > 0 {
                    *counters.lost_by_hop.entry(*hop).or_default() += lost;
                }
            }
            counters.heads.0 +=
                word(bytes, std::mem::offset_of!(mag_cpu, kept) / 8 + mag_hop_MAG_HEADS as usize);
            counters.heads.1 +=
                word(bytes, std::mem::offset_of!(mag_cpu, lost_by_hop) / 8 + mag_hop_MAG_HEADS as usize);
            counters.probes.resize(self.info.probes.len(), ProbeCount::default());
            for (number, probe) in counters.probes.iter_mut().enumerate() {
                let of = |offset: usize| word(bytes, offset / 8 + mag_hop_MAG_CUSTOM as usize + number);
                probe.kept += of(std::mem::offset_of!(mag_cpu, kept));
                probe.filtered += of(std::mem::offset_of!(mag_cpu, filtered));
                probe.undecided += of(std::mem::offset_of!(mag_cpu, undecided));
                probe.sampled += of(std::mem::offset_of!(mag_cpu, sampled));
                probe.lost += of(std::mem::offset_of!(mag_cpu, lost_by_hop));
            }
            // one hop after the other, as the counters stand in the kernel's structure
            for hop in Hop::ALL {
                let of = |offset: usize| word(bytes, offset / 8 + *hop as usize);
                let count = HopCount {
                    time_ns,
                    hop: *hop,
                    kept: of(std::mem::offset_of!(mag_cpu, kept)),
                    filtered: of(std::mem::offset_of!(mag_cpu, filtered)),
                    undecided: of(std::mem::offset_of!(mag_cpu, undecided)),
                    sampled: of(std::mem::offset_of!(mag_cpu, sampled)),
                };
                if count.seen() == 0 {
                    continue;
                }
                match counters.hops.iter_mut().find(|known| known.hop == *hop) {
                    Some(known) => {
                        known.kept += count.kept;
                        known.filtered += count.filtered;
                        known.undecided += count.undecided;
                        known.sampled += count.sampled;
                    }
                    None => counters.hops.push(count),
                }
            }
        }
        Ok(counters)
    }

    fn drain(&mut self, batch: &mut Batch) {
        let now = self.event_clock.now_ns();
        self.collector.borrow_mut().taken.fill(0);
        // the callbacks never fail, so the only error left is an interrupted call: what is there comes next time
        let _drained = self.rings.consume_raw();
        let mut collector = self.collector.borrow_mut();
        let Collector { sorter, gaps, aside, undecodable, .. } = &mut *collector;

        batch.flows.append(&mut aside.flows);
        batch.tasks.append(&mut aside.tasks);
        batch.losses.append(&mut aside.losses);
        batch.tcp.append(&mut aside.tcp);
        batch.tcp.sort_by_key(|t| t.time_ns);
        batch.hits.append(&mut aside.hits);
        batch.hits.sort_by_key(|hit| hit.time_ns);
        batch.heads.append(&mut aside.heads);
        batch.heads.sort_by_key(|head| head.time_ns);

        let stopping = self.stopped_at_ns.is_some();
        let watermark = if stopping { u64::MAX } else { now.saturating_sub(HOLD_NS) };
        batch.late = sorter.take(watermark, &mut batch.events);
        self.outside += crop(batch, self.complete_from_ns, self.stopped_at_ns.unwrap_or(u64::MAX));
        let from_ns = self.last_watermark_ns;
        batch.watermark_ns = if stopping { now } else { watermark };
        self.last_watermark_ns = batch.watermark_ns;
        for (cpu, gaps) in gaps.iter_mut().enumerate() {
            let count = gaps.unexplained() + if stopping { gaps.unexplained() } else { 0 };
            if count > 0 {
                batch.losses.push(Loss { cpu: cpu as u16, from_ns, to_ns: now, count, cause: LossCause::Gap });
            }
        }
        if *undecodable > 0 {
            let count = std::mem::take(undecodable);
            batch.losses.push(Loss {
                cpu: u16::MAX,
                from_ns,
                to_ns: now,
                count,
                cause: LossCause::Undecodable,
            });
        }
        if stopping {
            // a ring that was full when its last event came could not say so itself
            let unreported = self.counters().map_or(0, |c| c.unreported);
            if unreported > 0 {
                let loss =
                    Loss { cpu: u16::MAX, from_ns, to_ns: now, count: unreported, cause: LossCause::RingFull };
                batch.losses.push(loss);
            }
        }
    }
}

impl Source for Capture {
    fn info(&self) -> &NodeInfo {
        &self.info
    }

    fn next(&mut self, batch: &mut Batch, timeout: Duration) -> Result<Progress, SourceError> {
        batch.clear();
        if self.finished {
            return Ok(Progress::End);
        }
        if self.stopped_at_ns.is_none() {
            self.doorbell.wait(timeout.min(self.options.watermark.time));
        }
        batch.clock.extend(self.clock.poll());
        batch.changes.append(&mut self.changes);
        self.drain(batch);
        self.finished = self.stopped_at_ns.is_some();
        if self.finished {
            // What comes after the last sample is known worst.
            batch.clock.push(self.clock.sample());
        }
        let due = self.last_counts.is_none_or(|last| last.elapsed() >= COUNTS_INTERVAL) || self.finished;
        if due && self.control.leaves_out() {
            self.last_counts = Some(Instant::now());
            batch.counts = self.counters().map(|counters| counters.hops).unwrap_or_default();
        }
        Ok(Progress::More)
    }
}

/// Leaves out what is not within the two times, and returns how many numbered records that were.
fn crop(batch: &mut Batch, from_ns: u64, to_ns: u64) -> u64 {
    let before = batch.numbered();
    let outside = |time_ns: u64| time_ns < from_ns || time_ns > to_ns;
    // in order of time: mostly nothing has to be touched
    if batch.events.first().is_some_and(|e| outside(e.time_ns))
        || batch.events.last().is_some_and(|e| outside(e.time_ns))
    {
        batch.events.retain(|e| !outside(e.time_ns));
    }
    batch.tcp.retain(|t| !outside(t.time_ns));
    batch.hits.retain(|hit| !outside(hit.time_ns));
    batch.heads.retain(|head| !outside(head.time_ns));
    before - batch.numbered()
}

/// The compiled programs, for kernels with typed casts and without. Aligned, because libbpf reads them in place.
#[repr(align(8))]
struct Aligned<T: ?Sized>(T);
static TYPED_CASTS: &Aligned<[u8]> = &Aligned(*include_bytes!(concat!(env!("OUT_DIR"), "/magnet.bpf.o")));
static PROBE_READS: &Aligned<[u8]> =
    &Aligned(*include_bytes!(concat!(env!("OUT_DIR"), "/magnet-probe-read.bpf.o")));

fn nothing_to_serve(plan: &Plan, asked: HopSet) -> ProbeError {
    let because = asked.iter().find_map(|hop| match plan.coverage.of(hop) {
        Some(Service::Missing { because }) => Some(format!("{hop}: {because}")),
        _ => None,
    });
    let asked = asked.iter().map(Hop::name).collect::<Vec<_>>().join(", ");
    ProbeError::NothingToServe { asked, because: because.unwrap_or_default() }
}

/// Where nothing is said it is the own namespace; and not more than fit.
fn complete(options: &mut CaptureOptions) -> Result<(), ProbeError> {
    if options.netns.is_empty() {
        options.netns.push(NetnsTarget::current()?);
    }
    if !options.every_netns && options.netns.len() > MAG_MAX_NETNS as usize {
        return Err(ProbeError::TooManyNamespaces { asked: options.netns.len(), most: MAG_MAX_NETNS as usize });
    }
    Ok(())
}

/// The TSC, where it is wanted, and the places that cannot read it among those that refuse; or why it cannot be had.
fn opened(facts: &mut HostFacts, wanted: bool) -> (Option<Tsc>, Option<String>) {
    if !wanted {
        return (None, None);
    }
    let opened = facts.tsc_obstacle.clone().map_or_else(|| Tsc::open(facts.cpus), Err);
    match opened {
        Ok(tsc) => {
            facts.refused.extend(without_tsc());
            (Some(tsc), None)
        }
        Err(because) => (None, Some(because)),
    }
}

/// What the ring callbacks fill, for so many CPUs.
fn collector(cpus: usize) -> Rc<RefCell<Collector>> {
    let gaps = vec![Gaps::default(); cpus];
    Rc::new(RefCell::new(Collector { gaps, taken: vec![0; cpus], ..Collector::default() }))
}

fn load(
    facts: &HostFacts,
    plan: &Plan,
    options: &CaptureOptions,
    tsc: Option<&Tsc>,
) -> Result<Object, ProbeError> {
    messages::keep();
    let refused = |e: libbpf_rs::Error| ProbeError::Load { cause: e.to_string(), log: messages::last() };
    let bytes = if facts.typed_casts { &TYPED_CASTS.0 } else { &PROBE_READS.0 };
    let mut open: OpenObject = ObjectBuilder::default().open_memory(bytes).map_err(refused)?;
    let programs = plan.programs();
    for mut program in open.progs_mut() {
        let name = program.name().to_string_lossy().into_owned();
        let way = programs.iter().find(|way| way.program == name);
        program.set_autoload(way.is_some() || name == "find_pages");
        match way {
            Some(way) if matches!(way.backend, Backend::Fentry | Backend::Fexit) => {
                program.set_attach_target(0, Some(way.point.to_owned())).map_err(refused)?;
            }
            // the same program as for single breakpoints
            Some(way) if way.backend == Backend::KprobeMulti => {
                program.set_attach_type(ProgramAttachType::KprobeMulti);
            }
            _ => {}
        }
    }
    let config = config(facts, plan, options, tsc);
    for mut map in open.maps_mut() {
        let name = map.name().to_string_lossy().into_owned();
        if ["rings", "tsc_counters", "tsc_bases"].contains(&name.as_str()) {
            map.set_max_entries(facts.cpus).map_err(refused)?;
        } else if name.ends_with(".rodata.config") || name == ".rodata.config" {
            write_config(&mut map, &config)?;
        }
    }
    let object = open.load().map_err(refused)?;
    if let Some(tsc) = tsc {
        tell_counters(&object, tsc)?;
    }
    Ok(object)
}

fn config(facts: &HostFacts, plan: &Plan, options: &CaptureOptions, tsc: Option<&Tsc>) -> mag_config {
    let jiffy_us = facts.hz.map_or(0, |hz| 1_000_000 / hz);
    let mut config = mag_config {
        hops: plan.served().0,
        jiffy_us,
        epoll_callback: symbols::of_kernel().epoll_callback,
        ..mag_config::default()
    };
    if let Some(Tsc { rate, .. }) = tsc {
        (config.tsc_mult, config.tsc_shift, config.tsc_origin_ns) = (rate.mult, rate.shift, rate.origin_ns);
    }
    if !options.every_netns {
        config.netns_count = options.netns.len() as u32;
        for (slot, target) in config.netns.iter_mut().zip(&options.netns) {
            *slot = target.inode;
        }
    }
    config
}

/// The bytes that the kernel side reads.
pub(crate) fn bytes_of_config(config: &mag_config) -> &[u8] {
    // SAFETY: mag_config is plain integers without padding.
    #[allow(unsafe_code)]
    unsafe {
        std::slice::from_raw_parts(std::ptr::from_ref(config).cast::<u8>(), size_of::<mag_config>())
    }
}

/// Gives the programs each CPU's counter, and the cycle at which that was 0.
fn tell_counters(object: &Object, tsc: &Tsc) -> Result<(), ProbeError> {
    for (cpu, counter) in (0_u32..).zip(&tsc.counters) {
        let Some((counter, base)) = counter else { continue };
        let counter = counter.as_raw_fd().to_ne_bytes();
        for (name, value) in [("tsc_counters", &counter[..]), ("tsc_bases", &base.to_ne_bytes()[..])] {
            let failed = |cause: String| ProbeError::Map { operation: "write", map: name, cause };
            let map = object.maps().find(|m| m.name() == name);
            let map = map.ok_or_else(|| failed("not in the object".to_owned()))?;
            map.update(&cpu.to_ne_bytes(), value, MapFlags::ANY).map_err(|e| failed(e.to_string()))?;
        }
    }
    Ok(())
}

/// Places whose programs may not read a perf event.
fn without_tsc() -> impl Iterator<Item = ((Backend, String), String)> {
    let ways = CANDIDATES.iter().flat_map(|ways| ways.iter());
    let blind = ways.filter(|way| matches!(way.backend, Backend::Netfilter | Backend::CgroupSkb));
    blind.map(|way| ((way.backend, way.point.to_owned()), "programs there cannot read the TSC".to_owned()))
}

fn write_config(map: &mut libbpf_rs::OpenMapMut<'_>, config: &mag_config) -> Result<(), ProbeError> {
    let failed = |cause: &str| ProbeError::Map { operation: "write", map: "config", cause: cause.to_owned() };
    let value = map.initial_value_mut().ok_or_else(|| failed("it has no initial value"))?;
    let bytes = bytes_of_config(config);
    value.get_mut(..bytes.len()).ok_or_else(|| failed("it is too small"))?.copy_from_slice(bytes);
    Ok(())
}

/// The kernel takes powers of two, of a page at least.
fn ring_size(bytes: usize) -> u32 {
    bytes.max(4096).checked_next_power_of_two().and_then(|size| u32::try_from(size).ok()).unwrap_or(1 << 31)
}

fn make_rings(object: &Object, cpus: u32, bytes: usize) -> Result<Vec<MapHandle>, ProbeError> {
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
                .map_err(|e| failed("create", e.to_string()))?;
            let fd = std::os::fd::AsFd::as_fd(&ring).as_raw_fd();
            outer
                .update(&cpu.to_ne_bytes(), &fd.to_ne_bytes(), MapFlags::ANY)
                .map_err(|e| failed("write", e.to_string()))?;
            Ok(ring)
        })
        .collect()
}

fn open_rings(
    maps: &[MapHandle],
    collector: &Rc<RefCell<Collector>>,
) -> Result<RingBuffer<'static>, ProbeError> {
    let failed =
        |e: libbpf_rs::Error| ProbeError::Map { operation: "read", map: "rings", cause: e.to_string() };
    let mut builder = RingBufferBuilder::new();
    for map in maps {
        let collector = Rc::clone(collector);
        let take = move |bytes: &[u8]| {
            collector.borrow_mut().take(bytes);
            0
        };
        builder.add(map, take).map_err(failed)?;
    }
    builder.build().map_err(failed)
}

/// Links of programs, by their names.
pub(crate) type Links = Vec<(&'static str, Vec<Link>)>;

fn attach_all(
    facts: &HostFacts,
    object: &Object,
    plan: &Plan,
    netns: &[NetnsTarget],
) -> Result<Links, ProbeError> {
    plan.programs().iter().map(|probe| Ok((probe.program, attach(facts, object, probe, netns)?))).collect()
}

/// Attaches one program: once, or once a namespace and family.
pub(crate) fn attach(
    facts: &HostFacts,
    object: &Object,
    probe: &Candidate,
    netns: &[NetnsTarget],
) -> Result<Vec<Link>, ProbeError> {
    let failed = |cause: String| ProbeError::Attach {
        hop: probe.hop,
        backend: probe.backend,
        point: probe.point.to_owned(),
        cause,
    };
    let program = object
        .progs_mut()
        .find(|p| p.name() == probe.program)
        .ok_or_else(|| failed("its program is not in the object".to_owned()))?;
    let mut links = Vec::new();
    match probe.backend {
        Backend::Netfilter => {
            for target in netns {
                for family in [libbpf_rs::NFPROTO_IPV4, libbpf_rs::NFPROTO_IPV6] {
                    links.push(target.within(|| attach_netfilter(&program, probe, family))??);
                }
            }
        }
        Backend::CgroupSkb => {
            let root = facts.cgroup2.as_ref().ok_or_else(|| failed("no cgroup v2".to_owned()))?;
            let root = File::open(root).map_err(|e| failed(e.to_string()))?;
            links.push(program.attach_cgroup(root.as_raw_fd()).map_err(|e| failed(e.to_string()))?);
        }
        Backend::Kprobe => {
            let link = program.attach_kprobe(probe.at_return, facts.symbol(probe));
            links.push(link.map_err(|e| failed(e.to_string()))?);
        }
        Backend::KprobeMulti => {
            let link = program.attach_kprobe_multi(probe.at_return, vec![facts.symbol(probe)]);
            links.push(link.map_err(|e| failed(e.to_string()))?);
        }
        _ => links.push(program.attach().map_err(|e| failed(e.to_string()))?),
    }
    Ok(links)
}

/// On the way out before and after everything else that netfilter does; on the way in the same, so that address
/// translation and filters fall between two hops and their time is seen.
fn attach_netfilter(program: &ProgramMut<'_>, probe: &Candidate, family: i32) -> Result<Link, ProbeError> {
    let (hooknum, outermost, inwards) = match probe.hop {
        Hop::IpOut => (libbpf_rs::NF_INET_LOCAL_OUT, i32::MIN + 1, 1),
        Hop::IpPost => (libbpf_rs::NF_INET_POST_ROUTING, i32::MAX - 1, -1),
        Hop::IpPre => (libbpf_rs::NF_INET_PRE_ROUTING, i32::MIN + 1, 1),
        _ => (libbpf_rs::NF_INET_LOCAL_IN, i32::MAX - 1, -1),
    };
    let attach = |priority| {
        let options = NetfilterOpts { protocol_family: family, hooknum, priority, ..NetfilterOpts::default() };
        program.attach_netfilter_with_opts(options)
    };
    // No two programs may have one priority: another capture of this namespace has taken it.
    let places = (0..MAX_CAPTURES).map(|nth| outermost + nth * inwards);
    let mut tries = places.map(attach).skip_while(|tried| {
        // EBUSY has no kind of its own
        matches!(tried, Err(e) if matches!(e.kind(), ErrorKind::Other | ErrorKind::AlreadyExists))
    });
    let link = tries.next().ok_or_else(|| format!("{MAX_CAPTURES} captures are at this place already"));
    link.and_then(|tried| tried.map_err(|e| e.to_string())).map_err(|cause| ProbeError::Attach {
        hop: probe.hop,
        backend: probe.backend,
        point: probe.point.to_owned(),
        cause,
    })
}

/// Captures of one namespace that can stand beside each other at a netfilter hook.
const MAX_CAPTURES: i32 = 32;

// One counter a hop number.
const _: () = assert!(mag_hop_MAG_HOPS == 64);
