//! Supermon's samples (Sottile and Minnich, *Scale up your monitoring with Supermon*, 2002), as self-describing
//! symbolic expressions. Fields belong to categories and have a value per CPU, interface or hop. One node's
//! answer and that of many have the same form, so that concentrators compose.
//!
//! ```text
//! (sample (node "web-1" (cpuinfo (user 12 14) (nice 0 0)) (netinfo (name "lo" "eth0") (rxbytes 0 9))) (node
//! "web-2" …))
//! (descriptors (node "web-1" (cpuinfo (nr 2) (user nice)) (netinfo (nr 2) (name rxbytes))) (node "web-2" …))
//! ```

use crate::sexp::{BadSexp, Sexp};
use crate::snapshot::{HostSnapshot, PairTimes, SelfUsage};
use std::collections::BTreeMap;
use std::fmt;

/// Maximum number of nodes in a valid answer.
pub const MOST_NODES: usize = 4_096;

/// Data of one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Node name.
    pub name: String,
    /// Its categories.
    pub categories: Vec<Category>,
}

/// Fields with one value each for the same objects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Category {
    /// `cpuinfo`.
    pub name: String,
    /// Fields by name, in order.
    pub fields: Vec<(String, Vec<Sexp>)>,
}

/// Reason for a rejected answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BadSample {
    /// Invalid expression.
    Sexp(BadSexp),
    /// The node reported an error.
    Refused(String),
    /// Unexpected structure.
    Shape(&'static str),
}

impl fmt::Display for BadSample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sexp(bad) => write!(f, "it is no expression: {bad}"),
            Self::Refused(because) => write!(f, "it refuses: {because}"),
            Self::Shape(what) => write!(f, "it is no sample: {what}"),
        }
    }
}

impl Category {
    /// A category with these integer fields.
    pub fn numbers<const N: usize>(name: &str, fields: [(&str, Vec<u64>); N]) -> Self {
        let field = |(name, values): (&str, Vec<u64>)| {
            (name.to_owned(), values.into_iter().map(|value| Sexp::Number(value.into())).collect())
        };
        Category { name: name.to_owned(), fields: fields.into_iter().map(field).collect() }
    }

    /// Adds the names of the objects as the first field.
    #[must_use]
    pub fn of<'a>(mut self, field: &str, names: impl IntoIterator<Item = &'a str>) -> Self {
        let names = names.into_iter().map(|name| Sexp::Text(name.to_owned())).collect();
        self.fields.insert(0, (field.to_owned(), names));
        self
    }

    /// Number of values per field.
    fn nr(&self) -> usize {
        self.fields.iter().map(|(_, values)| values.len()).max().unwrap_or(0)
    }
}

/// A client's selection: everything, or these fields of these categories.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mask(Option<BTreeMap<String, Vec<String>>>);

/// A client's command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// `#`: the available fields.
    Descriptors,
    /// `s`: the current values.
    Sample,
    /// `(mask (cpuinfo user system) (netinfo))`: restricts later samples to these fields; a category without
    /// fields means all of them. `(mask)` selects everything.
    Mask(Mask),
}

impl Command {
    /// Parses a line.
    ///
    /// # Errors
    /// The reason for its rejection.
    pub fn parse(line: &str) -> Result<Self, String> {
        match line.trim() {
            "#" => return Ok(Self::Descriptors),
            "s" | "S" => return Ok(Self::Sample),
            _ => {}
        }
        let sexp = Sexp::parse(line).map_err(|bad| format!("this is no command: {bad}"))?;
        match sexp.as_tagged() {
            Some(("mask", categories)) => Mask::parse(categories).map(Self::Mask),
            _ => Err("a command is one of `#`, `s` and `(mask (category field …) …)`".to_owned()),
        }
    }
}

impl Mask {
    fn parse(categories: &[Sexp]) -> Result<Self, String> {
        if categories.is_empty() {
            return Ok(Mask(None));
        }
        let mut all: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for category in categories {
            let bad =
                || "a mask has lists of a category and its fields: `(mask (cpuinfo user system))`".to_owned();
            let (name, fields) = category.as_tagged().ok_or_else(bad)?;
            let fields = fields.iter().map(|field| field.as_name().map(ToOwned::to_owned).ok_or_else(bad));
            all.entry(name.to_owned()).or_default().extend(fields.collect::<Result<Vec<_>, _>>()?);
        }
        Ok(Mask(Some(all)))
    }

    /// The command that sets this mask.
    pub fn command(&self) -> String {
        let names = |names: &[String]| names.iter().map(|name| Sexp::name(name)).collect::<Vec<_>>();
        let all = self.0.iter().flatten().map(|(category, fields)| Sexp::tagged(category, names(fields)));
        Sexp::tagged("mask", all).to_string()
    }

    /// True if any field of a category is selected.
    pub fn wants(&self, category: &str) -> bool {
        // Every client is informed about a failed node.
        category == DOWN || self.0.as_ref().is_none_or(|all| all.contains_key(category))
    }

    /// The selected part of a node.
    pub fn apply(&self, node: &Node) -> Node {
        let Some(all) = &self.0 else { return node.clone() };
        let keep = |category: &Category| -> Option<Category> {
            if category.name == DOWN {
                return Some(category.clone());
            }
            let wanted = all.get(&category.name)?;
            let fields = category.fields.iter().filter(|(name, _)| wanted.is_empty() || wanted.contains(name));
            Some(Category { name: category.name.clone(), fields: fields.cloned().collect() })
        };
        Node { name: node.name.clone(), categories: node.categories.iter().filter_map(keep).collect() }
    }
}

/// The category of an unreachable node.
pub const DOWN: &str = "down";

impl Node {
    /// An unreachable node: the start of the outage, nanoseconds UTC, and the reason.
    pub fn down(name: &str, since_ns: u64, because: &str) -> Self {
        let mut category = Category::numbers(DOWN, [("since", vec![since_ns])]);
        category.fields.push(("because".to_owned(), vec![Sexp::Text(because.chars().take(200).collect())]));
        Node { name: name.to_owned(), categories: vec![category] }
    }

    /// True for an unreachable node.
    pub fn is_down(&self) -> bool {
        self.categories.iter().any(|category| category.name == DOWN)
    }
}

/// Values of nodes, in one line.
pub fn sample(nodes: &[Node]) -> String {
    let field = |(name, values): &(String, Vec<Sexp>)| Sexp::tagged(name, values.iter().cloned());
    let category = |category: &Category| Sexp::tagged(&category.name, category.fields.iter().map(field));
    answer("sample", nodes, category)
}

/// Fields of nodes, in one line.
pub fn descriptors(nodes: &[Node]) -> String {
    let category = |category: &Category| {
        let fields = category.fields.iter().map(|(name, _)| Sexp::name(name)).collect();
        let nr = Sexp::tagged("nr", [Sexp::Number(category.nr() as i128)]);
        Sexp::tagged(&category.name, [nr, Sexp::List(fields)])
    };
    answer("descriptors", nodes, category)
}

fn answer(tag: &str, nodes: &[Node], category: impl Fn(&Category) -> Sexp) -> String {
    let node = |node: &Node| {
        let name = Sexp::Text(node.name.clone());
        Sexp::tagged("node", std::iter::once(name).chain(node.categories.iter().map(&category)))
    };
    Sexp::tagged(tag, nodes.iter().map(node)).to_string()
}

/// The answer to an invalid command.
pub fn refusal(because: &str) -> String {
    Sexp::tagged("error", [Sexp::Text(because.chars().take(200).collect())]).to_string()
}

/// The answer to a mask.
pub fn masked() -> String {
    Sexp::tagged("mask", []).to_string()
}

/// Parses a sample.
///
/// # Errors
/// [`BadSample`].
pub fn parse(line: &str) -> Result<Vec<Node>, BadSample> {
    let sexp = Sexp::parse(line).map_err(BadSample::Sexp)?;
    match sexp.as_tagged() {
        Some(("sample", nodes)) if nodes.len() > MOST_NODES => Err(BadSample::Shape("it has too many nodes")),
        Some(("sample", nodes)) => nodes.iter().map(node).collect(),
        Some(("error", because)) => {
            let because = because.first().and_then(Sexp::as_name).unwrap_or("it does not say why");
            Err(BadSample::Refused(because.chars().take(200).collect()))
        }
        _ => Err(BadSample::Shape("it does not begin with `sample`")),
    }
}

fn node(sexp: &Sexp) -> Result<Node, BadSample> {
    let Some(("node", rest)) = sexp.as_tagged() else {
        return Err(BadSample::Shape("what is not a node is in it"));
    };
    let (name, categories) = rest.split_first().ok_or(BadSample::Shape("a node has no name"))?;
    let name = name.as_name().ok_or(BadSample::Shape("a node has no name"))?;
    let categories = categories.iter().map(|category| {
        let (name, fields) = category.as_tagged().ok_or(BadSample::Shape("a category has no name"))?;
        let field = |field: &Sexp| {
            let (name, values) = field.as_tagged().ok_or(BadSample::Shape("a field has no name"))?;
            Ok((name.to_owned(), values.to_vec()))
        };
        let fields = fields.iter().map(field).collect::<Result<_, _>>()?;
        Ok(Category { name: name.to_owned(), fields })
    });
    Ok(Node { name: name.chars().take(128).collect(), categories: categories.collect::<Result<_, _>>()? })
}

/// Makes node names unique by appending numbers to repeated ones.
pub fn make_names_unique(nodes: &mut [Node]) {
    let mut taken: BTreeMap<String, usize> = BTreeMap::new();
    for node in nodes {
        let mut name = node.name.clone();
        while let Some(number) = taken.get_mut(&name) {
            *number += 1;
            name = format!("{}-{number}", node.name);
        }
        taken.insert(name.clone(), 1);
        node.name = name;
    }
}

/// Categories of a capture: hops, drops and losses since its start, latencies of the last minute, and its cost.
pub fn categories(host: &HostSnapshot, own: &SelfUsage) -> Vec<Category> {
    let hops = host.hops.iter().filter(|state| state.unserved.is_none()).map(|state| state.hop);
    let hops: Vec<_> = hops.map(|hop| host.total.hop(hop)).collect();
    // A sampler's weight in thousandths, because the expressions have only integers.
    let weight = |hop| host.state(hop).map_or(1_000, |state| (state.weight * 1_000.0).round() as u64);
    let mut categories = vec![
        Category::numbers(
            "hops",
            [
                ("events", hops.iter().map(|tally| tally.events).collect()),
                ("bytes", hops.iter().map(|tally| tally.bytes).collect()),
                ("weight_milli", hops.iter().map(|tally| weight(tally.hop)).collect()),
            ],
        )
        .of("name", hops.iter().map(|tally| tally.hop.name())),
        latencies("latency", &host.window.latencies),
        Category::numbers("drops", [("packets", host.total.drops.iter().map(|drop| drop.n).collect())])
            .of("reason", host.total.drops.iter().map(|drop| drop.reason.as_str())),
        Category::numbers("losses", [("records", host.total.losses.iter().map(|lost| lost.records).collect())])
            .of("cause", host.total.losses.iter().map(|lost| lost.cause.as_str())),
        Category::numbers("overhead", [("cpu_ns", vec![own.cpu_ns])]),
    ];
    // only if present: a reader that does not expect it finds the usual categories
    let kernel = &host.total.kernel;
    if !kernel.hops.is_empty() {
        let events = kernel.hops.iter().map(|hop| hop.events).collect();
        let hops = Category::numbers("hops_kernel", [("events", events)]);
        categories.push(hops.of("name", kernel.hops.iter().map(|hop| hop.hop.name())));
        categories.push(latencies("latency_kernel", &host.window.kernel.latencies));
        let drops =
            Category::numbers("drops_kernel", [("packets", kernel.drops.iter().map(|drop| drop.n).collect())]);
        categories.push(drops.of("reason", kernel.drops.iter().map(|drop| drop.reason.as_str())));
    }
    categories
}

fn latencies(name: &str, pairs: &[PairTimes]) -> Category {
    let times = |figure: fn(&PairTimes) -> u64| pairs.iter().map(figure).collect::<Vec<_>>();
    let figures = [
        ("n", times(|pair| pair.times.n)),
        ("sum_ns", times(|pair| pair.times.sum_ns)),
        ("p50_ns", times(|pair| pair.times.p50_ns)),
        ("p99_ns", times(|pair| pair.times.p99_ns)),
        ("max_ns", times(|pair| pair.times.max_ns)),
    ];
    let mut all = Category::numbers(name, figures);
    if pairs.iter().any(|pair| !pair.proto.is_empty()) {
        all = all.of("proto", pairs.iter().map(|pair| pair.proto.as_str()));
    }
    all.of("to", pairs.iter().map(|pair| pair.to.name())).of("from", pairs.iter().map(|pair| pair.from.name()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn nodes() -> Vec<Node> {
        let cpuinfo = Category::numbers("cpuinfo", [("user", vec![1, 2]), ("nice", vec![0, 0])]);
        let netinfo =
            Category::numbers("netinfo", [("rxbytes", vec![7, u64::MAX])]).of("name", ["lo", "et\"h 0"]);
        vec![
            Node { name: "web-1".to_owned(), categories: vec![cpuinfo, netinfo] },
            Node::down("10.0.0.2:2709", 5, "nobody listens there"),
        ]
    }

    #[test]
    fn a_sample_and_what_it_is_made_of() {
        let nodes = nodes();
        let text = "(sample (node \"web-1\" (cpuinfo (user 1 2) (nice 0 0)) \
                    (netinfo (name \"lo\" \"et\\\"h 0\") (rxbytes 7 18446744073709551615))) \
                    (node \"10.0.0.2:2709\" (down (since 5) (because \"nobody listens there\"))))";
        assert_eq!(sample(&nodes), text);
        assert_eq!(parse(text), Ok(nodes.clone()));
        let text = "(descriptors (node \"web-1\" (cpuinfo (nr 2) (user nice)) (netinfo (nr 2) (name rxbytes))) \
                    (node \"10.0.0.2:2709\" (down (nr 1) (since because))))";
        assert_eq!(descriptors(&nodes), text);
        assert!(parse(text).is_err() && !nodes[0].is_down() && nodes[1].is_down());
        assert_eq!(parse("(error \"no\")"), Err(BadSample::Refused("no".to_owned())));
        for bad in [
            "",
            "(sample",
            "(sample 1)",
            "(sample (node))",
            "(sample (node 1))",
            "(sample (node a 1))",
            "(sample (node a (b 1)))",
        ] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_mask_lets_through_what_it_names_and_is_passed_on() {
        let all = nodes();
        let mask = |text: &str| match Command::parse(text) {
            Ok(Command::Mask(mask)) => mask,
            other => panic!("{text}: {other:?}"),
        };
        let some = mask("(mask (cpuinfo user) (nowhere) (netinfo))");
        let masked: Vec<_> = all.iter().map(|node| some.apply(node)).collect();
        assert_eq!(masked[0].categories[0].fields.len(), 1);
        assert_eq!(masked[0].categories[1], all[0].categories[1], "without fields all of them");
        assert_eq!(masked[1], all[1], "everybody learns that a node is down");
        assert_eq!(mask(&some.command()), some);
        assert_eq!(mask("(mask)"), Mask::default());
        assert_eq!(Mask::default().command(), "(mask)");
        assert_eq!(Mask::default().apply(&all[0]), all[0]);
        assert!(some.wants("netinfo") && !some.wants("time") && Mask::default().wants("time"));
        assert_eq!(
            (Command::parse("#\r"), Command::parse("s")),
            (Ok(Command::Descriptors), Ok(Command::Sample))
        );
        for bad in ["", "x", "(mask cpuinfo)", "(mask (cpuinfo (user)))", "(mask", "(sample)"] {
            assert!(Command::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn each_node_has_a_name_of_its_own() {
        let named = |name: &str| Node { name: name.to_owned(), categories: Vec::new() };
        let mut all = ["a", "a", "b", "a", "a-2"].map(named);
        make_names_unique(&mut all);
        assert_eq!(all.map(|node| node.name), ["a", "a-2", "b", "a-3", "a-2-2"]);
    }

    proptest! {
        #[test]
        fn whatever_is_read_is_written_as_it_was(
            words in proptest::collection::vec(
                prop_oneof![
                    proptest::sample::select(&["(", ")", "(sample", "(node", "(mask", "\"a\"", "(cpuinfo", "(user", "1", "x"][..])
                        .prop_map(str::to_owned),
                    "\\PC{0,6}",
                ],
                0..24,
            )
        ) {
            let mut text = words.join(" ");
            // Most of these are truncated.
            let open = text.matches('(').count().saturating_sub(text.matches(')').count());
            text += &")".repeat(open);
            if let Ok(Command::Mask(mask)) = Command::parse(&text) {
                prop_assert_eq!(Command::parse(&mask.command()), Ok(Command::Mask(mask)));
            }
            if let Ok(nodes) = parse(&text) {
                let written = sample(&nodes);
                prop_assert!(!written.contains('\n') && !descriptors(&nodes).contains('\n'));
                prop_assert_eq!(parse(&written).map(|again| sample(&again)), Ok(written));
            }
        }
    }
}
