# What the packages have in common. To be sourced, after reproducible.sh.

# Modes of a package do not depend on who makes it.
umask 022

package_version=${VERSION:-$(sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"/\1/p' Cargo.toml)}
package_summary="oscilloscope for the Linux network stack"
package_maintainer=${MAINTAINER:-magnet-scope maintainers <maintainers@magnet-scope.example>}
package_description="It attaches eBPF probes in the kernel and follows every packet hop by hop, from
the send of one process to the receive of another. It shows where the time
went: in the sender's stack, on the wire, in the receiver's stack, in the
scheduler, or in an application that did not read.
"

# Sets package_name and package_window from the kind of a package: package_kind static|window
package_kind() {
    case $1 in
        static) package_name=magnet-scope package_window= ;;
        window) package_name=magnet-scope-window package_window=yes ;;
        *) return 1 ;;
    esac
}

# Installs a binary as the package has it: package_stage BINARY FOLDER [GENERATOR]
package_stage() {
    PREFIX=/usr SYSCONFDIR=/etc DESTDIR=$2 UNITDIR=/usr/lib/systemd/system GENERATOR=${3:-$1} \
        scripts/install.sh install "$1"
}

# Sets all times in a folder to that of the commit.
package_times() {
    find "$1" -print0 | xargs -0 touch --no-dereference --date="@$epoch"
}
