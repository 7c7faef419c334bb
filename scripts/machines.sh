#!/usr/bin/env bash
# Two emulated machines on one wire, each with a wall clock and a clock rate of its own, record both ends of real traffic.
#
# usage: scripts/two-machines.sh FOLDER MAGNET_SCOPE TRAFFIC
# TRAFFIC is a program of which `guest_serves` and `guest_asks` are ignored tests. Leaves the recordings in FOLDER/client and
# FOLDER/server and the consoles beside them; says why where it cannot.
#
# In each machine a namespace `end` with 10.88.N.2 is recorded, and the machine itself forwards for it. So what netem does at the
# machine's own device lies between the two recorded hosts: 1 ms from client to server and 6 ms back, at 100 Mbit/s.
set -euo pipefail
cd "$(dirname "$0")/.."
out=$1 binary=$2 traffic=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
. scripts/lib/guest.sh
guest_needs ip tc strip

folder=$(guest_kernel 6.12) || skip "Debian's packages have no kernel 6.12"
guest_root
guest_modules "$folder" veth sch_netem virtio_net virtio_pci virtio_blk
guest_add "$(command -v ip)" ip
guest_add "$(command -v tc)" tc
strip -o "$work/magnet-scope" "$binary"
strip -o "$work/traffic" "$traffic"
guest_add "$work/magnet-scope" magnet-scope
guest_add "$work/traffic" traffic
guest_init_head >"$work/root/init"
cat >>"$work/root/init" <<'INIT'
case $role in
    client) me=1 them=2 ppm=200 delay="1ms 200us" test=guest_asks ;;
    server) me=2 them=1 ppm=-100 delay="6ms 500us" test=guest_serves ;;
esac
adjtimex -f $((ppm * 65536)) >/dev/null
ip=/bin/ip
$ip link set eth0 up
$ip addr add 10.88.0.$me/24 dev eth0
$ip netns add end
$ip link add w0 type veth peer name h0 netns end
$ip addr add 10.88.$me.1/24 dev w0
$ip link set w0 up
$ip -n end addr add 10.88.$me.2/24 dev h0
$ip -n end link set h0 up
$ip -n end link set lo up
$ip -n end route add default via 10.88.$me.1
$ip route add 10.88.$them.0/24 via 10.88.0.$them
echo 1 >/proc/sys/net/ipv4/ip_forward
/bin/tc qdisc add dev eth0 root netem delay $delay rate 100mbit
/bin/magnet-scope record --netns end --hops all -o /recording &
recorder=$!
until [ -s /recording/meta.toml ] || ! kill -0 $recorder; do sleep 0.1; done
timeout 240 $ip netns exec end /bin/traffic $test --ignored --exact --nocapture
sleep 0.5 # the last journeys have their ends
kill -INT $recorder
wait $recorder && tar c -C /recording . >/dev/vda && sync && echo "MACHINE: recorded"
echo o >/proc/sysrq-trigger
sleep 60
INIT
guest_pack "$work/image"

mkdir -p "$out"
# Timers of fixed frequency: two kernels that measure an emulated TSC on a busy machine get rates hundreds of ppm apart.
boot() {
    local role=$1 other=$2 number=$3 base=$4
    truncate -s 256M "$work/$role.disk"
    guest_append="role=$role clocksource=hpet" guest_boot "$folder" "$work/image" 330 -m 768 -smp 1 -rtc "base=$base" \
        -drive "file=$work/$role.disk,format=raw,if=virtio" \
        -netdev "dgram,id=n0,local.type=unix,local.path=$work/$role.sock,remote.type=unix,remote.path=$work/$other.sock" \
        -device "virtio-net-pci,netdev=n0,mac=52:54:00:88:00:0$number,romfile=" >"$out/$role.log"
}
boot server client 2 2031-05-05T05:05:05 &
boot client server 1 2024-01-01T00:00:00 || true
wait || true
for role in client server; do
    grep -aq "MACHINE: recorded" "$out/$role.log" || { tail -n 30 "$out/$role.log" >&2; exit 1; }
    mkdir -p "$out/$role"
    tar xf "$work/$role.disk" -C "$out/$role"
done
