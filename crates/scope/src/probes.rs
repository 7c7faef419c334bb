//! Custom probes of all recordings as one list: a probe of several hosts is one entry, with one lane and one
//! loadline per value.

use crate::channel::{Channel, ValueName};
use magscope_core::custom::{Attach, CustomProbe, MOST_VALUES, Mark, ProbeHit, ValueKind};
use magscope_core::node::NodeInfo;
use magscope_core::{Direction, Hop};

/// Maximum number of characters of a host in a probe's display name.
const HOST: usize = 12;

/// Index of a custom probe in a scope.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ProbeId(u16);

impl ProbeId {
    /// Its index in [`crate::Frame::probes`].
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// A custom probe of a scope.
#[derive(Clone, Debug, PartialEq)]
pub struct Probe {
    /// The id.
    pub id: ProbeId,
    /// Display name: the user's name, with the host if two hosts use one name for different probes.
    pub name: String,
    /// The probe's definition.
    pub asked: CustomProbe,
    /// The recordings that have it.
    pub nodes: Vec<u16>,
    /// Hits since the start or the last clear, independent of filters.
    pub hits: u64,
    /// Hits at which a value could not be read, in the probe's order.
    pub unread: [u64; MOST_VALUES],
    /// Instant at which it was passed last.
    pub last_ns: Option<u64>,
}

impl Probe {
    /// True if it has a lane: at its place in the stack, or below the stack without a place. A probe with only
    /// loadlines and no place has none.
    pub fn has_lane(&self) -> bool {
        self.asked.after.is_some() || self.asked.mark != Mark::Loadline
    }

    /// True if the process of a hit is the probed one, and not one that an interrupt stopped.
    pub const fn knows_process(&self) -> bool {
        self.asked.attach.in_program()
    }

    /// Direction of packets at its place; `None` without a place.
    pub fn direction(&self) -> Option<Direction> {
        self.asked.after.map(Hop::direction)
    }

    /// Attachment type and target: `tracepoint:skb:kfree_skb`.
    pub fn place(&self) -> String {
        self.asked.place()
    }

    /// Kind of probe.
    pub const fn attach(&self) -> Attach {
        self.asked.attach
    }

    /// Its numeric values, each with its index and its channel.
    pub fn channels(&self) -> impl Iterator<Item = (usize, Channel)> + '_ {
        let values = self.asked.values.iter().enumerate().take(MOST_VALUES);
        let numbers = values.filter(|(_, value)| value.kind != ValueKind::Address);
        numbers.filter_map(|(at, value)| {
            let name = ValueName::new(&format!("{}.{}", self.name, plain(&value.name)))?;
            Some((at, Channel::Value(name)))
        })
    }

    /// A value of a hit as a number, if it could be read.
    pub fn number(&self, hit: &ProbeHit, value: usize) -> Option<f64> {
        let kind = self.asked.values.get(value)?.kind;
        hit.value(value).map(|number| kind.number(number))
    }
}

/// A name from a recording without control characters.
fn plain(name: &str) -> String {
    let name: String = name
        .chars()
        .take(32)
        .map(|c| if c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-') { c } else { '_' })
        .collect();
    if name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') { name } else { format!("_{name}") }
}

/// The custom probes of all recordings.
#[derive(Debug, Default)]
pub struct Probes {
    all: Vec<Probe>,
    /// By recording, then by the number in a hit.
    of: Vec<Vec<ProbeId>>,
    channels: Vec<(Channel, ProbeId, usize)>,
    /// Hits of unknown probe numbers: from a damaged recording.
    strangers: u64,
}

impl Probes {
    /// The probes of these recordings.
    pub fn new(infos: &[NodeInfo]) -> Self {
        let mut probes = Probes::default();
        for info in infos {
            probes.join(info);
        }
        probes
    }

    /// Adds a recording; probes of no earlier recording are appended.
    pub fn join(&mut self, info: &NodeInfo) {
        let (node, before) = (self.of.len() as u16, self.all.len());
        let own = info.probes.iter().take(256).map(|asked| self.take(node, info, asked)).collect();
        self.of.push(own);
        let new = self.all.iter().skip(before).flat_map(|probe| {
            probe.channels().map(|(value, channel)| (channel, probe.id, value)).collect::<Vec<_>>()
        });
        self.channels.extend(new);
    }

    /// The id of a probe of a recording: the existing one for an equal probe.
    fn take(&mut self, node: u16, info: &NodeInfo, asked: &CustomProbe) -> ProbeId {
        let same = |probe: &&mut Probe| probe.asked == *asked && !probe.nodes.contains(&node);
        if let Some(existing) = self.all.iter_mut().find(same) {
            existing.nodes.push(node);
            return existing.id;
        }
        let is_free = |all: &[Probe], name: &str| all.iter().all(|probe| probe.name != name);
        let mut name = plain(&asked.name);
        if !is_free(&self.all, &name) {
            let host: String = plain(&info.host).chars().take(HOST).collect();
            let another = format!("{name}@{host}");
            name = if is_free(&self.all, &another) { another } else { format!("{name}#{}", self.all.len()) };
        }
        let id = ProbeId(self.all.len().min(usize::from(u16::MAX)) as u16);
        let probe = Probe {
            id,
            name,
            asked: asked.clone(),
            nodes: vec![node],
            hits: 0,
            unread: [0; MOST_VALUES],
            last_ns: None,
        };
        self.all.push(probe);
        id
    }

    /// All probes, in order of their first appearance.
    pub fn all(&self) -> &[Probe] {
        &self.all
    }

    /// Counts a hit and returns its probe.
    pub fn count(&mut self, node: u16, hit: &ProbeHit) -> Option<ProbeId> {
        let Some(id) = self.of(node, hit) else {
            self.strangers = self.strangers.saturating_add(1);
            return None;
        };
        let probe = self.all.get_mut(id.index())?;
        probe.hits += 1;
        probe.last_ns = probe.last_ns.max(Some(hit.time_ns));
        let missed = probe.unread.iter_mut().take(probe.asked.values.len()).enumerate();
        missed.filter(|(at, _)| hit.value(*at).is_none()).for_each(|(_, n)| *n += 1);
        Some(id)
    }

    /// The probe of a hit of a recording.
    pub fn of(&self, node: u16, hit: &ProbeHit) -> Option<ProbeId> {
        self.of.get(usize::from(node))?.get(usize::from(hit.probe)).copied()
    }

    /// The probe of this id.
    pub fn get(&self, id: ProbeId) -> Option<&Probe> {
        self.all.get(id.index())
    }

    /// The probes directly behind a hop, in the order of the stack.
    pub fn behind(&self, hop: Hop) -> impl DoubleEndedIterator<Item = &Probe> {
        self.all.iter().filter(move |probe| probe.asked.after == Some(hop))
    }

    /// The probes with a lane and without a place.
    pub fn unplaced(&self) -> impl Iterator<Item = &Probe> {
        self.all.iter().filter(|probe| probe.asked.after.is_none() && probe.has_lane())
    }

    /// Their values as channels.
    pub fn channels(&self) -> impl Iterator<Item = Channel> + '_ {
        self.channels.iter().map(|(channel, ..)| *channel)
    }

    /// The probe and the value index of a channel.
    pub fn value(&self, channel: Channel) -> Option<(ProbeId, usize)> {
        let found = self.channels.iter().find(|(other, ..)| *other == channel);
        found.map(|(_, probe, value)| (*probe, *value))
    }

    /// Hits of unknown probe numbers.
    pub const fn strangers(&self) -> u64 {
        self.strangers
    }

    /// Forgets the counts.
    pub fn clear(&mut self) {
        self.strangers = 0;
        for probe in &mut self.all {
            (probe.hits, probe.unread, probe.last_ns) = (0, [0; MOST_VALUES], None);
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A hit of the first value alone.
    pub(crate) fn hit(probe: u8, time_ns: u64, value: i64) -> ProbeHit {
        ProbeHit { time_ns, cpu: 1, probe, known: 1, values: [value, 0, 0, 0], ..ProbeHit::default() }
    }

    fn info(host: &str, probes: &[&str]) -> NodeInfo {
        let probes = probes.iter().map(|text| text.parse().expect(text)).collect();
        NodeInfo { host: host.to_owned(), probes, ..NodeInfo::default() }
    }

    #[test]
    fn hosts_share_a_probe_that_is_the_same_and_no_other() {
        let refill = "kprobe:try_fill_recv name=refill free=rq->vq->num_free";
        let infos = [
            info("a", &[refill, "kprobe:f name=seen"]),
            info("b", &["kprobe:g name=seen after=ip.in len", refill]),
        ];
        let mut probes = Probes::new(&infos);
        let names: Vec<_> =
            probes.all().iter().map(|probe| (probe.name.as_str(), probe.nodes.clone())).collect();
        assert_eq!(names, [("refill", vec![0, 1]), ("seen", vec![0]), ("seen@b", vec![1])]);
        let channels: Vec<_> = probes.channels().map(|channel| channel.to_string()).collect();
        assert_eq!(channels, ["refill.free", "seen@b.len"]);
        assert_eq!(probes.value("refill.free".parse().unwrap()), Some((ProbeId(0), 0)));
        assert_eq!(probes.value("refill.fre".parse().unwrap()), None);
        assert_eq!(probes.count(1, &hit(1, 7, 3)), Some(ProbeId(0)));
        assert_eq!(probes.count(0, &ProbeHit { known: 0, ..hit(0, 5, 3) }), Some(ProbeId(0)));
        assert_eq!((probes.count(0, &hit(2, 5, 3)), probes.count(9, &hit(0, 5, 3))), (None, None));
        let refill = &probes.all()[0];
        assert_eq!((refill.hits, refill.unread, refill.last_ns), (2, [1, 0, 0, 0], Some(7)));
        assert_eq!(probes.strangers(), 2);
        assert!(probes.behind(Hop::IpIn).map(|probe| probe.name.as_str()).eq(["seen@b"]));
        assert!(probes.unplaced().map(|probe| probe.name.as_str()).eq(["seen"]), "loadlines have no lane");
    }

    #[test]
    fn names_from_a_damaged_recording_do_no_harm() {
        let mut bad = info("h", &["kprobe:f name=x a b c d"]);
        bad.probes[0].name = "\u{1b}[2J".repeat(100);
        bad.probes[0].values[0].name = "\n".to_owned();
        let more = bad.probes[0].values.clone();
        bad.probes[0].values.extend(more);
        let probes = Probes::new(&[bad]);
        let name = &probes.all()[0].name;
        assert!(name.is_ascii() && name.len() <= 33 && !name.contains('\u{1b}'), "{name}");
        assert_eq!(probes.channels().count(), 4, "as many as a hit has");
        assert_eq!(probes.all()[0].number(&hit(0, 1, -1), 7), None);
    }
}
