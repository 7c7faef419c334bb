# Sourced by check-new-*: adds something made up to a copy of the tree, and counts the files that differ afterwards.
# The copy stays in target/NAME/NAME.

# copy_tree NAME: copies the tree and goes there.
copy_tree() {
    root=$PWD copy=$PWD/target/$1/$1
    export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$root/target}
    rm -rf "$copy"
    mkdir -p "$copy"
    git ls-files -z --cached --others --exclude-standard | xargs -0 ls -d 2>/dev/null | tar -cf - -T - | tar -xf - -C "$copy"
    cd "$copy"
    # Cargo names what it builds by the path below the workspace. Here all paths begin with NAME/, so the target
    # directory is shared for the dependencies, and nothing of the copy is taken for a part of the original or of
    # another copy.
    sed "s|\"crates/|\"$1/crates/|" Cargo.toml >../Cargo.toml
    cp Cargo.lock ..
    mv Cargo.toml Cargo.toml.original
}

# add FILE MARK TEXT: inserts the text before the only line with the mark.
add() {
    python3 - "$0" "$@" <<'PYTHON'
import sys
script, path, mark, text = sys.argv[1:]
lines = open(path, encoding="utf-8").read().split("\n")
at = [n for n, line in enumerate(lines) if mark in line]
if len(at) != 1:
    sys.exit(f"{script}: {path} has {len(at)} lines with {mark!r}, one is expected")
lines[at[0]:at[0]] = text.split("\n")
open(path, "w", encoding="utf-8").write("\n".join(lines))
PYTHON
}

# count_changed WHAT MOST [GENERATED...]: fails if more than MOST files differ from the original, or are new; those that
# a test has written are listed but not counted.
count_changed() {
    local what=$1 most=$2 changed count=0
    shift 2
    mv Cargo.toml.original Cargo.toml
    changed=$({ git -C "$root" ls-files --cached --others --exclude-standard; find . -name '*.rs' -printf '%P\n'; } |
        sort -u | while read -r file; do cmp -s "$root/$file" "$copy/$file" || echo "$file"; done)
    printf 'files of the made-up %s:\n' "$what"
    for file in $changed; do
        if [[ " $* " == *" $file "* ]]; then echo "$file (written by a test)"; else
            echo "$file"
            count=$((count + 1))
        fi
    done
    [ "$count" -gt "$most" ] || return 0
    echo "$0: $count files, at most $most are expected" >&2
    return 1
}
