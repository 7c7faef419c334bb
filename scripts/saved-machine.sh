#!/usr/bin/env bash
# Records both ends of real traffic between this host and an emulated machine. During the recording the machine is
# saved, and continued by another process. With the device `vmgenid` it then has another identity, as a clone has.
# With `vmclock` it has the same one, as after a live migration.
#
# usage: scripts/saved-machine.sh FOLDER MAGNET_SCOPE TRAFFIC vmgenid|vmclock
# TRAFFIC is a program with the ignored tests `saved::guest_answers` and `saved::host_asks` of `broken_clocks`. Leaves
# the recordings in FOLDER/host and FOLDER/guest, with the console. FOLDER/pause has two durations in nanoseconds, one
# that the machine was certainly stopped for, and one that it was certainly not stopped for any longer. Prints the
# reason if it cannot run.
set -euo pipefail
cd "$(dirname "$0")/.."
out=$1 binary=$2 traffic=$3 device=$4
work=$(mktemp -d)
. scripts/lib/guest.sh

case $device in
    vmgenid) series=6.12 devices=() modules=() ;;
    vmclock) series=newest devices=(-device vmclock) modules=(ptp_vmclock) ;;
    *) exit 2 ;;
esac

if [ -z "${SAVED_MACHINE_NETNS:-}" ]; then
    trap 'rm -rf "$work"' EXIT
    guest_needs ip strip
    [ "$(id -u)" = 0 ] && [ -c /dev/net/tun ] || skip "the machine's network needs root and /dev/net/tun"
    qemu-system-x86_64 -M q35 -device "$device,help" >/dev/null 2>&1 || skip "this QEMU has no $device"
    guest_kernel "$series" >/dev/null || skip "Debian's packages have no kernel $series"
    # The host's end is a namespace of its own.
    namespace=saved-$$
    ip netns add "$namespace"
    trap 'ip netns del "$namespace"; rm -rf "$work"' EXIT
    ip -n "$namespace" link set lo up
    ip -n "$namespace" tuntap add dev t0 mode tap
    ip -n "$namespace" addr add 10.90.0.1/24 dev t0
    ip -n "$namespace" link set t0 up
    SAVED_MACHINE_NETNS=$namespace nsenter --net="/run/netns/$namespace" "$0" "$@"
    exit
fi
jobs=()
trap 'kill "${jobs[@]}" 2>/dev/null || true; rm -rf "$work"' EXIT

folder=$(guest_kernel "$series")
guest_recorder "$binary" "$traffic" "$folder" virtio_net virtio_pci virtio_blk "${modules[@]}"
cat >>"$work/root/init" <<'INIT'
ip=/bin/ip
$ip addr add 10.90.0.2/24 dev eth0
$ip link set eth0 up
/bin/magnet-scope record --netns host -o /recording &
recorder=$!
until [ -s /recording/meta.toml ] || ! kill -0 $recorder; do sleep 0.1; done
timeout 240 /bin/traffic broken_clocks::saved::guest_answers --ignored --exact --nocapture && said=yes
sleep 0.5 # the last journeys have their ends
kill -INT $recorder
wait $recorder && [ "$said" = yes ] && tar c -C /recording . >/dev/vda && sync && echo "MACHINE: recorded"
echo o >/proc/sysrq-trigger
sleep 60
INIT
guest_pack "$work/image"

mkdir -p "$out"
truncate -s 256M "$work/disk"
mkfifo "$work/first.in" "$work/first.out" "$work/second.in" "$work/second.out"

# boot NUMBER IDENTITY [QEMU ARGUMENT…]: its monitor is a pair of pipes.
boot() {
    local number=$1 identity=$2
    shift 2
    guest_append="role=saved clocksource=hpet" guest_boot "$folder" "$work/image" 330 -m 1280 -smp 1 \
        -drive "file=$work/disk,format=raw,if=virtio" -device "vmgenid,guid=$identity" "${devices[@]}" \
        -netdev tap,id=net,ifname=t0,script=no,downscript=no -device virtio-net-pci,netdev=net,romfile= \
        -monitor "pipe:$work/$number" "$@" >>"$out/log"
}
# Waits until a text is in a file, unless the machine ends before: mark FILE TEXT
mark() {
    until grep -aq "$2" "$1"; do
        sleep 0.2
        ! grep -aq "Power down" "$out/log" || grep -aq "$2" "$1" || { echo "no $2 in $1" >&2; tail -n 40 "$out/log" >&2; exit 1; }
    done
}

"$binary" record --netns "$SAVED_MACHINE_NETNS" -o "$out/host" >"$out/host.log" 2>&1 &
recorder=$!
jobs+=("$recorder")
cat "$work/first.out" >"$out/first.monitor" &
jobs+=($!)
identity=11111111-1111-1111-1111-111111111111
boot first $identity &
first=$!
exec 3>"$work/first.in"
SAVED_MACHINE_STATE=$work/again "$traffic" broken_clocks::saved::host_asks --ignored --exact --nocapture >"$out/traffic.log" 2>&1 &
asks=$!
jobs+=("$asks")
mark "$out/traffic.log" "HOST: first half"

longest_from=$(date +%s%N)
echo 'migrate_set_parameter max-bandwidth 10G' >&3
echo "migrate \"exec:cat >$work/state\"" >&3
until grep -aq "Migration status: completed" "$out/first.monitor"; do
    sleep 0.2
    echo 'info migrate' >&3
done
shortest_from=$(date +%s%N)
echo quit >&3
wait "$first" || true
sleep 2
cat "$work/second.out" >"$out/second.monitor" &
jobs+=($!)
shortest_to=$(date +%s%N)
touch "$work/again"
[ "$device" = vmclock ] || identity=22222222-2222-2222-2222-222222222222
boot second $identity -incoming "exec:cat $work/state" &
exec 4>"$work/second.in"
mark "$out/traffic.log" "HOST: goes on"
longest_to=$(date +%s%N)
echo "$((shortest_to - shortest_from)) $((longest_to - longest_from))" >"$out/pause"
wait "$asks" || { cat "$out/traffic.log" >&2; exit 1; }
mark "$out/log" "MACHINE: recorded"
kill -INT "$recorder"
wait "$recorder"
wait || true
mkdir -p "$out/guest"
tar xf "$work/disk" -C "$out/guest"
