#!/usr/bin/env bash
# Records the golden sessions in tests/golden: small recordings of real traffic that tests/golden.rs replays
# without privileges. Rarely needed: an intended change of output is accepted in the snapshots
# (tests/golden/README.md). The recordings change only with the format.
#
# usage: scripts/record-golden.sh [NAME…]     (as root; default: all of them)
# Needs unshare, iproute2, nftables, python3 and curl. Names and addresses in the recordings are neutral: the host
# is called `node`, addresses are those of the two namespaces made here, and identifiers of the machine are
# removed.
set -euo pipefail
cd "$(dirname "$0")/.."

if [ "${1:-}" != --inside ]; then
    [ "$(id -u)" = 0 ] || { echo "recording needs root" >&2; exit 1; }
    # With the features of the tests, because others would compile everything again.
    cargo test --workspace --features magnet-scope/query --test e2e --no-run
    cargo build --workspace --features magnet-scope/query --example reseal
    # Names of namespaces and the name of the host are private to the processes inside.
    exec unshare --uts --mount --propagation private "$0" --inside "$@"
fi
shift
hostname node
mkdir -p /run/netns
mount -t tmpfs tmpfs /run/netns
scope=$PWD/target/debug/magnet-scope
golden=$PWD/tests/golden
wanted=("$@")
[ ${#wanted[@]} -gt 0 ] || wanted=(demo retransmissions drops half lost damaged queue probes web)

ip netns add client
ip netns add server
# The recordings have the traffic alone: no search for routers, and no report of groups (after the sleep below).
for end in client server; do
    ip netns exec "$end" sh -c 'echo 0 >/proc/sys/net/ipv6/conf/default/router_solicitations'
done
recorder=
trap '[ -z "$recorder" ] || kill -INT "$recorder"; ip netns del client; ip netns del server' EXIT
ip -n client link add v0 type veth peer name v0 netns server
for end in client:1 server:2; do
    host=${end%:*} number=${end#*:}
    ip -n "$host" link set lo up
    ip -n "$host" addr add "10.78.0.$number/24" dev v0
    ip -n "$host" addr add "fd78::$number/64" dev v0 nodad
    ip -n "$host" link set v0 up
done
server() { ip netns exec server "$@"; }
# Neighbours are set in advance, so recordings have the traffic alone.
server python3 -c 'import socket; socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"", ("10.78.0.1", 9))'

sleep 4

# traffic SCENE: real sockets. Each end runs in its own namespace, in a thread of its own.
traffic() { python3 scripts/golden-traffic.py "$1" "$recorder"; }

# record NAME SCENE ARGUMENT…: captures a scene into tests/golden/NAME/session.
record() {
    local name=$1 scene=$2 folder=$golden/$1/session
    shift 2
    rm -rf "$folder"
    mkdir -p "$golden/$name"
    "$scope" record -o "$folder" "$@" &
    recorder=$!
    until [ -s "$folder/meta.toml" ]; do kill -0 "$recorder"; sleep 0.05; done
    sleep 0.5
    traffic "$scene"
    sleep 0.2
    kill -INT "$recorder"
    wait "$recorder"
    recorder=
}

# pages: a client's requests for pages of a server. Each end has a recorder, as on two hosts: with a host name of its own.
pages() {
    local end recorders=() served
    ip netns exec server python3 scripts/golden-traffic.py pages &
    served=$!
    until ip netns exec client curl -so /dev/null http://10.78.0.2:8080/; do kill -0 "$served"; sleep 0.1; done
    for end in client server; do
        rm -rf "$golden/web-$end/session"
        mkdir -p "$golden/web-$end"
        # shellcheck disable=SC2016  # of the inner shell
        unshare --uts sh -c 'hostname "$0"; exec "$@"' "$end" \
            "$scope" record -o "$golden/web-$end/session" --netns "$end" &
        recorders+=($!)
    done
    for end in client server; do
        until [ -s "$golden/web-$end/session/meta.toml" ]; do sleep 0.05; done
    done
    sleep 0.5
    ip netns exec client curl -so /dev/null 'http://10.78.0.2:8080/page/[1-12]'
    sleep 0.2
    kill -INT "${recorders[@]}"
    wait "${recorders[@]}"
    kill "$served"
}

# neutral NAME [LAST DIGIT]: removes the remaining identifiers of the machine. Another boot has another clock.
neutral() {
    sed -i -e "s/^boot_id = .*/boot_id = \"00000000-0000-0000-0000-00000000000${2:-0}\"/" \
        -e 's/^\(kernel = "[0-9.]*\)[^"]*"/\1"/' "$golden/$1/session/meta.toml"
    # The files were edited on purpose, so their checksums are computed again.
    target/debug/examples/reseal "$golden/$1/session"
    du -sb "$golden/$1/session"
}

both=(--netns client --netns server)
# The scheduler's own events are those of the whole machine, and must not be published.
every=(--hops all,+udp.send,+napi.poll)
for name in "${wanted[@]}"; do
    case $name in
        demo)
            mkdir -p "$golden/demo"
            rm -rf "$golden/demo/session"
            "$scope" demo --duration 900ms -o "$golden/demo/session" >/dev/null
            ;;
        probes)
            mkdir -p "$golden/probes"
            rm -rf "$golden/probes/session"
            [ -d /sys/kernel/tracing/events ] || mount -t tracefs none /sys/kernel/tracing
            "$scope" demo --duration 550ms -o "$golden/probes/session" --snap dev.recv=48 \
                --probe 'tracepoint:net:netif_receive_skb name=came after=dev.recv len' \
                --probe 'tracepoint:skb:kfree_skb name=gone as=point reason' \
                --probe 'tracepoint:net:net_dev_start_xmit name=given as=loadline len' >/dev/null
            ;;
        retransmissions)
            server nft '
                table inet lossy {
                    chain arriving {
                        type filter hook prerouting priority raw; policy accept;
                        meta length > 500 numgen inc mod 9 == 4 drop
                    }
                }'
            record retransmissions tcp "${both[@]}" "${every[@]}"
            server nft delete table inet lossy
            ;;
        drops) record drops burst "${both[@]}" "${every[@]}" ;;
        half) record half mixed --netns client ;;
        lost) record lost flood "${both[@]}" --hops ip.out,dev.recv,udp.recv,app.recv --ring-size 1M ;;
        damaged)
            # A recording of its own: one byte of it differs, and its end is missing.
            record damaged spaced "${both[@]}"
            python3 scripts/golden-traffic.py damage "$golden/damaged/session/events-0000.arrows"
            ;;
        queue)
            ip netns exec client tc qdisc add dev v0 root tbf rate 20mbit burst 16kb limit 64kb
            record queue fill "${both[@]}" --hops +dev.queue
            ip netns exec client tc qdisc del dev v0 root
            ;;
        web)
            pages
            neutral web-client 1
            neutral web-server 2
            continue
            ;;
        *) echo "no golden session is called $name" >&2; exit 1 ;;
    esac
    neutral "$name"
done
