//! Rings of records in memory that programs of the kernel write and user space maps.
//!
//! The kernel's ring buffer costs a hit 35 to 40 ns, most of it for a lock and two calls. These rings cost a few.
//! `bpf/ring.h` has the writer, this module the reader, `bpf/record.h` the layout of memory.
//!
//! # Types
//!
//! Each CPU has a ring of `n` slots of 64 bytes, `n` a power of two. A record takes one slot or more, and is
//! contiguous: behind the last slot there is room for the rest of the longest record. Three words control a ring:
//!
//! - `place`, of the writers alone: the number of the next event (upper half), and the position of the next record
//!   (lower half). It is in the programs' counters, which user space does not map.
//! - `consumer`, written by the reader alone: everything before this position is free.
//! - a commit word for each slot, written by the writer of the record that begins there: size and position.
//!
//! Positions count slots since the start, modulo 2^32; a position's slot is its remainder by `n`.
//!
//! # Writer
//!
//! 1. Load `place` and `consumer`. If fewer than the record's slots are free, the ring is full. If more than `n`
//!    seem to be free, the two are of different times: repeat.
//! 2. Exchange `place` for its next value if it has not changed, else repeat. After four attempts the ring counts as
//!    full.
//! 3. Write the record.
//! 4. Write the commit word, with release semantics.
//!
//! In a full ring an event only takes its number, by an addition to the upper half of `place`. It is counted, and the
//! next record that fits is preceded by a loss record.
//!
//! All programs of a ring run on one CPU, so another writer can only come in between if it *interrupts* the first
//! one, or if the first one is preempted (netfilter and cgroup programs on a preemptible kernel). Nothing below
//! relies on that: any number of concurrent writers is correct.
//!
//! ## Why not one unconditional addition
//!
//! An addition takes the slots before the writer can know that they are free. If they are not, it cannot return
//! them, because an interrupt may have taken those behind, and it must not write to them. The reader then waits for a
//! commit word that never comes. A safety margin helps only if the number of writers between check and addition is
//! bounded, and preempted programs have no such bound. A compare-and-exchange has the same cost, and takes nothing
//! when it fails.
//!
//! An exchange succeeds only if `place` is what the check used. Between both, `place` cannot have changed and changed
//! back, because its upper half would have to count 2^32 events. `consumer` only grows, so an old value is the
//! stricter one. There is one exception, which the test of `n` catches: if interrupts wrote and the reader read more
//! than a whole ring between the two loads, `consumer` is more than `n` behind the position, and full would look like
//! empty. If `consumer` was loaded last, it may be ahead of the position, which the same test catches.
//!
//! # Reader
//!
//! At position `p`: load the commit word of its slot, with acquire semantics. If the position in it is `p` and its
//! size is not 0, read the record, set the commit words of the record's other slots to 0, and go on behind the
//! record. Else stop. From time to time, and at the end, store `p` to `consumer` with release semantics. One call
//! reads at most `n` slots, however fast the writers are.
//!
//! The reader never loads `place`, so it does not share the line that every hit writes.
//!
//! # Why the reader never sees half a record
//!
//! Commit words have places of their own, where no record's bytes are: no payload from the network can imitate one.
//! A word with position `p` was written after the bytes of the record at `p`. The word in the slot of `p` may be an
//! older one. Such a word has another position: between two visits of the reader to a slot, a record either begins
//! there, which overwrites the word, or covers it, and then the reader sets it to 0. So the old word is of the last
//! visit, or 0.
//!
//! # Why no slot has two writers
//!
//! A writer takes slots only up to `consumer + n`. The reader moves `consumer` over a record only after its commit
//! word. A writer that was interrupted between taking and commit therefore still owns its slots: other writers fill
//! the rest of the ring, and then lose records, which are counted. When it goes on and commits, the reader goes on.
//!
//! # Order of memory accesses
//!
//! | first | then | because |
//! |---|---|---|
//! | the record's bytes | its commit word | release: x86 keeps the order of stores; arm64 uses an exchange (`SWPAL`, or `STLXR`), which is ordered |
//! | the commit word | reading the record | acquire load |
//! | reading the record, words set to 0 | `consumer` | release store |
//! | loading `consumer` | writing the record | the exchange of `place` between both is fully ordered, and a store does not pass the branch that it depends on |
//!
//! Linux's BPF JIT gives an atomic instruction that returns a value the order of the kernel's `atomic_*` functions,
//! that is, full order. The module `model` checks this table: it runs every
//! interleaving of writers and reader, with every order of accesses that the table leaves open. That is arm64's model,
//! in which all CPUs see one memory and each may reorder its own accesses.
//!
//! # Ends
//!
//! A reader that is killed at any point leaves its last stored `consumer`. Until the process has ended, programs fill
//! the ring and count losses; nothing waits for it. Then the kernel frees programs and maps, because nothing is
//! pinned. Another reader of the same memory begins at `consumer`: it reads some records again, and no half ones. A
//! writer always reaches its commit, because the kernel ends no program half way.

/// Bytes of a slot.
pub const SLOT_BYTES: usize = crate::record::MAG_SLOT_BYTES as usize;
/// Most bytes of a record.
pub const RECORD_BYTES_MAX: usize = size_of::<crate::record::mag_head>() + crate::record::MAG_SNAP_MAX as usize;

/// The shared words of one ring.
pub trait Shared {
    /// The commit word of a slot, by an acquire load.
    fn commit_word(&self, slot: u32) -> u64;
    /// Sets the commit word of a slot to 0.
    fn clear(&self, slot: u32);
    /// Everything before this position is free.
    fn consumer(&self) -> u32;
    /// Frees everything before a position, by a release store.
    fn set_consumer(&self, position: u32);
}

/// The commit word of a record.
pub fn commit_word(position: u32, bytes: u32) -> u64 {
    u64::from(bytes) << 32 | u64::from(position)
}

/// Number of slots of a record.
pub fn slots_of(bytes: usize) -> u32 {
    bytes.div_ceil(SLOT_BYTES) as u32
}

/// The most slots that are read before they are freed.
const FREED_AT_ONCE: u32 = 256;

/// A complete record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Found {
    /// Its first slot.
    pub slot: u32,
    /// Its size.
    pub bytes: usize,
}

/// The reader of one ring. A method has one access whose order counts; the tests run writers between any two of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Reader {
    slots: u32,
    position: u32,
    freed: u32,
}

impl Reader {
    /// A reader that begins where the last one stopped. The number of slots is a power of two.
    pub fn of(shared: &impl Shared, slots: u32) -> Self {
        let position = shared.consumer();
        Reader { slots, position, freed: position }
    }

    /// The next record, if it is complete.
    #[inline]
    pub fn next(&self, shared: &impl Shared) -> Option<Found> {
        let slot = self.position & (self.slots - 1);
        let word = shared.commit_word(slot);
        let bytes = ((word >> 32) as usize).min(RECORD_BYTES_MAX);
        (word as u32 == self.position && bytes > 0).then_some(Found { slot, bytes })
    }

    /// Goes on behind a record that was read.
    #[inline]
    pub fn pass(&mut self, shared: &impl Shared, record: Found) {
        let count = slots_of(record.bytes);
        for other in 1..count {
            shared.clear(record.slot.wrapping_add(other) & (self.slots - 1));
        }
        self.position = self.position.wrapping_add(count);
    }

    /// Frees the slots that were passed, if these are more than `at_least`.
    #[inline]
    pub fn free(&mut self, shared: &impl Shared, at_least: u32) {
        if self.position.wrapping_sub(self.freed) > at_least {
            shared.set_consumer(self.position);
            self.freed = self.position;
        }
    }
}

/// Reads the complete records of a ring, at most one round of it. `take` gets each. Returns the number of slots that
/// were read.
pub fn read(shared: &impl Shared, slots: u32, mut take: impl FnMut(Found)) -> u32 {
    let mut reader = Reader::of(shared, slots);
    let begin = reader.position;
    while reader.position.wrapping_sub(begin) < slots
        && let Some(record) = reader.next(shared)
    {
        take(record);
        reader.pass(shared, record);
        reader.free(shared, FREED_AT_ONCE.min(slots / 4));
    }
    reader.free(shared, 0);
    reader.position.wrapping_sub(begin)
}

#[cfg(test)]
mod model;
