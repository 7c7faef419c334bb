//! The filter compiler: each condition becomes a test with two jump targets, so that `and`, `or` and `not` cost
//! nothing.
//!
//! The compiler emits code backwards, so that all targets exist. An unknown field jumps to the target where the
//! comparison and its negation both fail.

use super::names::Cgroup;
use super::need::Need;
use super::{FilterError, Names};
use crate::record::{
    MAG_TESTS, mag_field_MAG_FIELD_CGROUP, mag_field_MAG_FIELD_COMM, mag_field_MAG_FIELD_CPU,
    mag_field_MAG_FIELD_DPORT, mag_field_MAG_FIELD_DST, mag_field_MAG_FIELD_HOP, mag_field_MAG_FIELD_HOST,
    mag_field_MAG_FIELD_IFINDEX, mag_field_MAG_FIELD_LEN, mag_field_MAG_FIELD_NETNS, mag_field_MAG_FIELD_PORT,
    mag_field_MAG_FIELD_PROTO, mag_field_MAG_FIELD_SOCKET, mag_field_MAG_FIELD_SPORT, mag_field_MAG_FIELD_SRC,
    mag_field_MAG_FIELD_TGID, mag_field_MAG_FIELD_UID, mag_filter, mag_need, mag_test, mag_verdict_MAG_DROP,
    mag_verdict_MAG_KEEP,
};
use magscope_core::CaptureFilter;
use magscope_core::capture_filter::{Expr, Field, Test, Value};
use magscope_core::filter::Prefix;
use magscope_core::hop::{Hop, HopSet};
use std::net::IpAddr;

/// A filter in the form that the kernel side executes.
#[derive(Clone, Debug, Default)]
pub struct Program {
    tests: Vec<mag_test>,
    entry: u8,
    need: mag_need,
    /// True if the filter needs recorded sockets.
    pub learn: bool,
}

impl Program {
    /// Compiles a filter; `names` resolves its names.
    ///
    /// # Errors
    /// [`FilterError`] for an unresolved name, and for a filter that is too long.
    pub fn compile(filter: &CaptureFilter, names: &dyn Names) -> Result<Self, FilterError> {
        let expr = resolve(filter.expr(), names)?;
        let count = expr.tests();
        if count > MAG_TESTS as usize {
            return Err(FilterError::TooLong(count));
        }
        let mut writer = Writer { reversed: Vec::with_capacity(count) };
        let entry = writer.write(&expr, KEEP, DROP, true);
        let last = writer.reversed.len().saturating_sub(1) as u8;
        let forward = |to: u8| if to == KEEP || to == DROP { to } else { last - to };
        let mut tests = writer.reversed;
        tests.reverse();
        for test in &mut tests {
            test.then = forward(test.then);
            test.otherwise = forward(test.otherwise);
            test.unknown = forward(test.unknown);
        }
        // the kernel starts at test 0, which is the entry of a list that is not empty
        debug_assert_eq!(forward(entry), if tests.is_empty() { entry } else { 0 });
        Ok(Program { tests, entry, need: Need::of(&expr).to_map(), learn: filter.needs_memory() })
    }

    /// The tests, in the order the kernel has them.
    pub fn tests(&self) -> &[mag_test] {
        &self.tests
    }

    /// The necessary condition of the filter.
    pub fn need(&self) -> &mag_need {
        &self.need
    }

    /// Layout of the kernel's map.
    pub(crate) fn to_map(&self) -> mag_filter {
        let mut map = mag_filter { count: self.tests.len() as u32, need: self.need, ..mag_filter::default() };
        for (slot, test) in map.tests.iter_mut().zip(&self.tests) {
            *slot = *test;
        }
        if self.tests.is_empty() {
            let end = self.entry;
            map.tests[0] = mag_test { then: end, otherwise: end, unknown: end, ..mag_test::default() };
        }
        map
    }

    /// Executes the tests as the kernel does; `answer` returns the result of a test, `None` for unknown. For
    /// tests.
    pub fn walk(&self, mut answer: impl FnMut(&mag_test) -> Option<bool>) -> bool {
        let mut at = if self.tests.is_empty() { self.entry } else { 0 };
        while let Some(test) = self.tests.get(usize::from(at)) {
            at = match answer(test) {
                Some(true) => test.then,
                Some(false) => test.otherwise,
                None => test.unknown,
            };
        }
        at == KEEP
    }
}

const KEEP: u8 = mag_verdict_MAG_KEEP as u8;
const DROP: u8 = mag_verdict_MAG_DROP as u8;

/// The filter expression with every name resolved.
pub(super) enum Plain {
    All(Vec<Plain>),
    Any(Vec<Plain>),
    Not(Box<Plain>),
    Test(mag_test),
}

impl Plain {
    fn tests(&self) -> usize {
        match self {
            Plain::All(list) | Plain::Any(list) => list.iter().map(Plain::tests).sum(),
            Plain::Not(inner) => inner.tests(),
            Plain::Test(_) => 1,
        }
    }
}

struct Writer {
    /// The tests in reverse: a target is the number of tests behind it.
    reversed: Vec<mag_test>,
}

impl Writer {
    /// Emits `expr` before the present tests and returns its entry. `positive` is false below an odd number of
    /// `not`s, where the two targets are swapped.
    fn write(&mut self, expr: &Plain, then: u8, otherwise: u8, positive: bool) -> u8 {
        match expr {
            Plain::All(list) => {
                list.iter().rev().fold(then, |then, e| self.write(e, then, otherwise, positive))
            }
            Plain::Any(list) => {
                list.iter().rev().fold(otherwise, |otherwise, e| self.write(e, then, otherwise, positive))
            }
            Plain::Not(inner) => self.write(inner, otherwise, then, !positive),
            Plain::Test(test) => {
                let unknown = if positive { otherwise } else { then };
                self.reversed.push(mag_test { then, otherwise, unknown, ..*test });
                (self.reversed.len() - 1) as u8
            }
        }
    }
}

fn resolve(expr: &Expr, names: &dyn Names) -> Result<Plain, FilterError> {
    let list = |list: &[Expr]| list.iter().map(|expr| resolve(expr, names)).collect::<Result<Vec<_>, _>>();
    Ok(match expr {
        Expr::All(all) => Plain::All(list(all)?),
        Expr::Any(any) => Plain::Any(list(any)?),
        Expr::Not(inner) => Plain::Not(Box::new(resolve(inner, names)?)),
        Expr::Test(test) => comparison(test, names)?,
    })
}

fn numbers(field: u32, from: u64, to: u64) -> mag_test {
    mag_test { field: field as u8, value: [from, to], ..mag_test::default() }
}

fn exactly(field: u32, number: u64) -> Plain {
    Plain::Test(numbers(field, number, number))
}

fn hops(hops: HopSet) -> Plain {
    Plain::Test(numbers(mag_field_MAG_FIELD_HOP, hops.0, 0))
}

fn comparison(test: &Test, names: &dyn Names) -> Result<Plain, FilterError> {
    let field = match test.field {
        Field::Cpu => mag_field_MAG_FIELD_CPU,
        Field::Hop | Field::Dir => mag_field_MAG_FIELD_HOP,
        Field::Proto => mag_field_MAG_FIELD_PROTO,
        Field::Netns => mag_field_MAG_FIELD_NETNS,
        Field::Iface => mag_field_MAG_FIELD_IFINDEX,
        Field::Host => mag_field_MAG_FIELD_HOST,
        Field::Src => mag_field_MAG_FIELD_SRC,
        Field::Dst => mag_field_MAG_FIELD_DST,
        Field::Port => mag_field_MAG_FIELD_PORT,
        Field::Sport => mag_field_MAG_FIELD_SPORT,
        Field::Dport => mag_field_MAG_FIELD_DPORT,
        Field::Len => mag_field_MAG_FIELD_LEN,
        Field::Socket => mag_field_MAG_FIELD_SOCKET,
        Field::Tgid => mag_field_MAG_FIELD_TGID,
        Field::Comm => mag_field_MAG_FIELD_COMM,
        Field::Uid => mag_field_MAG_FIELD_UID,
        Field::Cgroup | Field::Container | Field::Pod | Field::Unit => mag_field_MAG_FIELD_CGROUP,
    };
    Ok(match &test.value {
        Value::Range(from, to) => Plain::Test(numbers(field, *from, *to)),
        Value::Prefix(prefix) => Plain::Test(addresses(field, *prefix)),
        Value::Hop(hop) => hops([*hop].into_iter().collect()),
        Value::Dir(dir) => hops(Hop::ALL.iter().copied().filter(|hop| hop.direction() == *dir).collect()),
        Value::Name(name) => named(test.field, field, name, names).map_err(|because| FilterError::Name {
            field: test.field,
            name: name.clone(),
            because,
        })?,
    })
}

fn named(what: Field, field: u32, name: &str, names: &dyn Names) -> Result<Plain, super::NotFound> {
    let number = name.parse::<u64>().ok();
    Ok(match what {
        Field::Comm => Plain::Test(mag_test { field: field as u8, value: comm(name)?, ..mag_test::default() }),
        Field::Uid => exactly(field, number.map_or_else(|| names.uid(name).map(u64::from), Ok)?),
        Field::Netns => {
            let found = names.netns(name).map(u64::from);
            exactly(field, found.or_else(|because| number.ok_or(because))?)
        }
        Field::Iface => match number {
            Some(number) => exactly(field, number),
            // two namespaces may have the same interface name, and the same index
            None => Plain::Any(
                names
                    .iface(name)?
                    .into_iter()
                    .map(|(netns, index)| {
                        Plain::All(vec![
                            exactly(field, u64::from(index)),
                            exactly(mag_field_MAG_FIELD_NETNS, u64::from(netns)),
                        ])
                    })
                    .collect(),
            ),
        },
        Field::Container => cgroup(field, names.container(name)?),
        Field::Pod => Plain::Any(names.pod(name)?.into_iter().map(|group| cgroup(field, group)).collect()),
        Field::Unit => Plain::Any(names.unit(name)?.into_iter().map(|group| cgroup(field, group)).collect()),
        _ => cgroup(field, names.cgroup(name)?),
    })
}

/// At or below a cgroup.
fn cgroup(field: u32, group: Cgroup) -> Plain {
    Plain::Test(mag_test { arg: group.level, ..numbers(field, group.id, group.id) })
}

/// Kernel layout: 15 bytes and zeros.
fn comm(name: &str) -> Result<[u64; 2], super::NotFound> {
    if name.len() > 15 {
        return Err(super::NotFound::LongComm);
    }
    let mut bytes = [0; 16];
    bytes[..name.len()].copy_from_slice(name.as_bytes());
    let (first, second) = bytes.split_at(8);
    let word = |half: &[u8]| half.try_into().map_or(0, u64::from_ne_bytes);
    Ok([word(first), word(second)])
}

/// Addresses are in network order, IPv4 in the first four bytes.
fn addresses(field: u32, prefix: Prefix) -> mag_test {
    let (mut value, mut mask) = ([0; 16], [0; 16]);
    match prefix.address {
        IpAddr::V4(v4) => value[..4].copy_from_slice(&v4.octets()),
        IpAddr::V6(v6) => value = v6.octets(),
    }
    for (i, byte) in mask.iter_mut().enumerate() {
        let bits = usize::from(prefix.bits).saturating_sub(i * 8).min(8);
        *byte = (0xff00_u16 >> bits) as u8;
    }
    let words = |bytes: [u8; 16]| {
        let (first, second) = bytes.split_at(8);
        [first, second].map(|half| half.try_into().map_or(0, u64::from_ne_bytes))
    };
    mag_test {
        field: field as u8,
        arg: u32::from(prefix.address.is_ipv6()),
        value: words(value),
        mask: words(mask),
        ..mag_test::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filter::names::tests::FixedNames;
    use proptest::prelude::*;

    fn program(text: &str) -> Program {
        Program::compile(&CaptureFilter::parse(text).expect(text), &FixedNames).expect(text)
    }

    #[test]
    fn each_comparison_is_one_test_and_leads_forward_only() {
        let program = program("port 443 and not (comm = sshd or uid 0) or udp");
        assert_eq!(program.tests().len(), 4);
        for (at, test) in program.tests().iter().enumerate() {
            for to in [test.then, test.otherwise, test.unknown] {
                assert!(to == KEEP || to == DROP || usize::from(to) > at);
            }
        }
        assert!(program.learn);
    }

    #[test]
    fn addresses_and_names_stand_as_in_the_kernel() {
        let program =
            program("host 10.0.0.0/9 and comm = sshd and dst fd00::/8 and iface = eth0 and cgroup = /a/b");
        let tests = program.tests();
        assert_eq!(tests[0].value[0].to_ne_bytes(), [10, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(tests[0].mask[0].to_ne_bytes(), [255, 128, 0, 0, 0, 0, 0, 0]);
        assert_eq!(&tests[1].value[0].to_ne_bytes(), b"sshd\0\0\0\0");
        assert_eq!((tests[2].arg, tests[2].mask[0].to_ne_bytes()[..2].to_vec()), (1, vec![255, 0]));
        assert_eq!((tests[3].value[0], tests[4].value[0]), (3, 77), "interface 3 of namespace 77");
        assert_eq!((tests[5].arg, tests[5].value[0]), (2, 4711));
    }

    #[test]
    fn what_is_not_there_or_too_long_is_refused() {
        let compile = |text: &str| Program::compile(&CaptureFilter::parse(text).expect(text), &FixedNames);
        for text in ["iface = nope", "uid = nobody-here", "cgroup = /nope", "comm = sixteen-letters-"] {
            let error = compile(text).map(|p| p.tests).expect_err(text);
            assert!(error.to_string().contains('`'), "{error}");
        }
        let long = vec!["port 1"; 65].join(" or ");
        assert!(matches!(compile(&long), Err(FilterError::TooLong(65))));
        assert_eq!(compile(&vec!["port 1"; 64].join(" or ")).expect("fits").tests.len(), 64);
    }

    /// Conditions over ten comparisons, each with its own CPU number.
    fn any_filter() -> impl Strategy<Value = String> {
        let leaf = (0u8..10).prop_map(|n| format!("cpu = {n}"));
        leaf.prop_recursive(5, 40, 4, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 1..4).prop_map(|v| format!("({})", v.join(" and "))),
                proptest::collection::vec(inner.clone(), 1..4).prop_map(|v| format!("({})", v.join(" or "))),
                inner.prop_map(|e| format!("not {e}")),
            ]
        })
    }

    /// Kleene's logic: unknown is neither true nor false, nor is its opposite.
    #[expect(clippy::manual_try_fold, reason = "unknown is no reason to stop: what follows may decide")]
    fn truth(expr: &Expr, truths: &[Option<bool>]) -> Option<bool> {
        match expr {
            Expr::All(list) => list.iter().map(|e| truth(e, truths)).fold(Some(true), |a, b| match (a, b) {
                (Some(false), _) | (_, Some(false)) => Some(false),
                (Some(true), Some(true)) => Some(true),
                _ => None,
            }),
            Expr::Any(list) => list.iter().map(|e| truth(e, truths)).fold(Some(false), |a, b| match (a, b) {
                (Some(true), _) | (_, Some(true)) => Some(true),
                (Some(false), Some(false)) => Some(false),
                _ => None,
            }),
            Expr::Not(inner) => truth(inner, truths).map(|t| !t),
            Expr::Test(Test { value: Value::Range(n, _), .. }) => truths.get(*n as usize).copied().flatten(),
            Expr::Test(_) => None,
        }
    }

    proptest! {
        #[test]
        fn the_program_keeps_exactly_what_is_certainly_true(
            text in any_filter(),
            truths in proptest::collection::vec(proptest::option::of(any::<bool>()), 10),
        ) {
            let filter = CaptureFilter::parse(&text).expect("made from parts");
            if let Ok(program) = Program::compile(&filter, &FixedNames) {
                let accepted = program.walk(|test| truths[test.value[0] as usize]);
                prop_assert_eq!(accepted, truth(filter.expr(), &truths) == Some(true));
            }
        }
    }
}
