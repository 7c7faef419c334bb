#!/usr/bin/env bash
# Runs every test. Those that need root are compiled by whoever calls and then run as root. Last come Debian's kernels, in
# virtual machines, unless GUESTS=no.
set -euo pipefail
cd "$(dirname "$0")/.."

guests() {
    if [ "${GUESTS:-yes}" = no ]; then
        echo "skipped, because GUESTS=no was given: the capture tests inside Debian's kernels (make test-kernels)"
        return
    fi
    scripts/test-kernels.sh
}

# All of them, so that one run names every failure.
cargo test --workspace --features magnet-scope/query --no-fail-fast
if [ "$(id -u)" = 0 ]; then
    guests
    exit 0
fi
if ! command -v sudo >/dev/null || ! sudo -n true 2>/dev/null; then
    echo "skipped, because neither root nor a sudo without password is there: the end-to-end tests that capture"
    guests
    exit 0
fi
# The binaries are already built; each runs again, as root, and now without skipping. Paths come from cargo itself.
cargo test --workspace --features magnet-scope/query --no-run --message-format=json 2>/dev/null |
    sed -n 's/.*"executable":"\([^"]*\)".*/\1/p' |
    while read -r test; do
        case $test in
            */deps/*) sudo -n "$test" </dev/null ;;
        esac
    done
guests
