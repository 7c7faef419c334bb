#!/usr/bin/env bash
# Builds everything that a release has, into target/packages: the static binaries and the one with the window, each with
# line tables and a bill of materials beside it, packages for Debian and for RPM, container images, and checksums.
# The same commit, toolchain and packages of the host give the same bytes.
#
# usage: scripts/dist.sh [static]     (static: only what is made of the static binaries)
# Environment: FEATURES of the binary with the window (SQL too: --features magnet-scope/query), ARCHES of the static ones
# (x86_64 aarch64 on x86-64, else the machine's own)
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/lib/guest.sh
. scripts/lib/reproducible.sh
. scripts/lib/package.sh

fail() { echo "dist: $*" >&2; exit 1; }
case ${1:-} in "" | static) ;; *) fail "usage: scripts/dist.sh [static]" ;; esac
features=${FEATURES---features magnet-scope/query}
own=$(uname -m)
case $own in x86_64) read -r -a arches <<<"${ARCHES:-x86_64 aarch64}" ;; *) read -r -a arches <<<"${ARCHES:-$own}" ;; esac
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

# The name of an architecture in Debian's packages and in images: debian_arch ARCH
debian_arch() { case $1 in x86_64) echo amd64 ;; aarch64) echo arm64 ;; *) fail "no packages for $1" ;; esac; }

# publish ARCH KIND BINARY TARGET FEATURE…: the files of one binary. GENERATOR prints the manual of one that does not run
# here.
publish() {
    local arch=$1 kind=$2 binary=$3 target=$4 objcopy=objcopy
    local name=magnet-scope-$package_version-$arch-linux-$kind
    shift 4
    [ "$arch" = "$own" ] || objcopy=$arch-linux-gnu-objcopy
    cp "$binary.debug" "$out/$name.debug"
    # Debuggers look for the name in the binary.
    "$objcopy" --remove-section=.gnu_debuglink "$binary" "$out/$name"
    "$objcopy" --add-gnu-debuglink="$out/$name.debug" "$out/$name"
    SOURCE_DATE_EPOCH=$epoch scripts/sbom.py "$name" "$target" "$@" >"$out/$name.cdx.json"
    ARCH=$(debian_arch "$arch") scripts/package-deb.sh "$kind" "$binary" "$out"
    ARCH=$arch scripts/package-rpm.sh "$kind" "$binary" "$out"
}

for arch in "${arches[@]}"; do
    STATIC_ARCH=$arch scripts/build-static.sh
    binary=$build/$arch-unknown-linux-musl/dist/magnet-scope
    # The manual and the completions are the same for all architectures.
    [ "$arch" != "$own" ] || export GENERATOR=$binary
    "${GENERATOR:-$binary}" --version >/dev/null 2>&1 || fail "ARCHES needs $own first: it prints the manual"
    publish "$arch" static "$binary" "$arch-unknown-linux-musl" --no-default-features --features s3,static
    ARCH=$(debian_arch "$arch") scripts/image.sh "$binary" "$out/magnet-scope-$package_version-$arch-image.tar"
done

if [ "${1:-}" != static ]; then
    reproducible_paths
    RUSTFLAGS="${RUSTFLAGS:-} $rust_paths" CFLAGS="${CFLAGS:-} $c_paths" \
        make --no-print-directory build "FEATURES=$features --locked"
    # shellcheck disable=SC2086  # several words
    GENERATOR='' publish "$own" window "$build/dist/magnet-scope" "$own-unknown-linux-gnu" $features
fi

(cd "$out" && sha256sum -- * >SHA256SUMS)
cat "$out/SHA256SUMS"
