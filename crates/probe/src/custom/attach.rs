//! A custom probe's program: a separate object that shares all maps with the capture's object, except its plan.

use super::resolve::{Place, Resolved};
use crate::capture::MappedRings;
use crate::embedded::CUSTOM;
use crate::facts::HostFacts;
use crate::messages;
use crate::record::{mag_config, mag_plan};
use libbpf_rs::{Link, MapCore, Object, ObjectBuilder, OpenObject, ProgramMut, TracepointCategory, UprobeOpts};
use magscope_core::custom::Attach;
use std::os::fd::AsFd;

/// An attached probe. The link is dropped first, so that no program runs while the rest is freed.
pub struct Attached {
    _link: Link,
    object: Object,
}

impl Attached {
    /// Runs of its program that the kernel refused.
    pub fn refused(&self) -> u64 {
        crate::capture::refused_by(&self.object)
    }
}

const fn program_of(attach: Attach) -> &'static str {
    match attach {
        Attach::Fentry => "custom_fentry",
        Attach::Fexit => "custom_fexit",
        Attach::Kprobe | Attach::Kretprobe | Attach::Uprobe | Attach::Uretprobe => "custom_breakpoint",
        Attach::Tracepoint => "custom_tracepoint",
        Attach::TpBtf => "custom_raw",
    }
}

/// Loads and attaches a probe that writes to the rings of `main`.
///
/// # Errors
/// The kernel's message.
pub fn attach(
    facts: &HostFacts,
    main: &Object,
    config: &mag_config,
    resolved: &Resolved,
) -> Result<Attached, String> {
    messages::keep();
    let failed = |error: libbpf_rs::Error| {
        let message = messages::last();
        if message.is_empty() { error.to_string() } else { format!("{error}; the kernel said: {message}") }
    };
    let wanted = program_of(resolved.probe.attach);
    let mut open = opened(facts).map_err(failed)?;
    for mut program in open.progs_mut() {
        let chosen = program.name() == wanted;
        program.set_autoload(chosen);
        if chosen
            && let (Place::Function(name), Attach::Fentry | Attach::Fexit) =
                (&resolved.place, resolved.probe.attach)
        {
            program.set_attach_target(0, Some(name.clone())).map_err(failed)?;
        }
    }
    for mut map in open.maps_mut() {
        let name = map.name().to_string_lossy().into_owned();
        if name.ends_with(".rodata.plan") {
            fill(&mut map, bytes_of_plan(&resolved.plan))?;
        } else if name.ends_with(".rodata.config") {
            fill(&mut map, crate::capture::bytes_of_config(config))?;
        } else if let Some(shared) = main.maps().find(|other| same(&other.name().to_string_lossy(), &name)) {
            map.reuse_fd(shared.as_fd()).map_err(failed)?;
        }
    }
    let object = open.load().map_err(failed)?;
    let link = {
        let program = object.progs_mut().find(|program| program.name() == wanted);
        let program = program.ok_or_else(|| "its program is not in the object".to_owned())?;
        link(&program, resolved).map_err(|error| {
            let by_perf_event =
                !matches!(resolved.probe.attach, Attach::Fentry | Attach::Fexit | Attach::TpBtf);
            let refusal = if by_perf_event { crate::tsc::no_perf_events() } else { None };
            refusal.unwrap_or_else(|| failed(error))
        })?
    };
    Ok(Attached { _link: link, object })
}

/// The programs, whose fields are relocated as those of the capture are.
fn opened(facts: &HostFacts) -> libbpf_rs::Result<OpenObject> {
    let mut builder = ObjectBuilder::default();
    if let Some(btf) = &facts.custom_btf {
        builder.btf_custom_path(btf)?;
    }
    builder.open_memory(CUSTOM.decompress().bytes())
}

/// True if two map names denote the same map. Names of data sections start with the name of their object.
fn same(a: &str, b: &str) -> bool {
    let section = |name: &str| name.find('.').map(|at| name[at..].to_owned());
    match (section(a), section(b)) {
        // share only sections that both sides write; constants belong to one object
        (Some(a), Some(b)) => a == b && a == ".data.control",
        (None, None) => a == b,
        _ => false,
    }
}

fn link(program: &ProgramMut<'_>, resolved: &Resolved) -> libbpf_rs::Result<Link> {
    let at_return = matches!(resolved.probe.attach, Attach::Kretprobe | Attach::Uretprobe);
    match &resolved.place {
        Place::Function(name) if matches!(resolved.probe.attach, Attach::Kprobe | Attach::Kretprobe) => {
            program.attach_kprobe(at_return, name)
        }
        Place::Function(_) => program.attach(),
        Place::Raw(name) => program.attach_raw_tracepoint(name),
        Place::Tracepoint(category, name) => {
            program.attach_tracepoint(TracepointCategory::Custom(category.clone()), name)
        }
        Place::Program(path, offset) => {
            let options = UprobeOpts { retprobe: at_return, ..UprobeOpts::default() };
            program.attach_uprobe_with_opts(-1, path, *offset as usize, options)
        }
    }
}

fn fill(map: &mut libbpf_rs::OpenMapMut<'_>, bytes: &[u8]) -> Result<(), String> {
    let value = map.initial_value_mut().ok_or("its map has no initial value")?;
    value.get_mut(..bytes.len()).ok_or("its map is too small")?.copy_from_slice(bytes);
    Ok(())
}

fn bytes_of_plan(plan: &mag_plan) -> &[u8] {
    // SAFETY: plain integers without padding (checked below), all of them set.
    #[allow(unsafe_code)]
    unsafe {
        std::slice::from_raw_parts(std::ptr::from_ref(plan).cast::<u8>(), size_of::<mag_plan>())
    }
}

const _: () = assert!(size_of::<mag_plan>() == 8 + 7 * 40 && size_of::<crate::record::mag_read>() == 40);

/// Loads the programs that need no attach point first, without attaching them; one success is enough. They have
/// the abilities of the capture.
///
/// # Errors
/// The reason why none of them loads.
pub fn loads(facts: &HostFacts, config: &mag_config, rings: Option<&MappedRings>) -> Result<(), String> {
    messages::keep();
    let mut because = String::new();
    for wanted in ["custom_raw", "custom_tracepoint", "custom_breakpoint"] {
        let mut open = opened(facts).map_err(|error| format!("{error:#}"))?;
        open.progs_mut().for_each(|mut program| {
            program.set_autoload(program.name() == wanted);
        });
        let config_map =
            |map: &libbpf_rs::OpenMapMut<'_>| map.name().to_string_lossy().ends_with(".rodata.config");
        if let Some(mut map) = open.maps_mut().find(config_map) {
            fill(&mut map, crate::capture::bytes_of_config(config))?;
        }
        if let Some(rings) = rings {
            let join = |mut map| rings.join(&mut map);
            open.maps_mut().try_for_each(join).map_err(|error| format!("{error:#}"))?;
        }
        if open.load().is_ok() {
            return Ok(());
        }
        because = crate::capture::words(&messages::all());
    }
    Err(because)
}
