//! The compiled BPF objects, compressed in the binary. Each is decompressed when a capture opens it.

use flate2::read::ZlibDecoder;
use std::io::Read;

/// libbpf reads an object in place.
const ALIGNMENT: usize = 8;

/// A BPF object as zlib wrote it.
pub(crate) struct Embedded(&'static [u8]);

macro_rules! embedded {
    ($object:literal) => {
        Embedded(include_bytes!(concat!(env!("OUT_DIR"), "/", $object, ".z")))
    };
}

/// The programs for kernels with typed casts.
pub(crate) static TYPED_CASTS: Embedded = embedded!("magnet.bpf.o");
/// The same for kernels without typed casts.
pub(crate) static PROBE_READS: Embedded = embedded!("magnet-probe-read.bpf.o");
/// The same for kernels without `bpf_loop`.
pub(crate) static NO_LOOP: Embedded = embedded!("magnet-no-loop.bpf.o");
/// The programs of custom probes.
pub(crate) static CUSTOM: Embedded = embedded!("custom.bpf.o");
/// A program that is loaded as a trial.
pub(crate) static TRIAL: Embedded = embedded!("trial.bpf.o");

/// A decompressed object, aligned for libbpf. libbpf copies what it needs while it opens the object.
pub(crate) struct Decompressed {
    bytes: Vec<u8>,
    start: usize,
}

impl Decompressed {
    /// The ELF file.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes[self.start..]
    }
}

impl Embedded {
    /// Decompresses the object.
    pub(crate) fn decompress(&self) -> Decompressed {
        let mut object = Vec::new();
        ZlibDecoder::new(self.0).read_to_end(&mut object).expect("the build script compressed it");
        let mut bytes: Vec<u8> = Vec::with_capacity(object.len() + ALIGNMENT);
        let start = bytes.as_ptr().align_offset(ALIGNMENT).min(ALIGNMENT);
        bytes.resize(start, 0);
        bytes.extend_from_slice(&object);
        Decompressed { bytes, start }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    include!(concat!(env!("OUT_DIR"), "/objects.rs"));

    #[test]
    fn every_embedded_object_is_the_compiled_one_and_aligned() {
        for (name, embedded) in [
            ("magnet.bpf.o", &TYPED_CASTS),
            ("magnet-probe-read.bpf.o", &PROBE_READS),
            ("magnet-no-loop.bpf.o", &NO_LOOP),
            ("custom.bpf.o", &CUSTOM),
            ("trial.bpf.o", &TRIAL),
        ] {
            let (_, compiled) = OBJECTS.iter().find(|(object, _)| *object == name).expect("compiled");
            let object = embedded.decompress();
            assert_eq!(object.bytes(), *compiled, "{name}");
            assert_eq!(object.bytes().as_ptr().align_offset(ALIGNMENT), 0, "{name}");
            assert!(embedded.0.len() * 2 < compiled.len(), "{name} is compressed");
        }
    }
}
