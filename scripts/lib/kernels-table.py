#!/usr/bin/env python3
"""Writes docs/kernels.md from the consoles of emulated machines.

usage: kernels-table.py LOG… >docs/kernels.md

The tests in the machines print lines `ROW|RELEASE|NAME|CELL`, the test harness its results, and /init a line per suite. Of
rows with one name the last is taken.
"""

import re
import sys

TEXT = """# Kernels

What serves each hop and ability on Debian's kernels, and which test suites pass there. This page is
written by `nice scripts/test-kernels.sh --table docs/kernels.md SERIES…`. It boots each kernel by
itself in an emulated machine (QEMU without hardware support, two CPUs), loads every program there
and runs the suites. `magnet-scope doctor` and `magnet-scope hops` do the same on the running host.
"""
SUITES = """## Suites

Tests that passed, of the suites that ran in the machine. The tests of `exact` and `points` compare
every count with what the traffic did. A test of something that the kernel lacks is skipped, and
prints the reason.
"""
ATTACH = """## Attaching and detaching

The default hops in an unoptimised build, with nothing else in the machine. The first attach is that
of a machine that has just booted: the emulator has yet to translate the kernel's code.
"""
MISSING = """## What is missing, and why
"""


class Kernel:
    """What one kernel's console shows."""

    def __init__(self, release):
        self.release = release
        self.rows = {}
        self.suites = {}

    def order(self):
        version = [int(part) for part in re.findall(r"\d+", self.release)[:3]]
        return self.release.endswith("arm64"), version, self.release

    def name(self):
        version = ".".join(self.release.split(".")[:2])
        machine = "arm64" if self.release.endswith("arm64") else "x86-64"
        flavour = re.search(r"-(rt|cloud)-[a-z0-9]+$", self.release)
        kinds = {"rt": ", real-time", "cloud": ""}
        return f"{version} {machine}{kinds[flavour.group(1)] if flavour else ', generic'}"


def read(path, kernels):
    """Adds the rows and results of a console."""
    with open(path, encoding="utf-8", errors="replace") as file:
        lines = [line.strip() for line in file]
    releases = [line.split("|")[1] for line in lines if line.startswith("ROW|") and line.count("|") >= 3]
    if not releases:
        return
    kernel = kernels.setdefault(releases[0], Kernel(releases[0]))
    passed = failed = skipped = 0
    for line in lines:
        # a message of the kernel may precede it
        row = re.search(r"ROW\|[^|]*\|([^|]*)\|(.*)", line)
        result = re.search(r"test result: \w+\. (\d+) passed; (\d+) failed", line)
        end = re.search(r"VM: (\w+) (passed|failed), \d+ s", line)
        if row:
            kernel.rows[row.group(1)] = row.group(2)
        elif result:
            passed, failed = int(result.group(1)), int(result.group(2))
        elif end:
            text = f"{passed - skipped} passed" if passed else "none"
            text += f", {skipped} skipped" if skipped else ""
            text += f", **{failed} failed**" if failed or end.group(2) == "failed" else ""
            kernel.suites[end.group(1)] = text
            passed = failed = skipped = 0
        elif re.match(r"(test \S+ \.\.\. )?skipped, because", line):
            # A part of a test that is skipped has its name before the word.
            skipped += 1


def table(first, kernels, rows):
    """A table with a column per kernel; rows are pairs of a name and a function from kernels to cells."""
    print(f"| {first} | " + " | ".join(kernel.name() for kernel in kernels) + " |")
    print("|---" * (len(kernels) + 1) + "|")
    for name, cell in rows:
        print(f"| {name} | " + " | ".join(cell(kernel) for kernel in kernels) + " |")
    print()


def names(kernels, of):
    """Names in the order of their first appearance."""
    return list(dict.fromkeys(name for kernel in kernels for name in of(kernel)))


def cell_of(name):
    def cell(kernel):
        text = kernel.rows.get(name, "")
        return "–" if text.startswith("missing") else text

    return cell


def main():
    found = {}
    for path in sys.argv[1:]:
        read(path, found)
    if not found:
        sys.exit("kernels-table.py: no console has a row")
    kernels = sorted(found.values(), key=Kernel.order)
    rows = names(kernels, lambda kernel: kernel.rows)
    hops = [name for name in rows if name.startswith("`")]
    figures = [name for name in rows if ", ms" in name]
    programs = [name for name in rows if name.startswith("programs of")]
    abilities = [name for name in rows if name not in hops + figures + programs]
    print(TEXT)
    about = [("Debian's package", lambda kernel: f"`{kernel.release}`")]
    table("kernel", kernels, about + [(name, cell_of(name)) for name in programs])
    print("## Hops\n\nThe backend of each hop (see [hops.md](hops.md#backends)); – where none serves it.\n")
    table("hop", kernels, [(name, cell_of(name)) for name in hops])
    print("## Abilities\n")
    table("ability", kernels, [(name, cell_of(name)) for name in abilities])
    print(SUITES)
    suites = names(kernels, lambda kernel: kernel.suites)
    table("suite", kernels, [(f"`{name}`", lambda kernel, name=name: kernel.suites.get(name, "")) for name in suites])
    if figures:
        print(ATTACH)
        table("", kernels, [(name, cell_of(name)) for name in figures])
    print(MISSING)
    for kernel in kernels:
        missing = {}
        for name, cell in kernel.rows.items():
            if cell.startswith("missing: "):
                reason = cell.removeprefix("missing: ").replace(f"kernel {kernel.release}", "the kernel")
                missing.setdefault(reason, []).append(name)
        print(f"**{kernel.name()}**" + (":\n" if missing else ": nothing.\n"))
        if missing:
            print("| | because |\n|---|---|")
            for reason, which in missing.items():
                print(f"| {', '.join(which)} | {reason} |")
            print()


main()
