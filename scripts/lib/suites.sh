# Programs of another suite or architecture of Debian, in a root of their own. To be sourced, after kernels.sh.
#
# They are unpacked in the user's cache folder and never installed.

# Unpacks packages and all that they depend on, once: suite_packages ROOT SUITE ARCHITECTURE PACKAGE…
suite_packages() {
    local root=$1 suite=$2 architecture=$3 wanted=() package scratch link
    shift 3
    mkdir -p "$root/.unpacked"
    for package in "$@"; do [ -e "$root/.unpacked/$package" ] || wanted+=("$package:$architecture"); done
    [ ${#wanted[@]} -gt 0 ] || return 0
    kernels_lists || return 1
    scratch=$(mktemp -d)
    mkdir -p "$scratch/partial"
    # Nothing counts as installed in this configuration, so the download is complete.
    if ! kernels_apt apt-get install -d -y -qq --no-install-recommends -t "$suite" \
        -o Dir::Cache::archives="$scratch" "${wanted[@]}" >"$root/.log" 2>&1; then
        rm -rf "$scratch"
        return 1
    fi
    for package in "$scratch"/*.deb; do dpkg -x "$package" "$root" || return 1; done
    rm -rf "$scratch"
    # Links to absolute paths lead out of the folder.
    find "$root" -type l -lname '/*' | while read -r link; do
        ln -sfn "$(realpath -s --relative-to="$(dirname "$link")" "$root$(readlink "$link")")" "$link"
    done
    for package in "$@"; do touch "$root/.unpacked/$package"; done
}

# Prints the path of an unpacked program: suite_tool ROOT NAME
suite_tool() {
    local folder
    for folder in bin sbin usr/bin usr/sbin; do
        [ -f "$1/$folder/$2" ] && readlink -f "$1/$folder/$2" && return
    done
    return 1
}

# Prints the libraries of a program, with those of the libraries, as paths in the root: suite_libraries ROOT PATH
suite_libraries() {
    local root=$1 open=("$2") file name found folder seen=" "
    while [ ${#open[@]} -gt 0 ]; do
        file=${open[0]} open=("${open[@]:1}")
        for name in $(readelf -ld "$file" 2>/dev/null | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p; s/.*interpreter: .*\/\(.*\)\]/\1/p'); do
            [[ $seen != *" $name "* ]] || continue
            seen+="$name "
            found=
            for folder in "$root"/lib "$root"/lib64 "$root"/lib/*-linux-gnu "$root"/usr/lib/*-linux-gnu; do
                [ -e "$folder/$name" ] && found=${folder#"$root"}/$name && break
            done
            [ -n "$found" ] || { echo "no library $name in $root" >&2; return 1; }
            echo "$found"
            open+=("$root$found")
        done
    done
}
