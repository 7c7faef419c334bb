#!/usr/bin/env bash
# Installs the packages that building and running magnet-scope needs and this machine lacks, and prints their
# purpose.
#
# usage: scripts/setup.sh [--tests]     (--tests: also packages for the tests and checks)
set -euo pipefail

say() { printf 'setup: %s\n' "$*" >&2; }
fail() { say "$*"; exit 1; }

[ "$(uname -s)" = Linux ] || fail "magnet-scope captures on Linux only; this is $(uname -s)"

# Each line: check for presence | purpose | package on apt | on dnf | on pacman
needs() {
    cat <<'LIST'
command -v cc|links Rust programs and compiles libbpf|gcc libc6-dev|gcc glibc-devel|gcc
command -v clang|compiles the kernel side to BPF|clang|clang|clang
ls /usr/lib/llvm-*/lib/libclang*.so* /usr/lib*/libclang*.so* /usr/lib/*/libclang*.so*|lets bindgen read the record layout|libclang-dev|clang-devel|clang
command -v make|builds the bundled libbpf|make|make|make
command -v pkg-config|finds libelf and zlib|pkg-config|pkgconf-pkg-config|pkgconf
ls /usr/include/gelf.h|libbpf reads object files with libelf|libelf-dev|elfutils-libelf-devel|libelf
ls /usr/include/zlib.h|libelf unpacks sections with zlib|zlib1g-dev|zlib-devel|zlib
ls /usr/lib/*/libpcap.so.* /usr/lib*/libpcap.so.*|compiles the expressions of --pcap|libpcap0.8|libpcap|libpcap
LIST
}
tests_need() {
    cat <<'LIST'
ls /usr/sbin/ip /sbin/ip /usr/bin/ip|the tests make their networks with it|iproute2|iproute|iproute2
ls /usr/sbin/tcpdump /usr/bin/tcpdump|the tests hold captures against its own|tcpdump|tcpdump|tcpdump
ls /usr/sbin/ethtool /sbin/ethtool /usr/bin/ethtool|the tests switch segmentation off with it|ethtool|ethtool|ethtool
ls /usr/sbin/nft /usr/bin/nft|the tests lose packets with it|nftables|nftables|nftables
command -v clang-format|checks the format of the kernel side|clang-format|clang-tools-extra|clang
command -v python3|checks the documents and runs their commands|python3|python3|python
LIST
}

case ${1:-} in
    "") wanted=(needs) ;;
    --tests) wanted=(needs tests_need) ;;
    *) fail "usage: scripts/setup.sh [--tests]" ;;
esac

if command -v apt-get >/dev/null; then manager=apt column=3
elif command -v dnf >/dev/null; then manager=dnf column=4
elif command -v pacman >/dev/null; then manager=pacman column=5
else manager=none column=3; fi

packages=()
while IFS='|' read -r -a row; do
    # `ls` fails if any of several patterns has no match, so its output decides.
    found=$(eval "${row[0]}" 2>/dev/null || true)
    [ -n "$found" ] && continue
    package=${row[$((column - 1))]}
    say "missing: $package: ${row[1]}"
    read -r -a names <<<"$package"
    packages+=("${names[@]}")
done < <(for list in "${wanted[@]}"; do "$list"; done)

if [ ${#packages[@]} -gt 0 ]; then
    as_root=()
    if [ "$(id -u)" != 0 ]; then
        command -v sudo >/dev/null || fail "install these as root, then try again: ${packages[*]}"
        as_root=(sudo)
        say "using sudo to install them"
    fi
    case $manager in
        apt)
            "${as_root[@]}" apt-get update -qq
            "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${packages[@]}" >&2
            ;;
        dnf) "${as_root[@]}" dnf install -y -q "${packages[@]}" >&2 ;;
        pacman) "${as_root[@]}" pacman -S --needed --noconfirm "${packages[@]}" >&2 ;;
        none) fail "no apt-get, dnf or pacman here; install by hand: ${packages[*]}" ;;
    esac
fi

if ! command -v cargo >/dev/null; then
    fail "no Rust toolchain (cargo) found; install one with rustup, then try again"
fi
if [ ! -r /sys/kernel/btf/vmlinux ]; then
    say "this kernel has no BTF (/sys/kernel/btf/vmlinux): it builds here, but captures need CONFIG_DEBUG_INFO_BTF=y"
fi
