//! Resolves a probe's expressions against the types of the running kernel.

use super::btf::{Field, Shape, Types};
use super::near::near;
use super::{program, tracepoint};
use crate::facts::{HostFacts, Mechanism};
use crate::record::{
    MAG_STEPS, mag_base_MAG_BASE_ARG, mag_base_MAG_BASE_RECORD, mag_base_MAG_BASE_RETURN, mag_plan, mag_read,
    mag_side_MAG_SIDE_RX, mag_side_MAG_SIDE_TX,
};
use magscope_core::custom::{Attach, CustomProbe, ProbeValue, ValueKind};
use magscope_core::hop::{Direction, Hop};
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// Attach point of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// A function of the kernel.
    Function(String),
    /// A raw tracepoint.
    Raw(String),
    /// A tracepoint: category and name.
    Tracepoint(String, String),
    /// A place in a program's file.
    Program(PathBuf, u64),
}

/// A fully resolved probe.
#[derive(Clone, Debug)]
pub struct Resolved {
    /// The probe, its values with their kinds.
    pub probe: CustomProbe,
    /// The read instructions of its program.
    pub plan: mag_plan,
    /// The attach point.
    pub place: Place,
    /// Arguments or fields available here, as C declarations.
    pub offered: Vec<String>,
}

/// Resolver of probes. It reads the kernel's types once.
pub struct Resolver<'a> {
    facts: &'a HostFacts,
    types: Rc<Types>,
}

/// An argument, or what is returned.
struct Argument {
    /// Empty if absent.
    name: String,
    kind: u32,
    base: u32,
    at: u8,
}

/// Arguments and types available at a function.
struct Offer {
    types: Rc<Types>,
    arguments: Vec<Argument>,
    /// Arguments beyond these are not where they could be read.
    reachable: usize,
}

/// Structures that begin with a `struct sock`.
const SOCKETS: [&str; 7] =
    ["sock", "inet_sock", "inet_connection_sock", "tcp_sock", "udp_sock", "raw_sock", "udp6_sock"];

impl<'a> Resolver<'a> {
    /// Reads the kernel's types.
    ///
    /// # Errors
    /// Why they cannot be read.
    pub fn new(facts: &'a HostFacts) -> Result<Self, String> {
        let types =
            Types::of_kernel().map_err(|e| format!("the kernel's type information cannot be read: {e}"))?;
        Ok(Resolver { facts, types: Rc::new(types) })
    }

    /// Resolves one probe and assigns it this number.
    ///
    /// # Errors
    /// The unresolved name, with similar names.
    pub fn resolve(&self, number: u8, probe: &CustomProbe) -> Result<Resolved, String> {
        let side = match probe.after.map(Hop::direction) {
            Some(Direction::Tx) => mag_side_MAG_SIDE_TX,
            Some(Direction::Rx) => mag_side_MAG_SIDE_RX,
            _ => 0,
        };
        let plan = mag_plan {
            number,
            values: probe.values.len() as u8,
            side: side as u8,
            process: u8::from(probe.attach.in_program()),
            ..mag_plan::default()
        };
        match probe.attach {
            Attach::Tracepoint => Self::record(probe, plan),
            Attach::Uprobe | Attach::Uretprobe => Self::program(probe, plan),
            _ => self.function(probe, plan),
        }
    }

    fn record(probe: &CustomProbe, mut plan: mag_plan) -> Result<Resolved, String> {
        let fields = tracepoint::fields(&probe.target)?;
        let read = |field: &tracepoint::RecordField| mag_read {
            base: mag_base_MAG_BASE_RECORD as u8,
            steps: 1,
            bytes: field.bytes,
            sign: u8::from(field.kind == ValueKind::Signed),
            offset: offsets(&[field.offset]),
            ..mag_read::default()
        };
        let mut probe = probe.clone();
        for (value, slot) in probe.values.iter_mut().zip(&mut plan.value) {
            let field = fields.iter().find(|field| field.name == value.expr).ok_or_else(|| {
                let near = near(&value.expr, fields.iter().map(|field| field.name.as_str()));
                format!("the tracepoint {} has no number `{}`{near}", probe.target, value.expr)
            })?;
            *slot = read(field);
            value.kind = field.kind;
        }
        // all network tracepoints use these names for packet and socket
        for field in fields.iter().filter(|field| field.kind == ValueKind::Address && field.bytes == 8) {
            match field.name.as_str() {
                "skbaddr" => (plan.has_skb, plan.skb) = (1, read(field)),
                "skaddr" | "sk" => (plan.has_sock, plan.sock) = (1, read(field)),
                _ => {}
            }
        }
        let (category, name) = probe.target.split_once(':').unwrap_or_default();
        let place = Place::Tracepoint(category.to_owned(), name.to_owned());
        let own = fields.iter().filter(|field| !field.name.starts_with("common_"));
        let offered = own.map(|field| field.declared.clone()).collect();
        Ok(Resolved { probe, plan, place, offered })
    }

    fn program(probe: &CustomProbe, mut plan: mag_plan) -> Result<Resolved, String> {
        let (path, symbol) = probe.target.rsplit_once(':').unwrap_or_default();
        let offset = program::offset(Path::new(path), symbol)?;
        let returns = probe.attach == Attach::Uretprobe;
        let mut probe = probe.clone();
        for (value, slot) in probe.values.iter_mut().zip(&mut plan.value) {
            (*slot, value.kind) = bare_register(&value.expr, returns)?;
        }
        let offered = if returns { "retval" } else { "arg0 to arg5" };
        let offered = vec![offered.to_owned(), format!("each as it is, or cast to {}", casts())];
        Ok(Resolved { probe, plan, place: Place::Program(path.into(), offset), offered })
    }

    fn function(&self, probe: &CustomProbe, mut plan: mag_plan) -> Result<Resolved, String> {
        let name = probe.target.as_str();
        self.mechanism(probe.attach)?;
        let (offer, place) = if probe.attach == Attach::TpBtf {
            (self.raw_tracepoint(name)?, Place::Raw(name.to_owned()))
        } else {
            (self.kernel_function(probe.attach, name)?, Place::Function(name.to_owned()))
        };
        let mut probe = probe.clone();
        for (value, slot) in probe.values.iter_mut().zip(&mut plan.value) {
            (*slot, value.kind) = offer.value(value, name)?;
        }
        let arguments = offer.arguments.iter().filter(|a| a.base == mag_base_MAG_BASE_ARG);
        for argument in arguments.filter(|argument| usize::from(argument.at) < offer.reachable) {
            let Shape::Pointer(to) = offer.types.shape(argument.kind) else { continue };
            let pointer = mag_read { arg: argument.at, bytes: 8, ..mag_read::default() };
            match offer.types.name(offer.types.bare(to)) {
                "sk_buff" if plan.has_skb == 0 => (plan.has_skb, plan.skb) = (1, pointer),
                "net_device" if plan.has_dev == 0 => (plan.has_dev, plan.dev) = (1, pointer),
                "socket" if plan.has_sock == 0 => {
                    if let Some(sk) = offer.types.fields(to).find(|field| field.name == "sk") {
                        let offset = offsets(&[(sk.bit_offset / 8) as i32]);
                        (plan.has_sock, plan.sock) = (1, mag_read { steps: 1, offset, ..pointer });
                    }
                }
                socket if plan.has_sock == 0 && SOCKETS.contains(&socket) => {
                    (plan.has_sock, plan.sock) = (1, pointer);
                }
                _ => {}
            }
        }
        let offered = offer.arguments.iter().map(|argument| offer.declared(argument)).collect();
        Ok(Resolved { probe, plan, place, offered })
    }

    fn mechanism(&self, attach: Attach) -> Result<(), String> {
        let (name, mechanism) = match attach {
            Attach::Fentry | Attach::Fexit => ("fentry and fexit", &self.facts.fentry),
            Attach::Kprobe | Attach::Kretprobe => ("kprobes", &self.facts.kprobe),
            _ => return Ok(()),
        };
        let kernel = &self.facts.kernel;
        let instead = "tp_btf, tracepoint and uprobe may do";
        match mechanism {
            Mechanism::Works => Ok(()),
            Mechanism::Absent => Err(format!("kernel {kernel} has no {name}; {instead}")),
            Mechanism::Refused(cause) => Err(format!("kernel {kernel} refuses {name}: {cause}; {instead}")),
        }
    }

    fn raw_tracepoint(&self, name: &str) -> Result<Offer, String> {
        let prefix = "btf_trace_";
        let names =
            || self.types.typedefs().filter_map(|(typedef, id)| Some((typedef.strip_prefix(prefix)?, id)));
        let (_, id) = names().find(|(existing, _)| *existing == name).ok_or_else(|| {
            format!(
                "the kernel has no tracepoint `{name}`{}",
                near(name, names().map(|(existing, _)| existing))
            )
        })?;
        let Shape::Pointer(proto) = self.types.shape(id) else {
            return Err(format!("the kernel has no description of the arguments of the tracepoint `{name}`"));
        };
        // the prototype lacks argument names, but the function that calls the probes has them
        let iterator = format!("__traceiter_{name}");
        let named = self.types.functions().find(|(existing, _)| *existing == iterator).map(|(_, proto)| proto);
        let kinds: Vec<u32> = self.types.arguments(proto).skip(1).map(|(_, kind)| kind).collect();
        let names: Vec<&str> =
            named.into_iter().flat_map(|id| self.types.arguments(id).skip(1)).map(|a| a.0).collect();
        let names = if names.len() == kinds.len() { names } else { vec![""; kinds.len()] };
        let argument = |(at, (kind, name)): (usize, (&u32, &&str))| Argument {
            name: (*name).to_owned(),
            kind: *kind,
            base: mag_base_MAG_BASE_ARG,
            at: at as u8,
        };
        let arguments = kinds.iter().zip(&names).enumerate().map(argument).collect();
        Ok(Offer { types: Rc::clone(&self.types), arguments, reachable: 12 })
    }

    fn kernel_function(&self, attach: Attach, name: &str) -> Result<Offer, String> {
        let find =
            |types: &Types| types.functions().find(|(existing, _)| *existing == name).map(|(_, proto)| proto);
        let mut found = find(&self.types).map(|proto| (Rc::clone(&self.types), proto));
        for module in modules() {
            if found.is_some() {
                break;
            }
            if let Ok(types) = Types::clone(&self.types).and(&module) {
                found = find(&types).map(|proto| (Rc::new(types), proto));
            }
        }
        let (types, proto) = found.ok_or_else(|| {
            let near = near(name, self.types.functions().map(|(existing, _)| existing));
            format!("neither the kernel nor a module that is loaded has a function `{name}`{near}")
        })?;
        let mut arguments: Vec<Argument> = Vec::new();
        if attach != Attach::Kretprobe {
            arguments.extend(types.arguments(proto).enumerate().map(|(at, (name, kind))| Argument {
                name: name.to_owned(),
                kind,
                base: mag_base_MAG_BASE_ARG,
                at: at as u8,
            }));
        }
        if let (Shape::Function { returns }, Attach::Fexit | Attach::Kretprobe) = (types.shape(proto), attach)
            && types.bare(returns) != 0
        {
            arguments.push(Argument {
                name: "retval".to_owned(),
                kind: returns,
                base: mag_base_MAG_BASE_RETURN,
                at: 0,
            });
        }
        let registers = if cfg!(target_arch = "x86_64") { 6 } else { 8 };
        let reachable = if matches!(attach, Attach::Kprobe | Attach::Kretprobe) { registers } else { 12 };
        Ok(Offer { types, arguments, reachable })
    }
}

/// Files with the types of loaded modules.
fn modules() -> Vec<PathBuf> {
    let entries = std::fs::read_dir("/sys/kernel/btf").into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).filter(|path| !path.ends_with("vmlinux")).collect()
}

/// Types that a register is cast to: `arg0:int32`. Name, bytes, and whether it has a sign.
const CASTS: [(&str, u8, bool); 8] = [
    ("int8", 1, true),
    ("int16", 2, true),
    ("int32", 4, true),
    ("int64", 8, true),
    ("uint8", 1, false),
    ("uint16", 2, false),
    ("uint32", 4, false),
    ("uint64", 8, false),
];

fn casts() -> String {
    CASTS.map(|(name, ..)| format!("`{name}`")).join(", ")
}

/// An argument without a type: a register, of which a cast takes the low bytes.
fn bare_register(expr: &str, returns: bool) -> Result<(mag_read, ValueKind), String> {
    let (register, cast) = expr.split_once(':').map_or((expr, "uint64"), |(register, cast)| (register, cast));
    let Some((_, bytes, signed)) = CASTS.into_iter().find(|(name, ..)| *name == cast) else {
        return Err(format!("`{expr}`: a register is cast to {}", casts()));
    };
    let kind = if signed { ValueKind::Signed } else { ValueKind::Unsigned };
    let whole = mag_read { bytes, sign: signed.into(), ..mag_read::default() };
    match (register, returns) {
        ("retval", true) => Ok((mag_read { base: mag_base_MAG_BASE_RETURN as u8, ..whole }, kind)),
        (_, true) => Err(format!("`{expr}`: at a program's return there is `retval` alone")),
        _ => match register.strip_prefix("arg").and_then(|n| n.parse::<u8>().ok()) {
            Some(arg @ 0..6) => Ok((mag_read { arg, ..whole }, kind)),
            _ => Err(format!("`{expr}`: of a program's function there are `arg0` to `arg5`, as integers")),
        },
    }
}

fn offsets(steps: &[i32]) -> [i32; MAG_STEPS as usize] {
    let mut all = [0; MAG_STEPS as usize];
    all.iter_mut().zip(steps).for_each(|(slot, step)| *slot = *step);
    all
}

impl Offer {
    /// `struct sk_buff *skb`.
    fn declared(&self, argument: &Argument) -> String {
        let mut kind = argument.kind;
        let mut stars = String::new();
        while let Shape::Pointer(to) = self.types.shape(kind) {
            stars.push('*');
            kind = to;
            if stars.len() > 3 {
                break;
            }
        }
        let composite = self.types.shape(kind) == Shape::Composite;
        let name = self.types.name(self.types.bare(kind));
        let name = if name.is_empty() { "void" } else { name };
        let called =
            if argument.name.is_empty() { format!("arg{}", argument.at) } else { argument.name.clone() };
        format!("{}{name} {stars}{called}", if composite { "struct " } else { "" })
    }

    fn argument(&self, word: &str, function: &str) -> Result<&Argument, String> {
        let numbered = word.strip_prefix("arg").and_then(|n| n.parse::<u8>().ok());
        let by_number = |a: &&Argument| a.base == mag_base_MAG_BASE_ARG && Some(a.at) == numbered;
        let found =
            self.arguments.iter().find(|a| a.name == word).or_else(|| self.arguments.iter().find(by_number));
        let found = found.ok_or_else(|| {
            let offered: Vec<String> =
                self.arguments.iter().map(|a| format!("`{}`", self.declared(a))).collect();
            let offered = if offered.is_empty() { "none".to_owned() } else { offered.join(", ") };
            let near = near(word, self.arguments.iter().map(|a| a.name.as_str()));
            format!("`{function}` has no argument `{word}`{near}; it has {offered}")
        })?;
        if found.base == mag_base_MAG_BASE_ARG && usize::from(found.at) >= self.reachable {
            return Err(format!("`{word}` is not in a register, so a breakpoint cannot read it; fentry can"));
        }
        Ok(found)
    }

    /// Follows a field path such as `sk:tcp_sock->snd_cwnd`.
    fn value(&self, value: &ProbeValue, function: &str) -> Result<(mag_read, ValueKind), String> {
        let path = value.expr.replace("->", ".");
        let mut words = path.split('.');
        let (first, cast) = words.next().unwrap_or_default().split_once(':').map_or_else(
            || (path.split('.').next().unwrap_or_default(), None),
            |(name, kind)| (name, Some(kind)),
        );
        let argument = self.argument(first, function)?;
        let mut kind = argument.kind;
        let mut steps: Vec<i32> = Vec::new();
        // bit offset in the structure at the current address; `None` while the value is the argument itself
        let mut inside: Option<u32> = None;
        let mut bits = 0;
        if let Some(cast) = cast {
            kind =
                self.types.structures().find(|(name, _)| *name == cast).map(|(_, id)| id).ok_or_else(|| {
                    format!(
                        "no structure is called `{cast}`{}",
                        near(cast, self.types.structures().map(|(name, _)| name))
                    )
                })?;
            inside = Some(0);
        }
        for word in words {
            if let Shape::Pointer(to) = self.types.shape(kind) {
                steps.extend(inside.map(|bits| (bits / 8) as i32));
                (kind, inside) = (to, Some(0));
            }
            let field = self.field(kind, word, &value.expr)?;
            inside = Some(inside.unwrap_or(0) + field.bit_offset);
            (kind, bits) = (field.kind, field.bits);
        }
        let (bytes, sign, meaning) = match self.types.shape(kind) {
            Shape::Number { bytes, signed: true } => (bytes, 1, ValueKind::Signed),
            Shape::Number { bytes, signed: false } => (bytes, 0, ValueKind::Unsigned),
            Shape::Pointer(_) => (8, 0, ValueKind::Address),
            Shape::Composite => {
                let fields: Vec<String> =
                    self.all_fields(kind).map(|f| format!("`{}`", f.name)).take(12).collect();
                let expr = &value.expr;
                return Err(format!("`{expr}` is a structure; name a field of it: {}", fields.join(", ")));
            }
            Shape::Other(what) => return Err(format!("`{}` is {what}", value.expr)),
            Shape::Function { .. } => return Err(format!("`{}` is a function", value.expr)),
        };
        let mut read =
            mag_read { base: argument.base as u8, arg: argument.at, sign, bytes, ..mag_read::default() };
        if let Some(at) = inside {
            // a bit-field is read with all bytes that contain it
            let mut start = at / 8;
            if bits > 0 {
                let unit = u32::from(bytes) * 8;
                if at % 8 + u32::from(bits) > unit {
                    start = at / unit * (unit / 8);
                }
                (read.shift, read.bits) = ((at - start * 8) as u8, bits);
            }
            steps.push(start as i32);
        }
        if steps.len() > MAG_STEPS as usize {
            return Err(format!("`{}` is more than {MAG_STEPS} addresses deep", value.expr));
        }
        (read.steps, read.offset) = (steps.len() as u8, offsets(&steps));
        Ok((read, meaning))
    }

    /// The fields of a structure, those of members without a name as if they were its own.
    fn all_fields<'a>(&'a self, kind: u32) -> impl Iterator<Item = Field<'a>> {
        let mut waiting: Vec<Field<'a>> = self.types.fields(kind).collect();
        waiting.reverse();
        // real structures have some hundred fields; a cycle of types must not loop for ever
        let mut left = 100_000;
        std::iter::from_fn(move || {
            while let Some(field) = waiting.pop() {
                left -= 1;
                if left == 0 {
                    return None;
                }
                if !field.name.is_empty() {
                    return Some(field);
                }
                let inner = self.types.fields(field.kind).collect::<Vec<_>>();
                let moved =
                    |f: Field<'a>| Field { bit_offset: f.bit_offset.saturating_add(field.bit_offset), ..f };
                waiting.extend(inner.into_iter().rev().map(moved));
            }
            None
        })
    }

    fn field(&self, kind: u32, word: &str, expr: &str) -> Result<Field<'_>, String> {
        if self.types.shape(kind) != Shape::Composite {
            let what = match self.types.shape(kind) {
                Shape::Number { .. } => "a number",
                Shape::Pointer(_) => "an address",
                Shape::Other(what) => what,
                _ => "a function",
            };
            return Err(format!("`{expr}`: there is no `{word}` in {what}"));
        }
        self.all_fields(kind).find(|field| field.name == word).ok_or_else(|| {
            let near = near(word, self.all_fields(kind).map(|field| field.name));
            let name = self.types.name(self.types.bare(kind));
            format!("`{expr}`: the structure `{name}` has no field `{word}`{near}")
        })
    }
}
