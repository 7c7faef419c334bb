#!/usr/bin/env bash
# Builds for arm64 on an x86-64 machine with Debian's packages. Installs the cross compiler if it can.
#
# usage: scripts/build-arm64.sh [CARGO ARGUMENT…]     (default: the binary, as `make build` makes it)
# The result is target/aarch64-unknown-linux-gnu/dist/magnet-scope. It needs libelf1 and zlib1g there.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/lib/guest.sh
. scripts/lib/arm64.sh

fail() { echo "build-arm64: $*" >&2; exit 1; }
arm64_needs fail
[ $# -gt 0 ] || set -- --profile dist --bin magnet-scope --features magnet-scope/query
arm64_cargo build "$@"
