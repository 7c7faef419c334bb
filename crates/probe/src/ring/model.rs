//! Every interleaving of some writers and the reader, on small rings.
//!
//! A writer is the sequence of memory accesses of `take_slots` and `commit` in `bpf/ring.h`. Accesses whose order the
//! protocol does not fix are tried in every order, as a processor with weak memory order may do. Writers may be
//! suspended at any point, for ever or while others run, so interrupts at any depth are a part of the runs. The reader
//! is [`Reader`] itself; it may be killed at any point, and then another one begins.

use super::*;
use std::cell::Cell;
use std::collections::HashSet;

const SLOTS: u32 = 4;
/// The longest record of the model has two slots, so one slot is behind the last one.
const DATA: usize = SLOTS as usize + 1;
/// Positions wrap around within a run.
const FIRST: u32 = u32::MAX - 2;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Memory {
    place: u64,
    consumer: Cell32,
    words: [Cell64; SLOTS as usize],
    /// The number of the record in each slot, plus 1.
    data: [u8; DATA],
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Cell32(Cell<u32>);
#[derive(Clone, Debug, PartialEq, Eq)]
struct Cell64(Cell<u64>);

impl std::hash::Hash for Cell32 {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.0.get().hash(state);
    }
}

impl std::hash::Hash for Cell64 {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.0.get().hash(state);
    }
}

impl Shared for Memory {
    fn commit_word(&self, slot: u32) -> u64 {
        self.words[slot as usize].0.get()
    }

    fn clear(&self, slot: u32) {
        self.words[slot as usize].0.set(0);
    }

    fn consumer(&self) -> u32 {
        self.consumer.0.get()
    }

    fn set_consumer(&self, position: u32) {
        self.consumer.0.set(position);
    }
}

/// A protocol, right or wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rules {
    Right,
    /// The commit word may be visible before the record.
    CommitAnyTime,
    /// Slots are taken by an addition, after the check.
    Addition,
    /// Slots are taken by an addition; a writer that finds them not free drops its record.
    AdditionThenCheck,
    /// Any number of free slots is believed.
    NoUpperBound,
    /// The reader frees slots before it reads them.
    FreeFirst,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
struct Writer {
    /// Slots of each of its records that is not written yet, the next one last.
    records: Vec<u32>,
    place: Option<u64>,
    consumer: Option<u32>,
    /// The record being written: position, slots, number, and a bit for each slot that is left to write.
    writes: Option<(u32, u32, u32, u32)>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct State {
    memory: Memory,
    writers: Vec<Writer>,
    reader: Reader,
    found: Option<(Found, u32)>,
    /// Times that a record was read, and numbers that found no room.
    read: [u8; 8],
    lost: u8,
    kills: u8,
}

impl State {
    fn new(writers: &[&[u32]], kills: u8) -> Self {
        let memory = Memory {
            place: u64::from(FIRST),
            consumer: Cell32(Cell::new(FIRST)),
            words: std::array::from_fn(|_| Cell64(Cell::new(0))),
            data: [0; DATA],
        };
        let writers = writers.iter().map(|records| Writer { records: records.to_vec(), ..Writer::default() });
        State {
            reader: Reader::of(&memory, SLOTS),
            memory,
            writers: writers.collect(),
            found: None,
            read: [0; 8],
            lost: 0,
            kills,
        }
    }

    /// Every state after one access of writer `w`.
    fn write(&self, w: usize, rules: Rules, next: &mut Vec<State>) {
        let writer = &self.writers[w];
        if let Some((position, count, number, left)) = writer.writes {
            for slot in (0..count).filter(|slot| left >> slot & 1 != 0) {
                let mut state = self.clone();
                state.memory.data[((position & (SLOTS - 1)) + slot) as usize] = number as u8 + 1;
                state.writers[w].writes = Some((position, count, number, left & !(1 << slot)));
                next.push(state);
            }
            if left == 0 || (rules == Rules::CommitAnyTime && left >> 31 == 0) {
                let mut state = self.clone();
                let word = commit_word(position, count * SLOT_BYTES as u32);
                state.memory.words[(position & (SLOTS - 1)) as usize].0.set(word);
                state.writers[w].writes = (left != 0).then_some((position, count, number, left | 1 << 31));
                next.push(state);
            } else if left == 1 << 31 {
                let mut state = self.clone();
                state.writers[w].writes = None;
                next.push(state);
            }
            return;
        }
        let Some(&count) = writer.records.last() else { return };
        if writer.place.is_none() {
            let mut state = self.clone();
            state.writers[w].place = Some(self.memory.place);
            next.push(state);
        }
        if writer.consumer.is_none() {
            let mut state = self.clone();
            state.writers[w].consumer = Some(self.memory.consumer());
            next.push(state);
        }
        if let (Some(place), Some(consumer)) = (writer.place, writer.consumer) {
            next.push(self.take_slots(w, rules, place, consumer, count));
        }
    }

    fn take_slots(&self, w: usize, rules: Rules, place: u64, consumer: u32, count: u32) -> State {
        let mut state = self.clone();
        let writer = &mut state.writers[w];
        (writer.place, writer.consumer) = (None, None);
        let room = |position: u32| consumer.wrapping_add(SLOTS).wrapping_sub(position);
        let is_full = |position: u32| room(position) < count;
        if room(place as u32) > SLOTS && !matches!(rules, Rules::NoUpperBound | Rules::AdditionThenCheck) {
            return state; // another attempt
        }
        if is_full(place as u32) && rules != Rules::AdditionThenCheck {
            writer.records.pop();
            state.lost += 1;
            state.memory.place = state.memory.place.wrapping_add(1 << 32);
            return state;
        }
        let adds = matches!(rules, Rules::Addition | Rules::AdditionThenCheck);
        if state.memory.place != place && !adds {
            return state; // another attempt
        }
        let (number, position) = ((state.memory.place >> 32) as u32, state.memory.place as u32);
        state.memory.place = u64::from(number + 1) << 32 | u64::from(position.wrapping_add(count));
        writer.records.pop();
        if is_full(position) && rules == Rules::AdditionThenCheck {
            state.lost += 1;
            return state;
        }
        writer.writes = Some((position, count, number, (1 << count) - 1));
        state
    }

    /// The state after one step of the reader, if it changes anything.
    fn step(&self, rules: Rules) -> Result<Option<State>, String> {
        let mut state = self.clone();
        let Some((record, reads)) = state.found else {
            let freed = state.reader;
            state.reader.free(&state.memory, 0);
            if state.reader != freed {
                return Ok(Some(state));
            }
            let Some(record) = state.reader.next(&state.memory) else { return Ok(None) };
            if rules == Rules::FreeFirst {
                let past = state.reader.position.wrapping_add(slots_of(record.bytes));
                state.memory.set_consumer(past);
            }
            state.found = Some((record, 0));
            return Ok(Some(state));
        };
        let count = slots_of(record.bytes);
        if reads < count {
            let at = (record.slot + reads) as usize;
            let (first, here) = (state.memory.data[record.slot as usize], state.memory.data[at]);
            if here == 0 || here != first {
                return Err(format!("half a record at slot {at}: {here} and {first}"));
            }
            if reads == 0 {
                state.read[usize::from(first) - 1] += 1;
            }
            state.found = Some((record, reads + 1));
            return Ok(Some(state));
        }
        state.reader.pass(&state.memory, record);
        state.found = None;
        Ok(Some(state))
    }

    fn killed(&self) -> Option<State> {
        let mut state = self.clone();
        state.kills = state.kills.checked_sub(1)?;
        state.found = None;
        state.reader = Reader::of(&state.memory, SLOTS);
        Some(state)
    }

    /// All writers have ended: every number was read or is lost.
    fn account(&self, kills: u8) -> Result<(), String> {
        let taken = (self.memory.place >> 32) as u8;
        let read = self.read.iter().filter(|times| **times > 0).count() as u8;
        if read + self.lost != taken {
            return Err(format!("{taken} numbers: {read} read, {} lost", self.lost));
        }
        if self.read.iter().any(|times| *times > 1 + kills) {
            return Err(format!("read again without another reader: {:?}", self.read));
        }
        Ok(())
    }
}

/// Runs every interleaving. Returns the number of different states, and whether a record was lost in any.
fn explore(rules: Rules, writers: &[&[u32]], kills: u8) -> Result<(usize, bool), String> {
    let first = State::new(writers, kills);
    let (mut seen, mut open, mut has_loss) = (HashSet::from([first.clone()]), vec![first], false);
    while let Some(state) = open.pop() {
        let mut next = Vec::new();
        for w in 0..state.writers.len() {
            state.write(w, rules, &mut next);
        }
        let is_written = next.is_empty();
        let step = state.step(rules)?;
        if is_written && step.is_none() {
            state.account(kills)?;
            has_loss |= state.lost > 0;
        }
        next.extend(step);
        next.extend(state.killed());
        for state in next {
            if seen.insert(state.clone()) {
                open.push(state);
            }
        }
    }
    Ok((seen.len(), has_loss))
}

/// Writers as their records' slots: alone, interrupted once and twice, with long records, in rings that get full.
const RUNS: [&[&[u32]]; 4] =
    [&[&[1, 2, 1, 2, 1, 2]], &[&[2, 1, 1], &[1, 2]], &[&[1], &[1], &[2, 1]], &[&[2, 2], &[2, 1]]];

#[test]
fn every_interleaving_reads_each_record_once_and_whole() {
    for writers in RUNS {
        let (states, _) =
            explore(Rules::Right, writers, 0).unwrap_or_else(|error| panic!("{writers:?}: {error}"));
        assert!(states > 100, "{writers:?}: {states} states");
    }
    let (_, has_loss) = explore(Rules::Right, RUNS[0], 0).expect("right");
    assert!(has_loss, "some run has a full ring");
}

#[test]
fn after_a_killed_reader_another_one_reads_the_rest() {
    for writers in RUNS {
        explore(Rules::Right, writers, 1).unwrap_or_else(|error| panic!("{writers:?}: {error}"));
    }
}

#[test]
fn the_model_finds_wrong_protocols() {
    for (rules, why) in [
        (Rules::CommitAnyTime, "half a record"),
        (Rules::Addition, "numbers"),
        (Rules::AdditionThenCheck, "numbers"),
        (Rules::NoUpperBound, "numbers"),
        (Rules::FreeFirst, "half a record"),
    ] {
        let errors: Vec<String> = RUNS.iter().filter_map(|writers| explore(rules, writers, 0).err()).collect();
        assert!(errors.iter().any(|error| error.contains(why)), "{rules:?}: {errors:?}");
    }
}

/// Positions wrap around after 2^32 slots. A word from then is never left behind.
#[test]
fn a_read_ring_has_no_words_but_those_of_its_last_round() {
    let memory = State::new(&[], 0).memory;
    let mut position = FIRST;
    for count in [2, 1, 1, 2, 2, 1, 2, 1, 1, 1, 2] {
        memory.words[(position & (SLOTS - 1)) as usize].0.set(commit_word(position, count * SLOT_BYTES as u32));
        position = position.wrapping_add(count);
        assert_eq!(read(&memory, SLOTS, |_| ()), count);
        for slot in 0..SLOTS {
            let word = memory.commit_word(slot);
            assert!(word == 0 || position.wrapping_sub(word as u32) <= SLOTS, "{word:x} at {position:x}");
        }
    }
}
