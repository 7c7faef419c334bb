"""What the programs of all rows share: notes with the ends of their talk, and wait points between programs.

A note is a line of JSON on standard output. `from` and `to` are the numbers of the first byte (datagram) of the call
and of the one behind its last. The talk is the protocol, the sender's end, the receiver's end, and the number of the
connection between them.
"""

import ctypes
import json
import os
import select
import signal
import socket
import struct
import sys
import threading
import time
from pathlib import Path

# Prefix of an IPv4 address in a socket of IPv6.
MAPPED = "::ffff:"
SERVER_PORT, CLIENT_PORT = 7100, 7101
HEAD = struct.Struct("!QI")
PATIENCE_S = int(os.environ.get("MAGSCOPE_PATIENCE_S", "60"))

# No program outlives a test that failed, and neither does a process that it made.
signal.alarm(2 * PATIENCE_S)
os.register_at_fork(after_in_child=lambda: signal.alarm(2 * PATIENCE_S))


def add_extensions(sock):
    """Adds two extension headers to each packet over IPv6: hop-by-hop options of 8 bytes, and destination options of
    16. The first holds padding (PadN), the second an experimental option that receivers ignore."""
    sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_HOPOPTS, bytes([0, 0, 1, 4, 0, 0, 0, 0]))
    sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_DSTOPTS, bytes([0, 1, 0x1E, 12]) + bytes(12))


def announce(word):
    print(word, flush=True)


def numbered(at, count):
    """Bytes from number `at` on: the reader verifies them."""
    period = bytes((at + n) * 7 % 251 for n in range(251))
    return (period * (count // 251 + 1))[:count]


def family(address):
    return socket.AF_INET6 if ":" in address else socket.AF_INET


def end_of(name):
    address, port = name[:2]
    address = address.removeprefix(MAPPED)
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


def talk(proto, sender, receiver, number=0):
    return f"{proto} {end_of(sender)} {end_of(receiver)} {number}"


class Notes:
    """The calls of one direction of one socket, which count its bytes or datagrams."""

    def __init__(self, what, of_talk, at=0):
        self.what, self.talk, self.at = what, of_talk, at

    def call(self, call, units=len):
        """Makes a call, and notes its bytes or datagrams: a number, or their number in the result."""
        begin = time.monotonic_ns()
        done = call()
        end = time.monotonic_ns()
        count = done if isinstance(done, int) else units(done)
        if count:
            self.note(begin, end, self.at, count)
            self.at += count
        return done

    def note(self, begin, end, at, count, what=None, tid=None):
        note = {"what": what or self.what, "talk": self.talk, "begin_ns": begin, "end_ns": end}
        note |= {"tgid": os.getpid(), "tid": tid or threading.get_native_id(), "from": at, "to": at + count}
        # One write, so that lines of several processes never mix.
        os.write(1, (json.dumps(note) + "\n").encode())


def sends_of(sock, number=0, proto="tcp"):
    return Notes("send", talk(proto, sock.getsockname(), sock.getpeername(), number))


def reads_of(sock, number=0, proto="tcp"):
    return Notes("read", talk(proto, sock.getpeername(), sock.getsockname(), number))


def verify(notes, data):
    """The bytes of the last read are those that were sent."""
    if bytes(data) != numbered(notes.at - len(data), len(data)):
        sys.exit("other bytes than those that were sent")


def until(holds):
    """Waits for a condition; a program that waits in vain ends with an error."""
    end = time.monotonic() + PATIENCE_S
    while not holds():
        if time.monotonic() > end:
            sys.exit("a condition did not come true")
        time.sleep(0.001)


def listener(address, port=SERVER_PORT, options=()):
    sock = socket.socket(family(address))
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    for option in options:
        sock.setsockopt(*option)
    sock.bind((address, port))
    sock.listen(16)
    return sock


def connected(address, peer, port=CLIENT_PORT, options=()):
    sock = socket.socket(family(address))
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    for option in options:
        sock.setsockopt(*option)
    sock.bind((address, port))
    sock.connect((peer, SERVER_PORT))
    return sock


class Place:
    """Wait points between programs of different namespaces: files of a directory."""

    def __init__(self, path):
        self.path = Path(path)

    def reach(self, name):
        (self.path / name).touch()

    def wait(self, name):
        until((self.path / name).exists)


libc = ctypes.CDLL(None, use_errno=True)


def checked(done, what):
    if done < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return done
