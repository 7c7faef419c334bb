# Settings under which the same commit gives the same bytes. To be sourced.

# Sets rust_paths and c_paths: flags that shorten the paths of this machine in line tables and messages.
reproducible_paths() {
    local cargo_home=${CARGO_HOME:-$HOME/.cargo}
    # Both go to the compilers in one variable, whose words are separated by blanks.
    case $PWD$cargo_home in
        *[[:space:]]*)
            echo "reproducible: a path has a blank, which the compilers take for its end: $PWD, $cargo_home; build elsewhere" >&2
            exit 1
            ;;
    esac
    rust_paths="--remap-path-prefix=$PWD=. --remap-path-prefix=$cargo_home=cargo"
    c_paths="-ffile-prefix-map=$PWD=. -ffile-prefix-map=$cargo_home=cargo"
}

# The time of the commit, for archives; that of an archive of the source is a constant. It is not in the environment of
# cargo, where a new commit would compile every C library again.
epoch=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || echo 1735689600)}
