#!/usr/bin/env bash
# Builds the static binary: no window, no SQL, the C library musl, libelf and zlib inside. It runs on any Linux.
#
# usage: scripts/build-static.sh [CARGO ARGUMENT…]     (default: the binary)
# Environment: STATIC_ARCH=aarch64 for arm64, also on an x86-64 machine
# The result is target/ARCH-unknown-linux-musl/dist/magnet-scope; its line tables are in magnet-scope.debug beside it.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/lib/guest.sh
. scripts/lib/reproducible.sh
. scripts/lib/static.sh

fail() { echo "build-static: $*" >&2; exit 1; }
static_needs fail
if [ $# -gt 0 ]; then
    static_cargo build "$@"
else
    static_cargo build --locked --profile dist --bin magnet-scope --no-default-features --features s3,static
    OBJCOPY=$(static_tool objcopy) scripts/split-symbols.sh "$(static_folder)/dist/magnet-scope"
fi
