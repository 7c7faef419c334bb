#!/usr/bin/env bash
# Compares recordings across architectures: x86-64 and arm64 read the golden recordings, write them again and read what
# the other one has written. QEMU runs the test program of arm64 as a process, without a machine.
#
# usage: scripts/recordings-arm64.sh
# Installs QEMU's user mode and the cross compiler if it can.
set -euo pipefail
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

. scripts/lib/guest.sh
arm64_needs
if ! command -v qemu-aarch64 >/dev/null; then
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends qemu-user >/dev/null 2>&1 ||
        skip "qemu-user is missing and could not be installed"
fi

arm64=$(arm64_cargo test -p magscope-session --test all --no-run --message-format=json | test_program session)
# Built as scripts/test.sh builds it, because other features would build everything twice.
own=$(cargo test --workspace --features magnet-scope/query --no-run --message-format=json 2>/dev/null | test_program session)
for program in "$arm64" "$own"; do
    [ -x "$program" ] || { echo "the tests of magscope-session do not build" >&2; exit 1; }
done

export MAGSCOPE_EXCHANGE=$work
cd crates/session
for run in "$own" "qemu-aarch64 -L $arm64_root $arm64" "$own"; do
    $run --nocapture architectures::
done
