//! Traces in the binary layouts of the papers.
//!
//! **2001** (figure 5): `struct magnet_data { void *sockid; unsigned long long timestamp; unsigned int event;
//! int size; }`, 20 bytes on a 32-bit machine and 24 on a 64-bit one, in native byte order. The first record is
//! `MAGNET_SYSINFO`: its event `0x01234567` reveals the byte order, and its size is the clock rate in kHz. (The
//! paper counts 24 bytes per record on its Pentium II: 20 bytes and four of padding. The position of the second
//! record therefore distinguishes three sizes.) The optional `data` union is ignored: the paper prints only a
//! part of it.
//!
//! **2006 and 2007** (figures 4 and 2): `struct magnetEvent { unsigned _header; PTR_TYPE _abstractID; unsigned
//! long long _timer; unsigned _pid; … }` without padding. The header has the CPU in bits 0 to 5, the event in
//! bits 6 to 15 and the record size in bits 16 to 31. The papers print no SYSINFO for it. Byte order and
//! pointer size are those for which the record sizes lead exactly to the end of the file. The user must supply
//! the clock rate.
//!
//! The papers print the name of one event only (`MAGNET_IP_SEND`) and no numbers, so events appear as numbers.

/// Layout of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// 2001, or 2006.
    pub year: u16,
    /// Most significant byte first.
    pub big_endian: bool,
    /// Pointers.
    pub word: WordSize,
    /// Size of a 2001 record, bytes; 0 for variable sizes.
    pub record_bytes: usize,
    /// Clock rate, if the trace contains it.
    pub khz: Option<u32>,
}

/// Size of a pointer on the machine that wrote a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WordSize {
    /// Four bytes.
    Bits32 = 4,
    /// Eight bytes.
    Bits64 = 8,
}

/// A record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'t> {
    /// `sockid`, or the abstract id.
    pub id: u64,
    /// Cycles.
    pub cycles: u64,
    /// Number of the event.
    pub event: u32,
    /// 2001: bytes transferred, or an error if negative. 2006: bytes of the record.
    pub size: i64,
    /// 2006.
    pub cpu: u16,
    /// 2006: usually the process.
    pub pid: u32,
    /// 2006: bytes beyond the known fields.
    pub extra: &'t [u8],
}

/// The bytes are no such trace.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "it is no MAGNeT trace: it neither begins with a SYSINFO record nor do sizes of records lead to its end"
)]
pub struct NotMagnet;

const SYSINFO: u32 = 0x0123_4567;

/// A trace.
#[derive(Clone, Copy, Debug)]
pub struct Trace<'t> {
    /// Its layout.
    pub layout: Layout,
    bytes: &'t [u8],
}

impl<'t> Trace<'t> {
    /// Detects the layout of a trace.
    pub fn open(bytes: &'t [u8]) -> Result<Self, NotMagnet> {
        let layout = of_2001(bytes).or_else(|| of_2006(bytes)).ok_or(NotMagnet)?;
        Ok(Trace { layout, bytes })
    }

    /// Records in order, without SYSINFO. A truncated last record is omitted.
    pub fn records(&self) -> impl Iterator<Item = Record<'t>> + use<'t> {
        let (layout, mut rest) = (self.layout, self.bytes);
        std::iter::from_fn(move || {
            let (record, length) =
                if layout.year == 2001 { record_2001(rest, layout)? } else { record_2006(rest, layout)? };
            rest = rest.get(length..)?;
            Some(record)
        })
        .filter(|record| record.event != SYSINFO)
    }
}

/// Numbers of one byte order.
#[derive(Clone, Copy)]
struct Order(bool);

impl Order {
    fn u32(self, bytes: &[u8], at: usize) -> Option<u32> {
        let word = bytes.get(at..at + 4)?.try_into().ok()?;
        Some(if self.0 { u32::from_be_bytes(word) } else { u32::from_le_bytes(word) })
    }

    fn u64(self, bytes: &[u8], at: usize) -> Option<u64> {
        let word = bytes.get(at..at + 8)?.try_into().ok()?;
        Some(if self.0 { u64::from_be_bytes(word) } else { u64::from_le_bytes(word) })
    }

    fn word(self, bytes: &[u8], at: usize, size: WordSize) -> Option<u64> {
        match size {
            WordSize::Bits32 => self.u32(bytes, at).map(u64::from),
            WordSize::Bits64 => self.u64(bytes, at),
        }
    }
}

/// Offsets of time, event and size in a 2001 record, and its length.
struct Places {
    word: WordSize,
    timestamp: usize,
    event: usize,
    bytes: usize,
}

/// i386 aligns 64-bit fields to four bytes, other 32-bit machines to eight; 64-bit machines have 8-byte
/// pointers.
const PLACES: [Places; 3] = [
    Places { word: WordSize::Bits32, timestamp: 4, event: 12, bytes: 20 },
    Places { word: WordSize::Bits32, timestamp: 8, event: 16, bytes: 24 },
    Places { word: WordSize::Bits64, timestamp: 8, event: 16, bytes: 24 },
];

fn of_2001(bytes: &[u8]) -> Option<Layout> {
    for big_endian in [false, true] {
        let order = Order(big_endian);
        for places in &PLACES {
            if order.u32(bytes, places.event) != Some(SYSINFO) {
                continue;
            }
            let khz = order.u32(bytes, places.event + 4)?;
            // If the time has offset 8, a record with a non-zero upper half reveals a 64-bit pointer.
            let wide = places.timestamp == 8
                && bytes.chunks_exact(places.bytes).any(|record| {
                    order.u64(record, 0).is_some_and(|id| {
                        let upper = if big_endian { id & 0xffff_ffff } else { id >> 32 };
                        upper != 0
                    })
                });
            let word = if wide { WordSize::Bits64 } else { places.word };
            return Some(Layout { year: 2001, big_endian, word, record_bytes: places.bytes, khz: Some(khz) });
        }
    }
    None
}

fn record_2001(bytes: &[u8], layout: Layout) -> Option<(Record<'_>, usize)> {
    let order = Order(layout.big_endian);
    let (timestamp, event) = if layout.record_bytes == 20 { (4, 12) } else { (8, 16) };
    let record = Record {
        id: order.word(bytes, 0, layout.word)?,
        cycles: order.u64(bytes, timestamp)?,
        event: order.u32(bytes, event)?,
        size: i64::from(order.u32(bytes, event + 4)? as i32),
        cpu: 0,
        pid: 0,
        extra: &[],
    };
    Some((record, layout.record_bytes))
}

fn of_2006(bytes: &[u8]) -> Option<Layout> {
    for word in [WordSize::Bits64, WordSize::Bits32] {
        for big_endian in [false, true] {
            let layout = Layout { year: 2006, big_endian, word, record_bytes: 0, khz: None };
            let (mut rest, mut last) = (bytes, 0);
            let mut records = 0_u64;
            while let Some((record, length)) = record_2006(rest, layout) {
                rest = rest.get(length..)?;
                // Times of all CPUs increase at similar rates: a wrong layout gives large jumps.
                if records > 0 && record.cycles.abs_diff(last) > 1 << 48 {
                    break;
                }
                last = record.cycles;
                records += 1;
            }
            if records > 0 && rest.is_empty() {
                return Some(layout);
            }
        }
    }
    None
}

fn record_2006(bytes: &[u8], layout: Layout) -> Option<(Record<'_>, usize)> {
    let order = Order(layout.big_endian);
    let header = order.u32(bytes, 0)?;
    let word = layout.word as usize;
    let length = (header >> 16) as usize;
    let fields = 4 + word + 8 + 4;
    if length < fields {
        return None;
    }
    let record = bytes.get(..length)?;
    Some((
        Record {
            id: order.word(record, 4, layout.word)?,
            cycles: order.u64(record, 4 + word)?,
            event: header >> 6 & 0x3ff,
            size: length as i64,
            cpu: (header & 0x3f) as u16,
            pid: order.u32(record, 12 + word)?,
            extra: record.get(fields..)?,
        },
        length,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A 2001 trace from a machine with this byte order and layout.
    fn trace_2001(big: bool, places: &Places, records: &[(u64, u64, u32, i32)]) -> Vec<u8> {
        let mut out = Vec::new();
        for (id, time, event, size) in records {
            let begin = out.len();
            let mut put = |at: usize, le: &[u8]| {
                out.resize(out.len().max(begin + at + le.len()), 0);
                let mut bytes = le.to_vec();
                if big {
                    bytes.reverse();
                }
                out[begin + at..begin + at + le.len()].copy_from_slice(&bytes);
            };
            match places.word {
                WordSize::Bits32 => put(0, &(*id as u32).to_le_bytes()),
                WordSize::Bits64 => put(0, &id.to_le_bytes()),
            }
            put(places.timestamp, &time.to_le_bytes());
            put(places.event, &event.to_le_bytes());
            put(places.event + 4, &size.to_le_bytes());
        }
        out
    }

    #[test]
    fn traces_of_2001_of_every_machine_are_read() {
        for big in [false, true] {
            for places in &PLACES {
                let id = if places.word == WordSize::Bits64 { 0xffff_8800_1234_5678 } else { 0xc012_3456 };
                let bytes = trace_2001(
                    big,
                    places,
                    &[(0, 5, SYSINFO, 400_000), (id, 1_000, 7, 1_448), (id, 2_000, 8, -11)],
                );
                let trace = Trace::open(&bytes).expect("a trace");
                assert_eq!((trace.layout.big_endian, trace.layout.word), (big, places.word));
                assert_eq!((trace.layout.record_bytes, trace.layout.khz), (places.bytes, Some(400_000)));
                let records: Vec<_> = trace.records().collect();
                assert_eq!(records.len(), 2);
                assert_eq!(
                    (records[0].id, records[0].cycles, records[0].event, records[0].size),
                    (id, 1_000, 7, 1_448)
                );
                assert_eq!(records[1].size, -11);
                // Truncated in the last record: the others are present.
                let cut = Trace::open(&bytes[..bytes.len() - 3]).expect("a cut trace");
                assert_eq!(cut.records().count(), 1);
            }
        }
    }

    #[test]
    fn traces_of_2006_of_every_machine_are_read() {
        for big in [false, true] {
            for word in [WordSize::Bits32, WordSize::Bits64] {
                let mut bytes = Vec::new();
                for (event, extra) in [(3_u32, 0_usize), (4, 9), (1_023, 30)] {
                    let length = 16 + word as usize + extra;
                    let header = 5 | event << 6 | (length as u32) << 16;
                    let mut put = |le: &[u8]| {
                        let mut one = le.to_vec();
                        if big {
                            one.reverse();
                        }
                        bytes.extend(one);
                    };
                    put(&header.to_le_bytes());
                    match word {
                        WordSize::Bits32 => put(&0xc012_3456_u32.to_le_bytes()),
                        WordSize::Bits64 => put(&0xffff_8800_1234_5678_u64.to_le_bytes()),
                    }
                    put(&(1_000_000_u64 + u64::from(event)).to_le_bytes());
                    put(&4_242_u32.to_le_bytes());
                    bytes.extend(vec![0xab; extra]);
                }
                let trace = Trace::open(&bytes).expect("a trace");
                assert_eq!((trace.layout.year, trace.layout.big_endian, trace.layout.word), (2006, big, word));
                let records: Vec<_> = trace.records().collect();
                assert_eq!(
                    records.iter().map(|r| (r.event, r.cpu, r.pid)).collect::<Vec<_>>(),
                    [(3, 5, 4_242), (4, 5, 4_242), (1_023, 5, 4_242)]
                );
                assert_eq!(records[1].extra, [0xab; 9]);
            }
        }
    }

    #[test]
    fn anything_else_is_no_trace() {
        for bytes in [&b""[..], b"hello, world, this is text", &[0; 64], &[0xff; 64]] {
            assert!(Trace::open(bytes).is_err());
        }
    }
}
