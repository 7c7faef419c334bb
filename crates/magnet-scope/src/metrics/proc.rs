//! Figures of a node from `/proc`, in Supermon's categories. The files stay open, and each read is one call.

use magscope_sensor::supermon::{Category, Mask};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::{SystemTime, UNIX_EPOCH};

/// Maximum size read of a file: a host with thousands of interrupts or interfaces.
const LONGEST: usize = 4 << 20;
/// The kernel's fixed point for load averages: eleven bits.
const LOAD_ONE: f64 = 2048.0;

/// Fields of a line in `/proc/stat`.
const CPU: [&str; 8] = ["user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal"];
/// Lines of `/proc/vmstat`.
const PAGING: [&str; 4] = ["pgpgin", "pgpgout", "pswpin", "pswpout"];
/// Columns of `/proc/net/dev`.
const NET: [&str; 16] = [
    "rxbytes",
    "rxpackets",
    "rxerrs",
    "rxdrop",
    "rxfifo",
    "rxframe",
    "rxcompressed",
    "rxmulticast",
    "txbytes",
    "txpackets",
    "txerrs",
    "txdrop",
    "txfifo",
    "txcolls",
    "txcarrier",
    "txcompressed",
];

/// Open files and their read buffer.
#[derive(Debug)]
pub struct Proc {
    stat: Option<File>,
    loadavg: Option<File>,
    vmstat: Option<File>,
    net_dev: Option<File>,
    text: Vec<u8>,
}

impl Proc {
    /// Opens the files. Inaccessible ones are left out.
    pub fn open() -> Self {
        let open = |name: &str| File::open(name).ok();
        Proc {
            stat: open("/proc/stat"),
            loadavg: open("/proc/loadavg"),
            vmstat: open("/proc/vmstat"),
            // The namespace of this thread, permanently.
            net_dev: open("/proc/thread-self/net/dev"),
            text: vec![0; 64 << 10],
        }
    }

    /// The selected categories.
    pub fn categories(&mut self, mask: &Mask) -> Vec<Category> {
        let mut all = Vec::new();
        let Proc { stat, loadavg, vmstat, net_dev, text } = self;
        if mask.wants("cpuinfo") || mask.wants("switch") {
            let (cpuinfo, switch) = stat_of(read(stat.as_ref(), text));
            all.extend([cpuinfo, switch].into_iter().flatten());
        }
        if mask.wants("avenrun") {
            all.extend(loadavg_of(read(loadavg.as_ref(), text)));
        }
        if mask.wants("paging") {
            all.extend(vmstat_of(read(vmstat.as_ref(), text)));
        }
        if mask.wants("time") {
            all.push(time());
        }
        if mask.wants("netinfo") {
            all.push(net_dev_of(read(net_dev.as_ref(), text)));
        }
        all
    }
}

/// Reads a file from its start; empty on failure.
fn read<'t>(file: Option<&File>, text: &'t mut Vec<u8>) -> &'t str {
    let mut length = 0;
    while let Some(file) = file {
        if length == text.len() {
            if length >= LONGEST {
                break;
            }
            text.resize(length * 2, 0);
        }
        match file.read_at(&mut text[length..], length as u64) {
            Ok(0) | Err(_) => break,
            Ok(more) => length += more,
        }
    }
    std::str::from_utf8(&text[..length]).unwrap_or_default()
}

/// Current time, nanoseconds: UTC, and since boot.
fn time() -> Category {
    let utc = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let monotonic = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    let monotonic_ns = monotonic.tv_sec.unsigned_abs() * 1_000_000_000 + monotonic.tv_nsec.unsigned_abs();
    let utc_ns = u64::try_from(utc.as_nanos()).unwrap_or(u64::MAX);
    Category::numbers("time", [("timestamp", vec![utc_ns]), ("monotonic", vec![monotonic_ns])])
}

/// `cpuinfo` in ticks, one value per CPU, and `switch`.
fn stat_of(text: &str) -> (Option<Category>, Option<Category>) {
    let mut columns: [Vec<u64>; CPU.len()] = Default::default();
    let mut switches = None;
    for line in text.lines() {
        let mut fields = line.split_ascii_whitespace();
        match fields.next() {
            Some("ctxt") => switches = fields.next().and_then(|n| n.parse::<u64>().ok()),
            Some(cpu) if cpu.strip_prefix("cpu").is_some_and(|n| n.parse::<u32>().is_ok()) => {
                for column in &mut columns {
                    column.push(fields.next().and_then(|n| n.parse().ok()).unwrap_or(0));
                }
            }
            _ => {}
        }
    }
    let cpuinfo = (!columns[0].is_empty()).then(|| {
        let mut columns = columns.into_iter();
        Category::numbers("cpuinfo", CPU.map(|name| (name, columns.next().unwrap_or_default())))
    });
    (cpuinfo, switches.map(|n| Category::numbers("switch", [("switch", vec![n])])))
}

/// `avenrun` in the kernel's fixed point, as in Supermon: 2048 is one.
fn loadavg_of(text: &str) -> Option<Category> {
    let mut loads = text.split_ascii_whitespace().map(|load| load.parse::<f64>().ok());
    let mut next = || Some((loads.next()??.clamp(0.0, 1e9) * LOAD_ONE).round() as u64);
    let (one, five, fifteen) = (next()?, next()?, next()?);
    let fields = [("avenrun0", vec![one]), ("avenrun1", vec![five]), ("avenrun2", vec![fifteen])];
    Some(Category::numbers("avenrun", fields))
}

fn vmstat_of(text: &str) -> Option<Category> {
    let mut found = [None; PAGING.len()];
    for line in text.lines() {
        if let Some((name, n)) = line.split_once(' ')
            && let Some(at) = PAGING.iter().position(|paging| *paging == name)
        {
            found[at] = n.trim().parse::<u64>().ok();
        }
    }
    let mut found = found.into_iter();
    let fields = PAGING.map(|name| (name, found.next().flatten().into_iter().collect::<Vec<_>>()));
    fields.iter().all(|(_, values)| !values.is_empty()).then(|| Category::numbers("paging", fields))
}

fn net_dev_of(text: &str) -> Category {
    let mut names = Vec::new();
    let mut columns: [Vec<u64>; NET.len()] = Default::default();
    // A name may contain a colon; the figures do not.
    for (name, counts) in text.lines().filter_map(|line| line.rsplit_once(':')) {
        let mut counts = counts.split_ascii_whitespace().map(|n| n.parse().unwrap_or(0));
        for column in &mut columns {
            column.push(counts.next().unwrap_or(0));
        }
        names.push(name.trim());
    }
    let mut columns = columns.into_iter();
    Category::numbers("netinfo", NET.map(|name| (name, columns.next().unwrap_or_default()))).of("name", names)
}

#[cfg(test)]
mod tests {
    use super::*;
    use magscope_sensor::supermon::{Node, descriptors, sample};

    fn text(categories: impl IntoIterator<Item = Category>) -> String {
        sample(&[Node { name: "n".to_owned(), categories: categories.into_iter().collect() }])
    }

    #[test]
    fn the_kernel_s_files_are_read_as_they_are() {
        let (cpuinfo, switch) = stat_of(
            "cpu  9 9 9\ncpu0 1 2 3 4 5 6 7 8 9 9\ncpu1 10 20 30 40 50 60 70 80\nintr 5\nctxt 549615\n",
        );
        let reported = text(cpuinfo.into_iter().chain(switch));
        assert!(
            reported.contains("(cpuinfo (user 1 10) (nice 2 20) (system 3 30) ")
                && reported.contains("(switch (switch 549615))"),
            "{reported}"
        );
        let reported = text(loadavg_of("1.00 0.50 0.00 1/234 5678\n"));
        assert!(reported.contains("(avenrun (avenrun0 2048) (avenrun1 1024) (avenrun2 0))"), "{reported}");
        let reported = text(vmstat_of("nr_free_pages 1\npgpgin 16\npgpgout 5\npswpin 0\npswpout 3\n"));
        assert!(reported.contains("(paging (pgpgin 16) (pgpgout 5) (pswpin 0) (pswpout 3))"), "{reported}");
        let dev = "Inter-|   Receive\n face |bytes packets\n    lo: 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16\n\
                   eth0:1: 7 0 0 0 0 0 0 0 0 0 0 0 0 0 0 8\n";
        let reported = text([net_dev_of(dev)]);
        assert!(
            reported.contains("(netinfo (name \"lo\" \"eth0:1\") (rxbytes 1 7) ")
                && reported.contains("(txcompressed 16 8))"),
            "{reported}"
        );
        assert_eq!((stat_of(""), loadavg_of("x"), vmstat_of("pgpgin 1\n")), ((None, None), None, None));
    }

    #[test]
    fn this_host_tells_all_of_it_again_and_again() {
        let mut files = Proc::open();
        let all: Mask = Mask::default();
        let first = files.categories(&all);
        assert_eq!(first.len(), 6, "{first:?}");
        let again = files.categories(&all);
        let reported = |categories: Vec<Category>| descriptors(&[Node { name: "n".to_owned(), categories }]);
        assert_eq!(reported(first), reported(again));
    }
}
