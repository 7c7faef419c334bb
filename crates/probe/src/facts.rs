//! Capabilities and limits of this host. The facts are read here and judged elsewhere.

use crate::candidates::{self, Candidate};
use crate::error::ProbeError;
use crate::{messages, symbols, trial};
use libbpf_rs::btf::{Btf, types};
use magscope_core::node::{Ability, Backend, DropReason};
use rustix::process::{Resource, getrlimit};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

/// Capabilities relevant to probes, by number in `linux/capability.h`.
pub const CAP_NET_ADMIN: u32 = 12;
/// See [`CAP_NET_ADMIN`].
pub const CAP_SYS_ADMIN: u32 = 21;
/// See [`CAP_NET_ADMIN`].
pub const CAP_PERFMON: u32 = 38;
/// See [`CAP_NET_ADMIN`].
pub const CAP_BPF: u32 = 39;

/// Features of the kernel and rights of this process. Plain data, so that a plan can be tested with the facts
/// of any host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostFacts {
    /// Host name.
    pub host: String,
    /// Kernel release as in `uname -r`.
    pub kernel: String,
    /// Major and minor version.
    pub version: (u32, u32),
    /// `/proc/sys/kernel/random/boot_id`.
    pub boot_id: String,
    /// Possible CPUs.
    pub cpus: u32,
    /// True if the kernel provides BTF.
    pub btf: bool,
    /// Why the kernel's BTF cannot be read; `None` if it can.
    pub btf_damage: Option<String>,
    /// Raw tracepoints of the stack that the kernel has, by name.
    pub tracepoints: BTreeSet<String>,
    /// Netfilter programs can be attached by link (Linux 6.4).
    pub netfilter_link: bool,
    /// `bpf_rdonly_cast` and `bpf_cast_to_kern_ctx` exist (Linux 6.2).
    pub typed_casts: bool,
    /// The helper `bpf_loop` exists (Linux 5.17).
    pub loops: bool,
    /// Ring buffers exist (Linux 5.8).
    pub ring_buffers: bool,
    /// Type information to relocate fields by, in place of the running kernel's own.
    pub custom_btf: Option<PathBuf>,
    /// Programs that the kernel refused to load, with the reason.
    pub unloadable: BTreeMap<String, String>,
    /// Abilities that the kernel lacks, with the reason.
    pub left_out: BTreeMap<Ability, String>,
    /// tracefs offers the system-call tracepoints to this process.
    pub syscall_tracepoints: bool,
    /// The kernel has tracefs, and this mount namespace does not.
    pub tracefs_mountable: bool,
    /// Candidate functions in the kernel's BTF: possible trampolines.
    pub functions: BTreeSet<String>,
    /// Candidate functions and their names in `/proc/kallsyms`: possible kprobes. Read only if the kernel has
    /// kprobes.
    pub symbols: BTreeMap<String, String>,
    /// Trampolines at functions (`fentry`, `fexit`).
    pub fentry: Mechanism,
    /// Breakpoints at functions.
    pub kprobe: Mechanism,
    /// Breakpoints at many functions by one attachment (Linux 5.18 with `CONFIG_FPROBE`).
    pub kprobe_multi: Mechanism,
    /// Attach points that the kernel refused, with its error.
    pub refused: BTreeMap<(Backend, String), String>,
    /// `none`, `integrity`, `confidentiality`, or what the kernel calls it; `None` where it has no lockdown or
    /// securityfs is not mounted.
    pub lockdown: Option<String>,
    /// The kernel was built with cgroup v2.
    pub cgroups: bool,
    /// Root of the cgroup v2 hierarchy.
    pub cgroup2: Option<PathBuf>,
    /// Effective capabilities, a bit each. Those of a user namespace other than the first are not counted: the
    /// kernel does not accept them for programs.
    pub capabilities: u64,
    /// `kernel.unprivileged_bpf_disabled`.
    pub unprivileged_bpf: String,
    /// The obstacle to the TSC as event clock; `None` if there is none.
    pub tsc_obstacle: Option<String>,
    /// The clock source in use.
    pub clocksource: String,
    /// Ticks a second, `CONFIG_HZ`; `None` where the kernel's configuration cannot be read.
    pub hz: Option<u32>,
    /// Reasons for dropping packets, by the kernel's own numbers.
    pub drop_reasons: Vec<DropReason>,
    /// Reasons for resets, by the kernel's own numbers; empty before Linux 6.10.
    pub reset_reasons: Vec<DropReason>,
}

/// The numbers and names of a kernel's enum of reasons, without the common start of the names.
fn reasons(btf: &Btf<'_>, name: &str, start: &str) -> Option<Vec<DropReason>> {
    let reason = |value: types::EnumMember<'_>| {
        let name = value.name?.to_string_lossy();
        let number = u32::try_from(value.value).ok()?;
        Some(DropReason { number, name: name.trim_start_matches(start).to_lowercase() })
    };
    Some(btf.type_by_name::<types::Enum<'_>>(name)?.iter().filter_map(reason).collect())
}

/// Availability of an attach mechanism.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Mechanism {
    /// The kernel was built without.
    #[default]
    Absent,
    /// The kernel has it, but this process may not use it.
    Refused(String),
    /// Available, as far as a check without use can show.
    Works,
}

impl Mechanism {
    fn if_there(there: bool) -> Self {
        if there { Self::Works } else { Self::Absent }
    }
}

/// Functions that exist only with a kernel feature: typed casts (two), netfilter links, trampolines,
/// `CONFIG_FPROBE`.
const FEATURE_FUNCTIONS: [&str; 5] = [
    "bpf_rdonly_cast",
    "bpf_cast_to_kern_ctx",
    "bpf_nf_link_attach",
    "register_ftrace_direct",
    "register_fprobe_ips",
];

/// The type information of the running kernel.
const VMLINUX: &str = "/sys/kernel/btf/vmlinux";

/// The mode of lockdown in which programs may not read kernel memory.
pub(crate) const FORBIDDING_LOCKDOWN: &str = "confidentiality";

/// True in the user namespace that exists from boot; its inode is fixed (`PROC_USER_INIT_INO`). True as well where the
/// kernel has no user namespaces.
pub fn in_first_user_namespace() -> bool {
    fs::read_link("/proc/self/ns/user").map_or(true, |name| name == Path::new("user:[4026531837]"))
}

/// The limit of locked memory of this process (`RLIMIT_MEMLOCK`), bytes, where the kernel counts maps and programs as
/// such (before Linux 5.11); `None` where nothing limits them.
///
/// libbpf lifts the limit at the first map or program, if the process has `CAP_SYS_RESOURCE`.
pub fn locked_memory() -> Option<u64> {
    let version = parse_version(&rustix::system::uname().release().to_string_lossy());
    limit_of_locked(version, getrlimit(Resource::Memlock).current)
}

/// The limit, if it counts in this version of the kernel.
fn limit_of_locked(version: (u32, u32), limit: Option<u64>) -> Option<u64> {
    limit.filter(|_| version < (5, 11))
}

/// Why a file with type information cannot be read.
fn damage(path: &Path, error: &libbpf_rs::Error) -> String {
    let _same = messages::last();
    fs::read(path)
        .map_or_else(|error| error.to_string(), |file| damage_of(&file).unwrap_or_else(|| error.to_string()))
}

/// The damage that the header of type information shows (`struct btf_header`).
fn damage_of(file: &[u8]) -> Option<String> {
    const MAGIC: u16 = 0xeb9f;
    let word = |at: usize| Some(u64::from(u32::from_ne_bytes(*file.get(at..)?.first_chunk()?)));
    let Some(magic) = file.first_chunk().map(|bytes| u16::from_ne_bytes(*bytes)) else {
        return Some(format!("the file has {} bytes", file.len()));
    };
    if magic == MAGIC.swap_bytes() {
        return Some("it is of a machine with the other byte order".to_owned());
    }
    if magic != MAGIC {
        return Some("the file does not begin as type information does".to_owned());
    }
    let end = |at: usize| Some(word(4)? + word(at)? + word(at + 4)?);
    let (Some(types), Some(strings)) = (end(8), end(16)) else {
        return Some(format!("its header is cut short: the file has {} bytes", file.len()));
    };
    let needed = types.max(strings);
    (needed > file.len() as u64)
        .then(|| format!("it is cut short: the file has {} of {needed} bytes", file.len()))
}

fn text(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default().trim().to_owned()
}

impl HostFacts {
    /// Reads them from `/proc`, `/sys` and the kernel's BTF. Needs no privileges.
    ///
    /// # Errors
    /// [`ProbeError::Read`] if `/proc` is not there at all.
    pub fn read() -> Result<Self, ProbeError> {
        let status = PathBuf::from("/proc/self/status");
        let status_text =
            fs::read_to_string(&status).map_err(|cause| ProbeError::Read { path: status.clone(), cause })?;
        let uname = rustix::system::uname();
        let kernel = uname.release().to_string_lossy().into_owned();
        let (filesystems, mounts) = (text("/proc/filesystems"), text("/proc/self/mounts"));
        let mut facts = HostFacts {
            host: uname.nodename().to_string_lossy().into_owned(),
            version: parse_version(&kernel),
            hz: read_config(&kernel).and_then(|config| parse_hz(&config)),
            kernel,
            boot_id: text("/proc/sys/kernel/random/boot_id"),
            cpus: libbpf_rs::num_possible_cpus().ok().and_then(|n| u32::try_from(n).ok()).unwrap_or(1),
            btf: Path::new(VMLINUX).exists(),
            syscall_tracepoints: ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"]
                .iter()
                .any(|tracefs| Path::new(tracefs).join("events/syscalls/sys_enter_sendto/id").exists()),
            tracefs_mountable: is_tracefs_mountable(&filesystems, &mounts),
            kprobe: Mechanism::if_there(Path::new("/sys/bus/event_source/devices/kprobe").exists()),
            lockdown: fs::read_to_string("/sys/kernel/security/lockdown").ok().map(|t| parse_lockdown(&t)),
            cgroups: has_filesystem(&filesystems, "cgroup2"),
            cgroup2: mount_of(&mounts, "cgroup2"),
            capabilities: if in_first_user_namespace() { parse_capabilities(&status_text) } else { 0 },
            unprivileged_bpf: text("/proc/sys/kernel/unprivileged_bpf_disabled"),
            tsc_obstacle: crate::tsc::obstacle(),
            clocksource: text("/sys/devices/system/clocksource/clocksource0/current_clocksource"),
            ..HostFacts::default()
        };
        if facts.btf {
            messages::keep();
            match Btf::from_vmlinux() {
                Ok(btf) => facts.read_btf(&btf),
                Err(error) => facts.btf_damage = Some(damage(Path::new(VMLINUX), &error)),
            }
        }
        Ok(facts)
    }

    /// What prevents every capture on this host.
    ///
    /// # Errors
    /// Missing or damaged BTF, missing capabilities, a lockdown that forbids it.
    pub fn check(&self) -> Result<(), ProbeError> {
        if !self.btf {
            return Err(ProbeError::NoBtf { kernel: self.kernel.clone() });
        }
        if let Some(because) = &self.btf_damage {
            return Err(ProbeError::BadBtf { path: VMLINUX.into(), because: because.clone() });
        }
        let missing = self.missing_capabilities();
        if !missing.is_empty() {
            return Err(ProbeError::Privileges { missing });
        }
        if self.lockdown.as_deref() == Some(FORBIDDING_LOCKDOWN) {
            return Err(ProbeError::Lockdown { kernel: self.kernel.clone() });
        }
        Ok(())
    }

    /// Uses BTF from a file: relocations then use that file.
    ///
    /// # Errors
    /// [`ProbeError::BadBtf`] if the file holds none.
    pub fn with_btf(mut self, path: &Path) -> Result<Self, ProbeError> {
        messages::keep();
        let failed = |error: libbpf_rs::Error| ProbeError::BadBtf {
            path: path.to_owned(),
            because: damage(path, &error),
        };
        let btf = Btf::from_path(path).map_err(failed)?;
        (self.btf, self.btf_damage) = (true, None);
        self.left_out.clear();
        self.read_btf(&btf);
        self.custom_btf = Some(path.to_owned());
        Ok(self)
    }

    fn read_btf(&mut self, btf: &Btf<'_>) {
        // One pass over all types: each look-up by name is a full pass.
        let wanted: BTreeSet<&str> = candidates::functions().chain(FEATURE_FUNCTIONS).collect();
        let names = btf.type_by_kind::<types::Func<'_>>().filter_map(|f| f.name()?.to_str());
        let mut there: BTreeSet<&str> = names.filter(|name| wanted.contains(name)).collect();
        let [casts, context, netfilter, trampolines, many] = FEATURE_FUNCTIONS.map(|name| there.remove(name));
        self.functions = there.into_iter().map(str::to_owned).collect();
        self.typed_casts = casts && context;
        self.netfilter_link = netfilter || btf.type_by_name::<types::Struct<'_>>("bpf_nf_link").is_some();
        self.fentry = Mechanism::if_there(trampolines);
        self.kprobe_multi = Mechanism::if_there(many && self.kprobe == Mechanism::Works);
        if self.kprobe == Mechanism::Works {
            self.symbols = symbols::names().clone();
        }
        if trampolines
            && self.missing_capabilities().is_empty()
            && let Err(cause) = trial::fentry()
        {
            self.fentry = Mechanism::Refused(cause);
        }
        let wanted: BTreeSet<&str> = candidates::tracepoints().collect();
        let types = btf.type_by_kind::<types::Typedef<'_>>();
        let names = types.filter_map(|t| t.name()?.to_str()?.strip_prefix("btf_trace_"));
        self.tracepoints = names.filter(|name| wanted.contains(name)).map(str::to_owned).collect();
        let helpers = btf.type_by_name::<types::Enum<'_>>("bpf_func_id");
        let has = |helper: &str, since: (u32, u32)| {
            helpers.as_ref().map_or(self.version >= since, |values| {
                values.iter().any(|value| value.name.is_some_and(|name| name == helper))
            })
        };
        (self.loops, self.ring_buffers) =
            (has("BPF_FUNC_loop", (5, 17)), has("BPF_FUNC_ringbuf_reserve", (5, 8)));
        self.leave_out_what_loops_make();
        self.reset_reasons = reasons(btf, "sk_rst_reason", "SK_RST_REASON_").unwrap_or_default();
        if let Some(names) = reasons(btf, "skb_drop_reason", "SKB_DROP_REASON_") {
            self.drop_reasons = names;
        } else {
            let because = format!("kernel {} has no reasons for drops (Linux 5.17)", self.kernel);
            self.left_out.insert(Ability::DropReasons, because);
        }
    }

    /// Removes abilities that need `bpf_loop` if the kernel lacks the helper.
    pub fn leave_out_what_loops_make(&mut self) {
        if self.loops {
            return;
        }
        for ability in [Ability::PayloadPages, Ability::Filter, Ability::Pcap, Ability::CustomProbes] {
            let because = format!("kernel {} has no bpf_loop (Linux 5.17)", self.kernel);
            self.left_out.insert(ability, because);
        }
    }

    /// The kernel's symbol for a candidate's function.
    pub fn symbol<'a>(&'a self, candidate: &Candidate) -> &'a str {
        let breakpoint = matches!(candidate.backend, Backend::Kprobe | Backend::KprobeMulti);
        match self.symbols.get(candidate.point) {
            Some(symbol) if breakpoint => symbol,
            _ => candidate.point,
        }
    }

    /// True if a capability is effective.
    pub fn has(&self, capability: u32) -> bool {
        self.capabilities & (1 << capability) != 0
    }

    /// Names of the capabilities that a capture in the current namespace needs and this process lacks.
    /// `CAP_SYS_ADMIN` includes all of them.
    pub fn missing_capabilities(&self) -> Vec<&'static str> {
        if self.has(CAP_SYS_ADMIN) && self.has(CAP_NET_ADMIN) {
            return Vec::new();
        }
        let needed = [(CAP_BPF, "CAP_BPF"), (CAP_PERFMON, "CAP_PERFMON"), (CAP_NET_ADMIN, "CAP_NET_ADMIN")];
        needed.into_iter().filter(|(number, _)| !self.has(*number)).map(|(_, name)| name).collect()
    }
}

/// The kernel's build configuration, from the usual paths of distributions. The size is limited: real files
/// have 300 kB.
fn read_config(kernel: &str) -> Option<String> {
    let limit = 4 << 20;
    let mut text = String::new();
    if let Ok(file) = fs::File::open("/proc/config.gz") {
        flate2::read::GzDecoder::new(file).take(limit).read_to_string(&mut text).ok()?;
        return Some(text);
    }
    let places = [format!("/boot/config-{kernel}"), format!("/lib/modules/{kernel}/config")];
    let file = places.iter().find_map(|path| fs::File::open(path).ok())?;
    file.take(limit).read_to_string(&mut text).ok()?;
    Some(text)
}

fn parse_hz(config: &str) -> Option<u32> {
    let value = config.lines().find_map(|line| line.strip_prefix("CONFIG_HZ="))?;
    value.parse().ok().filter(|hz| (1..=1_000_000).contains(hz))
}

fn parse_version(release: &str) -> (u32, u32) {
    let mut parts = release.split(|c: char| !c.is_ascii_digit()).map_while(|p| p.parse().ok());
    (parts.next().unwrap_or(0), parts.next().unwrap_or(0))
}

fn parse_lockdown(text: &str) -> String {
    let chosen = text.split('[').nth(1).and_then(|rest| rest.split(']').next());
    chosen.unwrap_or("unknown").to_owned()
}

/// True if the kernel has this kind of file system; `filesystems` is the text of `/proc/filesystems`.
fn has_filesystem(filesystems: &str, kind: &str) -> bool {
    filesystems.lines().any(|line| line.split_whitespace().next_back() == Some(kind))
}

/// Where the first file system of this kind is mounted; `mounts` is the text of `/proc/self/mounts`.
fn mount_of(mounts: &str, kind: &str) -> Option<PathBuf> {
    mounts.lines().find_map(|line| {
        let mut fields = line.split(' ');
        let (path, mounted) = (fields.nth(1)?, fields.next()?);
        (mounted == kind).then(|| PathBuf::from(path))
    })
}

/// True if the kernel has tracefs and it is not mounted. debugfs mounts it by itself, below `tracing`.
fn is_tracefs_mountable(filesystems: &str, mounts: &str) -> bool {
    has_filesystem(filesystems, "tracefs")
        && ["tracefs", "debugfs"].iter().all(|kind| mount_of(mounts, kind).is_none())
}

fn parse_capabilities(status: &str) -> u64 {
    let line = status.lines().find_map(|l| l.strip_prefix("CapEff:"));
    line.and_then(|l| u64::from_str_radix(l.trim(), 16).ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_texts_of_proc_are_read() {
        assert_eq!(parse_version("6.18.44-fc-v669"), (6, 18));
        assert_eq!(parse_version("6.1.0-44-cloud-amd64"), (6, 1));
        assert_eq!(parse_version("weird"), (0, 0));
        assert_eq!(parse_hz("# CONFIG_HZ_100 is not set\nCONFIG_HZ_250=y\nCONFIG_HZ=250\n"), Some(250));
        assert_eq!((parse_hz(""), parse_hz("CONFIG_HZ=0"), parse_hz("CONFIG_HZ=x")), (None, None, None));
        assert_eq!(parse_lockdown("none [integrity] confidentiality\n"), "integrity");
        assert_eq!(parse_capabilities("Name:\tx\nCapEff:\t000001fffeffffff\n"), 0x1ff_feff_ffff);
        let mounts = "cgroup /sys/fs/cgroup/cpu cgroup rw 0 0\ncgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\n";
        assert_eq!(mount_of(mounts, "cgroup2"), Some(PathBuf::from("/sys/fs/cgroup/unified")));
        assert_eq!(mount_of(mounts, "tracefs"), None);
    }

    #[test]
    fn tracefs_can_be_mounted_if_the_kernel_has_it_and_this_mount_namespace_does_not() {
        let kernel = "nodev\tsysfs\nnodev\tcgroup2\nnodev\ttracefs\n\text4\n";
        // As `ip netns exec` leaves it: a /sys by the name of the namespace, and nothing below.
        let bare = "proc /proc proc rw 0 0\nweb /sys sysfs rw,relatime 0 0\n";
        assert!(is_tracefs_mountable(kernel, bare));
        assert!(!is_tracefs_mountable("nodev\tsysfs\n\text4\n", bare), "the kernel has none");
        for below in ["nodev /sys/kernel/tracing tracefs rw 0 0", "debugfs /sys/kernel/debug debugfs rw 0 0"] {
            assert!(!is_tracefs_mountable(kernel, &format!("{bare}{below}\n")), "{below}");
        }
        assert!(has_filesystem(kernel, "cgroup2") && !has_filesystem(kernel, "cgroup"));
    }

    #[test]
    fn damage_of_type_information_is_described() {
        let header = |types: u32, strings: u32| {
            let words = [24, 0, types, types, strings].map(u32::to_ne_bytes).concat();
            [&0xeb9f_u16.to_ne_bytes()[..], &[1, 0], &words[..]].concat()
        };
        let mut whole = header(100, 50);
        assert_eq!(damage_of(&whole).expect("no types"), "it is cut short: the file has 24 of 174 bytes");
        whole.resize(174, 0);
        assert_eq!(damage_of(&whole), None);
        assert_eq!(damage_of(&whole[..10]).expect("half"), "its header is cut short: the file has 10 bytes");
        assert_eq!(damage_of(&[]).expect("empty"), "the file has 0 bytes");
        whole.swap(0, 1);
        assert_eq!(damage_of(&whole).expect("swapped"), "it is of a machine with the other byte order");
        assert_eq!(damage_of(b"\x7fELF").expect("no"), "the file does not begin as type information does");
    }

    #[test]
    fn locked_memory_is_limited_before_linux_5_11_alone() {
        assert_eq!(limit_of_locked((5, 10), Some(64 << 10)), Some(64 << 10));
        assert_eq!(limit_of_locked((5, 10), None), None);
        assert_eq!(limit_of_locked((5, 11), Some(64 << 10)), None);
        assert_eq!(limit_of_locked((6, 1), Some(64 << 10)), None);
    }

    #[test]
    fn without_rights_the_missing_ones_are_named() {
        let mut facts = HostFacts::default();
        assert_eq!(facts.missing_capabilities(), ["CAP_BPF", "CAP_PERFMON", "CAP_NET_ADMIN"]);
        facts.capabilities = 1 << CAP_BPF | 1 << CAP_PERFMON | 1 << CAP_NET_ADMIN;
        assert!(facts.missing_capabilities().is_empty());
    }
}
