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
cache=${XDG_CACHE_HOME:-$HOME/.cache}/magnet-scope/kernels
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

skip() { echo "skipped, because $*"; exit 0; }
[ "$(uname -m)" = x86_64 ] || skip "the virtual machines are x86_64"
for tool in qemu-system-x86_64 busybox cpio depmod modprobe xz apt-get dpkg ip tc; do
    command -v "$tool" >/dev/null || PATH=$PATH:/sbin:/usr/sbin command -v "$tool" >/dev/null || skip "there is no $tool"
done
PATH=$PATH:/sbin:/usr/sbin

# A program and every library it is linked with.
add() {
    cp "$1" "$work/root/bin/$2"
    ldd "$1" 2>/dev/null | grep -o '/[^ ]*' | while read -r library; do
        mkdir -p "$work/root$(dirname "$library")"
        cp -n "$library" "$work/root$library"
    done
}

# The newest kernel of a series, unpacked in the cache; prints where.
kernel() {
    local package
    package=$(apt-cache search --names-only "^linux-image-${1//./\\.}\\..*-cloud-amd64\$" | cut -d' ' -f1 | sort -V | tail -n 1)
    [ -n "$package" ] || return 1
    local folder=$cache/$package
    if [ ! -d "$folder" ]; then
        (cd "$work" && apt-get download -qq "$package" 2>/dev/null) || return 1
        mkdir -p "$folder.new"
        dpkg -x "$work/$package"_*.deb "$folder.new"
        depmod -b "$folder.new" "$(ls "$folder.new/lib/modules")"
        mv "$folder.new" "$folder"
    fi
    echo "$folder"
}

# What runs in the guests. `backends` is there for the kinds of probes and `disturbed` for its netem, which the kernel that
# tests are developed on may lack.
short=(backends exact)
suites=("${short[@]}" journeys traffic disturbed)
[ $brief = no ] || suites=("${short[@]}")
arguments=()
for suite in "${suites[@]}"; do arguments+=(--test "$suite"); done
# The programs, as cargo itself names them.
mapfile -t tests < <(cargo test -p magscope-probe "${arguments[@]}" --no-run --message-format=json 2>/dev/null |
    sed -n '/"kind":\["test"\]/s/.*"executable":"\([^"]*\)".*/\1/p')
[ ${#tests[@]} = ${#suites[@]} ] || { echo "the tests of magscope-probe do not build" >&2; exit 1; }

failed=0
run=("${suites[@]}")
for wanted in "${series[@]}"; do
    folder=$(kernel "$wanted") || { echo "kernel $wanted: skipped, because Debian's packages have none"; continue; }
    release=$(ls "$folder/lib/modules")
    rm -rf "$work/root"
    mkdir -p "$work/root"/{bin,proc,sys,dev,tmp,run,lib/modules,tests}
    cp "$(command -v busybox)" "$work/root/bin/busybox"
    modprobe -d "$folder" -S "$release" --show-depends -a veth sch_netem | awk '/^insmod/ {print $2}' | while read -r module; do
        case $module in
            *.xz) xz -dc "$module" >"$work/root/lib/modules/$(basename "${module%.xz}")" ;;
            *) cp "$module" "$work/root/lib/modules/" ;;
        esac
    done
    add "$(command -v ip)" ip
    add "$(command -v tc)" tc
    for test in "${tests[@]}"; do
        add "$test" "$(basename "${test%-*}")"
    done
    echo "${run[*]}" >"$work/root/suites"
    cat >"$work/root/init" <<'INIT'
#!/bin/busybox sh
for applet in sh mount mkdir insmod sleep echo cat; do /bin/busybox ln -sf busybox "/bin/$applet"; done
export PATH=/bin
mount -t proc none /proc; mount -t sysfs none /sys; mount -t devtmpfs none /dev; mount -t tmpfs none /tmp
mkdir -p /sys/fs/cgroup; mount -t cgroup2 none /sys/fs/cgroup; mount -t tracefs none /sys/kernel/tracing
for module in /lib/modules/*.ko; do insmod "$module"; done
ip link set lo up
for test in $(cat /suites); do
    # one at a time: an emulated CPU is slow enough
    "/bin/$test" --test-threads=1 --nocapture && echo "VM: $test passed" || echo "VM: $test failed"
done
echo o >/proc/sysrq-trigger
sleep 60
INIT
    chmod +x "$work/root/init"
    (cd "$work/root" && find . | cpio -o -H newc --quiet) >"$work/initramfs"
    begin=$SECONDS
    timeout 1800 qemu-system-x86_64 -accel tcg,thread=multi -M q35 -cpu max -m 1024 -smp 2 -nographic -no-reboot \
        -nodefaults -serial stdio -kernel "$folder/boot/vmlinuz-$release" -initrd "$work/initramfs" \
        -append "console=ttyS0 panic=-1 loglevel=3 nokaslr mitigations=off" </dev/null >"$work/log" 2>&1 || true
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
