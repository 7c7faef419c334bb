# Debian's kernel packages of several suites and architectures. To be sourced.
#
# The packages come through an apt configuration in the user's cache folder. The machine's own configuration
# stays as it is.

kernels_cache=${XDG_CACHE_HOME:-$HOME/.cache}/magnet-scope/kernels
kernels_suites=(bullseye bookworm trixie sid)

# Runs an apt command on the package lists of all suites: kernels_apt COMMAND ARGUMENT…
kernels_apt() {
    local folder=$kernels_cache/apt command=$1
    shift
    "$command" -o Dir::Etc::sourcelist="$folder/sources.list" -o Dir::Etc::sourceparts=/dev/null -o Dir::Etc::preferences=/dev/null \
        -o Dir::Etc::preferencesparts=/dev/null -o Dir::State="$folder/state" -o Dir::State::status="$folder/status" \
        -o Dir::Cache="$folder/cache" -o APT::Architecture=amd64 -o APT::Architectures::=amd64 -o APT::Architectures::=arm64 \
        -o APT::Sandbox::User=root -o Acquire::Languages=none -o APT::Get::List-Cleanup=0 "$@"
}

# Fetches the package lists if they are older than a day. Fails if there are none afterwards.
kernels_lists() {
    local folder=$kernels_cache/apt suite mirror keys=/usr/share/keyrings/debian-archive-keyring.gpg
    mkdir -p "$folder/state/lists/partial" "$folder/cache/archives/partial"
    [ -z "$(find "$folder/fetched" -mtime -1 2>/dev/null)" ] || return 0
    mirror=$(grep -rhoE 'https?://[^ ]*/debian/?( |$)' /etc/apt/sources.list /etc/apt/sources.list.d 2>/dev/null | head -n 1 | tr -d ' ')
    : >"$folder/status"
    for suite in "${kernels_suites[@]}"; do
        echo "deb [arch=amd64,arm64${keys:+ signed-by=$keys}] ${mirror:-http://deb.debian.org/debian} $suite main"
    done >"$folder/sources.list"
    # A suite that is no longer served affects only the exit code of the others.
    kernels_apt apt-get update -qq >"$folder/log" 2>&1 || true
    find "$folder/state/lists" -name '*_Packages*' | grep -q . || return 1
    touch "$folder/fetched"
}

# Prints the names of packages that match, one a line, the newest last: kernels_named PATTERN
kernels_named() {
    kernels_apt apt-cache search --names-only "$1" 2>/dev/null | cut -d' ' -f1 | sort -Vu
}

# The end of a kernel package's name: kernels_ending FLAVOUR ARCHITECTURE
kernels_ending() {
    case $1 in
        generic) echo "$2" ;;
        *) echo "$1-$2" ;;
    esac
}

# Prints the newest package with the kernel of a series, or of all with `newest`: kernels_package SERIES
# [ARCHITECTURE [FLAVOUR]]. FLAVOUR is `cloud` (the default), `generic` or `rt`.
# Some suites have the kernel in `linux-image-…`, some in `linux-binary-…`.
kernels_package() {
    local series=${1//./\\.} architecture=${2:-amd64} found
    [ "$1" = newest ] && series='[0-9]+\.[0-9]+'
    found=$(kernels_named "^linux-(binary|image)-$series[.+~-][^a-z]*(\+?deb[0-9]+)?-$(kernels_ending "${3:-cloud}" "$architecture")\$" |
        sed -E 's/^linux-(binary|image)-(.*)/\2 \1/' | sort -V | tail -n 1)
    [ -n "$found" ] || return 1
    # Of one version, the package with the kernel is first in alphabetical order.
    local version=${found% *}
    kernels_named "^linux-(binary|image)-$(sed 's/[.+]/[&]/g' <<<"$version")\$" | sort | head -n 1
}

# Unpacks a package and the one with its modules into a folder: kernels_unpack PACKAGE FOLDER [ARCHITECTURE]
kernels_unpack() {
    local package=$1 folder=$2 architecture=${3:-amd64} part scratch
    scratch=$(mktemp -d)
    mkdir -p "$folder"
    # If both are one package, it is fetched once.
    for part in $(printf '%s\n' "$package" "${package/linux-binary-/linux-modules-}" | sort -u); do
        (cd "$scratch" && kernels_apt apt-get download -qq "$part:$architecture" >/dev/null 2>&1) || { rm -rf "$scratch"; return 1; }
    done
    for part in "$scratch"/*.deb; do dpkg -x "$part" "$folder"; done
    rm -rf "$scratch"
}
