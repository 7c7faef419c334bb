#!/usr/bin/env bash
# Installs a built magnet-scope with its manual pages, documents, completions, systemd units, default configuration, and,
# for a binary that has the window, its menu entry. Or removes all of it.
#
# usage: scripts/install.sh install BINARY | uninstall
# Environment: PREFIX (/usr/local), SYSCONFDIR (/etc), DESTDIR (a folder that stands for the root), UNITDIR
# (PREFIX/lib/systemd/system), ZSHDIR (PREFIX/share/zsh/site-functions), GENERATOR (a binary that runs here and
# prints the manual and the completions, if BINARY does not).
#
# `uninstall` keeps a configuration that was changed. As root and without DESTDIR, systemd reads its units again, and
# `uninstall` stops and disables the services that it removes.
set -euo pipefail
source=$(cd "$(dirname "$0")/.." && pwd)
# Defaults of this host have no place in the manual and the completions.
export MAGNET_SCOPE_CONFIG=

fail() { echo "install: $*" >&2; exit 1; }

prefix=${PREFIX:-/usr/local}
sysconf=${SYSCONFDIR:-/etc}
root=${DESTDIR:-}
units=${UNITDIR:-$prefix/lib/systemd/system}
zsh=${ZSHDIR:-$prefix/share/zsh/site-functions}
share=$prefix/share
bash_completion=$share/bash-completion/completions/magnet-scope
fish_completion=$share/fish/vendor_completions.d/magnet-scope.fish
documents=$share/doc/magnet-scope
desktop=$share/applications/magnet-scope.desktop
metainfo=$share/metainfo/org.magnet_scope.magnet_scope.metainfo.xml
icon=$share/icons/hicolor/scalable/apps/magnet-scope.svg

# put MODE FILE PATH
put() { install -D -m "$1" "$2" "$root$3"; }

# True if the units are those of the running system.
is_live() { [ -z "$root" ] && [ "$(id -u)" = 0 ] && [ -d /run/systemd/system ]; }

reload() { if is_live; then systemctl daemon-reload || true; fi; }

install_all() {
    local binary=$1 generator scratch page unit document
    [ -x "$binary" ] || fail "there is no $binary: run \`make build\` first"
    generator=$(realpath "${GENERATOR:-$binary}")
    scratch=$(mktemp -d)
    # shellcheck disable=SC2064  # the path of now
    trap "rm -rf '$scratch'" EXIT

    put 755 "$binary" "$prefix/bin/magnet-scope"
    put 755 "$source/packaging/kubectl-magnet" "$prefix/bin/kubectl-magnet"

    "$generator" man --output "$scratch/man1" || fail "$generator does not run here"
    gzip -9n "$scratch"/man1/*.1
    for page in "$scratch"/man1/*.gz; do put 644 "$page" "$share/man/man1/$(basename "$page")"; done

    "$generator" completions bash >"$scratch/bash"
    "$generator" completions zsh >"$scratch/zsh"
    "$generator" completions fish >"$scratch/fish"
    put 644 "$scratch/bash" "$bash_completion"
    put 644 "$scratch/zsh" "$zsh/_magnet-scope"
    put 644 "$scratch/fish" "$fish_completion"

    for unit in "$source"/packaging/*.service; do
        sed "s|/usr/bin/|$prefix/bin/|g; s|/etc/magnet-scope|$sysconf/magnet-scope|g" "$unit" >"$scratch/unit"
        put 644 "$scratch/unit" "$units/$(basename "$unit")"
    done
    # A configuration that is there already is the host's own.
    [ -e "$root$sysconf/magnet-scope/record.env" ] ||
        put 600 "$source/packaging/record.env" "$sysconf/magnet-scope/record.env"

    put 644 "$source/packaging/grafana-dashboard.json" "$documents/grafana-dashboard.json"
    put 644 "$source/README.md" "$documents/README.md"
    # The program's hints and the units name pages by these paths.
    while IFS= read -r -d '' document; do
        put 644 "$document" "$documents/${document#"$source"/}"
    done < <(find "$source/docs" -type f ! -name '.*' ! -name SUMMARY.md -print0)
    put 644 "$source/LICENSE-MIT" "$documents/LICENSE-MIT"
    put 644 "$source/LICENSE-APACHE" "$documents/LICENSE-APACHE"
    if "$generator" gui --help >/dev/null 2>&1; then
        put 644 "$source/packaging/magnet-scope.desktop" "$desktop"
        put 644 "$source/packaging/$(basename "$metainfo")" "$metainfo"
        put 644 "$source/packaging/magnet-scope.svg" "$icon"
    fi
    reload
}

uninstall_all() {
    local unit
    for unit in "$source"/packaging/*.service; do
        unit=$(basename "$unit")
        # A package may have a unit of the same name. /lib may be a link to /usr/lib.
        if is_live && [ "$(systemctl show --property FragmentPath --value "$unit")" -ef "$units/$unit" ]; then
            systemctl disable --now "$unit" || true
        fi
        rm -f "$root$units/$unit"
    done
    rm -f "$root$prefix"/bin/{magnet-scope,kubectl-magnet} "$root$bash_completion" "$root$zsh/_magnet-scope" \
        "$root$fish_completion" "$root$desktop" "$root$metainfo" "$root$icon" \
        "$root$share"/man/man1/magnet-scope.1.gz "$root$share"/man/man1/magnet-scope-*.1.gz
    rm -rf "$root$documents"
    if cmp -s "$source/packaging/record.env" "$root$sysconf/magnet-scope/record.env"; then
        rm -f "$root$sysconf/magnet-scope/record.env"
        rmdir --ignore-fail-on-non-empty "$root$sysconf/magnet-scope"
    fi
    reload
}

case "${1:-} ${2:-}" in
    install\ ?*) install_all "$2" ;;
    "uninstall ") uninstall_all ;;
    *) fail "usage: scripts/install.sh install BINARY | uninstall" ;;
esac
