#!/usr/bin/env bash
# Runs the capture tests inside Debian's stock kernels, each booted in a virtual machine under software emulation.
#
# usage: scripts/test-kernels.sh [--full] [SERIES…]     (default: 6.12 6.1)
# Each runs the kinds of probes against each other, exact counts, and the scheduler's hops; with --full the first series runs the
# suites of journeys, other protocols and disturbed networks as well.
# On a quiet machine of two cores the two take some minutes each; nothing depends on how long it takes.
# Installs QEMU and what else it needs where it can, and says what it skips and why. Kernels are kept in the user's cache folder.
set -euo pipefail
cd "$(dirname "$0")/.."

full=no
if [ "${1:-}" = --full ]; then
    full=yes
    shift
fi
series=("$@")
[ ${#series[@]} -gt 0 ] || series=(6.12 6.1)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

. scripts/lib/guest.sh
guest_needs ip tc

# What runs in the guests. `backends` is there for the kinds of probes and `disturbed` for its netem, which the kernel that
# tests are developed on may lack.
short=(backends exact switches custom)
suites=("${short[@]}")
[ $full = no ] || suites+=(journeys traffic disturbed)
arguments=()
for suite in "${suites[@]}"; do arguments+=(--test "$suite"); done
# The programs, as cargo itself names them.
mapfile -t tests < <(cargo test --workspace "${arguments[@]}" --no-run --message-format=json 2>/dev/null |
    sed -n '/"kind":\["test"\]/s/.*"executable":"\([^"]*\)".*/\1/p')
[ ${#tests[@]} = ${#suites[@]} ] || { echo "the tests of magscope-probe do not build" >&2; exit 1; }

failed=0
run=("${suites[@]}")
for wanted in "${series[@]}"; do
    folder=$(guest_kernel "$wanted") || { echo "kernel $wanted: skipped, because Debian's packages have none"; continue; }
    release=$(ls "$folder/lib/modules")
    guest_root
    guest_modules "$folder" veth sch_netem
    guest_add "$(command -v ip)" ip
    guest_add "$(command -v tc)" tc
    for test in "${tests[@]}"; do
        guest_add "$test" "$(basename "${test%-*}")"
    done
    echo "${run[*]}" >"$work/root/suites"
    guest_init_head >"$work/root/init"
    cat >>"$work/root/init" <<'INIT'
for test in $(cat /suites); do
    # one at a time: an emulated CPU is slow enough
    "/bin/$test" --test-threads=1 --nocapture && echo "VM: $test passed" || echo "VM: $test failed"
done
echo o >/proc/sysrq-trigger
sleep 60
INIT
    guest_pack "$work/initramfs"
    begin=$SECONDS
    guest_boot "$folder" "$work/initramfs" 3600 -m 1024 -smp 2 >"$work/log" || true
    echo "kernel $release: ${run[*]}, $((SECONDS - begin)) s"
    # what the tests say of themselves, without what the machine says
    tr -d '\r' <"$work/log" | sed -n '/^running [0-9]* test/,$p' | grep -avE '^(\[ *[0-9]|$)|^ok$' | sed 's/^/  /'
    passed=$(grep -ac '^VM: .* passed' "$work/log" || true)
    if [ "$passed" != ${#run[@]} ]; then
        echo "kernel $release: $passed of ${#run[@]} suites passed" >&2
        failed=1
    fi
    run=("${short[@]}")
done
exit $failed
