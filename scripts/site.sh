#!/usr/bin/env bash
# Builds the site of docs/ to target/site, and checks its links. mdBook is compiled once, to target/tools.
#
# usage: scripts/site.sh
set -euo pipefail
cd "$(dirname "$0")/.."

version=0.5.4
tools=target/tools
mdbook=$tools/bin/mdbook
if [ "$("$mdbook" --version 2>/dev/null)" != "mdbook v$version" ]; then
    echo "site: compiling mdBook $version" >&2
    # Its checks are not those of this workspace.
    env -u RUSTC_WORKSPACE_WRAPPER cargo install mdbook --version "$version" --locked --debug --quiet --force \
        --no-default-features --features search --root "$tools" --target-dir "$tools/build"
    rm -rf "$tools/build"
fi
rm -rf target/site
"$mdbook" build
scripts/check-site target/site
