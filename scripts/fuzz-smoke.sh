#!/usr/bin/env bash
# A minute of fuzzing a target (FUZZ_SECS for another time), where cargo-fuzz is there.
set -euo pipefail
cd "$(dirname "$0")/.."

if ! cargo fuzz --version >/dev/null 2>&1; then
    echo "skipped, because cargo-fuzz is not installed (cargo install cargo-fuzz); \`make test\` feeds the parsers random bytes too"
    exit 0
fi
# The sanitizers' flags are taken by nightly compilers only.
if rustc --version | grep nightly >/dev/null; then
    cargo=(cargo)
elif rustup toolchain list 2>/dev/null | grep '^nightly' >/dev/null; then
    cargo=(cargo +nightly)
else
    echo "skipped, because there is no nightly toolchain (rustup toolchain install nightly)"
    exit 0
fi
for target in $(cargo fuzz list); do
    "${cargo[@]}" fuzz run "$target" -- -max_total_time="${FUZZ_SECS:-60}" -verbosity=0 -print_final_stats=1
done
