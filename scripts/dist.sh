#!/usr/bin/env bash
# Builds everything that a release has, into target/packages: the static binary and the one with the window, both with
# line tables and a bill of materials beside them, packages for Debian and for RPM, a container image, and checksums.
# The same commit, toolchain and packages of the host give the same bytes.
#
# usage: scripts/dist.sh [static]     (static: only what is made of the static binary, in a third of the time)
# Environment: FEATURES of the binary with the window (SQL too: --features magnet-scope/query)
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/lib/guest.sh
. scripts/lib/reproducible.sh
. scripts/lib/package.sh

fail() { echo "dist: $*" >&2; exit 1; }
case ${1:-} in "" | static) ;; *) fail "usage: scripts/dist.sh [static]" ;; esac
features=${FEATURES---features magnet-scope/query}
arch=$(uname -m)
build=${CARGO_TARGET_DIR:-target}
out=$build/packages
rm -rf "$out"
mkdir -p "$out"

missing=()
command -v dpkg-deb >/dev/null || missing+=(dpkg)
command -v dpkg-shlibdeps >/dev/null || missing+=(dpkg-dev)
command -v rpmbuild >/dev/null || missing+=(rpm)
if [ ${#missing[@]} -gt 0 ]; then
    { as_root apt-get update -qq && as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq \
        --no-install-recommends "${missing[@]}"; } >/dev/null 2>&1 || fail "these are missing: ${missing[*]}"
fi

# publish KIND BINARY TARGET FEATURE…: the files of one binary
publish() {
    local kind=$1 binary=$2 target=$3
    local name=magnet-scope-$package_version-$arch-linux-$kind
    shift 3
    cp "$binary.debug" "$out/$name.debug"
    # Debuggers look for the name in the binary.
    objcopy --remove-section=.gnu_debuglink "$binary" "$out/$name"
    objcopy --add-gnu-debuglink="$out/$name.debug" "$out/$name"
    SOURCE_DATE_EPOCH=$epoch scripts/sbom.py "$name" "$target" "$@" >"$out/$name.cdx.json"
    scripts/package-deb.sh "$kind" "$binary" "$out"
    scripts/package-rpm.sh "$kind" "$binary" "$out"
}

scripts/build-static.sh
publish static "$build/$arch-unknown-linux-musl/dist/magnet-scope" "$arch-unknown-linux-musl" \
    --no-default-features --features s3,static
scripts/image.sh "$build/$arch-unknown-linux-musl/dist/magnet-scope" \
    "$out/magnet-scope-$package_version-$arch-image.tar"

if [ "${1:-}" != static ]; then
    reproducible_paths
    RUSTFLAGS="${RUSTFLAGS:-} $rust_paths" CFLAGS="${CFLAGS:-} $c_paths" \
        make --no-print-directory build "FEATURES=$features --locked"
    # shellcheck disable=SC2086  # several words
    publish window "$build/dist/magnet-scope" "$arch-unknown-linux-gnu" $features
fi

(cd "$out" && sha256sum -- * >SHA256SUMS)
cat "$out/SHA256SUMS"
