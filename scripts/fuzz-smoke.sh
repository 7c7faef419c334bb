#!/usr/bin/env bash
# A minute of fuzzing a target, where cargo-fuzz and its toolchain are there.
set -euo pipefail
cd "$(dirname "$0")/.."

if [ ! -d fuzz ]; then
    echo "skipped, because there are no fuzz targets yet; the property tests of \`make test\` feed the parsers random bytes"
    exit 0
fi
if ! cargo fuzz --version >/dev/null 2>&1; then
    echo "skipped, because cargo-fuzz is not installed (cargo install cargo-fuzz, and a nightly toolchain)"
    exit 0
fi
for target in $(cargo fuzz list); do
    cargo fuzz run "$target" -- -max_total_time="${FUZZ_SECS:-60}"
done
