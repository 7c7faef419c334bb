//! Leaving out what this kernel does not load, and nothing else.
//!
//! libbpf refuses an object as a whole where one of its programs is refused. So after a refusal that program is loaded alone: first
//! without any ability that no hop needs, then with one more of them each time. What is refused in that order is the cause, and the next
//! attempt does without it.

use super::load::load;
use super::options::complete;
use super::{CaptureOptions, SUMS, load as loading};
use crate::candidates::Candidate;
use crate::custom;
use crate::error::ProbeError;
use crate::facts::HostFacts;
use crate::plan::{Plan, plan};
use crate::tsc::Tsc;
use libbpf_rs::Object;
use magscope_core::hop::HopSet;
use magscope_core::node::Ability;

/// What programs can do without, in the order in which it is added: some rest on those before them.
const OPTIONAL: [Ability; 7] = [
    Ability::Payload,
    Ability::Filter,
    Ability::Pcap,
    // after both that read packets
    Ability::PayloadPages,
    Ability::Sampling,
    Ability::Sums,
    Ability::DropReasons,
];

/// Notes in `facts` what a refusal was about, so that the next plan does without it. Each call takes at least one program or ability
/// away, so repeating it ends.
///
/// # Errors
/// The refusal itself, where it is about no program that can be left out.
pub(super) fn leave_out(
    facts: &mut HostFacts,
    plan: &Plan,
    options: &CaptureOptions,
    tsc: Option<&Tsc>,
    refusal: ProbeError,
) -> Result<(), ProbeError> {
    let ProbeError::Load { program: Some(program), because, .. } = &refusal else { return Err(refusal) };
    if let Some((ability, _)) = loading::AT_THE_START.iter().find(|(_, name)| name == program) {
        return match facts.left_out.insert(*ability, because.clone()) {
            None => Ok(()),
            Some(_) => Err(refusal),
        };
    }
    let programs = plan.programs();
    let Some(way) = programs.iter().find(|way| way.program == program) else { return Err(refusal) };
    let alone = Plan { probes: vec![Candidate { twins: &[], ..*way }], ..Plan::default() };

    let mut tried = facts.clone();
    for ability in OPTIONAL.into_iter().chain([Ability::EpollWakeUps]) {
        tried.left_out.entry(ability).or_default();
    }
    let mut found = None;
    match load(&tried, &alone, options, None) {
        Err(ProbeError::Load { because, .. }) => found = Some((None, because)),
        Err(other) => return Err(other),
        Ok(_) => {
            for ability in OPTIONAL.into_iter().filter(|ability| !facts.left_out.contains_key(ability)) {
                tried.left_out.remove(&ability);
                if let Err(ProbeError::Load { because, .. }) = load(&tried, &alone, options, None) {
                    found = Some((Some(ability), because));
                    break;
                }
            }
            if found.is_none()
                && tsc.is_some()
                && let Err(ProbeError::Load { because, .. }) = load(&tried, &alone, options, tsc)
            {
                found = Some((Some(Ability::Tsc), because));
            }
        }
    }
    match found {
        Some((Some(ability), because)) => drop(facts.left_out.insert(ability, because)),
        // alone it loads with everything: what is not understood is left out whole
        found => {
            let because = found.map_or_else(|| because.clone(), |(_, because)| because);
            facts.unloadable.insert(program.clone(), because);
        }
    }
    Ok(())
}

/// Loads programs for every hop, attaches nothing and lets go of them: the facts with what did not load.
///
/// # Errors
/// What keeps any capture from being started, as [`super::Capture::start`].
pub fn tried(facts: &HostFacts) -> Result<HostFacts, ProbeError> {
    let mut facts = facts.clone();
    let mut options = CaptureOptions { hops: HopSet::all(), sums: SUMS, ..CaptureOptions::default() };
    complete(&mut options)?;
    drop(fitted(&mut facts, &options, None)?);
    if let Err(because) = custom::loads() {
        facts.left_out.entry(Ability::CustomProbes).or_insert(because);
    }
    let mut with_tsc = facts.clone();
    match loading::opened(&mut with_tsc, true) {
        (Some(tsc), _) => {
            if fitted(&mut with_tsc, &options, Some(&tsc)).is_ok()
                && let Some(because) = with_tsc.left_out.remove(&Ability::Tsc)
            {
                facts.left_out.insert(Ability::Tsc, because);
            }
        }
        (None, because) => drop(facts.left_out.insert(Ability::Tsc, because.unwrap_or_default())),
    }
    Ok(facts)
}

/// Loads a plan of these hops, less what does not load.
fn fitted(
    facts: &mut HostFacts,
    options: &CaptureOptions,
    tsc: Option<&Tsc>,
) -> Result<Option<Object>, ProbeError> {
    loop {
        let plan = plan(facts, options.hops);
        if plan.probes.is_empty() {
            return Ok(None);
        }
        let tsc = tsc.filter(|_| !facts.left_out.contains_key(&Ability::Tsc));
        match load(facts, &plan, options, tsc) {
            Ok(object) => return Ok(Some(object)),
            Err(refusal) => leave_out(facts, &plan, options, tsc, refusal)?,
        }
    }
}
