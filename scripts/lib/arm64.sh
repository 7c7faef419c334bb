# Libraries and programs of Debian for arm64, and cargo's settings for that architecture. To be sourced, after
# kernels.sh.
#
# They are unpacked in the user's cache folder and never installed.

arm64_root=$(dirname "$kernels_cache")/arm64
arm64_target=aarch64-unknown-linux-gnu
# The suite whose libraries the cross compiler's libc fits.
arm64_suite=bookworm

# Unpacks packages and all that they depend on, once: arm64_packages PACKAGE…
arm64_packages() {
    local wanted=() package scratch link
    mkdir -p "$arm64_root/.unpacked"
    for package in "$@"; do [ -e "$arm64_root/.unpacked/$package" ] || wanted+=("$package:arm64"); done
    [ ${#wanted[@]} -gt 0 ] || return 0
    kernels_lists || return 1
    scratch=$(mktemp -d)
    mkdir -p "$scratch/partial"
    # Nothing counts as installed in this configuration, so the download is complete.
    if ! kernels_apt apt-get install -d -y -qq --no-install-recommends -t "$arm64_suite" \
        -o Dir::Cache::archives="$scratch" "${wanted[@]}" >"$arm64_root/.log" 2>&1; then
        rm -rf "$scratch"
        return 1
    fi
    for package in "$scratch"/*.deb; do dpkg -x "$package" "$arm64_root" || return 1; done
    rm -rf "$scratch"
    # Links to absolute paths lead out of the folder.
    find "$arm64_root" -type l -lname '/*' | while read -r link; do
        ln -sfn "$(realpath -s --relative-to="$(dirname "$link")" "$arm64_root$(readlink "$link")")" "$link"
    done
    for package in "$@"; do touch "$arm64_root/.unpacked/$package"; done
}

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
arm64_tool() {
    local folder
    for folder in bin sbin usr/bin usr/sbin; do
        [ -f "$arm64_root/$folder/$1" ] && readlink -f "$arm64_root/$folder/$1" && return
    done
    return 1
}

# Prints the libraries of a program, with those of the libraries, as paths in a machine: arm64_libraries PATH
arm64_libraries() {
    local open=("$1") file name found seen=" "
    while [ ${#open[@]} -gt 0 ]; do
        file=${open[0]} open=("${open[@]:1}")
        for name in $(readelf -ld "$file" 2>/dev/null | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p; s/.*interpreter: .*\/\(.*\)\]/\1/p'); do
            [[ $seen != *" $name "* ]] || continue
            seen+="$name "
            found=
            for folder in lib lib/aarch64-linux-gnu usr/lib/aarch64-linux-gnu; do
                [ -e "$arm64_root/$folder/$name" ] && found=/$folder/$name && break
            done
            [ -n "$found" ] || { echo "arm64: no library $name" >&2; return 1; }
            echo "$found"
            open+=("$arm64_root$found")
        done
    done
}

# Runs cargo for arm64: arm64_cargo COMMAND ARGUMENT…
arm64_cargo() {
    local command=$1
    shift
    env CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc \
        LIBBPF_SYS_LIBRARY_PATH_aarch64_unknown_linux_gnu="$arm64_root/.link" \
        cargo "$command" --target "$arm64_target" "$@"
}
