#!/usr/bin/env bash
# Runs every test that needs no emulated machine. At the same time, the capture suites run in a stock kernel, unless
# GUESTS=no. The calling user compiles tests that need root; they then run as root. `make test-all` has the other tests.
set -euo pipefail
cd "$(dirname "$0")/.."

features=(--workspace --features magnet-scope/query)
# Tests that boot emulated machines of their own: scripts/test-all.sh runs them.
skipped=(--skip machines:: --skip broken_clocks:: --skip same_runs::)

# The emulator uses one CPU, and many native tests wait for traffic, so both run at once. The guests' output follows that
# of the native tests. An older kernel, whose verifier refuses more, loads every program and counts exactly at the points
# of the stack: an attach takes twice as long there, so it has no more.
guest=
start_guest() {
    if [ "${GUESTS:-yes}" = no ]; then
        echo "skipped, because GUESTS=no was given: the capture tests inside Debian's kernels (make test-kernels)"
        return
    fi
    guest_log=$(mktemp)
    # A process group of its own, so that the machine ends with this script.
    set -m
    {
        result=0
        scripts/test-kernels.sh 6.12 || result=1
        scripts/test-kernels.sh --suites 'kernels points' 6.1 || result=1
        exit $result
    } </dev/null >"$guest_log" 2>&1 &
    guest=$!
    set +m
    trap 'kill -- -"$guest" 2>/dev/null || true; rm -f "$guest_log"' EXIT
}
# Ends the script with the given result of the native tests, once the guest has its own.
finish() {
    local failed=$1
    if [ -n "$guest" ]; then
        wait "$guest" || failed=1
        cat "$guest_log"
    fi
    exit "$failed"
}

cargo test "${features[@]}" --no-run
start_guest
failed=0
# In CI a test without root fails. The first run of a user with sudo is without root.
first=()
if [ "$(id -u)" != 0 ] && command -v sudo >/dev/null && sudo -n true 2>/dev/null; then first=(env -u CI); fi
# All of them run, so one run names every failure.
"${first[@]}" cargo test "${features[@]}" --no-fail-fast -- "${skipped[@]}" || failed=1
[ "$(id -u)" != 0 ] || finish $failed
if ! command -v sudo >/dev/null || ! sudo -n true 2>/dev/null; then
    because="neither root nor a sudo without password is there: the end-to-end tests that capture"
    [ -z "${CI:-}" ] || { echo "not run, because $because" >&2; exit 1; }
    echo "skipped, because $because"
    finish $failed
fi
# The binaries are already built. Each runs again, as root, and now without skipping. Cargo itself gives the
# paths.
while read -r test; do
    case $test in
        */deps/*) sudo -n --preserve-env=CI "$test" "${skipped[@]}" </dev/null || failed=1 ;;
    esac
done < <(cargo test "${features[@]}" --no-run --message-format=json 2>/dev/null | sed -n 's/.*"executable":"\([^"]*\)".*/\1/p')
finish $failed
