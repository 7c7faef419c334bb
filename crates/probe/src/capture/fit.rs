//! Adapts a plan to programs and abilities that this kernel refuses to load.
//!
//! libbpf refuses a whole object if one program is refused. After a refusal that program is therefore loaded
//! alone: first without optional abilities, then with one more each time. The first refused ability is the
//! cause, and the next attempt omits it.

use super::load::load;
use super::mapped::MappedRings;
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

/// Optional abilities in the order of addition; some require earlier ones.
const OPTIONAL: [Ability; 8] = [
    Ability::Payload,
    Ability::Filter,
    Ability::Pcap,
    // after both packet readers
    Ability::PayloadPages,
    Ability::Sampling,
    Ability::Sums,
    Ability::DropReasons,
    Ability::EpollWakeUps,
];

/// Records in `facts` the cause of a refusal, so that the next plan omits it. Each call removes at least one
/// program or ability, so a retry loop ends.
///
/// # Errors
/// The refusal itself, if no removable program caused it.
pub(super) fn leave_out(
    facts: &mut HostFacts,
    plan: &Plan,
    options: &CaptureOptions,
    tsc: Option<&Tsc>,
    rings: Option<&MappedRings>,
    refusal: ProbeError,
) -> Result<(), ProbeError> {
    let ProbeError::Load { program: Some(program), because, .. } = &refusal else { return Err(refusal) };
    if let Some((ability, _)) = loading::AT_THE_START.iter().find(|(_, name)| name == program) {
        facts.left_out.entry(*ability).or_insert_with(|| because.clone());
        return match facts.unloadable.insert(program.clone(), because.clone()) {
            None => Ok(()),
            Some(_) => Err(refusal),
        };
    }
    let programs = plan.programs();
    let Some(candidate) = programs.iter().find(|candidate| candidate.program == program) else {
        return Err(refusal);
    };
    let alone = Plan { probes: vec![Candidate { twins: &[], ..*candidate }], ..Plan::default() };

    let mut tried = facts.clone();
    for ability in OPTIONAL {
        tried.left_out.entry(ability).or_default();
    }
    for (_, finder) in loading::AT_THE_START {
        tried.unloadable.entry(finder.to_owned()).or_default();
    }
    let mut found = None;
    match load(&tried, &alone, options, None, rings) {
        Err(ProbeError::Load { because, .. }) => found = Some((None, because)),
        Err(other) => return Err(other),
        Ok(_) => {
            for ability in OPTIONAL.into_iter().filter(|ability| !facts.left_out.contains_key(ability)) {
                tried.left_out.remove(&ability);
                if let Err(ProbeError::Load { because, .. }) = load(&tried, &alone, options, None, rings) {
                    found = Some((Some(ability), because));
                    break;
                }
            }
            if found.is_none()
                && tsc.is_some()
                && let Err(ProbeError::Load { because, .. }) = load(&tried, &alone, options, tsc, rings)
            {
                found = Some((Some(Ability::Tsc), because));
            }
        }
    }
    match found {
        Some((Some(ability), because)) => drop(facts.left_out.insert(ability, because)),
        // the program loads alone with all abilities: omit the whole program
        found => {
            let because = found.map_or_else(|| because.clone(), |(_, because)| because);
            facts.unloadable.insert(program.clone(), because);
        }
    }
    Ok(())
}

/// Loads the programs of every hop without attaching them and returns the facts with the programs that did not
/// load.
///
/// # Errors
/// Any cause that prevents every capture, as [`super::Capture::start`].
pub fn tried(facts: &HostFacts) -> Result<HostFacts, ProbeError> {
    facts.check()?;
    let mut facts = facts.clone();
    let mut options = CaptureOptions { hops: HopSet::all(), sums: SUMS, ..CaptureOptions::default() };
    complete(&mut options)?;
    let rings = MappedRings::wanted(&facts, &options, 0);
    let rings = rings.as_ref();
    drop(fitted(&mut facts, &options, None, rings)?);
    let config = loading::config(&facts, &plan(&facts, options.hops), &options, None, rings);
    if let Err(because) = custom::loads(&facts, &config, rings) {
        facts.left_out.entry(Ability::CustomProbes).or_insert(because);
    }
    let mut with_tsc = facts.clone();
    match loading::opened(&mut with_tsc, true) {
        (Some(tsc), _) => {
            if fitted(&mut with_tsc, &options, Some(&tsc), rings).is_ok()
                && let Some(because) = with_tsc.left_out.remove(&Ability::Tsc)
            {
                facts.left_out.insert(Ability::Tsc, because);
            }
        }
        (None, because) => drop(facts.left_out.insert(Ability::Tsc, because.unwrap_or_default())),
    }
    Ok(facts)
}

/// Loads a plan of these hops without the programs that fail to load.
fn fitted(
    facts: &mut HostFacts,
    options: &CaptureOptions,
    tsc: Option<&Tsc>,
    rings: Option<&MappedRings>,
) -> Result<Option<Object>, ProbeError> {
    loop {
        let plan = plan(facts, options.hops);
        if plan.probes.is_empty() {
            return Ok(None);
        }
        let tsc = tsc.filter(|_| !facts.left_out.contains_key(&Ability::Tsc));
        match load(facts, &plan, options, tsc, rings) {
            Ok(object) => return Ok(Some(object)),
            Err(refusal) => leave_out(facts, &plan, options, tsc, rings, refusal)?,
        }
    }
}
