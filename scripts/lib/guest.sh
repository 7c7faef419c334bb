# Debian's stock kernels in emulated machines: what the scripts that boot them share. To be sourced.
#
# Needs `work` (a folder of the caller's to build in, which goes with it). The root of a guest is made in $work/root; kernels are
# kept in the user's cache folder.

PATH=$PATH:/sbin:/usr/sbin
guest_cache=${XDG_CACHE_HOME:-$HOME/.cache}/magnet-scope/kernels
. "$(dirname "${BASH_SOURCE[0]}")/kernels.sh"

skip() { echo "skipped, because $*"; exit 0; }

# Runs a command as root, if that can be had without asking.
as_root() {
    if [ "$(id -u)" = 0 ]; then "$@"; else sudo -n "$@"; fi
}

# Leaves, and says why, where the machines cannot be built. What is missing is installed where Debian's packages can be.
guest_needs() {
    [ "$(uname -m)" = x86_64 ] || skip "the virtual machines are x86_64"
    command -v apt-get >/dev/null && command -v dpkg >/dev/null || skip "there is no apt-get: the kernels are Debian's packages"
    local tool missing=()
    for tool in qemu-system-x86_64 busybox cpio depmod modprobe xz "$@"; do
        command -v "$tool" >/dev/null && continue
        case $tool in
            qemu-system-x86_64) missing+=(qemu-system-x86) ;;
            busybox) missing+=(busybox-static) ;;
            depmod | modprobe) missing+=(kmod) ;;
            xz) missing+=(xz-utils) ;;
            ip | tc) missing+=(iproute2) ;;
            nft) missing+=(nftables) ;;
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

# The newest kernel of a series, unpacked in the cache; prints where. Where Debian's lists are not there and cannot be had, what was
# fetched before serves.
guest_kernel() {
    local package folder
    package=$(guest_package "$1")
    [ -n "$package" ] ||
        package=$(cd "$guest_cache" 2>/dev/null && ls -d "linux-image-$1."*-cloud-amd64 2>/dev/null | sort -V | tail -n 1)
    if [ -z "$package" ] && as_root apt-get update -qq >/dev/null 2>&1; then
        package=$(guest_package "$1")
    fi
    # a kernel of another suite than the machine's
    if [ -z "$package" ] && kernels_lists; then
        package=$(kernels_package "$1") || true
    fi
    [ -n "$package" ] || return 1
    folder=$guest_cache/$package
    if [ ! -d "$folder" ]; then
        rm -rf "$folder.new"
        mkdir -p "$folder.new"
        if (cd "$work" && apt-get download -qq "$package" 2>/dev/null); then
            dpkg -x "$work/$package"_*.deb "$folder.new"
        else
            { kernels_lists && kernels_unpack "$package" "$folder.new"; } || return 1
        fi
        guest_settle "$folder.new"
        mv "$folder.new" "$folder"
    fi
    echo "$folder"
}

# Puts an unpacked kernel where all others have theirs: newer packages have modules in usr/lib, the newest the kernel among them.
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
    guest_add "$(command -v busybox)" busybox
}

# A program and every library it is linked with: guest_add PATH NAME
guest_add() {
    cp "$1" "$work/root/bin/$2"
    # a static one has none
    { ldd "$1" 2>/dev/null | grep -o '/[^ ]*' || true; } | while read -r library; do
        mkdir -p "$work/root$(dirname "$library")"
        cp -n "$library" "$work/root$library"
    done
}

# Modules and all that they need, numbered in the order in which they load: guest_modules KERNEL MODULE… What is a module in one kernel
# and none in another may be asked for.
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

# The first lines of every guest's /init: guest_init_head >"$work/root/init". In it, busybox prefers its own `ip` and `tc` to
# those that were added unless they are called by path.
guest_init_head() {
    cat <<'INIT'
#!/bin/busybox sh
/bin/busybox --install -s /bin 2>/dev/null # what stands there already stays
export PATH=/bin
mount -t proc none /proc; mount -t sysfs none /sys; mount -t devtmpfs none /dev; mount -t tmpfs none /tmp
mkdir -p /sys/fs/cgroup; mount -t cgroup2 none /sys/fs/cgroup; mount -t tracefs none /sys/kernel/tracing
for module in /lib/modules/*.ko; do insmod "$module"; done
ip link set lo up
INIT
}

# A root for a machine that records the traffic of a test: guest_recorder MAGNET_SCOPE TRAFFIC KERNEL MODULE… TRAFFIC is a program
# of tests, some of which run in the machine.
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

# The root as an image: guest_pack FILE
guest_pack() {
    chmod +x "$work/root/init"
    (cd "$work/root" && find . | cpio -o -H newc --quiet) >"$1"
}

# Boots a guest in software emulation and waits until it powers off: guest_boot KERNEL IMAGE SECONDS [QEMU ARGUMENT…]. Its
# console is standard output. One thread of the host emulates all CPUs: with one each, a CPU was seen to run a breakpoint that
# another had patched away already, where the kernel switches a tracepoint, and to die of it. (Whether timer interrupts come in time is not for the kernel to judge where the host is busy: it panics.)
# String instructions are the fastest way to move memory on a real CPU, and by far the slowest on an emulated one: the kernel is told
# to do without. `guest_append` goes to its kernel, and what that does not know to /init as variables.
guest_boot() {
    local folder=$1 image=$2 limit=$3
    shift 3
    timeout "$limit" qemu-system-x86_64 -accel tcg,thread=single -M q35 -cpu max -nographic -no-reboot -nodefaults -serial stdio \
        -kernel "$folder/boot/vmlinuz-$(ls "$folder/lib/modules")" -initrd "$image" \
        -append "console=ttyS0 panic=-1 oops=panic loglevel=3 nokaslr mitigations=off no_timer_check clearcpuid=rep_good,erms,fsrm,fsrs ${guest_append:-}" "$@" </dev/null 2>&1
}
