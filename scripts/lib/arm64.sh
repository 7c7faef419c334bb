# Libraries and programs of Debian for arm64, and cargo's settings for that architecture. To be sourced, after
# kernels.sh and suites.sh.

arm64_root=$(dirname "$kernels_cache")/arm64
arm64_target=aarch64-unknown-linux-gnu
# The suite whose libraries the cross compiler's libc fits.
arm64_suite=bookworm

# Unpacks packages and all that they depend on, once: arm64_packages PACKAGE…
arm64_packages() { suite_packages "$arm64_root" "$arm64_suite" arm64 "$@"; }

# Ends with a message if nothing can be built for arm64. Installs the cross compiler where Debian's packages are
# available.
arm64_needs() {
    local fail=${1:-skip}
    [ "$(uname -m)" = x86_64 ] || $fail "this is not an x86-64 machine: cargo build alone builds for its own architecture"
    command -v apt-get >/dev/null && command -v dpkg >/dev/null || $fail "there is no apt-get: the libraries are Debian's packages"
    if ! command -v aarch64-linux-gnu-gcc >/dev/null || [ ! -e /usr/aarch64-linux-gnu/include/stdio.h ]; then
        { as_root apt-get update -qq &&
            as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
                gcc-aarch64-linux-gnu libc6-dev-arm64-cross; } >/dev/null 2>&1 ||
            $fail "gcc-aarch64-linux-gnu is missing and could not be installed"
    fi
    [ -d "$(rustc --print sysroot)/lib/rustlib/$arm64_target" ] || rustup target add "$arm64_target" >/dev/null 2>&1 ||
        $fail "rustup cannot add the target $arm64_target"
    arm64_packages libelf-dev zlib1g-dev || $fail "the libraries for arm64 cannot be had; see $arm64_root/.log"
    # A folder with these two alone, because the C library of the cross compiler is another one.
    mkdir -p "$arm64_root/.link"
    ln -sfn ../usr/lib/aarch64-linux-gnu/libelf.so ../usr/lib/aarch64-linux-gnu/libz.so "$arm64_root/.link"
}

# Prints the path of an unpacked program: arm64_tool NAME
arm64_tool() { suite_tool "$arm64_root" "$1"; }

# Prints the libraries of a program, with those of the libraries, as paths in a machine: arm64_libraries PATH
arm64_libraries() { suite_libraries "$arm64_root" "$1"; }

# Runs cargo for arm64: arm64_cargo COMMAND ARGUMENT…
arm64_cargo() {
    local command=$1
    shift
    env CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc \
        LIBBPF_SYS_LIBRARY_PATH_aarch64_unknown_linux_gnu="$arm64_root/.link" \
        cargo "$command" --target "$arm64_target" "$@"
}
