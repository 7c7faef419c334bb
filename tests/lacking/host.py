"""Runs a program on a host that lacks something: a mount namespace of its own hides it, or the kernel refuses it.

usage: host.py LACK… -- PROGRAM ARGUMENT…

LACK is one of
    btf                  no type information
    btf=FILE             this file as type information
    lockdown=MODE        the kernel's lockdown, as in /sys/kernel/security/lockdown
    cgroup2              no mounted cgroup v2 hierarchy
    cgroups              a kernel built without cgroup v2
    cap_NAME             that capability
    user-namespace       a user namespace of its own, with all capabilities in it
    bpf:CMD=ERROR        that command of bpf(2), by number, fails; `bpf=ERROR`: every command
    perf_event_open=ERROR
"""

import ctypes
import errno
import os
import platform
import struct
import sys
import tempfile

LIBC = ctypes.CDLL(None, use_errno=True)
CLONE_NEWNS, CLONE_NEWUSER = 0x20000, 0x10000000
MS_BIND, MS_REC, MS_PRIVATE, MNT_DETACH = 0x1000, 0x4000, 0x40000, 2
PR_SET_SECCOMP, PR_CAPBSET_DROP, SECCOMP_MODE_FILTER = 22, 24, 2
CALLS = {"x86_64": {"bpf": 321, "perf_event_open": 298}, "aarch64": {"bpf": 280, "perf_event_open": 241}}
CAPABILITIES = {"cap_net_admin": 12, "cap_sys_admin": 21, "cap_perfmon": 38, "cap_bpf": 39}


def check(result, what):
    if result != 0:
        sys.exit(f"host.py: {what}: {os.strerror(ctypes.get_errno())}")


def mount(source, target, kind=None, flags=0):
    text = lambda value: value and os.fsencode(value)
    check(LIBC.mount(text(source), text(target), text(kind), ctypes.c_ulong(flags), None), f"mount {target}")


def cover(path, content):
    """Mounts a file with this content over another."""
    with tempfile.NamedTemporaryFile(delete=False) as file:
        file.write(content)
    mount(file.name, path, flags=MS_BIND)
    os.unlink(file.name)


def refuse(call, first, error):
    """Lets a system call fail, if its first argument is this number, for this process and what it runs."""
    load, equal, leave = 0x20, 0x15, 0x06
    number = CALLS[platform.machine()][call]
    # struct seccomp_data: the number of the call is at 0, the low half of its first argument at 16
    tests = [(0, number)] if first is None else [(0, number), (16, first)]
    program = []
    for at, value in tests:
        beyond = 2 * len(tests) - len(program) - 1
        program += [struct.pack("=HBBI", load, 0, 0, at), struct.pack("=HBBI", equal, 0, beyond, value)]
    program += [struct.pack("=HBBI", leave, 0, 0, 0x50000 | error), struct.pack("=HBBI", leave, 0, 0, 0x7FFF0000)]
    code = ctypes.create_string_buffer(b"".join(program))
    header = struct.pack("HxxxxxxP", len(program), ctypes.addressof(code))
    check(LIBC.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.c_char_p(header), 0, 0), "seccomp")


def lack(name, value):
    if name == "btf" and not value:
        mount("none", "/sys/kernel/btf", "tmpfs")
    elif name == "btf":
        mount(value, "/sys/kernel/btf/vmlinux", flags=MS_BIND)
    elif name == "lockdown":
        mount("none", "/sys/kernel/security", "tmpfs")
        modes = ("none", "integrity", "confidentiality")
        with open("/sys/kernel/security/lockdown", "w", encoding="ascii") as file:
            file.write(" ".join(f"[{mode}]" if mode == value else mode for mode in modes) + "\n")
    elif name in ("cgroup2", "cgroups"):
        with open("/proc/self/mounts", encoding="ascii") as file:
            mounts = [line.split()[1] for line in file if line.split()[2] == "cgroup2"]
        for path in reversed(mounts):
            check(LIBC.umount2(os.fsencode(path), MNT_DETACH), f"umount {path}")
        if name == "cgroups":
            with open("/proc/filesystems", "rb") as file:
                cover("/proc/filesystems", b"".join(line for line in file if b"cgroup" not in line))
    elif name in CAPABILITIES:
        # root gets what is in its bounding set at the next exec
        check(LIBC.prctl(PR_CAPBSET_DROP, CAPABILITIES[name], 0, 0, 0), name)
    elif name == "user-namespace":
        check(LIBC.unshare(CLONE_NEWUSER), "unshare")
        for file, text in [("setgroups", "deny"), ("uid_map", "0 0 1"), ("gid_map", "0 0 1")]:
            with open(f"/proc/self/{file}", "w", encoding="ascii") as out:
                out.write(text)
    elif value and hasattr(errno, value):
        call, _, first = name.partition(":")
        refuse(call, int(first) if first else None, getattr(errno, value))
    else:
        sys.exit(__doc__)


def main():
    end = sys.argv.index("--")
    check(LIBC.unshare(CLONE_NEWNS), "unshare")
    mount("none", "/", flags=MS_REC | MS_PRIVATE)
    if not os.path.isdir("/sys/kernel/tracing/events"):
        mount("none", "/sys/kernel/tracing", "tracefs")
    for text in sys.argv[1:end]:
        name, _, value = text.partition("=")
        lack(name, value)
    os.execv(sys.argv[end + 1], sys.argv[end + 1 :])


main()
