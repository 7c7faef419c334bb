//! Compiled programs: the functions of an object, what each calls, the stack that a chain of calls takes, and loops.
//!
//! The verifier counts the stack of a program and of all functions that it calls. An object whose program takes too
//! much is refused when it is loaded, on some kernels only, because kernels round in different ways. Older kernels
//! also refuse a loop whose end falls into its head, an order in which compilers sometimes lay a loop out. Both are
//! seen in the object alone, so a build shows them.

use object::{Object, ObjectSection, ObjectSymbol, RelocationTarget, SymbolKind};
use std::collections::{BTreeSet, HashMap};

/// Most bytes of stack of all frames (`MAX_BPF_STACK`).
const MOST_STACK_BYTES: u32 = 512;
/// Most frames (`MAX_CALL_FRAMES`).
const MOST_FRAMES: usize = 8;
/// Each frame is rounded up to a multiple of this. Newer kernels round up to 16.
const FRAME_UNIT_BYTES: u32 = 32;
/// `BPF_FUNC_tail_call`, which leaves the frames of the callers on the stack.
const TAIL_CALL: i64 = 12;

/// A function of an object: a program, or one that programs call.
#[derive(Debug)]
pub struct Function {
    /// Name of its symbol.
    pub name: String,
    /// Its section: `.text` if it is no program.
    pub section: String,
    /// Address of its first instruction in the section.
    pub from: u64,
    /// Address behind its last instruction.
    pub to: u64,
    /// Functions that it calls or passes to a helper, by section and address.
    pub calls: BTreeSet<(String, u64)>,
    /// Numbers of the helpers that it calls.
    pub helpers: BTreeSet<i64>,
    /// Its own frame, bytes.
    pub frame_bytes: u32,
    /// The instruction that falls back into a loop, if there is one.
    pub falls_back: Option<usize>,
}

/// The code of an object cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum CodeError {
    /// The file is damaged.
    #[error(transparent)]
    Object(#[from] object::Error),
    /// A function reaches beyond its section.
    #[error("the function `{0}` is not within its section")]
    Outside(String),
}

/// The section, address and kind (true for the section itself) of a relocation's symbol.
type Target = (String, u64, bool);

/// The functions of an object.
///
/// # Errors
/// The object is damaged.
pub fn functions(file: &object::File<'_>) -> Result<Vec<Function>, CodeError> {
    let mut functions = Vec::new();
    for symbol in file.symbols().filter(|s| s.kind() == SymbolKind::Text && s.size() > 0) {
        let Some(section) = symbol.section_index().and_then(|index| file.section_by_index(index).ok()) else {
            continue;
        };
        let from = symbol.address();
        let code = section.data()?.get(from as usize..).and_then(|code| code.get(..symbol.size() as usize));
        let code = code.ok_or_else(|| CodeError::Outside(symbol.name().unwrap_or("?").to_owned()))?;
        let mut function = Function {
            name: symbol.name()?.to_owned(),
            section: section.name()?.to_owned(),
            from,
            to: from + symbol.size(),
            calls: BTreeSet::new(),
            helpers: BTreeSet::new(),
            frame_bytes: frame_bytes(code),
            falls_back: falls_back(code),
        };
        read_calls(&mut function, code, &targets(file, &section));
        functions.push(function);
    }
    Ok(functions)
}

fn targets(file: &object::File<'_>, section: &object::Section<'_, '_>) -> HashMap<u64, Target> {
    let target = |(at, relocation): (u64, object::Relocation)| {
        let RelocationTarget::Symbol(index) = relocation.target() else { return None };
        let symbol = file.symbol_by_index(index).ok()?;
        let section = file.section_by_index(symbol.section_index()?).ok()?;
        let whole = symbol.kind() == SymbolKind::Section;
        Some((at, (section.name().ok()?.to_owned(), symbol.address(), whole)))
    };
    section.relocations().filter_map(target).collect()
}

fn read_calls(function: &mut Function, code: &[u8], targets: &HashMap<u64, Target>) {
    let mut at = function.from;
    for insn in code.chunks_exact(8).map(Insn::new) {
        let target = targets.get(&at);
        match (insn.opcode, insn.source) {
            (Insn::CALL, 1) => drop(function.calls.insert(match target {
                Some((section, _, true)) => (section.clone(), (insn.value + 1) as u64 * 8),
                Some((section, address, false)) => (section.clone(), *address),
                None => (function.section.clone(), at.wrapping_add_signed(8 + insn.value * 8)),
            })),
            (Insn::CALL, 0) => drop(function.helpers.insert(insn.value)),
            (Insn::LOAD_ADDRESS, _) => {
                if let Some((section, address, _)) = target.filter(|(section, ..)| section == ".text") {
                    function.calls.insert((section.clone(), address + insn.value as u64));
                }
            }
            _ => {}
        }
        at += 8;
    }
}

/// Indexes of the functions that a function calls.
pub fn callees(functions: &[Function], caller: usize) -> impl Iterator<Item = usize> {
    let calls = functions[caller].calls.iter();
    calls.filter_map(|(section, address)| {
        functions.iter().position(|f| f.section == *section && f.from == *address)
    })
}

/// The reason why kernels refuse the stack of a program, with the deepest chain of calls.
pub fn stack_refusal(functions: &[Function], program: usize) -> Option<String> {
    let chain = deepest(functions, program, MOST_FRAMES + 1);
    let bytes = stack_bytes(functions, &chain);
    let names = || {
        let frame = |at: &usize| format!("{} {}", functions[*at].name, rounded(&functions[*at]));
        chain.iter().map(frame).collect::<Vec<_>>().join(" > ")
    };
    if chain.iter().any(|at| functions[*at].helpers.contains(&TAIL_CALL)) {
        return Some(format!("a tail call, whose stack is not computed: {}", names()));
    }
    if chain.len() > MOST_FRAMES {
        return Some(format!("more than {MOST_FRAMES} frames: {}", names()));
    }
    (bytes > MOST_STACK_BYTES)
        .then(|| format!("{bytes} bytes of stack, {MOST_STACK_BYTES} are allowed: {}", names()))
}

/// The chain of calls with the most stack, of at most this many frames.
fn deepest(functions: &[Function], caller: usize, frames: usize) -> Vec<usize> {
    let below = callees(functions, caller).filter(|_| frames > 1);
    let chains = below.map(|callee| deepest(functions, callee, frames - 1));
    let longest = chains.max_by_key(|chain| (chain.len() >= frames, stack_bytes(functions, chain)));
    std::iter::once(caller).chain(longest.unwrap_or_default()).collect()
}

fn stack_bytes(functions: &[Function], chain: &[usize]) -> u32 {
    chain.iter().map(|at| rounded(&functions[*at])).sum()
}

fn rounded(function: &Function) -> u32 {
    function.frame_bytes.max(1).next_multiple_of(FRAME_UNIT_BYTES)
}

/// An instruction (`struct bpf_insn`).
struct Insn {
    opcode: u8,
    destination: u8,
    source: u8,
    offset: i64,
    value: i64,
}

impl Insn {
    const CALL: u8 = 0x85;
    /// A load of a value of 64 bits, which takes two instructions.
    const LOAD_ADDRESS: u8 = 0x18;
    /// Addition of a constant, and a copy of a register, in 64 bits.
    const ADD: u8 = 0x07;
    const COPY: u8 = 0xbf;
    const EXIT: u8 = 0x95;
    /// A jump without a condition.
    const JUMP: u8 = 0x05;

    fn new(bytes: &[u8]) -> Self {
        Self {
            opcode: bytes[0],
            destination: bytes[1] & 15,
            source: bytes[1] >> 4,
            offset: i64::from(i16::from_le_bytes([bytes[2], bytes[3]])),
            value: i64::from(i32::from_le_bytes([bytes[4], bytes[5], bytes[6], bytes[7]])),
        }
    }

    /// The instructions that may follow, as steps from this one, in the order in which the verifier visits them; and
    /// whether each may lead back (`check_cfg` before Linux 6.8: jumps alone).
    fn next(&self) -> ([Option<i64>; 2], bool) {
        let is_jump = matches!(self.opcode & 7, 5 | 6);
        match self.opcode {
            Self::EXIT => ([None, None], false),
            Self::JUMP => ([Some(1 + self.offset), None], true),
            _ if is_jump && self.opcode != Self::CALL => ([Some(1), Some(1 + self.offset)], true),
            _ => ([Some(1), None], false),
        }
    }

    /// The register whose address a load or store uses.
    fn base(&self) -> Option<u8> {
        match self.opcode & 7 {
            1 => Some(self.source),
            2 | 3 => Some(self.destination),
            _ => None,
        }
    }

    /// True if the destination becomes another value: loads and arithmetic.
    fn sets_destination(&self) -> bool {
        matches!(self.opcode & 7, 0 | 1 | 4 | 7)
    }
}

/// Bytes between the frame pointer and the lowest address that a function computes from it. The compiler computes an
/// address of the frame in two instructions that follow each other, so no jump leads between them.
fn frame_bytes(code: &[u8]) -> u32 {
    const FRAME_POINTER: usize = 10;
    let mut lowest = 0;
    // of each register, its distance to the frame pointer
    let mut distances = [None; 16];
    distances[FRAME_POINTER] = Some(0_i64);
    for insn in code.chunks_exact(8).map(Insn::new) {
        let (destination, source) = (usize::from(insn.destination), usize::from(insn.source));
        if let Some(distance) = insn.base().and_then(|base| distances[usize::from(base)]) {
            lowest = lowest.min(distance + insn.offset);
        }
        match insn.opcode {
            Insn::COPY => distances[destination] = distances[source],
            Insn::ADD => distances[destination] = distances[destination].map(|distance| distance + insn.value),
            Insn::CALL => distances[..6].fill(None),
            _ if insn.sets_destination() && destination != FRAME_POINTER => distances[destination] = None,
            _ => {}
        }
        lowest = lowest.min(distances[destination].unwrap_or_default());
    }
    u32::try_from(-lowest).unwrap_or(u32::MAX)
}

/// The first instruction that is no jump and is followed by one that the verifier, going depth first, has come from.
fn falls_back(code: &[u8]) -> Option<usize> {
    #[derive(Clone, Copy, PartialEq)]
    enum State {
        Unseen,
        Open,
        Done,
    }
    let insns: Vec<Insn> = code.chunks_exact(8).map(Insn::new).collect();
    let mut states = vec![State::Unseen; insns.len()];
    *states.first_mut()? = State::Open;
    let mut open = vec![0_usize];
    while let Some(at) = open.last().copied() {
        let (steps, may_lead_back) = insns[at].next();
        let targets = steps.into_iter().flatten().filter_map(|step| at.checked_add_signed(step as isize));
        let mut unseen = None;
        for target in targets.filter(|target| *target < insns.len()) {
            match states[target] {
                State::Open if !may_lead_back => return Some(at),
                State::Unseen => {
                    unseen = Some(target);
                    break;
                }
                State::Open | State::Done => {}
            }
        }
        if let Some(target) = unseen {
            states[target] = State::Open;
            open.push(target);
        } else {
            states[at] = State::Done;
            open.pop();
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    // Every object of this build, by name.
    include!(concat!(env!("OUT_DIR"), "/objects.rs"));

    /// The programs of an object that kernels refuse, with the reasons.
    fn refusals(object: &[u8]) -> Vec<String> {
        let functions = functions(&object::File::parse(object).expect("an object")).expect("whole");
        let programs = (0..functions.len()).filter(|at| functions[*at].section != ".text");
        let programs: Vec<usize> = programs.collect();
        assert!(!programs.is_empty());
        let refusal =
            |at: &usize| stack_refusal(&functions, *at).map(|why| format!("{}: {why}", functions[*at].name));
        programs.iter().filter_map(refusal).collect()
    }

    #[test]
    fn every_program_fits_on_the_stack_of_every_kernel() {
        assert!(OBJECTS.len() >= 4, "there is more than one variant");
        for (name, object) in OBJECTS {
            assert_eq!(refusals(object), Vec::<String>::new(), "{name}");
        }
    }

    #[test]
    fn no_loop_falls_into_its_head() {
        for (name, object) in OBJECTS {
            let functions = functions(&object::File::parse(*object).expect("an object")).expect("whole");
            let falls_back = functions.iter().filter_map(|f| Some((f.name.as_str(), f.falls_back?)));
            assert_eq!(falls_back.collect::<Vec<_>>(), [], "{name}: Linux 6.1 says `back-edge from insn`");
        }
    }

    /// An instruction with these registers (source and destination).
    fn insn(opcode: u8, registers: u8, offset: i16, value: i32) -> [u8; 8] {
        let (offset, value) = (offset.to_le_bytes(), value.to_le_bytes());
        [opcode, registers, offset[0], offset[1], value[0], value[1], value[2], value[3]]
    }

    #[test]
    fn a_loop_may_jump_back_and_not_fall_back() {
        let (exit, add) = (insn(Insn::EXIT, 0, 0, 0), insn(Insn::ADD, 1, 0, 1));
        let jump = |steps: i16| insn(Insn::JUMP, 0, steps, 0);
        // if r1 != 9
        let branch = |steps: i16| insn(0x55, 1, steps, 9);
        assert_eq!(falls_back(&[add, branch(-2), exit].concat()), None, "the condition at the end jumps back");
        assert_eq!(falls_back(&[add, branch(1), exit, add, jump(-4), exit].concat()), None);
        // The same with the condition first and the body above it.
        assert_eq!(falls_back(&[jump(1), add, branch(-2), exit].concat()), Some(1));
        let call = insn(Insn::CALL, 0, 0, 5);
        assert_eq!(falls_back(&[jump(1), call, branch(-2), exit].concat()), Some(1));
        assert_eq!(falls_back(&[]), None);
        assert_eq!(falls_back(&[add, jump(100)].concat()), None, "a jump out of it");
    }

    #[test]
    fn a_program_with_a_larger_frame_is_refused() {
        for (name, object) in OBJECTS {
            let file = object::File::parse(*object).expect("an object");
            let functions = functions(&file).expect("whole");
            let calls = |f: &&Function| f.section != ".text" && f.frame_bytes > 0 && !f.calls.is_empty();
            let Some(program) = functions.iter().find(calls) else { continue };
            let section = file.section_by_name(&program.section).expect("its section");
            let (start, _) = section.file_range().expect("bytes");
            let (from, to) = ((start + program.from) as usize, (start + program.to) as usize);
            let is_frame_store =
                |insn: &Insn| matches!(insn.opcode & 7, 2 | 3) && insn.destination == 10 && insn.offset < 0;
            let Some(store) = object[from..to].chunks_exact(8).map(Insn::new).position(|i| is_frame_store(&i))
            else {
                continue;
            };
            let mut larger = object.to_vec();
            larger[from + 8 * store + 2..][..2].copy_from_slice(&(-512_i16).to_le_bytes());
            let found = refusals(&larger);
            assert_eq!(found.len(), 1, "{name}: {found:?}");
            assert!(found[0].starts_with(&format!("{}: ", program.name)), "{found:?}");
            assert!(found[0].contains("bytes of stack, 512 are allowed"), "{found:?}");
        }
    }

    /// A chain of functions with these frames, each of which calls the next.
    fn chain(frames: &[u32]) -> Vec<Function> {
        let next = |at: usize| BTreeSet::from([(".text".to_owned(), at as u64 + 1)]);
        let function = |(at, frame): (usize, &u32)| Function {
            name: format!("f{at}"),
            section: ".text".to_owned(),
            from: at as u64,
            to: at as u64 + 1,
            calls: next(at),
            helpers: BTreeSet::new(),
            frame_bytes: *frame,
            falls_back: None,
        };
        frames.iter().enumerate().map(function).collect()
    }

    #[test]
    fn frames_are_rounded_up_and_added() {
        assert_eq!(stack_refusal(&chain(&[320, 64, 40, 33]), 0), None, "512");
        let refused = stack_refusal(&chain(&[321, 64, 40, 33]), 0).expect("544");
        assert_eq!(refused, "544 bytes of stack, 512 are allowed: f0 352 > f1 64 > f2 64 > f3 64");
        assert_eq!(stack_refusal(&chain(&[0; 8]), 0), None);
        let refused = stack_refusal(&chain(&[0; 9]), 0).expect("nine frames");
        assert!(refused.starts_with("more than 8 frames: f0 32 > "), "{refused}");
    }

    #[test]
    fn a_frame_reaches_to_the_lowest_address_that_is_computed() {
        // *(u64 *)(r10 - 16) = r1
        let store = insn(0x7b, 0x1a, -16, 0);
        assert_eq!(frame_bytes(&store), 16);
        // r2 = r10; r2 += -40
        let address = [insn(0xbf, 0xa2, 0, 0), insn(0x07, 0x02, 0, -40)].concat();
        assert_eq!(frame_bytes(&address), 40);
        // r1 = *(u64 *)(r2 - 24), above and below the address
        assert_eq!(frame_bytes(&[&address[..], &insn(0x79, 0x21, -24, 0)].concat()), 64);
        assert_eq!(frame_bytes(&[&address[..], &insn(0x79, 0x21, 24, 0)].concat()), 40);
        // after a call, r2 is another value
        let call = insn(0x85, 0, 0, 1);
        assert_eq!(frame_bytes(&[&address[..], &call, &insn(0x79, 0x21, -24, 0)].concat()), 40);
        assert_eq!(frame_bytes(&insn(0x07, 0x02, 0, -40)), 0, "no address of the frame");
    }
}
