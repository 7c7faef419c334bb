#!/usr/bin/env bash
# Makes a Debian package of a built binary, with dpkg-deb. The same binary and commit give the same bytes.
#
# usage: scripts/package-deb.sh static|window BINARY FOLDER     (prints the path of the package in FOLDER)
#   static: `magnet-scope`, for any release. window: `magnet-scope-window`, for the release that it was built on and later.
# Environment: VERSION for another version, COMPRESS=no for a quick test, ARCH (amd64, arm64) for a binary of another
# architecture, with GENERATOR (a binary that runs here).
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/lib/reproducible.sh
. scripts/lib/package.sh

fail() { echo "package-deb: $*" >&2; exit 1; }
[ $# = 3 ] && package_kind "$1" || fail "usage: scripts/package-deb.sh static|window BINARY FOLDER"
command -v dpkg-deb >/dev/null || fail "dpkg-deb is missing (package dpkg)"
binary=$2 folder=$3 arch=${ARCH:-$(dpkg --print-architecture)}
# A version of Debian has ~ before what precedes a release.
version=${package_version/-/\~}

root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
chmod 755 "$root"
export ZSHDIR=/usr/share/zsh/vendor-completions
package_stage "$binary" "$root" "${GENERATOR:-}"
documents=$root/usr/share/doc/$package_name
[ "$package_name" = magnet-scope ] || mv "$root/usr/share/doc/magnet-scope" "$documents"
rm "$documents/LICENSE-APACHE"
# The licence's path in the file is that of this package.
sed "s|/usr/share/doc/magnet-scope/|/usr/share/doc/$package_name/|" packaging/debian/copyright >"$documents/copyright"
{
    echo "$package_name ($version) unstable; urgency=medium"
    echo
    echo "  * CHANGELOG.md of the sources has the changes."
    echo
    echo " -- $package_maintainer  $(date -R -u -d "@$epoch")"
} | gzip -9n >"$documents/changelog.gz"

mkdir -p "$root/DEBIAN" "$root/usr/share/lintian/overrides"
overrides=$root/usr/share/lintian/overrides/$package_name
if [ "$package_window" ]; then
    needs=$(mkdir -p "$root/debian" && touch "$root/debian/control" && cd "$root" &&
        dpkg-shlibdeps -O usr/bin/magnet-scope 2>/dev/null | sed -n 's/^shlibs:Depends=//p')
    rm -rf "$root/debian"
    [ -n "$needs" ] || fail "dpkg-shlibdeps finds no libraries (package dpkg-dev)"
    relations="Depends: $needs
Recommends: libpcap0.8, libegl1, libgl1, libxkbcommon0, libxkbcommon-x11-0
Provides: magnet-scope (= $version)
Conflicts: magnet-scope
Replaces: magnet-scope"
    rm "$root/usr/share/lintian/overrides" -r
else
    relations="Conflicts: magnet-scope-window
Replaces: magnet-scope-window"
    {
        echo "# One binary for every release, and for hosts without glibc."
        echo "$package_name: statically-linked-binary [usr/bin/magnet-scope]"
    } >"$overrides"
fi
cat >"$root/DEBIAN/control" <<CONTROL
Package: $package_name
Version: $version
Architecture: $arch
Maintainer: $package_maintainer
Installed-Size: $(du -sk --apparent-size "$root/usr" "$root/etc" | awk '{ sum += $1 } END { print sum }')
$relations
Section: net
Priority: optional
Description: $package_summary${package_window:+, with its window}
$(sed 's/^/ /' <<<"${package_description%$'\n'}")
CONTROL
echo /etc/magnet-scope/record.env >"$root/DEBIAN/conffiles"
cp packaging/debian/{postinst,prerm,postrm} "$root/DEBIAN/"
(cd "$root" && find usr -type f -print0 | LC_ALL=C sort -z | xargs -0 md5sum >DEBIAN/md5sums)
chmod 644 "$root/DEBIAN/conffiles" "$root/DEBIAN/md5sums" "$root/DEBIAN/control"
package_times "$root"

mkdir -p "$folder"
file=$folder/${package_name}_${version}_$arch.deb
# xz, which dpkg of Debian 11 reads; one thread, so that the bytes do not depend on the machine
compression=(-Zxz -z2)
[ "${COMPRESS:-}" != no ] || compression=(-Znone)
SOURCE_DATE_EPOCH=$epoch dpkg-deb --root-owner-group --uniform-compression "${compression[@]}" --threads-max=1 --build "$root" "$file" >&2 2>/dev/null ||
    SOURCE_DATE_EPOCH=$epoch dpkg-deb --root-owner-group --uniform-compression "${compression[@]}" --build "$root" "$file" >&2
echo "$file"
