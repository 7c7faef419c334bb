# Shared functions of the scripts that boot Debian's stock kernels in emulated machines. To be sourced.
#
# Needs `work`, a build folder of the caller, which the caller removes. The root of a guest is made in
# $work/root. Kernels are kept in the user's cache folder. `guest_arch` is the architecture of the next guest: amd64, or
# arm64 with the programs of lib/arm64.sh.

PATH=$PATH:/sbin:/usr/sbin
guest_cache=${XDG_CACHE_HOME:-$HOME/.cache}/magnet-scope/kernels
. "$(dirname "${BASH_SOURCE[0]}")/kernels.sh"
. "$(dirname "${BASH_SOURCE[0]}")/suites.sh"
. "$(dirname "${BASH_SOURCE[0]}")/arm64.sh"
guest_arch=amd64

skip() { echo "skipped, because $*"; exit 0; }

# Runs a command as root, if that is possible without a password.
as_root() {
    if [ "$(id -u)" = 0 ]; then "$@"; else sudo -n "$@"; fi
}

# Reads the path of a crate's test program from cargo's messages: test_program CRATE
test_program() {
    sed -n '/"kind":\["test"\]/{/"src_path":"[^"]*\/crates\/'"$1"'\//s/.*"executable":"\([^"]*\)".*/\1/p}'
}

# Ends with a message if the machines cannot be built: guest_needs TOOL…. Missing packages are installed where
# Debian's packages are available. A machine for arm64 needs arm64_needs too.
guest_needs() {
    [ "$(uname -m)" = x86_64 ] || skip "the virtual machines are x86_64"
    command -v apt-get >/dev/null && command -v dpkg >/dev/null || skip "there is no apt-get: the kernels are Debian's packages"
    local tool missing=()
    for tool in qemu-system-x86_64 busybox cpio depmod modprobe xz "$@"; do
        command -v "$tool" >/dev/null && continue
        case $tool in
            qemu-system-x86_64) missing+=(qemu-system-x86) ;;
            qemu-system-aarch64) missing+=(qemu-system-arm) ;;
            busybox) missing+=(busybox-static) ;;
            depmod | modprobe) missing+=(kmod) ;;
            xz) missing+=(xz-utils) ;;
            ip | tc) missing+=(iproute2) ;;
            nft) missing+=(nftables) ;;
            wg) missing+=(wireguard-tools) ;;
            strip) missing+=(binutils) ;;
            *) missing+=("$tool") ;;
        esac
    done
    [ ${#missing[@]} -gt 0 ] || return 0
    echo "missing for virtual machines: ${missing[*]}" >&2
    { as_root apt-get update -qq &&
        as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}"; } >/dev/null 2>&1 ||
        skip "these packages are missing and could not be installed: ${missing[*]}"
}

guest_package() {
    apt-cache search --names-only "^linux-image-${1//./\\.}\\..*-cloud-amd64\$" 2>/dev/null | cut -d' ' -f1 | sort -V | tail -n 1
}

# Unpacks the newest kernel of a series in the cache and prints its folder: guest_kernel SERIES[:arm64][:FLAVOUR]. Without
# Debian's package lists, an earlier kernel is used. FLAVOUR is `cloud` (the default), `generic` or `rt`.
guest_kernel() {
    local package= folder series=${1%%:*} architecture=amd64 flavour=cloud ending
    [[ :$1: != *:arm64:* ]] || architecture=arm64
    [[ :$1: != *:generic:* ]] || flavour=generic
    [[ :$1: != *:rt:* ]] || flavour=rt
    ending=$(kernels_ending $flavour $architecture)
    if [ "$ending" = cloud-amd64 ]; then
        package=$(guest_package "$series")
    fi
    [ -n "$package" ] || package=$(cd "$guest_cache" 2>/dev/null &&
        ls -d "linux-image-$series."*"-$ending" 2>/dev/null | grep -xE "linux-image-[0-9.]+(-[0-9]+|\+deb[0-9]+)-$ending" | sort -V | tail -n 1)
    if [ -z "$package" ] && [ "$ending" = cloud-amd64 ] && as_root apt-get update -qq >/dev/null 2>&1; then
        package=$(guest_package "$series")
    fi
    # A kernel of another suite than the machine's.
    if [ -z "$package" ] && kernels_lists; then
        package=$(kernels_package "$series" $architecture $flavour) || true
    fi
    [ -n "$package" ] || return 1
    folder=$guest_cache/$package
    if [ ! -d "$folder" ]; then
        rm -rf "$folder.new"
        mkdir -p "$folder.new"
        if [ $architecture = amd64 ] && (cd "$work" && apt-get download -qq "$package" 2>/dev/null); then
            dpkg -x "$work/$package"_*.deb "$folder.new"
        else
            { kernels_lists && kernels_unpack "$package" "$folder.new" $architecture; } || return 1
        fi
        guest_settle "$folder.new"
        mv "$folder.new" "$folder"
    fi
    echo "$folder"
}

# Moves an unpacked kernel to the common layout: newer packages have modules in usr/lib, the newest the kernel
# among them.
guest_settle() {
    local folder=$1 release
    [ -e "$folder/lib" ] || ln -s usr/lib "$folder/lib"
    release=$(ls "$folder/lib/modules")
    mkdir -p "$folder/boot"
    [ -e "$folder/boot/vmlinuz-$release" ] || ln -s "../lib/modules/$release/vmlinuz" "$folder/boot/vmlinuz-$release"
    depmod -b "$folder" "$release" 2>/dev/null
}

# An empty root with busybox.
guest_root() {
    rm -rf "$work/root"
    mkdir -p "$work/root"/{bin,etc,proc,sys,dev,tmp,run,lib/modules}
    echo 'root:x:0:0:root:/:/bin/sh' >"$work/root/etc/passwd"
    guest_add "$(guest_tool busybox)" busybox
}

# Prints the path of a program for the guest: guest_tool NAME
guest_tool() {
    if [ $guest_arch = amd64 ]; then command -v "$1"; else arm64_tool "$1"; fi
}

# Adds a program and every library that it is linked with: guest_add PATH NAME
guest_add() {
    cp "$1" "$work/root/bin/$2"
    if [ $guest_arch = arm64 ]; then
        arm64_libraries "$1" | while read -r library; do
            mkdir -p "$work/root$(dirname "$library")"
            cp -n "$arm64_root$library" "$work/root$library"
        done
        return
    fi
    # A static program has none.
    { ldd "$1" 2>/dev/null | grep -o '/[^ ]*' || true; } | while read -r library; do
        mkdir -p "$work/root$(dirname "$library")"
        cp -n "$library" "$work/root$library"
    done
}

# Adds modules and their dependencies, numbered in load order: guest_modules KERNEL MODULE…. A module may be
# built into some kernels.
guest_modules() {
    local folder=$1 number=100 module
    shift
    { modprobe -d "$folder" -S "$(ls "$folder/lib/modules")" --show-depends -a "$@" 2>/dev/null || true; } |
        awk '/^insmod/ && !seen[$2]++ {print $2}' | while read -r module; do
        number=$((number + 1))
        case $module in
            *.xz) xz -dc "$module" >"$work/root/lib/modules/$number-$(basename "${module%.xz}")" ;;
            *) cp "$module" "$work/root/lib/modules/$number-$(basename "$module")" ;;
        esac
    done
}

# The first lines of every guest's /init: guest_init_head >"$work/root/init". In it, busybox prefers its own
# `ip` and `tc` to the added ones unless they are called by path.
guest_init_head() {
    cat <<'INIT'
#!/bin/busybox sh
/bin/busybox --install -s /bin 2>/dev/null # existing files stay
export PATH=/bin
mount -t proc none /proc; mount -t sysfs none /sys; mount -t devtmpfs none /dev; mount -t tmpfs none /tmp
mkdir -p /sys/fs/cgroup; mount -t cgroup2 none /sys/fs/cgroup; mount -t tracefs none /sys/kernel/tracing
for module in /lib/modules/*.ko; do insmod "$module"; done
ip link set lo up
INIT
}

# A root for a machine that records the traffic of a test: guest_recorder MAGNET_SCOPE TRAFFIC KERNEL MODULE….
# TRAFFIC is a program of tests, some of which run in the machine.
guest_recorder() {
    local binary=$1 traffic=$2 program
    shift 2
    guest_root
    guest_modules "$@"
    guest_add "$(command -v ip)" ip
    strip -o "$work/magnet-scope" "$binary"
    strip -o "$work/traffic" "$traffic"
    for program in magnet-scope traffic; do guest_add "$work/$program" "$program"; done
    guest_init_head >"$work/root/init"
}

# Packs the root as an image: guest_pack FILE
guest_pack() {
    chmod +x "$work/root/init"
    (cd "$work/root" && find . | cpio -o -H newc --quiet) >"$1"
}

# Boots a guest in software emulation and waits until it powers off: guest_boot KERNEL IMAGE SECONDS [QEMU
# ARGUMENT…]. Its console is standard output.
# One thread of the host emulates all CPUs. With a thread each, a CPU once crashed: it ran a breakpoint that
# another CPU had already patched away while the kernel switched a tracepoint.
# The kernel must not check whether timer interrupts are on time, because on a busy host it would panic.
# String instructions are fastest on a real CPU, and by far the slowest on an emulated one, so the kernel is
# configured without them. `guest_append` goes to the kernel's command line; variables that the kernel does
# not know go to /init.
# A signal to the process group of the caller ends the machine too (--foreground).
guest_boot() {
    local folder=$1 image=$2 limit=$3
    shift 3
    if [ $guest_arch = arm64 ]; then
        # The emulated processor has single instructions for atomic operations, and no pointer authentication, which is
        # slow to emulate.
        timeout --foreground "$limit" qemu-system-aarch64 -accel tcg,thread=single -M virt,gic-version=3 -cpu neoverse-n1 -nographic -no-reboot \
            -nodefaults -serial stdio -kernel "$folder/boot/vmlinuz-$(ls "$folder/lib/modules")" -initrd "$image" \
            -append "console=ttyAMA0 panic=-1 oops=panic loglevel=3 nokaslr mitigations=off ${guest_append:-}" "$@" </dev/null 2>&1
        return
    fi
    local release features=rep_good,erms,fsrm,fsrs
    release=$(ls "$folder/lib/modules")
    # The same features by number: 5.10 does not know their names.
    case $release in 5.*) features=112,297,580,395 ;; esac
    timeout --foreground "$limit" qemu-system-x86_64 -accel tcg,thread=single -M q35 -cpu max -nographic -no-reboot -nodefaults -serial stdio \
        -kernel "$folder/boot/vmlinuz-$release" -initrd "$image" \
        -append "console=ttyS0 panic=-1 oops=panic loglevel=3 nokaslr mitigations=off no_timer_check clearcpuid=$features ${guest_append:-}" "$@" </dev/null 2>&1
}
