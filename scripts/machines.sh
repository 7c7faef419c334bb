#!/usr/bin/env bash
# Boots three emulated machines that record their ends of real traffic. Each is wired to both others, with a
# wall clock and a clock rate of its own. With certificates, two of them have agents and the third follows
# both live.
#
# usage: scripts/machines.sh FOLDER MAGNET_SCOPE TRAFFIC [CERTIFICATES]
# TRAFFIC is the end-to-end program of tests. Its module `machines` has the ignored tests `guest_asks`,
# `guest_serves`, `guest_mirrors`, `live::guest_watches` and `live::guest_is_watched`. Leaves the recordings
# in FOLDER/client, FOLDER/server and FOLDER/mirror, with the consoles. Prints the reason if it cannot run.
# CERTIFICATES is a folder with those of host-client, host-server and viewer-me. FOLDER/mirror then has the
# third machine's view and recording.
#
# In each machine a namespace `end` with 10.88.N.2 is recorded, and the machine itself forwards for it. So
# netem at the machine's own devices delays traffic between the recorded hosts: 1 ms from the client, 6 ms
# from the server, 3 ms from the mirror, at 100 Mbit/s.
set -euo pipefail
cd "$(dirname "$0")/.."
out=$1 binary=$2 traffic=$3 certificates=${4:-}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
. scripts/lib/guest.sh
guest_needs ip tc strip

folder=$(guest_kernel 6.12) || skip "Debian's packages have no kernel 6.12"
guest_recorder "$binary" "$traffic" "$folder" veth sch_netem virtio_net virtio_pci virtio_blk
guest_add "$(command -v tc)" tc
[ -z "$certificates" ] || cp -r "$certificates" "$work/root/tls"
cat >>"$work/root/init" <<'INIT'
case $role in
    client) me=1 others="2 3" ppm=200 delay="1ms 200us" test=machines::guest_asks ;;
    server) me=2 others="1 3" ppm=-100 delay="6ms 500us" test=machines::guest_serves ;;
    mirror) me=3 others="1 2" ppm=50 delay="3ms 300us" test=machines::guest_mirrors ;;
esac
adjtimex -f $((ppm * 65536)) >/dev/null
ip=/bin/ip
$ip netns add end
$ip link add w0 type veth peer name h0 netns end
$ip addr add 10.88.$me.1/24 dev w0
$ip link set w0 up
$ip -n end addr add 10.88.$me.2/24 dev h0
$ip -n end link set h0 up
$ip -n end link set lo up
$ip -n end route add default via 10.88.$me.1
echo 1 >/proc/sys/net/ipv4/ip_forward
number=0
for them in $others; do # a wire each, as they are given to the machine
    $ip link set eth$number up
    $ip addr add 10.88.$((me * 10 + them)).$me peer 10.88.$((them * 10 + me)).$them dev eth$number
    $ip route add 10.88.$them.0/24 via 10.88.$((them * 10 + me)).$them dev eth$number
    /bin/tc qdisc add dev eth$number root netem delay $delay rate 100mbit
    number=$((number + 1))
done
if [ -d /tls ]; then
    if [ $role = mirror ]; then
        $ip netns exec end /bin/traffic $test --ignored --exact --nocapture &
        timeout 240 /bin/traffic machines::live::guest_watches --ignored --exact --nocapture
    else
        /bin/magnet-scope agent --netns end --hops all --max-overhead off --listen 10.88.$me.1:6246 --tls /tls --identity host-$role &
        agent=$!
        until /bin/magnet-scope agent about unix:/run/magnet-scope/agent.sock >/dev/null 2>&1 || ! kill -0 $agent; do sleep 0.1; done
        timeout 240 $ip netns exec end /bin/traffic $test --ignored --exact --nocapture
        # The third machine reads all of it and powers off. Until then this one stays up.
        timeout 120 /bin/traffic machines::live::guest_is_watched --ignored --exact --nocapture
        kill -INT $agent
        wait $agent
    fi
    mkdir -p /recording
    tar c -C /recording . >/dev/vda && sync && echo "MACHINE: recorded"
    echo o >/proc/sysrq-trigger
    sleep 60
fi
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
# Timers of fixed frequency: two kernels that measure an emulated TSC on a busy machine get rates hundreds of
# ppm apart.
declare -A number=([client]=1 [server]=2 [mirror]=3)
boot() {
    local role=$1 base=$2 other wires=()
    shift 2
    for other in "$@"; do
        local ends="local.type=unix,local.path=$work/$role-$other,remote.type=unix,remote.path=$work/$other-$role"
        wires+=(-netdev "dgram,id=$other,$ends"
            -device "virtio-net-pci,netdev=$other,mac=52:54:00:88:0${number[$role]}:0${number[$other]},romfile=")
    done
    truncate -s 256M "$work/$role.disk"
    guest_append="role=$role clocksource=hpet" guest_boot "$folder" "$work/image" 330 -m 1280 -smp 1 -rtc "base=$base" \
        -drive "file=$work/$role.disk,format=raw,if=virtio" "${wires[@]}" >"$out/$role.log"
}
boot server 2031-05-05T05:05:05 client mirror &
boot mirror 2027-07-07T07:07:07 client server &
boot client 2024-01-01T00:00:00 server mirror || true
wait || true
for role in client server mirror; do
    grep -aq "MACHINE: recorded" "$out/$role.log" || { tail -n 30 "$out/$role.log" >&2; exit 1; }
    mkdir -p "$out/$role"
    tar xf "$work/$role.disk" -C "$out/$role"
done
