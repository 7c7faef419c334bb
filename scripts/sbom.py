#!/usr/bin/env python3
"""Prints the bill of materials of a binary as CycloneDX 1.5: every crate that is linked, and the C libraries.

usage: scripts/sbom.py NAME TARGET [CARGO ARGUMENT…]     (the features of the binary: --no-default-features …)

Crates and features are those that cargo resolves for the target, checksums those of Cargo.lock. Build scripts, macros
and tests are left out. The same commit gives the same bytes.
"""

import json
import os
import subprocess
import sys
import tomllib
from datetime import datetime, timezone

# C libraries that a crate contains, and where the crate has their version.
BUNDLED = {
    "libbpf-sys": [("libbpf", "LGPL-2.1-only OR BSD-2-Clause")],
    "zstd-sys": [("zstd", "BSD-3-Clause OR GPL-2.0-only")],
}
STATIC = {"libbpf-sys": [("elfutils-libelf", "GPL-2.0-or-later OR LGPL-3.0-or-later"), ("zlib", "Zlib")]}


def main(name, target, arguments):
    with open("Cargo.lock", "rb") as file:
        locked = {(p["name"], p["version"]): p for p in tomllib.load(file)["package"]}
    command = ["cargo", "tree", "--locked", "--package", "magnet-scope", "--target", target, "--edges", "normal"]
    # A crate that was printed already has the mark (*), and its dependencies are not printed again. Each path to
    # each crate would be millions of lines.
    command += ["--prefix", "none", "--format", "{p}|{l}", *arguments]
    printed = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()
    rows = [row.removesuffix(" (*)") for row in printed]
    components = []
    for row in sorted(set(rows)):
        crate, _, licence = row.partition("|")
        words = crate.split()
        if len(words) < 2 or "(proc-macro)" in words:
            continue
        crate, version = words[0], words[1].removeprefix("v")
        package = locked[crate, version]
        component = {"type": "library", "name": crate, "version": version, "purl": f"pkg:cargo/{crate}@{version}"}
        component["bom-ref"] = component["purl"]
        if licence:
            component["licenses"] = [{"expression": licence.replace("/", " OR ")}]
        if "checksum" in package:
            component["hashes"] = [{"alg": "SHA-256", "content": package["checksum"]}]
        components.append(component)
        static = STATIC.get(crate, []) if target.endswith("-musl") else []
        for library, licence in BUNDLED.get(crate, []) + static:
            within = {"type": "library", "name": library, "bom-ref": f"{component['purl']}#{library}"}
            if (library, licence) not in static:
                within["version"] = version.partition("+")[2].removeprefix("zstd.").removeprefix("v")
            within["licenses"] = [{"expression": licence}]
            within["description"] = f"as the crate {crate} {version} contains it"
            components.append(within)
    compiler = subprocess.run(["rustc", "--version"], check=True, stdout=subprocess.PIPE, text=True).stdout.split()[1]
    components.append({"type": "library", "name": "std", "version": compiler, "bom-ref": f"rust-std@{compiler}",
                       "licenses": [{"expression": "MIT OR Apache-2.0"}]})
    if target.endswith("-musl"):
        components.append({"type": "library", "name": "musl", "bom-ref": f"rust-std@{compiler}#musl",
                           "licenses": [{"expression": "MIT"}],
                           "description": f"as Rust {compiler} contains it for {target}"})
    version = locked_version(locked)
    seconds = int(os.environ.get("SOURCE_DATE_EPOCH", "0"))
    print(json.dumps({
        "bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1,
        "metadata": {
            "timestamp": datetime.fromtimestamp(seconds, timezone.utc).isoformat().replace("+00:00", "Z"),
            "component": {"type": "application", "name": name, "version": version, "bom-ref": name,
                          "licenses": [{"expression": "(MIT OR Apache-2.0) AND GPL-2.0-only"}]},
        },
        "components": components,
        "dependencies": [{"ref": name, "dependsOn": [component["bom-ref"] for component in components]}],
    }, indent=1, ensure_ascii=False))


def locked_version(locked):
    """The version of the workspace."""
    return next(version for crate, version in locked if crate == "magnet-scope")


if len(sys.argv) < 3:
    sys.exit(__doc__)
os.chdir(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
main(sys.argv[1], sys.argv[2], sys.argv[3:])
