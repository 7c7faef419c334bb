//! Attaching what is loaded.

use super::options::CaptureOptions;
use crate::candidates::{Candidate, is_at_function};
use crate::error::ProbeError;
use crate::facts::HostFacts;
use crate::plan::Plan;
use libbpf_rs::{ErrorKind, Link, NetfilterOpts, Object, ProgramMut};
use magscope_core::node::Backend;
use std::fs::File;
use std::os::fd::AsRawFd;

/// Links of programs, by their names.
pub(crate) type Links = Vec<(&'static str, Vec<Link>)>;

/// True for kinds of probes that a kernel may have and refuse: it was built without a part of them, or a policy forbids
/// it. Tracepoints of BTF are not among these: without them there is no capture.
pub(super) fn may_be_refused(backend: Backend) -> bool {
    is_at_function(backend) || matches!(backend, Backend::Netfilter | Backend::CgroupSkb | Backend::Tracepoint)
}

pub(super) fn attach_all(
    facts: &HostFacts,
    object: &Object,
    plan: &Plan,
    options: &CaptureOptions,
) -> Result<Links, ProbeError> {
    plan.programs().iter().map(|probe| Ok((probe.program, attach(facts, object, probe, options)?))).collect()
}

/// Attaches one program: once, or once a namespace and family. With `every_netns`, namespaces that have ended since they
/// were found are left out.
pub(crate) fn attach(
    facts: &HostFacts,
    object: &Object,
    probe: &Candidate,
    options: &CaptureOptions,
) -> Result<Vec<Link>, ProbeError> {
    let failed = |cause: String| ProbeError::Attach {
        hop: probe.hop,
        backend: probe.backend,
        point: probe.point.to_owned(),
        cause,
    };
    let by_perf_event =
        |error: libbpf_rs::Error| failed(crate::tsc::no_perf_events().unwrap_or_else(|| format!("{error:#}")));
    let program = object
        .progs_mut()
        .find(|p| p.name() == probe.program)
        .ok_or_else(|| failed("its program is not in the object".to_owned()))?;
    let mut links = Vec::new();
    match probe.backend {
        Backend::Netfilter => {
            for target in &options.netns {
                let families = [libbpf_rs::NFPROTO_IPV4, libbpf_rs::NFPROTO_IPV6];
                match target.within(|| families.map(|family| attach_netfilter(&program, probe, family))) {
                    Ok(attached) => links.extend(attached.into_iter().collect::<Result<Vec<_>, _>>()?),
                    Err(error) if options.every_netns && error.is_ended_namespace() => {}
                    Err(error) => return Err(error),
                }
            }
        }
        Backend::CgroupSkb => {
            let root = facts.cgroup2.as_ref().ok_or_else(|| failed("no cgroup v2".to_owned()))?;
            let root = File::open(root).map_err(|e| failed(format!("{e:#}")))?;
            links.push(program.attach_cgroup(root.as_raw_fd()).map_err(|e| failed(format!("{e:#}")))?);
        }
        Backend::Kprobe => {
            let link = program.attach_kprobe(probe.at_return, facts.symbol(probe));
            links.push(link.map_err(by_perf_event)?);
        }
        Backend::Tracepoint => links.push(program.attach().map_err(by_perf_event)?),
        Backend::KprobeMulti => {
            let link = program.attach_kprobe_multi(probe.at_return, vec![facts.symbol(probe)]);
            links.push(link.map_err(|e| failed(format!("{e:#}")))?);
        }
        _ => links.push(program.attach().map_err(|e| failed(format!("{e:#}")))?),
    }
    Ok(links)
}

/// The hooks of netfilter: name, number, outermost priority, and the step inwards.
const NETFILTER_HOOKS: [(&str, i32, i32, i32); 4] = [
    ("LOCAL_OUT", libbpf_rs::NF_INET_LOCAL_OUT, i32::MIN + 1, 1),
    ("POST_ROUTING", libbpf_rs::NF_INET_POST_ROUTING, i32::MAX - 1, -1),
    ("PRE_ROUTING", libbpf_rs::NF_INET_PRE_ROUTING, i32::MIN + 1, 1),
    ("LOCAL_IN", libbpf_rs::NF_INET_LOCAL_IN, i32::MAX - 1, -1),
];

/// TX hooks run before and after all other netfilter hooks, and RX hooks likewise. Address translation and
/// filters therefore lie between two hops, and their time is measured.
fn attach_netfilter(program: &ProgramMut<'_>, probe: &Candidate, family: i32) -> Result<Link, ProbeError> {
    let failed = |cause: String| ProbeError::Attach {
        hop: probe.hop,
        backend: probe.backend,
        point: probe.point.to_owned(),
        cause,
    };
    let hook = NETFILTER_HOOKS.iter().find(|(point, ..)| *point == probe.point);
    let Some((_, hooknum, outermost, inwards)) = hook.copied() else {
        return Err(failed(format!("netfilter has no hook {}", probe.point)));
    };
    let attach = |priority| {
        let options = NetfilterOpts { protocol_family: family, hooknum, priority, ..NetfilterOpts::default() };
        program.attach_netfilter_with_opts(options)
    };
    // Two programs cannot share one priority: another capture of this namespace may use it.
    let places = (0..MAX_CAPTURES).map(|nth| outermost + nth * inwards);
    let mut tries = places.map(attach).skip_while(|tried| {
        // EBUSY has no kind of its own
        matches!(tried, Err(e) if matches!(e.kind(), ErrorKind::Other | ErrorKind::AlreadyExists))
    });
    let link = tries.next().ok_or_else(|| format!("{MAX_CAPTURES} captures are at this place already"));
    link.and_then(|tried| tried.map_err(|e| format!("{e:#}"))).map_err(failed)
}

/// Maximum number of captures per namespace at one netfilter hook.
const MAX_CAPTURES: i32 = 32;
