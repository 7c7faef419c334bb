//! Compiles `bpf/` with clang into `OUT_DIR` and generates Rust types from `bpf/record.h`. The C header
//! of the hops comes from their table in `magscope-core`. Both are links here, which a packed crate has as files.

use flate2::Compression;
use flate2::write::ZlibEncoder;
use libbpf_cargo::SkeletonBuilder;
use std::env;
use std::fmt::Write;
use std::io::Write as _;
use std::path::{Path, PathBuf};

/// The columns of the table of hops that the C header needs.
struct HopRow {
    id: u32,
    name: &'static str,
    direction: &'static str,
    side: &'static str,
}

macro_rules! hops {
    ($( $(#[$doc:meta])* $variant:ident {
        id: $id:literal, name: $name:literal, direction: $direction:ident, side: $side:ident, $($other:tt)*
    } )*) => {
        const HOPS: &[HopRow] = &[ $( HopRow {
            id: $id, name: $name, direction: stringify!($direction), side: stringify!($side),
        }, )* ];
    };
}
include!("hop-table.rs");

/// Writes `hops.h`: the numbers of the hops and the sets that the programs test.
fn write_hops(header: &Path) {
    let mut text = "/* Generated from crates/core/src/hop/table.rs. */\n".to_owned();
    text.push_str("#ifndef MAGNET_HOPS_H\n#define MAGNET_HOPS_H\n\nenum mag_hop {\n");
    for hop in HOPS {
        let name = hop.name.replace('.', "_").to_uppercase();
        writeln!(text, "\tMAG_{name} = {},", hop.id).expect("a string");
    }
    text.push_str("};\n\n/* A bit per enum mag_hop. */\n");
    let set =
        |is: fn(&HopRow) -> bool| HOPS.iter().filter(|hop| is(hop)).fold(0_u64, |set, hop| set | 1 << hop.id);
    for (name, set) in [
        ("MAG_TX_HOPS", set(|hop| hop.side == "Tx")),
        ("MAG_RX_HOPS", set(|hop| hop.side == "Rx")),
        ("MAG_PATH_HOPS", set(|hop| hop.direction != "Off")),
    ] {
        writeln!(text, "#define {name} {set:#x}ULL").expect("a string");
    }
    text.push_str("\n#endif\n");
    std::fs::write(header, text).expect("OUT_DIR is writable");
}

/// Writes a list of all objects, for the tests of their programs.
fn write_objects(list: &Path, objects: &[&str]) {
    let mut text = "const OBJECTS: &[(&str, &[u8])] = &[\n".to_owned();
    for object in objects {
        let bytes = format!("include_bytes!(concat!(env!(\"OUT_DIR\"), \"/{object}\"))");
        writeln!(text, "    (\"{object}\", {bytes}),").expect("a string");
    }
    text.push_str("];\n");
    std::fs::write(list, text).expect("OUT_DIR is writable");
}

/// Writes `OBJECT.z`, a fifth as large. The binary embeds these (`src/embedded.rs`).
fn compress(object: &Path) {
    let bytes = std::fs::read(object).expect("clang wrote the object");
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(&bytes).expect("memory");
    let mut name = object.as_os_str().to_owned();
    name.push(".z");
    std::fs::write(name, encoder.finish().expect("memory")).expect("OUT_DIR is writable");
}

fn main() {
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let own = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets CARGO_MANIFEST_DIR"));
    let bpf = own.join("bpf");
    let arch = match env::var("CARGO_CFG_TARGET_ARCH").as_deref() {
        Ok("aarch64") => "arm64",
        _ => "x86",
    };

    // A change to any header must rebuild, so the folder itself is watched, file by file.
    println!("cargo:rerun-if-changed={}", bpf.display());
    for entry in std::fs::read_dir(&bpf).into_iter().flatten().flatten() {
        println!("cargo:rerun-if-changed={}", entry.path().display());
    }

    println!("cargo:rerun-if-changed=hop-table.rs");
    write_hops(&out.join("hops.h"));

    // The same probes three times: for kernels with typed casts, for older ones, and for those without bpf_loop (`bpf/read.h`).
    let (typed, read, no_loop) = ("-UMAGNET_PROBE_READ", "-DMAGNET_PROBE_READ", "-DMAGNET_NO_LOOP");
    let objects = [
        ("magnet.bpf.c", "magnet.bpf.o", &[typed][..]),
        ("magnet.bpf.c", "magnet-probe-read.bpf.o", &[read]),
        ("magnet.bpf.c", "magnet-no-loop.bpf.o", &[read, no_loop]),
        ("custom.bpf.c", "custom.bpf.o", &[read]),
        ("trial.bpf.c", "trial.bpf.o", &[typed]),
        ("bench/floor.bpf.c", "floor.bpf.o", &[typed]),
        ("bench/nested.bpf.c", "nested.bpf.o", &[typed]),
    ];
    let include = format!("-I{}", out.display());
    // Line information has the paths of the sources: those of this folder would make every build another one.
    let paths = [
        format!("-ffile-prefix-map={}/=", out.display()),
        format!("-ffile-prefix-map={}/=", own.display()),
        "-ffile-compilation-dir=.".to_owned(),
    ];
    for (source, object, defines) in objects {
        SkeletonBuilder::new()
            .source(bpf.join(source))
            .obj(out.join(object))
            .clang_args(
                ["-mcpu=v3".to_owned(), format!("-D__TARGET_ARCH_{arch}"), format!("-I{}", bpf.display()), include.clone()]
                    .into_iter()
                    .chain(paths.clone())
                    .chain(defines.iter().map(|&define| define.to_owned())),
            )
            .build()
            .unwrap_or_else(|error| {
                panic!("cannot compile bpf/{source}: {error:#}\nIs clang installed? `make run` installs what is missing.")
            });
        compress(&out.join(object));
    }

    write_objects(&out.join("objects.rs"), &objects.map(|(_, object, _)| object));

    bindgen::Builder::default()
        .header(bpf.join("record.h").to_string_lossy())
        .clang_arg(&include)
        .allowlist_item("(mag|MAG)_.*")
        .derive_default(true)
        .layout_tests(false)
        .generate_comments(false)
        .generate()
        .expect("bpf/record.h is self-contained C")
        .write_to_file(out.join("record.rs"))
        .expect("OUT_DIR is writable");
}
