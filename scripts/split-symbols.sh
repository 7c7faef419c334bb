#!/usr/bin/env bash
# Moves symbols and line tables of a binary to BINARY.debug, which debuggers find by the link in the binary.
#
# usage: scripts/split-symbols.sh BINARY
# Environment: OBJCOPY for a binary of another architecture
set -euo pipefail
fail() { echo "split-symbols: $*" >&2; exit 1; }
[ $# = 1 ] || fail "usage: scripts/split-symbols.sh BINARY"
binary=$1 objcopy=${OBJCOPY:-objcopy}
[ -f "$binary" ] || fail "there is no $binary: run \`make build\` first"

# A second run finds no symbols. It must not write an empty file over the first one's.
if ! readelf --sections --wide "$binary" | grep '\.debug_line' >/dev/null; then exit 0; fi
"$objcopy" --only-keep-debug --compress-debug-sections "$binary" "$binary.debug"
chmod -x "$binary.debug"
# Cargo's copy in deps/ is a link to the same file, and stays as it was linked.
"$objcopy" --strip-all --add-gnu-debuglink="$binary.debug" "$binary" "$binary.stripped"
mv "$binary.stripped" "$binary"
