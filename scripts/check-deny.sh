#!/usr/bin/env bash
# Checks licences and advisories of the dependencies, by deny.toml.
set -euo pipefail
cd "$(dirname "$0")/.."

if ! cargo deny --version >/dev/null 2>&1; then
    echo "skipped, because cargo-deny is not installed (cargo install cargo-deny): licences and advisories"
    exit 0
fi
cargo deny check
