#!/usr/bin/env bash
# Reads the clocks of real drivers' network cards: two emulated machines, wired by emulated cards with a PTP hardware
# clock each (QEMU's igb, an Intel 82576). ptp4l serves and follows with time stamps of these cards. magnet-scope records
# traffic between the machines. The bounds of UTC in its recordings are held against phc_ctl's readings of the card.
#
# usage: scripts/card-clocks.sh [--keep FOLDER] [SCENARIO…]     (default: all; the names are in scripts/lib/card-clocks.py)
# The binary is MAGNET_SCOPE, or target/debug/magnet-scope after a build. With --keep, recordings and consoles stay.
# QEMU with igb (8.1 or newer), linuxptp and chrony are unpacked from Debian's packages into the user's cache folder.
set -euo pipefail
cd "$(dirname "$0")/.."

usage() { echo "usage: scripts/card-clocks.sh [--keep FOLDER] [SCENARIO…]" >&2; exit 2; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
out=$work/out
while [ $# -gt 0 ]; do
    case $1 in
        --keep) [ $# -gt 1 ] || usage; out=$2; shift ;;
        -*) usage ;;
        *) break ;;
    esac
    shift
done
scenarios=("$@")
[ ${#scenarios[@]} -gt 0 ] || scenarios=(right slewed second contradiction utc-offset jump tai software)
. scripts/lib/guest.sh
guest_needs ip strip python3

binary=${MAGNET_SCOPE:-}
if [ -z "$binary" ]; then
    cargo build -q -p magnet-scope --features magnet-scope/query
    binary=${CARGO_TARGET_DIR:-target}/debug/magnet-scope
fi
# The cloud kernels have no driver of a card.
folder=$(guest_kernel 6.12:generic) || skip "Debian's packages have no kernel 6.12"
trixie=$(dirname "$kernels_cache")/trixie
suite_packages "$trixie" trixie amd64 qemu-system-x86 linuxptp chrony ||
    skip "Debian's packages qemu-system-x86, linuxptp and chrony cannot be had; see $trixie/.log"

# Runs a program of that root with its own libraries.
libraries=$trixie/usr/lib/x86_64-linux-gnu
mkdir "$work/bin"
cat >"$work/bin/qemu-system-x86_64" <<QEMU
#!/bin/sh
export QEMU_MODULE_DIR=$libraries/qemu
exec $libraries/ld-linux-x86-64.so.2 --library-path $libraries $trixie/usr/bin/qemu-system-x86_64 \
    -L $trixie/usr/share/seabios -L $trixie/usr/share/qemu "\$@"
QEMU
chmod +x "$work/bin/qemu-system-x86_64"
PATH=$work/bin:$PATH

# Adds a program with libraries of its own, which differ from those of magnet-scope: add_ptp NAME
add_ptp() {
    local library
    cp "$(suite_tool "$trixie" "$1")" "$work/root/ptp/$1"
    suite_libraries "$trixie" "$work/root/ptp/$1" | while read -r library; do cp -nL "$trixie$library" "$work/root/ptp/"; done
    printf '#!/bin/sh\nexec /ptp/ld-linux-x86-64.so.2 --library-path /ptp /ptp/%s "$@"\n' "$1" >"$work/root/bin/$1"
    chmod +x "$work/root/bin/$1"
}

guest_root
guest_modules "$folder" igb virtio_pci virtio_blk
guest_add "$(command -v ip)" ip
strip -o "$work/magnet-scope" "$binary"
guest_add "$work/magnet-scope" magnet-scope
mkdir -p "$work/root"/{ptp,www,var/run,var/lib/chrony}
for program in ptp4l phc2sys phc_ctl pmc chronyd chronyc; do add_ptp $program; done
guest_init_head >"$work/root/init"
cat scripts/lib/card-clocks-init.sh >>"$work/root/init"
guest_pack "$work/image"
rm -rf "$work/root"

# The follower has a second card, without a wire: boot SCENARIO ROLE OTHER NUMBER
boot() {
    local folder_of=$out/$1 wire spare=()
    [ "$2" = grandmaster ] || spare=(-device pcie-root-port,id=root1,chassis=2 -device igb,bus=root1,romfile=)
    wire="local.type=unix,local.path=$work/$2.wire,remote.type=unix,remote.path=$work/$3.wire"
    truncate -s 128M "$work/$2.disk"
    # iomem: /init writes two registers of the emulated card.
    guest_append="role=$2 scenario=$1 clocksource=hpet iomem=relaxed" guest_boot "$folder" "$work/image" 600 -m 1280 -smp 1 \
        -drive "file=$work/$2.disk,format=raw,if=virtio" -netdev "dgram,id=wire,$wire" \
        -device pcie-root-port,id=root0,chassis=1 -device "igb,bus=root0,netdev=wire,romfile=,mac=52:54:00:90:00:0$4" "${spare[@]}" |
        tr -d '\r' >"$folder_of/$2.log" || true
    mkdir -p "$folder_of/$2"
    tar xf "$work/$2.disk" -C "$folder_of/$2" 2>/dev/null || true
}

failed=0
for scenario in "${scenarios[@]}"; do
    mkdir -p "$out/$scenario"
    rm -f "$work"/*.wire "$work"/*.disk
    boot "$scenario" grandmaster follower 1 &
    boot "$scenario" follower grandmaster 2
    wait
    echo "scenario $scenario:"
    scripts/lib/card-clocks.py "$scenario" "$out/$scenario" "$binary" || {
        failed=1
        for role in grandmaster follower; do tail -n 30 "$out/$scenario/$role.log" >&2; done
    }
done
exit $failed
