# A static build with musl: the compiler for C, libelf, zlib and cargo's settings. To be sourced, after guest.sh.
#
# STATIC_ARCH is x86_64 or aarch64. An x86-64 machine builds for aarch64 too, with Debian's cross compiler and the headers
# of Debian's musl for arm64; the C library itself comes with Rust's target.
#
# The sources of libelf and zlib are those of the crate libbpf-sys, whose checksum Cargo.lock has. libelf is compiled
# without the rest of elfutils, which needs functions that musl lacks (argp, fts, obstack).

static_arch=${STATIC_ARCH:-$(uname -m)}
static_target=$static_arch-unknown-linux-musl
# Absolute, because build scripts of crates use it from their own folders.
static_root=$(realpath -m "${CARGO_TARGET_DIR:-target}")/static/$static_arch

# Ends with a message if nothing static can be built here.
static_needs() {
    local fail=$1
    case $static_root in *[[:space:]]*) $fail "the path $static_root has a blank, which the compilers take for its end" ;; esac
    case $static_arch:$(uname -m) in
        x86_64:x86_64 | aarch64:aarch64) static_native "$fail" ;;
        aarch64:x86_64) static_cross "$fail" ;;
        *) $fail "no static build for $static_arch on $(uname -m)" ;;
    esac
    [ -d "$(rustc --print sysroot)/lib/rustlib/$static_target" ] || rustup target add "$static_target" >/dev/null 2>&1 ||
        $fail "rustup cannot add the target $static_target"
    # musl has the functions of libdl in its libc; an empty archive satisfies the linker.
    rm -f "$static_root/lib/libdl.a"
    ar crsD "$static_root/lib/libdl.a"
    # The build script that compiles the BPF programs links them too.
    { [ -e "$static_root/lib/libelf.a" ] || static_libraries "$static_cc" "$static_ar" "$static_root/lib"; } &&
        { [ -e "$static_root/host/libelf.a" ] || static_libraries gcc ar "$static_root/host"; } ||
        $fail "libelf and zlib cannot be compiled; see $static_root/log"
}

# The compiler of this machine.
static_native() {
    local fail=$1
    if ! command -v musl-gcc >/dev/null; then
        { command -v apt-get && as_root apt-get update -qq &&
            as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends musl-tools; } \
            >/dev/null 2>&1 || $fail "musl-gcc is missing and could not be installed (Debian: musl-tools)"
    fi
    static_cc=musl-gcc static_ar=ar
    static_headers /usr/include "/usr/include/$(gcc -print-multiarch)"
}

# The cross compiler for arm64, as a command that knows musl's headers and no others.
static_cross() {
    local fail=$1
    arm64_needs "$fail"
    arm64_packages musl-dev || $fail "the headers of musl for arm64 cannot be had; see $arm64_root/.log"
    static_cc=$static_root/cc static_ar=aarch64-linux-gnu-ar
    static_headers /usr/aarch64-linux-gnu/include /usr/aarch64-linux-gnu/include
    # Rust's target has no helpers for atomics out of line.
    cat >"$static_cc" <<CC
#!/bin/sh
exec aarch64-linux-gnu-gcc -nostdinc -isystem $arm64_root/usr/include/aarch64-linux-musl \\
    -isystem $(aarch64-linux-gnu-gcc -print-file-name=include) -mno-outline-atomics "\$@"
CC
    chmod +x "$static_cc"
}

# Prints the name of a program of binutils for the static target: static_tool NAME
static_tool() {
    if [ "$static_arch" = "$(uname -m)" ]; then echo "$1"; else echo "$static_arch-linux-gnu-$1"; fi
}

# Links the kernel's headers in a folder of their own: those of the C library beside them are another one's. static_headers
# FOLDER FOLDER_OF_ASM
static_headers() {
    mkdir -p "$static_root/include" "$static_root/lib"
    ln -sfn "$1/linux" "$1/asm-generic" "$static_root/include"
    ln -sfn "$2/asm" "$static_root/include/asm"
}

# Compiles libelf.a and libz.a: static_libraries COMPILER AR FOLDER
static_libraries() {
    local compiler=$1 archiver=$2 folder=$3 crate build source
    crate=$(dirname "$(cargo metadata --locked --quiet --filter-platform "$static_target" --format-version 1 | python3 -c '
import json, sys
print(next(p["manifest_path"] for p in json.load(sys.stdin)["packages"] if p["name"] == "libbpf-sys"))')")
    build=$static_root/build
    rm -rf "$build"
    mkdir -p "$build/z" "$build/elf" "$folder"
    cat >"$build/config.h" <<'CONFIG'
#define _GNU_SOURCE 1
#include <features.h>
#define PACKAGE_NAME "elfutils"
#define HAVE_DECL_MEMPCPY 1
#define HAVE_DECL_MEMRCHR 1
#define HAVE_DECL_POWEROF2 1
#ifdef __GLIBC__
#define HAVE_DECL_RAWMEMCHR 1
#else
/* musl has no rawmemchr, and asserts without a text of errno. */
#define HAVE_DECL_RAWMEMCHR 0
#define rawmemchr(text, byte) memchr(text, byte, (size_t) -1)
#define assert_perror(error) assert((error) == 0)
#endif
#define HAVE_DECL_REALLOCARRAY 1
#define HAVE_ERR_H 1
#define HAVE_FALLTHROUGH 1
#define HAVE_MREMAP 1
#define HAVE_STDATOMIC_H 1
#define HAVE_VISIBILITY 1
#include "eu-config.h"
CONFIG
    local flags=(-O2 -fPIC -std=gnu99 -ffunction-sections -fdata-sections "-ffile-prefix-map=$crate=libbpf-sys")
    {
        for source in "$crate"/zlib/*.c; do
            "$compiler" "${flags[@]}" -DHAVE_UNISTD_H -DHAVE_STDARG_H -c "$source" \
                -o "$build/z/$(basename "$source" .c).o" || return 1
        done
        # The files that belong to libelf are the list in its makefile.
        for source in $(sed -n '/^libelf_a_SOURCES/,/[^\\]$/p' "$crate/elfutils/libelf/Makefile.am" | grep -o '[a-z0-9_]*\.c'); do
            "$compiler" "${flags[@]}" -DHAVE_CONFIG_H -I"$build" -I"$crate/elfutils/lib" -I"$crate/elfutils/libelf" \
                -I"$crate/zlib" -c "$crate/elfutils/libelf/$source" -o "$build/elf/${source%.c}.o" || return 1
        done
        # D: without times and owners. libelf.a is the last and shows that both are there.
        rm -f "$folder"/lib{z,elf}.a
        "$archiver" crsD "$folder/libz.a" "$build"/z/*.o && "$archiver" crsD "$folder/libelf.a" "$build"/elf/*.o
    } >"$static_root/log" 2>&1
    # libbpf includes these while it is compiled.
    mkdir -p "$static_root/include"
    cp "$crate"/elfutils/libelf/{libelf,gelf,elf}.h "$crate"/zlib/{zlib,zconf}.h "$static_root/include"
}

# Prints cargo's folder of the target.
static_folder() { echo "${CARGO_TARGET_DIR:-target}/$static_target"; }

# Runs cargo for the static target: static_cargo COMMAND ARGUMENT…
static_cargo() {
    local command=$1 name=${static_target//-/_} host
    host=$(rustc -vV | sed -n 's/^host: //p')
    shift
    reproducible_paths
    # rust-lld comes with the toolchain. It folds functions of equal code, and packs relocations, which musl reads since
    # 1.2.4; Rust's musl is newer.
    env "CARGO_TARGET_${name^^}_LINKER=rust-lld" \
        "CARGO_TARGET_${name^^}_RUSTFLAGS=-C target-feature=+crt-static -C link-arg=--icf=all -C link-arg=--pack-dyn-relocs=relr $rust_paths" \
        "CC_$name=$static_cc" "AR_$name=$static_ar" "CFLAGS_$name=-isystem $static_root/include $c_paths" \
        "LIBBPF_SYS_LIBRARY_PATH_$name=$static_root/lib" "LIBBPF_SYS_LIBRARY_PATH_${host//-/_}=$static_root/host" \
        cargo "$command" --target "$static_target" "$@"
}
