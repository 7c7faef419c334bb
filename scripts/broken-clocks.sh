#!/usr/bin/env bash
# Records both ends of real traffic inside an emulated machine whose clocks break: its clocksource changes, it
# sleeps, and its clocksource changes back.
#
# usage: scripts/broken-clocks.sh FOLDER MAGNET_SCOPE TRAFFIC
# TRAFFIC is a program with the ignored tests `guest_echoes` and `guest_breaks_its_clocks`. Leaves the
# recordings of the two namespaces in FOLDER/asks and FOLDER/answers, with the console. Prints the reason if
# it cannot run.
set -euo pipefail
cd "$(dirname "$0")/.."
out=$1 binary=$2 traffic=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
. scripts/lib/guest.sh
guest_needs ip strip

folder=$(guest_kernel 6.12) || skip "Debian's packages have no kernel 6.12"
guest_recorder "$binary" "$traffic" "$folder" veth virtio_pci virtio_blk
cat >>"$work/root/init" <<'INIT'
ip=/bin/ip
$ip netns add asks
$ip netns add answers
$ip link add v0 netns asks type veth peer name v0 netns answers
number=1
for end in asks answers; do
    $ip -n $end link set lo up
    $ip -n $end link set v0 up
    $ip -n $end addr add 10.89.0.$number/24 dev v0
    number=2
    /bin/magnet-scope record --netns $end -o /$end &
    recorders="$recorders $!"
    until [ -s /$end/meta.toml ] || ! kill -0 $!; do sleep 0.1; done
done
$ip netns exec answers /bin/traffic broken_clocks::guest_echoes --ignored --exact --nocapture &
timeout 240 $ip netns exec asks /bin/traffic broken_clocks::guest_breaks_its_clocks --ignored --exact --nocapture && said=yes
sleep 0.5 # the last journeys have their ends
kill -INT $recorders
wait $recorders && [ "$said" = yes ] && tar c asks answers >/dev/vda && sync && echo "MACHINE: recorded"
echo b >/proc/sysrq-trigger # it does not power off once it has slept; qemu does not reboot it
sleep 60
INIT
guest_pack "$work/image"

mkdir -p "$out"
truncate -s 256M "$work/disk"
guest_append="role=alone" guest_boot "$folder" "$work/image" 330 -m 1280 -smp 1 \
    -drive "file=$work/disk,format=raw,if=virtio" >"$out/log" || true
grep -aq "MACHINE: recorded" "$out/log" || { tail -n 40 "$out/log" >&2; exit 1; }
tar xf "$work/disk" -C "$out"
