#!/usr/bin/env bash
# Holds exported journeys against programs that noted their own calls (tests/truth), inside Debian's stock
# kernels, each booted in a virtual machine under software emulation.
#
# usage: scripts/truth-kernels.sh [--write] [--only NAME] [SERIES…]     (default: 6.12 6.1)
# NAME is a part of a test's name. With --write, the results go into tests/truth/kernels.txt, and results of other
# series stay there; with --only, also those of other rows. `UPDATE_DOCS=1 make test-truth` then writes the columns
# of docs/coverage.md.
# The machines run in parallel if there are CPUs for it. No test depends on its duration.
set -euo pipefail
cd "$(dirname "$0")/.."

usage() { echo "usage: scripts/truth-kernels.sh [--write] [--only NAME] [SERIES…]" >&2; exit 2; }
write=no
only=truth::
while [ $# -gt 0 ]; do
    case $1 in
        --write) write=yes ;;
        --only) [ $# -gt 1 ] || usage; only=$2; shift ;;
        -*) usage ;;
        *) break ;;
    esac
    shift
done
series=("$@")
[ ${#series[@]} -gt 0 ] || series=(6.12 6.1)
results=tests/truth/kernels.txt
all=$(mktemp -d)
trap 'rm -rf "$all"' EXIT
work=$all

. scripts/lib/guest.sh
tools=(bash ip tc nft ethtool wg)
guest_needs strip python3 "${tools[@]}"
modules=(
    veth bridge vxlan geneve ip_gre ipip 8021q macvlan ipvlan bonding tls virtio_pci nf_tables nft_numgen nft_objref nft_compat nft_reject nft_counter
    cls_bpf cls_matchall act_bpf sch_ingress sch_netem ip_tables iptable_filter
    wireguard xfrm_user xfrm_interface esp4
    gcm ghash-generic seqiv # a cipher for TLS and IPsec
    inet_diag tcp_diag udp_diag unix_diag af_packet_diag raw_diag vsock_diag
)

# The program, as cargo names it; the binary is built with it. All tests are built as scripts/test.sh builds them, because
# other targets or features would build everything twice.
program=$(cargo test --workspace --features magnet-scope/query --no-run --message-format=json 2>/dev/null |
    sed -n '/"kind":\["test"\],.*"name":"e2e"/s/.*"executable":"\([^"]*\)".*/\1/p')
[ -x "$program" ] || { echo "the end-to-end tests do not build" >&2; exit 1; }
binary=$PWD/target/debug/magnet-scope

# Python and its own modules, without tests and what a program without a screen does not need.
add_python() {
    local program library module needed
    program=$(python3 -c 'import os, sys; print(os.path.realpath(sys.executable))')
    library=$(python3 -c 'import sysconfig; print(sysconfig.get_path("stdlib"))')
    python_home=$(python3 -c 'import sys; print(sys.base_prefix)')
    guest_add "$program" python3
    mkdir -p "$work/root$library"
    tar c -C "$library" --exclude=test --exclude=tests --exclude=idlelib --exclude=tkinter --exclude=lib2to3 \
        --exclude=ensurepip --exclude='config-*' --exclude=dist-packages --exclude=site-packages . |
        tar x -C "$work/root$library"
    for module in "$library"/lib-dynload/*.so; do
        { ldd "$module" 2>/dev/null | grep -o '/[^ ]*' || true; } | while read -r needed; do
            mkdir -p "$work/root$(dirname "$needed")"
            cp -n "$needed" "$work/root$needed"
        done
    done
}

# Builds a guest and runs the rows in it: machine FOLDER. The console goes to $work/log.
machine() {
    local folder=$1
    guest_root
    guest_modules "$folder" "${modules[@]}"
    for tool in "${tools[@]}"; do guest_add "$(command -v "$tool")" "$tool"; done
    add_python
    strip -o "$work/tests" "$program"
    guest_add "$work/tests" tests-of-rows
    # The programs have the paths at which the tests look for them.
    mkdir -p "$work/root$(dirname "$binary")" "$work/root$PWD/tests" "$work/root$PWD/crates/magnet-scope"
    strip -o "$work/root$binary" "$binary"
    guest_add "$binary" magnet-scope.linked && rm "$work/root/bin/magnet-scope.linked"
    cp -r tests/truth "$work/root$PWD/tests/truth"
    guest_init_head >"$work/root/init"
    cat >>"$work/root/init" <<INIT
mkdir -p /var/tmp /run/netns /dev/shm
mount -t bpf none /sys/fs/bpf
export PYTHONHOME=$python_home
export MAGSCOPE_PATIENCE_S=600 # an emulated CPU is slow
cd $PWD/crates/magnet-scope
python3 --version
/bin/tests-of-rows $only --skip coverage:: --skip checker --test-threads=1 --nocapture
echo "ROWS: ended"
echo o >/proc/sysrq-trigger
sleep 60
INIT
    guest_pack "$work/initramfs"
    rm -rf "$work/root"
    guest_boot "$folder" "$work/initramfs" 5400 -m 3072 -smp 2 >"$work/log" || true
}

# The earlier results that a run replaces nothing of: those of other series and, with --only, of other rows.
others() {
    [ -e "$results" ] || return 0
    if [ "$only" = truth:: ]; then
        grep -v "^$1 " "$results" || true
    else
        awk 'NR == FNR { run[$1 " " $2]; next } !(($1 " " $2) in run)' "$all/$1/results" "$results"
    fi
}

# Results of a guest, a line each: SERIES TEST held | failed | REASON. Test programs print between a test's
# name and its result.
results_of() {
    tr -d '\r' <"$2" | awk -v series="$1" '
        match($0, /test truth::[a-z0-9_:]* \.\.\. /) { name = substr($0, RSTART + 5, RLENGTH - 10); sub(/.*::/, "", name); reason = "" }
        name == "" { next }
        match($0, /skipped, because .*/) { reason = substr($0, RSTART + 17, RLENGTH - 17) }
        /(^|\.\.\. )ok$/ { print series, name, (reason == "" ? "held" : reason); name = "" }
        /(^|\.\.\. )FAILED$/ { print series, name, "failed"; name = "" }'
}

failed=0
parallel=$(($(nproc) / 2 > 0 ? $(nproc) / 2 : 1))
running=0
for one in "${series[@]}"; do
    folder=$(guest_kernel "$one") || { echo "skipped, because there is no kernel $one" >&2; continue; }
    mkdir "$all/$one"
    echo "rows of truth on $(ls "$folder/lib/modules")" >&2
    (work=$all/$one && machine "$folder") &
    running=$((running + 1))
    [ $((running % parallel)) != 0 ] || wait
done
wait
for one in "${series[@]}"; do
    log=$all/$one/log
    [ -s "$log" ] || continue
    results_of "$one" "$log" >"$all/$one/results"
    cat "$all/$one/results"
    grep -aq '^ROWS: ended' "$log" || { echo "$one: the machine ended early" >&2; failed=1; }
    if grep -q ' failed$' "$all/$one/results" || [ ! -s "$all/$one/results" ]; then
        failed=1
        tr -d '\r' <"$log" | sed -n '/^failures:/,$p' >&2
        cp "$log" "${TMPDIR:-/tmp}/magnet-scope-rows-$one.log"
        echo "$one: the console is in ${TMPDIR:-/tmp}/magnet-scope-rows-$one.log" >&2
    fi
    if [ $write = yes ]; then
        { others "$one"; grep -v "is too slow\$" "$all/$one/results"; } | LC_ALL=C sort >"$all/new"
        mv "$all/new" "$results"
    fi
done
exit $failed
