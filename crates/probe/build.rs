//! Compiles `bpf/` with clang into `OUT_DIR` and generates Rust types from `bpf/record.h`.

use libbpf_cargo::SkeletonBuilder;
use std::env;
use std::path::PathBuf;

fn main() {
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let bpf = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets CARGO_MANIFEST_DIR"))
        .join("../../bpf");
    let arch = match env::var("CARGO_CFG_TARGET_ARCH").as_deref() {
        Ok("aarch64") => "arm64",
        _ => "x86",
    };

    // A change to any header must rebuild, so the folder itself is watched, file by file.
    println!("cargo:rerun-if-changed={}", bpf.display());
    for entry in std::fs::read_dir(&bpf).into_iter().flatten().flatten() {
        println!("cargo:rerun-if-changed={}", entry.path().display());
    }

    // The same probes three times: for kernels with typed casts, for older ones, and for those without bpf_loop (`bpf/read.h`).
    let (typed, read, no_loop) = ("-UMAGNET_PROBE_READ", "-DMAGNET_PROBE_READ", "-DMAGNET_NO_LOOP");
    let objects = [
        ("magnet.bpf.c", "magnet.bpf.o", &[typed][..]),
        ("magnet.bpf.c", "magnet-probe-read.bpf.o", &[read]),
        ("magnet.bpf.c", "magnet-no-loop.bpf.o", &[read, no_loop]),
        ("custom.bpf.c", "custom.bpf.o", &[read]),
        ("trial.bpf.c", "trial.bpf.o", &[typed]),
        ("bench/floor.bpf.c", "floor.bpf.o", &[typed]),
    ];
    for (source, object, defines) in objects {
        SkeletonBuilder::new()
            .source(bpf.join(source))
            .obj(out.join(object))
            .clang_args(
                ["-mcpu=v3".to_owned(), format!("-D__TARGET_ARCH_{arch}"), format!("-I{}", bpf.display())]
                    .into_iter()
                    .chain(defines.iter().map(|&define| define.to_owned())),
            )
            .build()
            .unwrap_or_else(|error| {
                panic!("cannot compile bpf/{source}: {error:#}\nIs clang installed? `make run` installs what is missing.")
            });
    }

    bindgen::Builder::default()
        .header(bpf.join("record.h").to_string_lossy())
        .allowlist_item("(mag|MAG)_.*")
        .derive_default(true)
        .layout_tests(false)
        .generate_comments(false)
        .generate()
        .expect("bpf/record.h is self-contained C")
        .write_to_file(out.join("record.rs"))
        .expect("OUT_DIR is writable");
}
