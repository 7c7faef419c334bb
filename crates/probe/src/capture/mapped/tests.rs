//! Programs of the kernel that interrupt each other, and a reader that is killed. Needs privileges.

use super::*;
use crate::capture::load::bytes_of_config;
use crate::record::{mag_cpu, mag_header, mag_hit, mag_kind_MAG_KIND_HIT, mag_kind_MAG_KIND_LOSS, mag_loss};
use libbpf_rs::libbpf_sys::{PERF_COUNT_SW_CPU_CLOCK, PERF_TYPE_SOFTWARE, perf_event_attr};
use libbpf_rs::{Link, MapCore, MapFlags, Object, ObjectBuilder, ProgramInput};
use std::collections::BTreeMap;
use std::mem::offset_of;
use std::os::fd::{FromRawFd, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

#[repr(align(8))]
struct Aligned<T: ?Sized>(T);
static NESTED: &Aligned<[u8]> = &Aligned(*include_bytes!(concat!(env!("OUT_DIR"), "/nested.bpf.o")));

const SLOTS: u32 = 256;
/// The two writers, as in bpf/bench/nested.bpf.c.
const OUTER: usize = 1;
const INNER: usize = 2;
/// Records of one call of the outer writer.
const RECORDS: u32 = 2_000;
/// Records of the inner writer that are to be read, and places at which some are to be lost.
const ENOUGH: u64 = 300;

struct Writers {
    object: Object,
    cpu: u32,
    timer: Option<Link>,
}

fn timer(cpu: u32) -> OwnedFd {
    let mut attributes = perf_event_attr {
        type_: PERF_TYPE_SOFTWARE,
        size: size_of::<perf_event_attr>() as u32,
        config: u64::from(PERF_COUNT_SW_CPU_CLOCK),
        ..perf_event_attr::default()
    };
    attributes.__bindgen_anon_1.sample_period = 50_000;
    // SAFETY: the kernel reads the structure that the pointer leads to, and returns a descriptor of our own.
    #[allow(unsafe_code)]
    unsafe {
        let opened = libc::syscall(libc::SYS_perf_event_open, &raw const attributes, -1, cpu, -1, 0);
        assert!(opened >= 0, "a timer: {}", std::io::Error::last_os_error());
        OwnedFd::from_raw_fd(opened as i32)
    }
}

impl Writers {
    /// `None`, with the reason printed, if this process may not load programs.
    fn new() -> Option<(Self, MappedRings)> {
        let facts = HostFacts::read().expect("/proc");
        if !facts.missing_capabilities().is_empty() || !facts.loops {
            println!("skipped, because it needs privileges and a kernel with bpf_loop");
            return None;
        }
        let rings = MappedRings::of(facts.cpus, SLOTS).expect("rings");
        let mut open = ObjectBuilder::default().open_memory(&NESTED.0).expect("an object");
        let mut config = mag_config::default();
        rings.configure(&mut config);
        for mut map in open.maps_mut() {
            rings.join(&mut map).expect("joined");
            if map.name().to_string_lossy().ends_with(".rodata.config") {
                let bytes = bytes_of_config(&config);
                map.initial_value_mut().expect("a value")[..bytes.len()].copy_from_slice(bytes);
            }
        }
        let object = open.load().expect("loaded");
        let cpu = rustix::thread::sched_getcpu();
        let cpu = cpu as u32;
        let timer = timer(cpu);
        let program = object.progs_mut().find(|program| program.name() == "write_at_interrupt").expect("it");
        let link = program.attach_perf_event(timer.as_raw_fd()).expect("attached");
        // The link has its own descriptor of the event, or takes this one over.
        std::mem::forget(timer);
        Some((Writers { object, cpu, timer: Some(link) }, rings))
    }

    fn write(&self) {
        let program = self.object.progs_mut().find(|program| program.name() == "write_many").expect("it");
        let mut count = RECORDS.to_ne_bytes();
        let input = ProgramInput { context_in: Some(&mut count), ..ProgramInput::default() };
        program.test_run(input).expect("it runs");
    }

    /// A word of this CPU's counters.
    fn counter(&self, offset: usize) -> u64 {
        let map = self.object.maps().find(|map| map.name() == "cpus").expect("counters");
        let values = map.lookup_percpu(&0_u32.to_ne_bytes(), MapFlags::ANY).expect("read").expect("a value");
        let at = &values[self.cpu as usize][offset..offset + 8];
        u64::from_ne_bytes(at.try_into().expect("a word"))
    }

    fn written(&self, hop: usize) -> u64 {
        self.counter(offset_of!(mag_cpu, recorded) + 8 * hop)
    }
}

/// What came out of the ring.
#[derive(Default)]
struct Account {
    /// Times that each number was read.
    numbers: BTreeMap<u32, u64>,
    /// Readings of the inner writer's records.
    inner: u64,
    /// Lost records before each of these numbers.
    losses: BTreeMap<u32, u64>,
    last: Option<u32>,
}

impl Account {
    fn is_enough(&self) -> bool {
        self.inner >= ENOUGH && self.losses.len() as u64 >= ENOUGH
    }

    fn take(&mut self, bytes: &[u8]) {
        let word = |at: usize| u64::from_ne_bytes(bytes[8 * at..8 * at + 8].try_into().expect("a word"));
        let kind = u32::from(bytes[0]);
        let number = (word(0) >> 32) as u32;
        if kind == mag_kind_MAG_KIND_LOSS {
            assert_eq!(bytes.len(), size_of::<mag_loss>());
            self.losses.insert(number, word(size_of::<mag_header>() / 8 + 1));
            return;
        }
        let is_long = kind == mag_kind_MAG_KIND_HIT;
        assert_eq!(bytes.len(), if is_long { size_of::<mag_hit>() } else { SLOT_BYTES }, "{kind}");
        let first = word(2);
        assert_eq!(first as u32, number, "the record of another number");
        assert!((2..bytes.len() / 8).all(|at| word(at) == first), "half a record: {bytes:x?}");
        *self.numbers.entry(number).or_default() += 1;
        self.inner += u64::from((first >> 32) as usize == INNER);
        assert!(self.last.is_none_or(|last| last < number), "positions and numbers have one order");
        self.last = Some(number);
    }
}

/// Runs the writers on their CPU, and `read` here meanwhile until it returns that it has read enough. Then no writer
/// runs any more, and `read` gets the rest.
fn while_written(writers: Writers, mut read: impl FnMut(u32) -> bool) -> Writers {
    let cpu = writers.cpu;
    let ended = Arc::new(AtomicBool::new(false));
    let is_ended = Arc::clone(&ended);
    let writers = std::thread::spawn(move || {
        pin(Some(cpu));
        while !is_ended.load(SeqCst) {
            writers.write();
        }
        writers
    });
    pin(None);
    while !read(cpu) && !writers.is_finished() {}
    ended.store(true, SeqCst);
    let mut writers = writers.join().expect("no panic");
    writers.timer = None;
    // A killed reader may leave some.
    for _ in 0..=SLOTS {
        read(cpu);
    }
    writers
}

/// Keeps this thread on one CPU, or lets it run on any.
fn pin(cpu: Option<u32>) {
    let mut cpus = rustix::thread::CpuSet::new();
    let all = 0..rustix::thread::CpuSet::MAX_CPU;
    all.filter(|one| cpu.is_none_or(|cpu| cpu as usize == *one)).for_each(|one| cpus.set(one));
    rustix::thread::sched_setaffinity(None, &cpus).expect("a CPU");
}

/// Every number that a writer took was read or is lost.
fn is_complete(writers: &Writers, account: &Account, readings: u64) {
    let taken = writers.counter(offset_of!(mag_cpu, place)) >> 32;
    let lost = account.losses.values().sum::<u64>() + writers.counter(offset_of!(mag_cpu, lost));
    let by_hop = |hop| writers.counter(offset_of!(mag_cpu, lost_by_hop) + 8 * hop);
    assert_eq!(writers.written(OUTER) + writers.written(INNER), taken, "each record took one number");
    assert_eq!(account.numbers.len() as u64 + lost, taken, "read + lost = taken");
    assert_eq!(by_hop(OUTER) + by_hop(INNER), lost);
    assert!(account.numbers.values().all(|times| *times <= readings), "no record is read twice");
    assert!(!account.losses.is_empty(), "the ring was meant to be too small");
    println!("{taken} records, {lost} lost in {} places", account.losses.len());
}

#[test]
fn records_of_interrupts_are_whole_and_each_is_read_or_counted() {
    let Some((writers, rings)) = Writers::new() else { return };
    let mut account = Account::default();
    let writers = while_written(writers, |cpu| {
        rings.read(cpu, |bytes| account.take(bytes));
        account.is_enough()
    });
    is_complete(&writers, &account, 1);
}

/// The end of a reader.
struct Killed;

/// A reader that unwinds has changed nothing since its last store to the ring, as one that is killed there.
#[test]
fn a_reader_that_ends_at_any_record_leaves_the_rest_to_another_one() {
    let Some((writers, rings)) = Writers::new() else { return };
    let (mut account, mut records, mut ends) = (Account::default(), 0_u64, 0_u64);
    let writers = while_written(writers, |cpu| {
        account.last = None;
        let one = || {
            rings.read(cpu, |bytes| {
                records += 1;
                account.take(bytes);
                if records.is_multiple_of(67) {
                    ends += 1;
                    std::panic::resume_unwind(Box::new(Killed));
                }
            })
        };
        if let Err(why) = catch_unwind(AssertUnwindSafe(one))
            && !why.is::<Killed>()
        {
            std::panic::resume_unwind(why);
        }
        account.is_enough() && ends >= ENOUGH
    });
    is_complete(&writers, &account, u64::MAX);
}

#[test]
fn rings_exist_in_the_sizes_that_are_asked_for_or_not_at_all() {
    let facts = HostFacts::read().expect("/proc");
    if !facts.missing_capabilities().is_empty() || !facts.loops {
        println!("skipped, because it needs privileges and a kernel with bpf_loop");
        return;
    }
    for (bytes, slots) in [(0, 64), (4096, 64), (5000, 128), (1 << 20, 1 << 14)] {
        let rings = MappedRings::create(&facts, bytes).expect("rings");
        assert_eq!((rings.slots, rings.cpus()), (slots, facts.cpus));
        let mut config = mag_config::default();
        rings.configure(&mut config);
        assert_eq!(config.ring_mask, slots - 1);
        let none = |_: &[u8]| panic!("nothing was written");
        assert_eq!((0..=rings.cpus()).map(|cpu| rings.read(cpu, none)).sum::<usize>(), 0);
    }
    assert!(MappedRings::create(&facts, 1 << 30).is_none(), "too large for a program's offsets");
}
