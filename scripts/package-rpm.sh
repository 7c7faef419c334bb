#!/usr/bin/env bash
# Makes an RPM package of a built binary, with rpmbuild. The same binary, commit and rpmbuild give the same bytes.
#
# usage: scripts/package-rpm.sh static|window BINARY FOLDER     (prints the path of the package in FOLDER)
# Environment: VERSION for another version, COMPRESS=no for a quick test, ARCH (x86_64, aarch64) for a binary of another
# architecture, with GENERATOR (a binary that runs here).
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/lib/reproducible.sh
. scripts/lib/package.sh

fail() { echo "package-rpm: $*" >&2; exit 1; }
[ $# = 3 ] && package_kind "$1" || fail "usage: scripts/package-rpm.sh static|window BINARY FOLDER"
command -v rpmbuild >/dev/null || fail "rpmbuild is missing (Debian: rpm, Fedora: rpm-build)"
binary=$2 folder=$3 arch=${ARCH:-$(uname -m)}
version=${package_version/-/\~}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
package_stage "$binary" "$work/root" "${GENERATOR:-}"
documents=/usr/share/doc/$package_name
licenses=/usr/share/licenses/$package_name
[ "$package_name" = magnet-scope ] || mv "$work/root/usr/share/doc/magnet-scope" "$work/root$documents"
mkdir -p "$work/root$licenses"
mv "$work/root$documents"/LICENSE-* "$work/root$licenses"
package_times "$work/root"

if [ "$package_window" ]; then
    # rpm finds the libraries by their names (libelf.so.1), which are those of every distribution.
    requires=yes relations="Provides: magnet-scope = %{version}
Conflicts: magnet-scope
Recommends: libpcap"
else
    requires=no relations="Conflicts: magnet-scope-window"
fi
cat >"$work/package.spec" <<SPEC
Name: $package_name
Version: $version
Release: 1
Summary: An ${package_summary}${package_window:+, with its window}
License: (MIT OR Apache-2.0) AND GPL-2.0-only
Packager: $package_maintainer
Group: System/Monitoring
AutoReqProv: $requires
$relations

%description
$package_description
%install
mkdir -p %{buildroot}
cp -a $work/root/. %{buildroot}

%post
if [ -d /run/systemd/system ]; then systemctl daemon-reload || :; fi

%preun
if [ "\$1" = 0 ] && [ -d /run/systemd/system ]; then
    systemctl disable --now magnet-scope-agent.service magnet-scope-record.service || :
fi

%postun
if [ -d /run/systemd/system ]; then
    systemctl daemon-reload || :
    if [ "\$1" -ge 1 ]; then
        systemctl try-restart magnet-scope-agent.service magnet-scope-record.service || :
    fi
fi

%files
%config(noreplace) %attr(0600, root, root) /etc/magnet-scope/record.env
%dir /etc/magnet-scope
%dir $licenses
$(cd "$work/root" && find ".$documents" -type d | LC_ALL=C sort | sed 's|^\.|%dir |')
$(cd "$work/root" && find usr -type f -printf '/%p\n' | LC_ALL=C sort | sed "s|^$documents/|%doc &|; s|^$licenses/|%license &|")

%changelog
* $(LC_ALL=C date -u -d "@$epoch" '+%a %b %d %Y') $package_maintainer - $version-1
- CHANGELOG.md of the sources has the changes
SPEC
payload=w2.xzdio
[ "${COMPRESS:-}" != no ] || payload=w.ufdio
# Nothing is compiled or stripped here, and neither the host nor the clock comes into the package.
SOURCE_DATE_EPOCH=$epoch rpmbuild -bb --quiet --target "$arch" --define "_topdir $work/rpm" --define "_rpmdir $work/out" \
    --define '_build_id_links none' --define '__os_install_post %{nil}' --define 'debug_package %{nil}' \
    --define '_buildhost localhost' --define 'use_source_date_epoch_as_buildtime 1' \
    --define 'clamp_mtime_to_source_date_epoch 1' --define "_binary_payload $payload" \
    "$work/package.spec" >&2
mkdir -p "$folder"
file=$folder/$package_name-$version-1.$arch.rpm
mv "$work/out/$arch/$package_name-$version-1.$arch.rpm" "$file"
echo "$file"
