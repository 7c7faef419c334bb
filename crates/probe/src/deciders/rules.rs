//! Chains of netfilter that can drop packets, and the rule that does it if there is only one.

use crate::netlink::{Message, Netlink, NoAnswer, attribute, attributes, be32, be64, text};
use magscope_core::deciders::{DropRule, FilterChain, FilterFamily, FilterHook};
use magscope_core::foreign::clean;
use rustix::net::netlink::NETFILTER;
use std::collections::BTreeSet;
use std::fs;

const NFGENMSG: usize = 4;
const GET_CHAINS: u16 = (10 << 8) | 4;
const GET_RULES: u16 = (10 << 8) | 7;
const NF_DROP: u32 = 0;
const JUMP: u32 = (-3_i32).cast_unsigned();
const GOTO: u32 = (-4_i32).cast_unsigned();

/// What the attributes of chains, rules and expressions mean, by their numbers.
mod attr {
    pub const CHAIN_TABLE: u16 = 1;
    pub const CHAIN_NAME: u16 = 3;
    pub const CHAIN_HOOK: u16 = 4;
    pub const CHAIN_POLICY: u16 = 5;
    pub const HOOK_NUMBER: u16 = 1;
    pub const RULE_TABLE: u16 = 1;
    pub const RULE_CHAIN: u16 = 2;
    pub const RULE_HANDLE: u16 = 3;
    pub const RULE_EXPRESSIONS: u16 = 4;
    pub const EXPRESSION_NAME: u16 = 1;
    pub const EXPRESSION_DATA: u16 = 2;
    pub const IMMEDIATE_DATA: u16 = 2;
    pub const DATA_VERDICT: u16 = 2;
    pub const VERDICT_CODE: u16 = 1;
    pub const VERDICT_CHAIN: u16 = 2;
    pub const LOOKUP_REGISTER: u16 = 3;
    pub const TARGET_NAME: u16 = 1;
}

/// The chains of this thread's network namespace. `None` if a list cannot be read completely.
pub fn read(netns: u32) -> Option<Vec<FilterChain>> {
    let mut found = of_nftables(netns).ok()?;
    for (family, path) in [(FilterFamily::Ip, "ip_tables_names"), (FilterFamily::Ip6, "ip6_tables_names")] {
        let tables = fs::read_to_string(format!("/proc/thread-self/net/{path}")).unwrap_or_default();
        found.extend(tables.lines().flat_map(|table| of_table(netns, family, table)));
    }
    if !forwards() {
        found.retain(|chain| chain.hook != FilterHook::Forward || chain.family == FilterFamily::Bridge);
    }
    Some(found)
}

fn of_nftables(netns: u32) -> Result<Vec<FilterChain>, NoAnswer> {
    let Ok(mut netlink) = Netlink::new(Some(NETFILTER)) else { return Ok(Vec::new()) };
    let chains = match netlink.dump(GET_CHAINS, &[0; NFGENMSG]) {
        Ok(chains) => chains.iter().filter_map(Chain::of).collect::<Vec<_>>(),
        // A kernel without nftables.
        Err(NoAnswer::Refused) => Vec::new(),
        Err(NoAnswer::Incomplete) => return Err(NoAnswer::Incomplete),
    };
    if !chains.iter().any(|chain| chain.hook.is_some()) {
        return Ok(Vec::new());
    }
    let rules = netlink.dump(GET_RULES, &[0; NFGENMSG]).ok();
    let rules = rules.map(|rules| rules.iter().filter_map(Rule::of).collect::<Vec<_>>());
    Ok(droppers(netns, &chains, rules.as_deref()))
}

/// True if an interface of this thread's network namespace forwards packets. What cannot be read may forward.
fn forwards() -> bool {
    ["ipv4", "ipv6"].iter().any(|family| {
        let Ok(interfaces) = fs::read_dir(format!("/proc/sys/net/{family}/conf")) else {
            return *family == "ipv4";
        };
        let mut settings =
            interfaces.flatten().map(|entry| fs::read_to_string(entry.path().join("forwarding")));
        settings.any(|setting| setting.is_ok_and(|setting| setting.trim() != "0"))
    })
}

/// The chains of a table of iptables. Its rules are unknown.
fn of_table(netns: u32, family: FilterFamily, table: &str) -> Vec<FilterChain> {
    use FilterHook::{Forward, Input, Output, Postrouting, Prerouting};
    let hooks: &[FilterHook] = match table {
        "filter" | "security" => &[Input, Forward, Output],
        "raw" => &[Prerouting, Output],
        "nat" => &[Prerouting, Input, Output, Postrouting],
        _ => &[Prerouting, Input, Forward, Output, Postrouting],
    };
    let chain = |hook: &FilterHook| FilterChain {
        netns,
        family,
        table: clean(table).into_owned(),
        chain: hook.name().to_uppercase(),
        hook: *hook,
        policy: false,
        rule: None,
        others: true,
    };
    hooks.iter().map(chain).collect()
}

/// A chain of nftables.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Chain {
    family: u8,
    table: String,
    name: String,
    /// Number of its hook, if it is a base chain.
    hook: Option<u32>,
    drops: bool,
}

/// A rule of nftables.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Rule {
    family: u8,
    table: String,
    chain: String,
    handle: u64,
    drops: bool,
    /// Chains that it leads to.
    jumps: Vec<String>,
    /// True if a map chooses the verdict.
    is_unknown: bool,
}

impl Chain {
    fn of(message: &Message) -> Option<Self> {
        let (family, attributes) = (*message.first()?, message.get(NFGENMSG..)?);
        let hook = attribute(attributes, attr::CHAIN_HOOK);
        Some(Chain {
            family,
            table: text(attribute(attributes, attr::CHAIN_TABLE)?),
            name: text(attribute(attributes, attr::CHAIN_NAME)?),
            hook: hook.and_then(|hook| be32(attribute(hook, attr::HOOK_NUMBER)?)),
            drops: attribute(attributes, attr::CHAIN_POLICY).and_then(be32) == Some(NF_DROP),
        })
    }
}

impl Rule {
    fn of(message: &Message) -> Option<Self> {
        let (family, of_rule) = (*message.first()?, message.get(NFGENMSG..)?);
        let mut rule = Rule {
            family,
            table: text(attribute(of_rule, attr::RULE_TABLE)?),
            chain: text(attribute(of_rule, attr::RULE_CHAIN)?),
            handle: be64(attribute(of_rule, attr::RULE_HANDLE)?)?,
            ..Rule::default()
        };
        let expressions = attribute(of_rule, attr::RULE_EXPRESSIONS).unwrap_or_default();
        for (_, expression) in attributes(expressions) {
            let name = attribute(expression, attr::EXPRESSION_NAME).map(text).unwrap_or_default();
            rule.add(&name, attribute(expression, attr::EXPRESSION_DATA).unwrap_or_default());
        }
        Some(rule)
    }

    fn add(&mut self, name: &str, data: &[u8]) {
        match name {
            "immediate" => {
                let value = attribute(data, attr::IMMEDIATE_DATA).unwrap_or_default();
                let Some(verdict) = attribute(value, attr::DATA_VERDICT) else { return };
                let to = attribute(verdict, attr::VERDICT_CHAIN).map(text);
                match attribute(verdict, attr::VERDICT_CODE).and_then(be32) {
                    Some(NF_DROP) => self.drops = true,
                    Some(JUMP | GOTO) => self.jumps.extend(to),
                    _ => {}
                }
            }
            "reject" => self.drops = true,
            // A lookup with a target register finds a value; register 0 is the verdict.
            "lookup" => {
                let register = attribute(data, attr::LOOKUP_REGISTER).and_then(be32);
                self.is_unknown |= register == Some(0);
            }
            "target" => {
                let target = attribute(data, attr::TARGET_NAME).map(text);
                self.drops |= matches!(target.as_deref(), Some("REJECT" | "DROP"));
            }
            _ => {}
        }
    }
}

fn family(number: u8) -> Option<FilterFamily> {
    match number {
        1 => Some(FilterFamily::Inet),
        2 => Some(FilterFamily::Ip),
        5 => Some(FilterFamily::Netdev),
        7 => Some(FilterFamily::Bridge),
        10 => Some(FilterFamily::Ip6),
        _ => None,
    }
}

fn hook(family: FilterFamily, number: u32) -> Option<FilterHook> {
    match (family, number) {
        (FilterFamily::Netdev, 0) | (FilterFamily::Inet, 5) => Some(FilterHook::Ingress),
        (FilterFamily::Netdev, 1) => Some(FilterHook::Egress),
        (FilterFamily::Netdev, _) => None,
        (_, 0) => Some(FilterHook::Prerouting),
        (_, 1) => Some(FilterHook::Input),
        (_, 2) => Some(FilterHook::Forward),
        (_, 3) => Some(FilterHook::Output),
        (_, 4) => Some(FilterHook::Postrouting),
        _ => None,
    }
}

/// The base chains that can drop, by themselves or by the chains that they lead to. Without a list of rules each
/// may.
fn droppers(netns: u32, chains: &[Chain], rules: Option<&[Rule]>) -> Vec<FilterChain> {
    let mut found = Vec::new();
    for chain in chains {
        let Some(family) = family(chain.family) else { continue };
        let Some(hook) = chain.hook.and_then(|number| hook(family, number)) else { continue };
        let (dropping, is_unknown) = match rules {
            Some(rules) => reached(chain, rules),
            None => (Vec::new(), true),
        };
        let is_one = dropping.len() == 1 && !is_unknown && !chain.drops;
        let rule = dropping.first().filter(|_| is_one);
        let rule = rule.map(|rule| DropRule { chain: clean(&rule.chain).into_owned(), handle: rule.handle });
        let others = is_unknown || (!dropping.is_empty() && rule.is_none());
        if chain.drops || others || rule.is_some() {
            found.push(FilterChain {
                netns,
                family,
                table: clean(&chain.table).into_owned(),
                chain: clean(&chain.name).into_owned(),
                hook,
                policy: chain.drops,
                rule,
                others,
            });
        }
    }
    found
}

/// The rules that drop, of a base chain and of all chains that it leads to; and whether some verdicts are unknown.
fn reached<'r>(base: &Chain, rules: &'r [Rule]) -> (Vec<&'r Rule>, bool) {
    let (mut seen, mut next) = (BTreeSet::from([base.name.as_str()]), vec![base.name.as_str()]);
    let (mut dropping, mut is_unknown) = (Vec::new(), false);
    while let Some(name) = next.pop() {
        let of_table = |rule: &&Rule| (rule.family, rule.table.as_str()) == (base.family, base.table.as_str());
        for rule in rules.iter().filter(of_table).filter(|rule| rule.chain == name) {
            is_unknown |= rule.is_unknown;
            if rule.drops {
                dropping.push(rule);
            }
            next.extend(rule.jumps.iter().map(String::as_str).filter(|to| seen.insert(to)));
        }
    }
    (dropping, is_unknown)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::netlink::written;

    fn base(name: &str, hook: u32, drops: bool) -> Chain {
        Chain { family: 1, table: "t".to_owned(), name: name.to_owned(), hook: Some(hook), drops }
    }

    fn rule(chain: &str, handle: u64) -> Rule {
        Rule { family: 1, table: "t".to_owned(), chain: chain.to_owned(), handle, ..Rule::default() }
    }

    fn jump(chain: &str, to: &str) -> Rule {
        Rule { jumps: vec![to.to_owned()], ..rule(chain, 1) }
    }

    fn drop(chain: &str, handle: u64) -> Rule {
        Rule { drops: true, ..rule(chain, handle) }
    }

    /// A rule, whether the policy drops, and whether others may.
    type Dropper = (Option<(String, u64)>, bool, bool);

    fn of(chain: Chain, rules: Option<&[Rule]>) -> Option<Dropper> {
        let found = droppers(7, &[chain], rules);
        let words = |chain: &FilterChain| {
            (chain.rule.clone().map(|rule| (rule.chain, rule.handle)), chain.policy, chain.others)
        };
        found.first().map(words)
    }

    #[test]
    fn a_chain_that_cannot_drop_is_no_candidate() {
        assert_eq!(of(base("in", 1, false), Some(&[rule("in", 1), drop("out", 2)])), None);
        let other_table = Rule { table: "u".to_owned(), ..drop("in", 2) };
        assert_eq!(of(base("in", 1, false), Some(&[other_table])), None);
        let regular = Chain { hook: None, ..base("in", 1, true) };
        assert_eq!(of(regular, Some(&[drop("in", 2)])), None, "no packet begins there");
    }

    #[test]
    fn the_only_rule_that_drops_is_named() {
        let named = |chain: &str, handle| Some((Some((chain.to_owned(), handle)), false, false));
        let input = || base("in", 1, false);
        assert_eq!(of(input(), Some(&[rule("in", 1), drop("in", 4)])), named("in", 4));
        let loops = [jump("in", "a"), jump("a", "b"), jump("b", "a"), drop("b", 9)];
        assert_eq!(of(input(), Some(&loops)), named("b", 9));
        assert_eq!(of(input(), Some(&[drop("in", 4), drop("in", 5)])), Some((None, false, true)));
        assert_eq!(of(base("in", 1, true), Some(&[drop("in", 4)])), Some((None, true, true)));
        assert_eq!(of(base("in", 1, true), Some(&[])), Some((None, true, false)));
        assert_eq!(of(input(), None), Some((None, false, true)), "rules that cannot be read");
        let by_map = Rule { is_unknown: true, ..rule("in", 1) };
        assert_eq!(of(input(), Some(&[by_map, drop("in", 2)])), Some((None, false, true)));
    }

    fn message(attributes: &[Vec<u8>]) -> Message {
        [&[1, 0, 0, 0][..], &attributes.concat()].concat()
    }

    #[test]
    fn chains_and_rules_are_read_from_messages() {
        let number = |kind, value: u32| written(kind, &value.to_be_bytes());
        let hooked = [number(1, 1), number(2, 0)].concat();
        let chain = [written(1, b"t\0"), written(3, b"in\0"), written(4, &hooked), number(5, 0)];
        assert_eq!(Chain::of(&message(&chain)), Some(base("in", 1, true)));
        let regular = Chain::of(&message(&[written(1, b"t\0"), written(3, b"in\0")])).expect("a chain");
        assert_eq!((regular.hook, regular.drops), (None, false));

        let expression = |name: &[u8], data: &[u8]| written(1, &[written(1, name), written(2, data)].concat());
        let verdict = |code: i32, chain: &[u8]| {
            let to = if chain.is_empty() { Vec::new() } else { written(2, chain) };
            let verdict = [number(1, code.cast_unsigned()), to].concat();
            expression(b"immediate\0", &[number(1, 0), written(2, &written(2, &verdict))].concat())
        };
        let of = |expressions: &[Vec<u8>]| {
            let rule = [
                written(1, b"t\0"),
                written(2, b"in\0"),
                written(3, &4_u64.to_be_bytes()),
                written(4, &expressions.concat()),
            ];
            Rule::of(&message(&rule)).expect("a rule")
        };
        assert_eq!(of(&[expression(b"counter\0", &[]), verdict(0, b"")]), drop("in", 4));
        assert_eq!(of(&[verdict(1, b"")]), rule("in", 4));
        assert_eq!(of(&[verdict(-3, b"a\0")]).jumps, ["a"]);
        assert!(of(&[expression(b"lookup\0", &number(3, 0))]).is_unknown);
        assert!(!of(&[expression(b"lookup\0", &number(2, 1))]).is_unknown, "a set");
        assert!(of(&[expression(b"reject\0", &[])]).drops);
        assert!(of(&[expression(b"target\0", &written(1, b"REJECT\0"))]).drops);
    }

    #[test]
    fn tables_of_iptables_have_their_hooks() {
        let chains = of_table(7, FilterFamily::Ip6, "raw");
        assert_eq!(chains.iter().map(|c| c.chain.as_str()).collect::<Vec<_>>(), ["PREROUTING", "OUTPUT"]);
        assert!(chains.iter().all(|chain| chain.others && chain.rule.is_none()));
    }
}
