#!/usr/bin/env bash
# Fuzzes each target for a minute (FUZZ_SECS for another time, FUZZ_TARGETS for some of them), if cargo-fuzz
# is installed.
set -euo pipefail
cd "$(dirname "$0")/.."

if ! cargo fuzz --version >/dev/null 2>&1; then
    echo "skipped, because cargo-fuzz is not installed (cargo install cargo-fuzz); \`make test\` feeds the parsers random bytes too"
    exit 0
fi
# Only nightly compilers accept the sanitizers' flags.
if rustc --version | grep nightly >/dev/null; then
    cargo=(cargo)
elif rustup toolchain list 2>/dev/null | grep '^nightly' >/dev/null; then
    cargo=(cargo +nightly)
else
    echo "skipped, because there is no nightly toolchain (rustup toolchain install nightly)"
    exit 0
fi
for target in ${FUZZ_TARGETS:-$(cargo fuzz list)}; do
    # A target can have a dictionary, and seeds.
    arguments=("$target")
    if [ -d "fuzz/seeds/$target" ]; then
        mkdir -p "fuzz/corpus/$target"
        arguments+=("fuzz/corpus/$target" "fuzz/seeds/$target")
    fi
    arguments+=(--)
    if [ -f "fuzz/dictionaries/$target.dict" ]; then
        arguments+=("-dict=fuzz/dictionaries/$target.dict")
    fi
    "${cargo[@]}" fuzz run "${arguments[@]}" -max_total_time="${FUZZ_SECS:-60}" -verbosity=0 -print_final_stats=1
done
