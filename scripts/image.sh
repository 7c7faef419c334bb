#!/usr/bin/env bash
# Makes a container image that holds the static binary and nothing else, with buildah. No image is pulled.
#
# usage: scripts/image.sh BINARY ARCHIVE     (ARCHIVE: an OCI archive, for `podman load` and `docker load`)
# Environment: ARCH (amd64, arm64) of another architecture's binary. docs/install.md has how to run the image.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/lib/guest.sh
. scripts/lib/reproducible.sh
. scripts/lib/package.sh

fail() { echo "image: $*" >&2; exit 1; }
[ $# = 2 ] || fail "usage: scripts/image.sh BINARY ARCHIVE"
binary=$1 archive=$2
[ -x "$binary" ] || fail "there is no $binary: run scripts/build-static.sh first"
! readelf -ld "$binary" | grep -q 'NEEDED\|INTERP' || fail "$binary is not static"
command -v buildah >/dev/null ||
    { as_root apt-get update -qq && as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq \
        --no-install-recommends buildah; } >/dev/null 2>&1 || fail "buildah is missing and could not be installed"

# A store of its own, which needs no overlay file system.
store=$(mktemp -d)
trap 'rm -rf "$store"' EXIT
export STORAGE_DRIVER=vfs BUILDAH_ISOLATION=chroot
mine() { buildah --root "$store/root" --runroot "$store/run" "$@"; }

box=$(mine from scratch)
mkdir -p "$store/files/tmp" "$store/files/recordings"
chmod 1777 "$store/files/tmp"
install -m 755 "$binary" "$store/files/magnet-scope"
package_times "$store/files"
mine add --quiet "$box" "$store/files" / >/dev/null
mine config --entrypoint '["/magnet-scope"]' --cmd '--help' --workingdir /recordings \
    ${ARCH:+--arch "$ARCH"} --os linux --env TERM=xterm-256color \
    --label org.opencontainers.image.title=magnet-scope \
    --label "org.opencontainers.image.description=$package_summary" \
    --label "org.opencontainers.image.version=$package_version" \
    --label "org.opencontainers.image.licenses=(MIT OR Apache-2.0) AND GPL-2.0-only" "$box"
mine commit --quiet --rm --format oci --timestamp "$epoch" "$box" "oci:$store/oci:magnet-scope:$package_version" >/dev/null
# An archive of buildah has the times of now.
tar -C "$store/oci" --sort=name --mtime="@$epoch" --owner=0 --group=0 --numeric-owner --mode=go=rX,u+rw,a-s \
    --format=ustar -cf "$archive" .
echo "$archive"
