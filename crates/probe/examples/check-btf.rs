//! Lists the fields, types and helpers that a kernel lacks for the programs, from its BTF alone: `check-btf
//! FILE…`. The tool loads nothing.
//!
//! The first part lists each program's unresolved relocations and missing helpers. The second part lists the
//! backend of each hop. BTF does not describe kprobes, so they count as absent. The exit code is 1 if a planned
//! program lacks a field that has no other flavour, or if no packet hop is served.

use magscope_core::hop::HopSet;
use magscope_core::node::Service;
use magscope_probe::code::{Function, callees, functions};
use magscope_probe::plan::is_per_packet;
use magscope_probe::{HostFacts, plan};
use object::{Object, ObjectSection};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

const TYPED_CASTS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/magnet.bpf.o"));
const PROBE_READS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/magnet-probe-read.bpf.o"));
const NO_LOOP: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/magnet-no-loop.bpf.o"));

type Failure = Box<dyn std::error::Error>;

fn main() -> ExitCode {
    let mut good = true;
    for path in std::env::args_os().skip(1).map(PathBuf::from) {
        match check(&path) {
            Ok(fits) => good &= fits,
            Err(error) => {
                eprintln!("check-btf: {}: {error}", path.display());
                good = false;
            }
        }
    }
    if good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn check(path: &Path) -> Result<bool, Failure> {
    let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let facts = HostFacts { kernel: name.clone(), btf: true, ..HostFacts::default() }.with_btf(path)?;
    let facts = HostFacts {
        capabilities: u64::MAX,
        cgroup2: Some("/sys/fs/cgroup".into()),
        syscall_tracepoints: true,
        ..facts
    };
    let kernel = Btf::parse(&std::fs::read(path)?)?;
    let (which, bytes) = match (facts.loops, facts.typed_casts) {
        (false, _) => ("without bpf_loop", NO_LOOP),
        (true, true) => ("with typed casts", TYPED_CASTS),
        (true, false) => ("with probe reads", PROBE_READS),
    };
    let plan = plan(&facts, HopSet::all());
    let taken: BTreeSet<&str> = plan.programs().iter().map(|probe| probe.program).collect();
    println!("{name}: programs {which}");
    let mut good = true;
    for (program, missing) in missing(bytes, &kernel)? {
        let mark = if taken.contains(program.as_str()) { "taken" } else { "not taken" };
        for what in missing {
            println!("  {program} ({mark}): {what}");
            good &= mark != "taken";
        }
    }
    for row in &plan.coverage.hops {
        match &row.service {
            Service::Served { backend, point, .. } => println!("  {:<16}{backend} {point}", row.hop),
            Service::Missing { because } => println!("  {:<16}missing: {because}", row.hop),
            Service::Off => {}
        }
    }
    for row in &plan.coverage.left_out {
        println!("  {:<16}left out: {}", row.ability, row.because);
    }
    Ok(good && plan.served().iter().any(is_per_packet))
}

/// Missing fields, types and helpers by program, including the functions that a program calls.
fn missing(bytes: &[u8], kernel: &Btf) -> Result<BTreeMap<String, BTreeSet<String>>, Failure> {
    let file = object::File::parse(bytes)?;
    let data = |name: &str| {
        file.section_by_name(name)
            .ok_or(format!("no {name}"))
            .and_then(|s| Ok(s.data().map_err(|e| e.to_string())?.to_vec()))
    };
    let local = Btf::parse(&data(".BTF")?)?;
    let functions: Vec<Function> = functions(&file)?;
    let mut relocations: HashMap<usize, Vec<Relocation>> = HashMap::new();
    for relocation in relocations_of(&data(".BTF.ext")?, &local)? {
        let within = |f: &Function| f.section == relocation.section && (f.from..f.to).contains(&relocation.at);
        if let Some(function) = functions.iter().position(within) {
            relocations.entry(function).or_default().push(relocation);
        }
    }
    let all = || relocations.values().flatten();
    // a flavour that is there does for the types of the same name that are not
    let flavours: BTreeSet<&str> = all()
        .filter(|r| r.path[0].contains("___") && kernel.finds(&r.path))
        .filter_map(|r| r.path[0].split("___").next())
        .collect();
    let helpers = kernel.values("bpf_func_id");
    let mut found = BTreeMap::new();
    for (nth, program) in functions.iter().enumerate().filter(|(_, f)| f.section != ".text") {
        let (mut reached, mut open) = (BTreeSet::from([nth]), vec![nth]);
        while let Some(at) = open.pop() {
            open.extend(callees(&functions, at).filter(|called| reached.insert(*called)));
        }
        let missing: &mut BTreeSet<String> = found.entry(program.name.clone()).or_default();
        for at in reached {
            let lacks = |r: &&Relocation| {
                !r.path[0].contains("___") && !flavours.contains(r.path[0].as_str()) && !kernel.finds(&r.path)
            };
            for relocation in relocations.get(&at).into_iter().flatten().filter(lacks) {
                missing.insert(format!("no {} (in {})", relocation.path.join("."), functions[at].name));
            }
            let unknown = functions[at].helpers.iter().filter(|helper| !helpers.contains(helper));
            missing
                .extend(unknown.map(|helper| format!("no helper number {helper} (in {})", functions[at].name)));
        }
    }
    Ok(found)
}

struct Relocation {
    section: String,
    at: u64,
    /// A type, followed by the members of an access path.
    path: Vec<String>,
}

/// Relocations that fail if the target is missing. Existence checks are excluded.
fn relocations_of(ext: &[u8], local: &Btf) -> Result<Vec<Relocation>, Failure> {
    let header = word(ext, 4)? as usize;
    let (mut at, length) = (header + word(ext, 24)? as usize, word(ext, 28)? as usize);
    let end = at + length;
    let size = word(ext, at)? as usize;
    at += 4;
    let mut found = Vec::new();
    while at < end {
        let (section, count) = (local.text(word(ext, at)?), word(ext, at + 4)?);
        at += 8;
        for _ in 0..count {
            let [insn, of, access, kind] =
                [word(ext, at)?, word(ext, at + 4)?, word(ext, at + 8)?, word(ext, at + 12)?];
            at += size;
            // enum bpf_core_relo_kind: field access, type size and id, enum value
            if matches!(kind, 0 | 1 | 3 | 4 | 5 | 7 | 9) {
                let path = local.path(of, &if kind < 6 { local.text(access) } else { String::new() });
                found.push(Relocation { section: section.clone(), at: u64::from(insn), path });
            }
        }
    }
    Ok(found)
}

fn word(bytes: &[u8], at: usize) -> Result<u32, Failure> {
    let word = bytes.get(at..at + 4).ok_or("it is cut short")?;
    Ok(u32::from_le_bytes(word.try_into()?))
}

/// Layout as in include/uapi/linux/btf.h.
struct Type {
    name: u32,
    kind: u32,
    /// Size, or id of the referenced type.
    refers: u32,
    /// Structures and unions: name and type of each member. Enumerations: name and value of each.
    members: Vec<(u32, u32)>,
}

struct Btf {
    types: Vec<Type>,
    strings: Vec<u8>,
    named: HashMap<String, Vec<u32>>,
}

const ARRAY: u32 = 3;

impl Btf {
    fn parse(bytes: &[u8]) -> Result<Self, Failure> {
        let header = word(bytes, 4)? as usize;
        let mut at = header + word(bytes, 8)? as usize;
        let end = at + word(bytes, 12)? as usize;
        let strings = header + word(bytes, 16)? as usize;
        let strings = bytes.get(strings..).ok_or("it is cut short")?.to_vec();
        let mut btf = Btf {
            types: vec![Type { name: 0, kind: 0, refers: 0, members: Vec::new() }],
            strings,
            named: HashMap::new(),
        };
        while at < end {
            let (name, info, refers) = (word(bytes, at)?, word(bytes, at + 4)?, word(bytes, at + 8)?);
            let (kind, count) = (info >> 24 & 31, (info & 0xffff) as usize);
            at += 12;
            let (mut members, mut of) = (Vec::new(), refers);
            let size = match kind {
                1 | 14 | 17 => 4,
                ARRAY => {
                    of = word(bytes, at)?;
                    12
                }
                4 | 5 | 6 | 15 | 19 => {
                    let each = if kind == 6 { 8 } else { 12 };
                    for nth in 0..count {
                        members.push((word(bytes, at + each * nth)?, word(bytes, at + each * nth + 4)?));
                    }
                    each * count
                }
                13 => 8 * count,
                _ => 0,
            };
            at += size;
            btf.types.push(Type { name, kind, refers: of, members });
        }
        for (number, each) in
            btf.types.iter().enumerate().filter(|(_, each)| matches!(each.kind, 1 | 4 | 5 | 6 | 8 | 19))
        {
            btf.named.entry(btf.text(each.name)).or_default().push(number as u32);
        }
        Ok(btf)
    }

    fn text(&self, at: u32) -> String {
        let bytes = self.strings.get(at as usize..).unwrap_or_default();
        String::from_utf8_lossy(bytes.split(|byte| *byte == 0).next().unwrap_or_default()).into_owned()
    }

    /// Skips typedefs and qualifiers.
    fn plain(&self, mut of: u32) -> (u32, &Type) {
        loop {
            let found = &self.types[(of as usize).min(self.types.len() - 1)];
            if !matches!(found.kind, 8..=11 | 18) {
                return (of, found);
            }
            of = found.refers;
        }
    }

    /// Member names of a CO-RE access string.
    fn path(&self, of: u32, access: &str) -> Vec<String> {
        let mut path = vec![self.text(self.types[of as usize].name)];
        let mut at = of;
        for index in access.split(':').skip(1).filter_map(|index| index.parse::<usize>().ok()) {
            let (_, found) = self.plain(at);
            if found.kind == ARRAY {
                at = found.refers;
                continue;
            }
            let Some((name, of)) = found.members.get(index) else { break };
            if *name > 0 {
                path.push(self.text(*name));
            }
            at = *of;
        }
        path
    }

    /// True if a type of this name (without its flavour) has these members.
    fn finds(&self, path: &[String]) -> bool {
        let name = path[0].split("___").next().unwrap_or_default();
        let there = self.named.get(name).into_iter().flatten();
        there.into_iter().any(|of| {
            let mut at = Some(*of);
            for member in &path[1..] {
                at = at.and_then(|at| self.member(at, member));
            }
            at.is_some()
        })
    }

    fn member(&self, of: u32, wanted: &str) -> Option<u32> {
        let (_, found) = self.plain(of);
        if found.kind == ARRAY {
            return self.member(found.refers, wanted);
        }
        if !matches!(found.kind, 4 | 5) {
            return None;
        }
        found.members.iter().find_map(|(name, of)| match self.text(*name) {
            name if name == wanted => Some(*of),
            name if name.is_empty() => self.member(*of, wanted),
            _ => None,
        })
    }

    /// The values of an enumeration.
    fn values(&self, name: &str) -> BTreeSet<i64> {
        let of = self.named.get(name).into_iter().flatten().map(|of| &self.types[*of as usize]);
        of.flat_map(|of| of.members.iter().map(|(_, value)| i64::from(*value))).collect()
    }
}
