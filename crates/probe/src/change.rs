//! Changes to a running capture, limited to the affected hops.
//!
//! A hop that is switched off is detached, if the process can attach it again, and then costs nothing. Raw
//! tracepoints and netfilter hooks need no privileges for that. Perf events, cgroups and other namespaces do
//! need privileges: there the program stays attached and returns at its first instruction. So it does while a
//! child of this process has a copy of its link.

use crate::candidates::Candidate;
use crate::capture::{Capture, CaptureOptions, attach, need};
use crate::children;
use crate::control::Control;
use crate::error::ProbeError;
use crate::facts::CAP_SYS_ADMIN;
use crate::filter::Program;
use crate::netns::NetnsTarget;
use crate::plan::plan_by;
use crate::record::mag_insn;
use crate::restarts::Restarts;
use crate::setting::{Detail, Setting};
use libbpf_rs::{MapCore, Object};
use magscope_core::hop::HopSet;
use magscope_core::node::{Ability, Backend, Service};
use magscope_core::{CaptureFilter, Change, Hop};
use std::time::Duration;

/// A child starts within milliseconds, on a machine that is very busy within some hundred.
const PATIENCE: Duration = Duration::from_secs(2);

/// Beginning of the names of the breakpoints at the calls and returns of reads.
const READ_RETURNS: &str = "kprobe_app_recv";

/// Hops that run in process context and therefore map a socket to its process.
pub(crate) fn teachers() -> HopSet {
    [Hop::AppSend, Hop::AppRecv, Hop::TcpSend].into_iter().collect()
}

/// Applies the initial options.
pub(crate) fn put_in_force(
    control: &mut Control,
    options: &CaptureOptions,
    program: Option<Program>,
    pcap: Option<&[mag_insn]>,
) -> Result<(), ProbeError> {
    control.set_watermark(options.watermark);
    control.set_flow_sampling(options.flow_one_in);
    options.samplers.iter().for_each(|(hop, sampler)| control.set_sampler(*hop, *sampler));
    if options.detail.adds_up() && options.sums == 0 {
        return Err(ProbeError::NoRoom);
    }
    if options.detail.adds_up() && control.samples() {
        return Err(ProbeError::SampledSums);
    }
    control.set_detail(options.detail);
    options.snap.iter().for_each(|(hop, bytes)| control.set_snap(*hop, *bytes));
    if program.is_some() {
        control.set_filter(program)?;
    }
    if pcap.is_some() {
        control.set_pcap(pcap)?;
    }
    Ok(())
}

impl Capture {
    /// Applies a change and records it for the next batch.
    ///
    /// # Errors
    /// [`ProbeError::Switch`] for hops that are not loaded or cannot be attached again, [`ProbeError::Filter`]
    /// for a filter with unresolved names, [`ProbeError::SampledSums`] for sums beside a sampler. On an error the earlier
    /// settings stay in force.
    pub fn change(&mut self, setting: &Setting) -> Result<(), ProbeError> {
        let (adds_up, samples) = match setting {
            Setting::Detail(detail) => (detail.adds_up(), self.control.samples()),
            Setting::Sample(_, sampler) => (self.detail().adds_up(), sampler.samples()),
            Setting::SampleFlows(one_in) => (self.detail().adds_up(), *one_in > 1),
            _ => (false, false),
        };
        if adds_up && samples { Err(ProbeError::SampledSums) } else { self.apply(setting) }
    }

    /// The same without the check of sums beside a sampler: the governor reports when its sums are of sampled flows.
    pub(crate) fn apply(&mut self, setting: &Setting) -> Result<(), ProbeError> {
        if let Some(ability) = rests_on(setting) {
            need(&self.facts, ability)?;
        }
        let from_ns = self.event_clock.now_ns();
        match setting {
            Setting::Enable(hops) => self.enable(*hops)?,
            Setting::Disable(hops) => self.disable(*hops)?,
            Setting::Filter(filter) => self.set_filter(filter.as_ref())?,
            Setting::Pcap(text) => {
                let program = text.as_deref().map(crate::pcap::compile).transpose()?;
                self.control.set_pcap(program.as_deref())?;
                self.options.pcap.clone_from(text);
            }
            Setting::Snap(hops, bytes) => hops.iter().for_each(|hop| self.control.set_snap(hop, *bytes)),
            Setting::Sample(hops, sampler) => {
                hops.iter().for_each(|hop| self.control.set_sampler(hop, *sampler));
            }
            Setting::SampleFlows(one_in) => self.control.set_flow_sampling(*one_in),
            Setting::Detail(detail) => self.set_detail(*detail)?,
            Setting::Probe(name, on) => self.switch_probe(name, *on)?,
            Setting::Watermark(watermark) => {
                self.options.watermark = *watermark;
                self.control.set_watermark(*watermark);
            }
        }
        self.changes.push(Change { from_ns, to_ns: self.event_clock.now_ns(), what: setting.to_string() });
        Ok(())
    }

    /// The hops that are on.
    pub fn hops(&self) -> HopSet {
        self.control.hops()
    }

    /// The hops that can be on: those that are loaded.
    pub fn switchable(&self) -> HopSet {
        self.loaded.served()
    }

    /// True if the program of a switched-off hop is still attached.
    pub fn lingers(&self, hop: Hop) -> bool {
        let mut candidates = self.loaded.probes.iter().filter(|candidate| candidate.hop == hop);
        !self.hops().contains(hop)
            && candidates.any(|candidate| self.links.iter().any(|(program, _)| *program == candidate.program))
    }

    /// Level of detail of accepted hits.
    pub fn detail(&self) -> Detail {
        self.control.detail()
    }

    /// The flow sampler: one in this many flows is accepted.
    pub fn flow_one_in(&self) -> u32 {
        self.control.flow_one_in()
    }

    /// Filters, samplers and extras in force, as settings that restore them.
    pub fn in_force(&self) -> Vec<String> {
        let mut settings = Vec::new();
        if let Some(filter) = &self.options.filter {
            settings.push(Setting::Filter(Some(filter.clone())));
        }
        settings.extend(self.options.pcap.clone().map(|text| Setting::Pcap(Some(text))));
        if self.control.flow_one_in() > 1 {
            settings.push(Setting::SampleFlows(self.control.flow_one_in()));
        }
        if self.control.detail() != Detail::Full {
            settings.push(Setting::Detail(self.control.detail()));
        }
        for hop in Hop::ALL {
            let (sampler, only) = (self.control.sampler(*hop), [*hop].into_iter().collect());
            if sampler.samples() {
                settings.push(Setting::Sample(only, sampler));
            }
            if self.control.snap(*hop) > 0 {
                settings.push(Setting::Snap(only, self.control.snap(*hop)));
            }
        }
        let off = self.info.probes.iter().enumerate().filter(|(number, _)| !self.control.custom_is_on(*number));
        settings.extend(off.map(|(_, probe)| Setting::Probe(probe.name.clone(), false)));
        settings.iter().map(ToString::to_string).collect()
    }

    /// A custom probe stays attached when it is off, and leaves at its first instruction: not every kind could be attached again
    /// without privileges.
    fn switch_probe(&mut self, name: &str, on: bool) -> Result<(), ProbeError> {
        let names = || self.info.probes.iter().map(|probe| probe.name.as_str());
        let Some(number) = names().position(|existing| existing == name) else {
            let there = names().collect::<Vec<_>>().join(", ");
            let cause = if there.is_empty() {
                "the capture has no custom probe; start it with `--probe`".to_owned()
            } else {
                format!("no probe is called so; there are {there}")
            };
            return Err(ProbeError::Custom { probe: name.to_owned(), cause });
        };
        self.control.switch_custom(number, on);
        Ok(())
    }

    fn enable(&mut self, hops: HopSet) -> Result<(), ProbeError> {
        for hop in hops.iter() {
            if !self.switchable().contains(hop) {
                let because = match plan_by(&self.facts, [hop].into_iter().collect(), self.options.backend)
                    .coverage
                    .of(hop)
                {
                    Some(Service::Missing { because }) => because.clone(),
                    _ => format!("it was not loaded when the capture began; start it with `--hops +{hop}`"),
                };
                return Err(ProbeError::Switch { hop, because });
            }
        }
        let on = HopSet(self.hops().0 | hops.0);
        self.rewire(on)?;
        self.control.set_hops(on);
        self.cover(on);
        Ok(())
    }

    fn disable(&mut self, hops: HopSet) -> Result<(), ProbeError> {
        let on = HopSet(self.hops().0 & !hops.0);
        self.control.set_hops(on);
        self.cover(on);
        self.rewire(on)
    }

    fn set_detail(&mut self, detail: Detail) -> Result<(), ProbeError> {
        if detail.adds_up() && self.options.sums == 0 {
            return Err(ProbeError::NoRoom);
        }
        if detail.adds_up() {
            self.synthesis.expect();
        }
        self.control.set_detail(detail);
        self.options.detail = detail;
        Ok(())
    }

    fn set_filter(&mut self, filter: Option<&CaptureFilter>) -> Result<(), ProbeError> {
        // A container that started later has a name by now.
        let names = self.names.clone().with(&self.info.containers);
        let program = filter.map(|filter| Program::compile(filter, &names)).transpose()?;
        let before = std::mem::replace(&mut self.options.filter, filter.cloned());
        if let Err(error) = self.rewire(self.hops()) {
            self.options.filter = before;
            return Err(error);
        }
        self.control.set_filter(program)?;
        self.restarts = Restarts::of(names.cgroups_of(filter));
        // only now: what the old filter lived on may go
        self.rewire(self.hops())
    }

    /// Attaches the programs of `hops`; detaches unused programs that can be attached again.
    pub(crate) fn rewire(&mut self, hops: HopSet) -> Result<(), ProbeError> {
        let learns =
            self.control.learns() || self.options.filter.as_ref().is_some_and(CaptureFilter::needs_memory);
        let taught = learns && self.options.filter.as_ref().is_some_and(CaptureFilter::needs_memory);
        let wanted = HopSet(hops.0 | if taught { teachers().0 } else { 0 });
        let wanted = HopSet(wanted.0 & self.loaded.served().0);
        let programs = plan_by(&self.facts, wanted, self.options.backend);
        if taught && !programs.probes.iter().any(|candidate| teachers().contains(candidate.hop)) {
            return Err(ProbeError::Switch {
                hop: Hop::AppSend,
                because:
                    "the filter asks for a process, and no hop is loaded that sees processes at work; start \
                          the capture with the filter, or with `--hops +app.send,+app.recv`"
                        .to_owned(),
            });
        }
        let programs = programs.programs();
        for probe in &programs {
            if self.links.iter().any(|(program, _)| *program == probe.program) {
                continue;
            }
            if !self.files.wait_for_closed(PATIENCE) {
                let because = "another process still has its closed link: a child of this program that \
                               started a moment ago; try again when it has ended"
                    .to_owned();
                return Err(ProbeError::Switch { hop: probe.hop, because });
            }
            let reads = |program: &str| program.starts_with(READ_RETURNS);
            if reads(probe.program) && !self.links.iter().any(|(program, _)| reads(program)) {
                forget_begun_reads(&self.object);
            }
            let links = attach(&self.facts, &self.object, probe, &self.options)?;
            self.links.push((probe.program, links));
        }
        let netns = &self.options.netns;
        let privileged = holds_privileges();
        let loaded = self.loaded.programs();
        let stays = |program: &str| {
            programs.iter().any(|probe| probe.program == program)
                || loaded.iter().any(|probe| probe.program == program && !can_return(probe, netns, privileged))
        };
        let _no_child_starts = children::alone();
        // Otherwise it stays attached, returns at its first instruction, and a later change closes it.
        if self.links.iter().any(|(program, _)| !stays(program)) && self.files.are_ours_alone() {
            self.links.retain(|(program, _)| stays(program));
            self.files.closed();
        }
        Ok(())
    }

    /// Updates the coverage.
    fn cover(&mut self, on: HopSet) {
        self.info.coverage = plan_by(&self.facts, on, self.options.backend).coverage;
    }
}

/// Deletes the stored calls of reads. They are from a time when the returns were followed, and have returned unseen since.
fn forget_begun_reads(object: &Object) {
    if let Some(map) = object.maps().find(|map| map.name() == "recv_calls") {
        for thread in map.keys().collect::<Vec<_>>() {
            // One that has returned meanwhile is gone.
            let _ = map.delete(&thread);
        }
    }
}

/// The ability that a setting requires.
fn rests_on(setting: &Setting) -> Option<Ability> {
    match setting {
        Setting::Filter(Some(_)) => Some(Ability::Filter),
        Setting::Pcap(Some(_)) => Some(Ability::Pcap),
        Setting::Snap(_, bytes) if *bytes > 0 => Some(Ability::Payload),
        Setting::Sample(_, sampler) if sampler.samples() => Some(Ability::Sampling),
        Setting::SampleFlows(one_in) if *one_in > 1 => Some(Ability::Sampling),
        Setting::Detail(detail) if detail.adds_up() => Some(Ability::Sums),
        _ => None,
    }
}

/// True if a process with the same rights can attach the program again.
fn can_return(probe: &Candidate, netns: &[NetnsTarget], privileged: bool) -> bool {
    let here = || NetnsTarget::current().map(|here| here.inode).ok();
    match probe.backend {
        _ if privileged => true,
        Backend::TpBtf | Backend::Fentry | Backend::Fexit => true,
        Backend::Netfilter => netns.iter().all(|target| Some(target.inode) == here()),
        _ => false,
    }
}

fn holds_privileges() -> bool {
    let held = rustix::thread::capabilities(None).map(|sets| sets.effective.bits()).unwrap_or_default();
    held & (1 << CAP_SYS_ADMIN) != 0
}
