//! Custom probes: `resolve` turns a specification into a program's plan, with `btf`, `tracepoint` and `program`
//! for look-ups. `attach` loads and attaches the program.

pub mod attach;
pub mod btf;
mod near;
mod program;
pub mod resolve;
mod tracepoint;

pub use attach::{Attached, loads};
pub use resolve::{Place, Resolved, Resolver};

use crate::error::ProbeError;
use crate::facts::HostFacts;
use crate::record::mag_config;
use libbpf_rs::Object;
use magscope_core::custom::{CustomProbe, MOST_PROBES};

/// Resolves every probe and attaches it next to the capture's programs. Returns the probes with the types of
/// their values.
pub(crate) fn attach_all(
    facts: &HostFacts,
    main: &Object,
    config: &mag_config,
    probes: &[CustomProbe],
) -> Result<(Vec<CustomProbe>, Vec<Attached>), ProbeError> {
    let (mut resolved_probes, mut attached) = (Vec::new(), Vec::new());
    for resolved in resolve_all(facts, probes)? {
        let failed = |cause| ProbeError::Custom { probe: resolved.probe.place(), cause };
        attached.push(attach::attach(facts, main, config, &resolved).map_err(failed)?);
        resolved_probes.push(resolved.probe);
    }
    Ok((resolved_probes, attached))
}

fn resolve_all(facts: &HostFacts, probes: &[CustomProbe]) -> Result<Vec<Resolved>, ProbeError> {
    let Some(first) = probes.first() else { return Ok(Vec::new()) };
    let failed = |probe: &CustomProbe, cause: String| ProbeError::Custom { probe: probe.place(), cause };
    if let Some(beyond) = probes.get(MOST_PROBES) {
        return Err(failed(beyond, format!("there are {} probes, at most {MOST_PROBES} can be", probes.len())));
    }
    for (at, probe) in probes.iter().enumerate() {
        if probes[..at].iter().any(|other| other.name == probe.name) {
            let cause = format!("another one is called `{0}` too; name it: `name=other-{0}`", probe.name);
            return Err(failed(probe, cause));
        }
    }
    let resolver = Resolver::new(facts).map_err(|cause| failed(first, cause))?;
    let resolve = |(number, probe): (usize, &CustomProbe)| {
        resolver.resolve(number as u8, probe).map_err(|cause| failed(probe, cause))
    };
    probes.iter().enumerate().map(resolve).collect()
}
