//! Reader of the kernel's and a module's type information (BTF; Documentation/bpf/btf.rst).
//!
//! The data is checked against its own lengths: an id or offset out of range yields nothing and never panics.

use std::path::Path;
use std::{fs, io};

const MAGIC: u16 = 0xeb9f;
/// Real ones have 4 to 10 MB.
const LONGEST: u64 = 256 << 20;

/// Types of the kernel, or of a module and the kernel.
#[derive(Clone, Debug, Default)]
pub struct Types {
    words: Vec<u8>,
    /// Offset of each type in `words`; type 0 is `void`.
    starts: Vec<u32>,
    strings: Vec<u8>,
}

/// A type without what qualifies it or only names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// A number.
    Number {
        /// Size in bytes.
        bytes: u8,
        /// True for a signed type.
        signed: bool,
    },
    /// The address of another.
    Pointer(u32),
    /// A structure or union.
    Composite,
    /// A function's arguments and return.
    Function {
        /// Type of what it returns.
        returns: u32,
    },
    /// Something that is no number and has no fields.
    Other(&'static str),
}

/// A field of a structure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field<'a> {
    /// Empty for one without a name, whose own fields are reached directly.
    pub name: &'a str,
    /// Type id.
    pub kind: u32,
    /// Offset in bits.
    pub bit_offset: u32,
    /// Width of a bit-field in bits; 0 otherwise.
    pub bits: u8,
}

const INT: u32 = 1;
const PTR: u32 = 2;
const ARRAY: u32 = 3;
const STRUCT: u32 = 4;
const UNION: u32 = 5;
const ENUM: u32 = 6;
const FWD: u32 = 7;
const TYPEDEF: u32 = 8;
const FUNC: u32 = 12;
const FUNC_PROTO: u32 = 13;
const ENUM64: u32 = 19;

impl Types {
    /// The types of the kernel that runs.
    pub fn of_kernel() -> io::Result<Self> {
        Self::default().and(Path::new("/sys/kernel/btf/vmlinux"))
    }

    /// Adds the types of a file that refers to these.
    pub fn and(mut self, path: &Path) -> io::Result<Self> {
        let bad = |what| io::Error::new(io::ErrorKind::InvalidData, format!("{}: {what}", path.display()));
        if fs::metadata(path)?.len() > LONGEST {
            return Err(bad("too long to be type information"));
        }
        self.add(&fs::read(path)?).ok_or_else(|| bad("no type information"))?;
        Ok(self)
    }

    /// Appends a file's types and strings; `None` if it is none.
    pub fn add(&mut self, file: &[u8]) -> Option<()> {
        let word = |at: usize| Some(u32::from_le_bytes(*file.get(at..)?.first_chunk()?));
        let magic = u16::from_le_bytes(*file.first_chunk()?);
        let header = word(4)? as usize;
        let part = |at: usize| {
            let (offset, length) = (header.checked_add(word(at)? as usize)?, word(at + 4)? as usize);
            file.get(offset..offset.checked_add(length)?)
        };
        let (types, strings) = (part(8)?, part(16)?);
        if magic != MAGIC {
            return None;
        }
        if self.starts.is_empty() {
            self.starts.push(u32::MAX);
        }
        let base = self.words.len();
        let mut at = 0;
        while at < types.len() {
            let info = u32::from_le_bytes(*types.get(at + 4..)?.first_chunk()?);
            let (kind, count) = (info >> 24 & 31, (info & 0xffff) as usize);
            self.starts.push(u32::try_from(base + at).ok()?);
            at += 12
                + match kind {
                    INT | 14 | 17 => 4,
                    ARRAY => 12,
                    STRUCT | UNION | ENUM64 | 15 => 12 * count,
                    ENUM | FUNC_PROTO => 8 * count,
                    _ => 0,
                };
        }
        self.words.extend_from_slice(types);
        self.strings.extend_from_slice(strings);
        Some(())
    }

    /// A word of a type: 0 name, 1 info, 2 size or type, from 3 on what its kind has more.
    fn word(&self, id: u32, index: usize) -> u32 {
        let start = self.starts.get(id as usize).map_or(usize::MAX, |at| *at as usize);
        let bytes =
            start.checked_add(index * 4).and_then(|at| self.words.get(at..)).and_then(|b| b.first_chunk());
        bytes.map_or(0, |bytes| u32::from_le_bytes(*bytes))
    }

    fn kind(&self, id: u32) -> u32 {
        self.word(id, 1) >> 24 & 31
    }

    fn count(&self, id: u32) -> usize {
        (self.word(id, 1) & 0xffff) as usize
    }

    fn text(&self, offset: u32) -> &str {
        let rest = self.strings.get(offset as usize..).unwrap_or_default();
        let end = rest.iter().position(|byte| *byte == 0).unwrap_or(0);
        std::str::from_utf8(&rest[..end]).unwrap_or_default()
    }

    /// A type's name; empty where it has none.
    pub fn name(&self, id: u32) -> &str {
        self.text(self.word(id, 0))
    }

    /// Without `const`, `volatile`, typedefs and tags.
    pub fn bare(&self, mut id: u32) -> u32 {
        // chains in real kernels have some ten links; a cycle must not loop for ever
        for _ in 0..64 {
            match self.kind(id) {
                TYPEDEF | 9 | 10 | 11 | 18 => id = self.word(id, 2),
                _ => return id,
            }
        }
        0
    }

    /// Shape of a type.
    pub fn shape(&self, id: u32) -> Shape {
        let id = self.bare(id);
        let number = |signed| match self.word(id, 2) {
            bytes @ (1 | 2 | 4 | 8) => Shape::Number { bytes: bytes as u8, signed },
            _ => Shape::Other("a number of more than 64 bits"),
        };
        match self.kind(id) {
            INT => number(self.word(id, 3) >> 24 & 1 != 0),
            ENUM | ENUM64 => number(self.word(id, 1) >> 31 != 0),
            PTR => Shape::Pointer(self.word(id, 2)),
            STRUCT | UNION => Shape::Composite,
            FUNC_PROTO => Shape::Function { returns: self.word(id, 2) },
            ARRAY => Shape::Other("an array"),
            FWD => Shape::Other("a structure whose fields this kernel does not describe"),
            0 => Shape::Other("of no type"),
            _ => Shape::Other("no number"),
        }
    }

    /// The fields of a structure, in order.
    pub fn fields(&self, id: u32) -> impl Iterator<Item = Field<'_>> {
        let id = self.bare(id);
        let (count, packed) = match self.kind(id) {
            STRUCT | UNION => (self.count(id), self.word(id, 1) >> 31 != 0),
            _ => (0, false),
        };
        (0..count).map(move |i| {
            let [name, kind, offset] = [3, 4, 5].map(|word| self.word(id, word + i * 3));
            let (bit_offset, bits) =
                if packed { (offset & 0x00ff_ffff, (offset >> 24) as u8) } else { (offset, 0) };
            Field { name: self.text(name), kind, bit_offset, bits }
        })
    }

    /// Arguments of a function's type: name (empty if absent) and type.
    pub fn arguments(&self, id: u32) -> impl Iterator<Item = (&str, u32)> {
        let id = self.bare(id);
        let count = if self.kind(id) == FUNC_PROTO { self.count(id) } else { 0 };
        (0..count).map(move |i| (self.text(self.word(id, 3 + i * 2)), self.word(id, 4 + i * 2)))
    }

    fn of_kind(&self, kind: u32) -> impl Iterator<Item = u32> {
        (1..self.starts.len() as u32).filter(move |id| self.kind(*id) == kind)
    }

    /// Every function: name and id of its prototype.
    pub fn functions(&self) -> impl Iterator<Item = (&str, u32)> {
        self.of_kind(FUNC).map(|id| (self.name(id), self.word(id, 2)))
    }

    /// Every typedef: name and id.
    pub fn typedefs(&self) -> impl Iterator<Item = (&str, u32)> {
        self.of_kind(TYPEDEF).map(|id| (self.name(id), id))
    }

    /// Every named structure.
    pub fn structures(&self) -> impl Iterator<Item = (&str, u32)> {
        self.of_kind(STRUCT).map(|id| (self.name(id), id)).filter(|(name, _)| !name.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn this_kernel_describes_itself() {
        let Ok(types) = Types::of_kernel() else {
            println!("skipped, because this kernel has no BTF");
            return;
        };
        let (_, skb) = types.structures().find(|(name, _)| *name == "sk_buff").expect("sk_buff");
        let len = types.fields(skb).find(|field| field.name == "len").expect("len");
        assert_eq!(types.shape(len.kind), Shape::Number { bytes: 4, signed: false });
        let (_, proto) =
            types.functions().find(|(name, _)| *name == "tcp_rcv_established").expect("a function");
        let names: Vec<&str> = types.arguments(proto).map(|(name, _)| name).collect();
        assert_eq!(names, ["sk", "skb"]);
        assert!(types.functions().count() > 10_000);
    }

    proptest! {
        #[test]
        fn any_bytes_are_types_or_none(mut bytes in proptest::collection::vec(any::<u8>(), 0..200), seal in any::<bool>()) {
            if seal && bytes.len() >= 24 {
                let end = bytes.len() as u32 - 24;
                bytes[..2].copy_from_slice(&MAGIC.to_le_bytes());
                for (at, word) in [(4, 24), (8, 0), (12, end / 2), (16, end / 2), (20, end - end / 2)] {
                    bytes[at..at + 4].copy_from_slice(&u32::to_le_bytes(word));
                }
            }
            let mut types = Types::default();
            if types.add(&bytes).is_some() {
                for id in 0..types.starts.len() as u32 + 2 {
                    let _ = (types.name(id), types.shape(id), types.fields(id).count(), types.arguments(id).count());
                }
            }
        }
    }
}
