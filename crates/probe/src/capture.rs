//! Driver of libbpf: loads and attaches a plan, drains the rings and cleans up.
//!
//! Nothing is pinned: programs, maps and links belong to file descriptors of this process. The kernel therefore
//! removes all of them however the process ends.

mod attach;
mod cause;
mod counters;
mod fit;
mod load;
mod mapped;
mod options;
mod refused;
mod rings;
mod synthesis;

pub(crate) use attach::{Links, attach};
pub use counters::{Counters, ProbeCount};
pub use fit::tried;
pub(crate) use load::bytes_of_config;
pub(crate) use mapped::MappedRings;
pub(crate) use options::need;
pub use options::{CaptureOptions, RingKind, SUMS};

use crate::addresses;
use crate::change::{put_in_force, teachers};
use crate::children::SharedFiles;
use crate::clock::{ClockSampler, EventClock};
use crate::control::Control;
use crate::custom::{self, Attached};
use crate::deciders;
use crate::doorbell::Doorbell;
use crate::error::ProbeError;
use crate::facts::HostFacts;
use crate::filter::Program;
use crate::filter::names::HostNames;
use crate::interfaces::InterfaceWatch;
use crate::order::{HOLD_NS, take_until};
use crate::pages;
use crate::pcap;
use crate::plan::{Plan, plan_by};
use crate::restarts::Restarts;
use crate::setting::Setting;
use crate::time_namespace::TimeOffsets;
use crate::tsc::Tsc;
use crate::unfollowed;
use crate::workload;
use attach::{attach_all, may_be_refused};
pub(crate) use cause::words;
use libbpf_rs::{MapHandle, Object, RingBuffer};
use load::{config, load, opened, without_tsc};
use magscope_core::foreign::clean;
use magscope_core::hop::HopSet;
use magscope_core::node::{Ability, CgroupName, Coverage, NetnsName, NodeInfo, Service};
use magscope_core::source::{Progress, Source, SourceError};
use magscope_core::synthesis::outermost;
use magscope_core::workload::Names;
use magscope_core::{Batch, Change, CustomProbe, Hop, Loss, LossCause};
use options::complete;
use refused::Refused;
pub(crate) use refused::refused_by;
use rings::{Collector, collector, make_rings, open_rings, ring_size};
use std::cell::RefCell;
use std::rc::Rc;
use std::time::{Duration, Instant};

/// Minimum interval between two batches with kernel counters, if a filter or sampler is active.
const COUNTS_INTERVAL: Duration = Duration::from_secs(1);

/// A live capture: a [`Source`] of what the kernel sees.
pub struct Capture {
    // Drop order matters: links first, so that no program runs while the rest is freed.
    pub(crate) links: Links,
    pub(crate) files: SharedFiles,
    customs: Vec<Attached>,
    rings: RingBuffer<'static>,
    mapped: Option<MappedRings>,
    pub(crate) object: Object,
    _ring_maps: Vec<MapHandle>,
    doorbell: Doorbell,
    /// Waits that a watermark ended.
    wakeups: u64,
    pub(crate) control: Control,
    pub(crate) facts: HostFacts,
    /// Everything that is loaded, attached or not.
    pub(crate) loaded: Plan,
    pub(crate) names: HostNames,
    pub(crate) changes: Vec<Change>,
    /// Notices changes of rules that drop packets.
    rules: Option<deciders::RuleWatch>,
    interfaces: InterfaceWatch,
    /// Names of containers, pods and units.
    workloads: Option<workload::Watch>,
    /// Restarts of what the filter names.
    pub(crate) restarts: Restarts,
    collector: Rc<RefCell<Collector>>,
    pub(crate) info: NodeInfo,
    pub(crate) options: CaptureOptions,
    last_counts: Option<Instant>,
    pub(crate) synthesis: synthesis::Reader,
    clock: ClockSampler,
    pub(crate) event_clock: EventClock,
    clock_fallback: Option<String>,
    /// TSC data that the programs read; closed with the capture.
    _tsc: Option<Tsc>,
    last_watermark_ns: u64,
    /// Time from which all probes are attached. Probes attach one after the other, so earlier events are
    /// dropped: every hop of the coverage must be able to appear at every instant.
    complete_from_ns: u64,
    stopped_at_ns: Option<u64>,
    outside: u64,
    refused: Refused,
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

    /// Starts a capture with facts that were read before.
    ///
    /// # Errors
    /// As [`Capture::start`].
    pub fn start_on(facts: &HostFacts, mut options: CaptureOptions) -> Result<Self, ProbeError> {
        facts.check()?;
        TimeOffsets::of_this_process().map_err(|because| ProbeError::TimeNamespace { because })?;
        complete(&mut options)?;
        let files = SharedFiles::new();
        let (workloads, first_names) = workload::Watch::of(&mut options, facts);
        let names = HostNames::read(&options.netns, facts.cgroup2.clone()).with(&first_names.containers);
        let program = options.filter.as_ref().map(|filter| Program::compile(filter, &names)).transpose()?;
        let pcap = options.pcap.as_deref().map(pcap::compile).transpose()?;
        let mut along = HopSet(options.hops.0 | options.switchable.0);
        if program.as_ref().is_some_and(|program| program.learn) {
            along = HopSet(along.0 | teachers().0);
        }
        let mut facts = facts.clone();
        let (mut tsc, mut clock_fallback) = opened(&mut facts, options.tsc);
        let mapped = MappedRings::wanted(&facts, &options, options.ring_bytes_per_cpu);
        let (plan, loaded, object, ring_maps, links) = loop {
            let plan = plan_by(&facts, options.hops, options.backend);
            if plan.probes.is_empty() {
                return Err(nothing_to_serve(&plan, options.hops));
            }
            let loaded = plan_by(&facts, along, options.backend);
            let object = match load(&facts, &loaded, &options, tsc.as_ref(), mapped.as_ref()) {
                Ok(object) => object,
                Err(refusal) => {
                    fit::leave_out(&mut facts, &loaded, &options, tsc.as_ref(), mapped.as_ref(), refusal)?;
                    if let Some(because) = facts.left_out.get(&Ability::Tsc)
                        && tsc.take().is_some()
                    {
                        // Programs that cannot read it are welcome again.
                        clock_fallback = Some(because.clone());
                        without_tsc().for_each(|(place, _)| drop(facts.refused.remove(&place)));
                    }
                    continue;
                }
            };
            options::allowed(&facts, &options)?;
            let ring_maps = make_rings(&object, facts.cpus, kernel_ring_bytes(&options, mapped.as_ref()))?;
            match attach_all(&facts, &object, &plan, &options) {
                Ok(links) => break (plan, loaded, object, ring_maps, links),
                // An attach point may exist and still refuse probes; the next candidate may work, and else the
                // hop is missing for that reason. Each round removes one attach point, so the loop ends.
                Err(ProbeError::Attach { backend, point, cause, .. }) if may_be_refused(backend) => {
                    facts.refused.insert((backend, point), cause);
                }
                Err(error) => return Err(error),
            }
        };
        let config = config(&facts, &loaded, &options, tsc.as_ref(), mapped.as_ref());
        let (probes, customs) = custom::attach_all(&facts, &object, &config, &options.probes)?;
        let collector = collector(facts.cpus as usize);
        let rings = open_rings(&ring_maps, &collector, mapped.is_none())?;
        let mut control = Control::new(&object, &ring_maps[0])?;

        let event_clock = tsc.as_ref().map_or(EventClock::Monotonic, |tsc| EventClock::Tsc(tsc.rate));
        let mut info = node_info(&facts, &options, event_clock, probes, &names);
        info.learn(&first_names);
        // Before the lists are read, so that no change is between. A list whose changes go unnoticed names nobody.
        let rules = deciders::RuleWatch::new(&options.netns, event_clock.now_ns());
        if rules.is_some() {
            deciders::read(&options.netns, facts.cgroup2.as_deref(), &mut info);
        }
        set_kernel_addresses(&object, &control, &mut facts);
        info.coverage = plan_by(&facts, options.hops, options.backend).coverage;
        put_in_force(&mut control, &options, program, pcap.as_deref())?;
        let mut capture = Capture {
            synthesis: synthesis::Reader::new(&object, loaded.served(), event_clock.now_ns())?,
            links,
            files,
            customs,
            rings,
            mapped,
            object,
            doorbell: Doorbell::new(&ring_maps)?,
            _ring_maps: ring_maps,
            wakeups: 0,
            control,
            facts,
            loaded,
            restarts: Restarts::of(names.cgroups_of(options.filter.as_ref())),
            names,
            changes: Vec::new(),
            rules,
            interfaces: InterfaceWatch::new(&options.netns),
            workloads,
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
            refused: Refused::default(),
            finished: false,
        };
        capture.info.settings = capture.in_force();
        capture.rewire(plan.served())?;
        capture.control.set_custom(capture.customs.len());
        // all hops at once, after the last one is attached
        capture.control.set_hops(plan.served());
        capture.complete_from_ns = event_clock.now_ns();
        Ok(capture)
    }

    /// Detaches every probe. Later batches still deliver the content of the rings; the last batch is marked
    /// `End`.
    pub fn stop(&mut self) {
        let event_clock = self.event_clock;
        self.stopped_at_ns.get_or_insert_with(|| event_clock.now_ns());
        self.control.set_custom(0);
        self.control.set_hops(HopSet::EMPTY);
        self.links.clear();
        self.refused.part_with(self.customs.iter().map(Attached::refused).sum());
        self.customs.clear();
    }

    /// Facts about this host, including programs that failed to load.
    pub fn facts(&self) -> &HostFacts {
        &self.facts
    }

    /// The reason for events without TSC time stamps although the TSC was requested.
    pub fn clock_fallback(&self) -> Option<&str> {
        self.clock_fallback.as_deref()
    }

    /// Kind of the rings in use.
    pub fn ring(&self) -> RingKind {
        if self.mapped.is_some() { RingKind::Mapped } else { RingKind::Kernel }
    }

    /// Number of waits of the reader that a watermark of events or bytes ended, and no timeout or signal.
    pub fn wakeups(&self) -> u64 {
        self.wakeups
    }

    /// Events dropped because they occurred during attach or detach.
    pub fn outside(&self) -> u64 {
        self.outside
    }

    /// Fill ratio of the fullest ring at the last drain, 0 to 1. Concurrent writes can raise it slightly above
    /// 1.
    pub fn ring_fill_ratio(&self) -> f64 {
        let taken = self.collector.borrow().taken.iter().copied().max().unwrap_or(0);
        taken as f64 / f64::from(ring_size(self.options.ring_bytes_per_cpu))
    }

    /// Reads the kernel's own counters.
    ///
    /// # Errors
    /// [`ProbeError::Map`] if the kernel does not give them.
    pub fn counters(&self) -> Result<Counters, ProbeError> {
        let (probes, outermost) = (self.info.probes.len(), outermost(self.hops()));
        let counters = Counters::read(&self.object, probes, outermost, self.event_clock.now_ns())?;
        Ok(Counters { refused: self.refused.so_far(), ..counters })
    }

    /// Number of records read from the kernel so far.
    pub(crate) fn records_read(&self) -> u64 {
        self.collector.borrow().records
    }

    /// Adds the names of new interfaces. They hold for all events that the capture has not handed out.
    fn name_interfaces(&mut self, batch: &mut Batch) {
        let mut interfaces = self.interfaces.news();
        interfaces.retain(|name| !self.info.interfaces.contains(name));
        if interfaces.is_empty() {
            return;
        }
        self.names.learn(&interfaces);
        let time_ns = self.last_watermark_ns.max(self.complete_from_ns);
        let names = Names { time_ns, interfaces, ..Names::default() };
        self.info.learn(&names);
        batch.names.push(names);
    }

    /// Moves what the rings hold into the batch, with what was lost.
    pub(crate) fn drain(&mut self, batch: &mut Batch) {
        let now = self.event_clock.now_ns();
        self.collector.borrow_mut().taken.fill(0);
        // the callbacks never fail, so the only possible error is an interrupted call; the next drain reads the
        // rest
        let _drained = self.rings.consume_raw();
        let mut collector = self.collector.borrow_mut();
        if let Some(mapped) = &self.mapped {
            for cpu in 0..mapped.cpus() {
                let taken = mapped.read(cpu, |bytes| collector.take(bytes));
                if let Some(of_cpu) = collector.taken.get_mut(cpu as usize) {
                    *of_cpu = taken;
                }
            }
        }
        let Collector { sorter, gaps, aside, undecodable, .. } = &mut *collector;

        batch.flows.append(&mut aside.flows);
        batch.tasks.append(&mut aside.tasks);
        batch.losses.append(&mut aside.losses);

        let stopping = self.stopped_at_ns.is_some();
        let watermark = if stopping { u64::MAX } else { now.saturating_sub(HOLD_NS) };
        batch.late = sorter.take(watermark, &mut batch.events);
        take_until(&mut aside.tcp, watermark, |sample| sample.time_ns, &mut batch.tcp);
        take_until(&mut aside.hits, watermark, |hit| hit.time_ns, &mut batch.hits);
        take_until(&mut aside.heads, watermark, |head| head.time_ns, &mut batch.heads);
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
        let (object, customs) = (&self.object, &self.customs);
        let asked = || refused_by(object) + customs.iter().map(Attached::refused).sum::<u64>();
        let count = self.refused.since(asked, stopping);
        if count > 0 {
            batch.losses.push(Loss { cpu: u16::MAX, from_ns, to_ns: now, count, cause: LossCause::Refused });
        }
        if stopping {
            // a ring that was full at its last event has no loss record in the ring
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
            let is_woken = self.doorbell.wait(timeout.min(self.options.watermark.time));
            self.wakeups += u64::from(is_woken);
        }
        batch.clock.extend(self.clock.poll());
        if self.restarts.are_new() {
            // A refused one stays as it was, and is tried again.
            let _ = self.change(&Setting::Filter(self.options.filter.clone()));
        }
        batch.changes.append(&mut self.changes);
        self.name_interfaces(batch);
        self.drain(batch);
        // After the drain, so that no event of a later instant is in this batch.
        if let Some(rules) = &mut self.rules {
            batch.changes.append(&mut rules.changes(self.event_clock.now_ns()));
        }
        if let Some(workloads) = &mut self.workloads {
            workloads.turn(&mut self.info, batch, self.last_watermark_ns.max(self.complete_from_ns));
        }
        self.finished = self.stopped_at_ns.is_some();
        if self.finished {
            // A final sample narrows the clock bound of the last events.
            batch.clock.push(self.clock.sample());
        }
        let due = self.last_counts.is_none_or(|last| last.elapsed() >= COUNTS_INTERVAL) || self.finished;
        // the kernel drops a switch end without a start, with any setting
        let leaves_out = self.control.leaves_out() || self.info.coverage.served().contains(Hop::SchedSwitched);
        if due && leaves_out {
            self.last_counts = Some(Instant::now());
            batch.counts = self.counters().map(|counters| counters.hops).unwrap_or_default();
        }
        if self.options.sums > 0 {
            let now = self.event_clock.now_ns();
            self.synthesis.read(&self.control, now, self.finished, &mut batch.synthesis)?;
        }
        Ok(Progress::More)
    }
}

/// Removes records outside the two times and returns the number of removed numbered records.
fn crop(batch: &mut Batch, from_ns: u64, to_ns: u64) -> u64 {
    let before = batch.numbered();
    let outside = |time_ns: u64| time_ns < from_ns || time_ns > to_ns;
    // records are in time order: most batches need no change
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

/// Runs the helper programs that read kernel addresses and passes the results to the capture's programs.
fn set_kernel_addresses(object: &Object, control: &Control, facts: &mut HostFacts) {
    let mut left_out = |ability: Ability, because: &str| {
        facts.left_out.entry(ability).or_insert_with(|| because.to_owned());
    };
    match pages::base(object) {
        Some(base) => control.set_page_base(base),
        None => left_out(Ability::PayloadPages, "the kernel's lists of slabs do not show where pages are"),
    }
    let found = addresses::find(object).map(|()| control.functions());
    if found.is_none_or(|functions| functions.contains(&0)) {
        let because = facts.left_out.get(&Ability::EpollWakeUps).cloned();
        let because = because.unwrap_or_else(|| "the functions of a TCP socket were not found".to_owned());
        let effect = "sockets of kTLS, MPTCP and sockmap are taken for a process's own";
        facts.left_out.insert(Ability::EpollWakeUps, format!("{because}; {effect}"));
    }
}

/// Size of the kernel's rings. With mapped rings they hold wake-ups alone.
fn kernel_ring_bytes(options: &CaptureOptions, mapped: Option<&MappedRings>) -> usize {
    if mapped.is_some() { 0 } else { options.ring_bytes_per_cpu }
}

fn nothing_to_serve(plan: &Plan, asked: HopSet) -> ProbeError {
    let because = asked.iter().find_map(|hop| match plan.coverage.of(hop) {
        Some(Service::Missing { because }) => Some(format!("{hop}: {because}")),
        _ => None,
    });
    let asked = asked.iter().map(Hop::name).collect::<Vec<_>>().join(", ");
    ProbeError::NothingToServe { asked, because: because.unwrap_or_default() }
}

/// The host's description for recordings, before coverage and settings are filled in.
fn node_info(
    facts: &HostFacts,
    options: &CaptureOptions,
    clock: EventClock,
    probes: Vec<CustomProbe>,
    names: &HostNames,
) -> NodeInfo {
    let netns = options.netns.iter();
    let cgroups = facts.cgroup2.as_deref().map(crate::cgroups::names).unwrap_or_default();
    NodeInfo {
        tells_order: true,
        host: clean(&facts.host).into_owned(),
        kernel: clean(&facts.kernel).into_owned(),
        boot_id: facts.boot_id.clone(),
        cpus: facts.cpus,
        clock: clock.name().to_owned(),
        netns: netns.map(|n| NetnsName { netns: n.inode, name: clean(&n.name).into_owned() }).collect(),
        cgroups: cgroups.into_iter().map(|c| CgroupName { path: clean(&c.path).into_owned(), ..c }).collect(),
        containers: Vec::new(),
        interfaces: names.interfaces().collect(),
        settings: Vec::new(),
        several: None,
        drop_reasons: facts.drop_reasons.clone(),
        reset_reasons: facts.reset_reasons.clone(),
        programs: Vec::new(),
        chains: Vec::new(),
        lists_deciders: false,
        not_followed: unfollowed::read(&options.netns),
        coverage: Coverage::default(),
        probes,
    }
}
