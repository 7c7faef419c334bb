#!/usr/bin/env bash
# Runs the capture tests inside Debian's stock kernels, each booted in a virtual machine under software emulation.
#
# usage: scripts/test-kernels.sh [--short] [SERIES…]     (default: 6.12 6.1)
# The first series runs every suite, those after it (with --short all of them) the short set: the kinds of probes against
# each other, and exact counts.
# Needs qemu-system-x86_64, busybox, cpio, depmod, xz and Debian's packages; says what it skips and why. Kernels are kept in
# the user's cache folder.
set -euo pipefail
cd "$(dirname "$0")/.."

brief=no
if [ "${1:-}" = --short ]; then
    brief=yes
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
short=(backends exact)
suites=("${short[@]}" journeys traffic disturbed)
[ $brief = no ] || suites=("${short[@]}")
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
    guest_boot "$folder" "$work/initramfs" 1800 -m 1024 -smp 2 >"$work/log" || true
    echo "kernel $release: ${run[*]}, $((SECONDS - begin)) s"
    grep -aE '^(test |skipped|VM: |thread .* panicked|assertion)|test result|skipped, because|default hops attached|^  [a-z.]+ +(tp-btf|fentry|fexit|netfilter|cgroup-skb|kprobe)|hits, the same by|journeys, every byte' "$work/log" | tr -d '\r' | sed 's/^/  /'
    passed=$(grep -ac '^VM: .* passed' "$work/log" || true)
    if [ "$passed" != ${#run[@]} ]; then
        failed=1
        tail -n 40 "$work/log" >&2
    fi
    run=("${short[@]}")
done
exit $failed
