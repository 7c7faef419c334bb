#!/usr/bin/env bash
# Runs the capture tests inside Debian's stock kernels, each booted in a virtual machine under software
# emulation.
#
# usage: scripts/test-kernels.sh [--full] [--suites 'SUITE…'] [--table FILE] [SERIES…]     (default: 6.12 6.1)
# SERIES is a series in a suite of Debian (5.10, 6.1, 6.12), or `newest`; `6.12:arm64` is one of that architecture,
# `6.12:rt` and `6.12:generic` are other flavours than `cloud`. With --table, the backend of each hop and ability, the
# passed suites and the times to attach go into a file (docs/kernels.md): those of this run and of earlier ones, whose
# consoles are in target/kernels. Then one machine runs at a time, because it measures.
# Each series runs these suites: kinds of probes compared, exact counts, points, custom probes, filters, samplers,
# switches under load, breakpoints at returns, sums of the kernel, and a driver's ring. The last series runs disturbed networks as
# well. With --full each series runs everything, including journeys and other protocols.
# The machines run in parallel if there are CPUs for it. No test depends on its duration.
# Installs QEMU and other needs if it can, and prints what it skips and why. Kernels are kept in the user's
# cache folder.
set -euo pipefail
cd "$(dirname "$0")/.."

usage() { echo "usage: scripts/test-kernels.sh [--full] [--suites 'SUITE…'] [--table FILE] [SERIES…]" >&2; exit 2; }
full=no
only=
table=
while [ $# -gt 0 ]; do
    case $1 in
        --full) full=yes ;;
        --suites) [ $# -gt 1 ] || usage; only=$2; shift ;;
        --table) [ $# -gt 1 ] || usage; table=$2; shift ;;
        -*) usage ;;
        *) break ;;
    esac
    shift
done
series=("$@")
[ ${#series[@]} -gt 0 ] || series=(6.12 6.1)
consoles=target/kernels
[ -z "$table" ] || mkdir -p "$consoles"
all=$(mktemp -d)
trap 'rm -rf "$all"' EXIT
work=$all

. scripts/lib/guest.sh
tools=(bash ip tc nft tcpdump ethtool)
guest_needs strip "${tools[@]}"

# The suites in the guests. `backends` tests the kinds of probes, `disturbed` needs netem and `driver` needs
# network cards, which a development machine may lack. `kernels` measures, so it runs first. `left_out` loads all
# programs once for each ability, which takes minutes under emulation: only --full has it there.
short=(kernels backends exact points switches returns custom filters control synthesis driver)
suites=("${short[@]}" disturbed)
switches=100
if [ $full = yes ]; then
    suites+=(left_out journeys datagrams traffic payload pcap)
    switches=1000
fi
if [ -n "$only" ]; then
    read -r -a suites <<<"$only"
    short=("${suites[@]}")
fi
declare -A programs
if [[ " ${series[*]} " == *:arm64* ]]; then
    guest_needs qemu-system-aarch64
    arm64_needs
    arm64_packages busybox-static bash iproute2 nftables tcpdump ethtool || skip "Debian's packages for arm64 cannot be had"
    programs[arm64]=$(arm64_cargo test -p magscope-probe --test all --no-run --message-format=json 2>/dev/null | test_program probe)
fi
# The program, as cargo names it. All tests are built as scripts/test.sh builds them, because other targets or features
# would build everything twice.
programs[amd64]=$(cargo test --workspace --features magnet-scope/query --no-run --message-format=json 2>/dev/null | test_program probe)
for program in "${programs[@]}"; do
    [ -x "$program" ] || { echo "the tests of magscope-probe do not build" >&2; exit 1; }
done
# A suite is a module of the program.
for suite in "${suites[@]}"; do
    "${programs[amd64]}" "$suite::" --list 2>/dev/null | grep ': test$' >/dev/null || { echo "magscope-probe has no tests in $suite" >&2; exit 1; }
done

# Builds a guest and runs its suites: machine ARCHITECTURE KERNEL FOLDER SUITE…. The console goes to FOLDER/log.
machine() {
    local folder=$2 strip=strip
    guest_arch=$1 work=$3
    shift 3
    guest_root
    guest_modules "$folder" veth sch_netem virtio_net virtio_pci nf_tables nft_objref nft_numgen
    for tool in "${tools[@]}"; do guest_add "$(guest_tool "$tool")" "$tool"; done
    [ $guest_arch = amd64 ] || strip=aarch64-linux-gnu-strip
    # Its symbols stay, because a test probes one of its own functions.
    $strip --strip-debug -o "$work/test" "${programs[$guest_arch]}"
    guest_add "$work/test" suites-of-tests
    echo "$*" >"$work/root/suites"
    guest_init_head >"$work/root/init"
    cat >>"$work/root/init" <<'INIT'
# Each waits for all CPUs, which is slow under emulation.
export MAGSCOPE_SWITCHES=@SWITCHES@
# Two cards on one wire.
export MAGSCOPE_WIRED="eth0 eth1"
for test in $(cat /suites); do
    begin=$(cut -d. -f1 /proc/uptime)
    # One at a time, because an emulated CPU is slow.
    /bin/suites-of-tests "$test::" --test-threads=1 --nocapture && said=passed || said=failed
    echo "VM: $test $said, $(($(cut -d. -f1 /proc/uptime) - begin)) s"
done
echo o >/proc/sysrq-trigger
sleep 60
INIT
    sed -i "s/@SWITCHES@/$switches/" "$work/root/init"
    guest_pack "$work/initramfs"
    rm -rf "$work/root"
    guest_boot "$folder" "$work/initramfs" 3600 -m 1024 -smp 2 \
        -netdev hubport,id=n0,hubid=0 -device virtio-net-pci,netdev=n0,romfile=,mac=52:54:00:78:00:01 \
        -netdev hubport,id=n1,hubid=0 -device virtio-net-pci,netdev=n1,romfile=,mac=52:54:00:78:00:02 >"$work/log" || true
    echo "$SECONDS" >"$work/seconds"
    # At once, so that a run that is ended keeps the consoles of its finished machines.
    [ -z "$table" ] || tr -d '\r' <"$work/log" >>"$consoles/$(basename "$work").log"
}

# Prints the guest's test results. Fails if one of the given number of suites did not pass: report FOLDER
# RELEASE SUITE…
report() {
    local work=$1 release=$2
    shift 2
    echo "kernel $release: $*, $(cat "$work/seconds") s"
    # The tests' own messages, without those of the machine.
    tr -d '\r' <"$work/log" | sed -n '/^running [0-9]* test/,$p' | grep -avE '^(\[ *[0-9]|$)|^ok$' | sed 's/^/  /'
    local passed
    passed=$(grep -ac '^VM: .* passed' "$work/log" || true)
    echo "kernel $release: $passed of $# suites passed"
    [ "$passed" = $# ] && return
    echo "kernel $release: not every suite passed" >&2
    return 1
}

failed=0
declare -A running
for wanted in "${series[@]}"; do
    folder=$(guest_kernel "$wanted") || { echo "kernel $wanted: skipped, because Debian's packages have none"; continue; }
    run=("${suites[@]}")
    [ $full = yes ] || [ "$wanted" = "${series[-1]}" ] || run=("${short[@]}")
    mkdir "$all/$wanted"
    architecture=amd64
    [[ $wanted != *:arm64* ]] || architecture=arm64
    machine $architecture "$folder" "$all/$wanted" "${run[@]}" &
    running[$wanted]=$!
    # Emulating a machine takes a CPU, so a single CPU runs one machine at a time.
    [ "$(nproc)" -gt 1 ] && [ -z "$table" ] || wait "${running[$wanted]}" || true
    echo "${run[*]}" >"$all/$wanted.suites"
    ls "$folder/lib/modules" >"$all/$wanted.release"
done
for wanted in "${!running[@]}"; do
    wait "${running[$wanted]}" || true
    read -r -a run <"$all/$wanted.suites"
    report "$all/$wanted" "$(cat "$all/$wanted.release")" "${run[@]}" || failed=1
done
if [ -n "$table" ]; then scripts/lib/kernels-table.py "$consoles"/*.log >"$table.new" && mv "$table.new" "$table"; fi
exit $failed
