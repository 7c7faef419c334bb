"""Programs that note each of their own calls by CLOCK_MONOTONIC.

    programs.py ROLE ADDRESS PEER

A note is a line of JSON on standard output: the call, its times, its thread, and the numbers of the first and last
byte (of the last datagram) that it sent or read. `ready` and `sent` are not notes but wait points.
"""

import contextlib
import ctypes
import json
import select
import socket
import struct
import sys
import threading
import time

PORT = 7100
SIOCOUTQ = 0x5411
MSG_ERRQUEUE = 0x2000
IP_RECVERR = 11
SO_TIMESTAMPING = 37
TX_SCHED, SOFTWARE = 1 << 8, 1 << 4
EQUAL_BYTES = 400


def announce(word):
    print(word, flush=True)


class Notes:
    """The calls of one direction, which count its bytes or datagrams."""

    def __init__(self, what):
        self.what = what
        self.at = 0

    def call(self, call, unit=None):
        """Makes a call that returns a number of bytes, or of datagrams as `unit`."""
        begin = time.monotonic_ns()
        done = call()
        end = time.monotonic_ns()
        count = done if unit is None else unit
        if count:
            self.note(begin, end, count)
        return done

    def note(self, begin, end, count):
        note = {"what": self.what, "begin_ns": begin, "end_ns": end, "tid": threading.get_native_id()}
        print(json.dumps(note | {"from": self.at, "to": self.at + count}), flush=True)
        self.at += count


def numbered(at, count):
    """Bytes from number `at` on: the reader verifies them."""
    return bytes((at + n) * 7 % 251 for n in range(count))


def write(sock, notes, count):
    sock_bytes = numbered(notes.at, count)
    while sock_bytes:
        sock_bytes = sock_bytes[notes.call(lambda: sock.send(sock_bytes)) :]


def read(sock, notes, most=1000):
    """Reads to the end of the stream in calls of at most `most` bytes."""
    while True:
        box = []
        try:
            notes.call(lambda: box.append(sock.recv(most)) or len(box[0]))
        except ConnectionResetError:
            return
        if not box[0]:
            return
        if box[0] != numbered(notes.at - len(box[0]), len(box[0])):
            sys.exit("other bytes than those that were sent")


def wait_for(sock, event):
    """Waits for an event of a socket, at most 20 s. An error wakes each poll, whatever it waits for."""
    poll = select.poll()
    poll.register(sock, event)
    end = time.monotonic() + 20
    while not any(found & event for _, found in poll.poll(20_000)):
        if time.monotonic() > end:
            sys.exit("the awaited event of the socket did not happen")
        time.sleep(0.001)


def listener(address):
    sock = socket.create_server((address, PORT))
    announce("ready")
    accepted, _ = sock.accept()
    return accepted


def connected(_, peer):
    """The namespace offers one port. A socket that is not bound to it gives it back when it closes."""
    sock = socket.socket()
    sock.connect((peer, PORT))
    if sock.getsockname()[1] != PORT + 1:
        sys.exit("another port than the one of the namespace")
    announce("ready")
    return sock


def answers_and_closes(address, _):
    sock = listener(address)
    read(sock, Notes("read"))
    write(sock, Notes("send"), 20_000)
    sock.close()


def half_closes_and_reads_late(address, peer):
    sock = connected(address, peer)
    write(sock, Notes("send"), 5_000)
    sock.shutdown(socket.SHUT_WR)
    wait_for(sock, select.POLLHUP)
    read(sock, Notes("read"))


def sends_and_resets(address, _):
    sock = listener(address)
    write(sock, Notes("send"), 9_000)
    import fcntl

    while struct.unpack("i", fcntl.ioctl(sock, SIOCOUTQ, b"\0" * 4))[0]:
        time.sleep(0.001)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    sock.close()


def is_reset_and_reads_late(address, peer):
    sock = connected(address, peer)
    wait_for(sock, select.POLLHUP)
    read(sock, Notes("read"))


def sends_and_half_closes(address, _):
    sock = listener(address)
    write(sock, Notes("send"), 9_000)
    sock.shutdown(socket.SHUT_WR)
    while sock.recv(10):
        pass


def half_closes_last_and_reads_late(address, peer):
    sock = connected(address, peer)
    wait_for(sock, select.POLLRDHUP)
    sock.shutdown(socket.SHUT_WR)
    wait_for(sock, select.POLLHUP)
    read(sock, Notes("read"))


def datagrams(address, port):
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.bind((address, port))
    sock.settimeout(20)
    return sock


def echoes(address, peer):
    """Answers each datagram with one of equal length."""
    sock = datagrams(address, PORT)
    sock.connect((peer, PORT + 1))
    announce("ready")
    reads, sends = Notes("read"), Notes("send")
    for _ in range(40):
        reads.call(lambda: sock.recv(1000), unit=1)
        sends.call(lambda: sock.send(bytes(EQUAL_BYTES)), unit=1)


def asks(address, peer, with_errors=False):
    """Two datagrams at a time, so that two answers wait in the queue."""
    sock = datagrams(address, PORT + 1)
    sock.connect((peer, PORT))
    if with_errors:
        sock.setsockopt(socket.IPPROTO_IP, IP_RECVERR, 1)
        sock.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPING, TX_SCHED | SOFTWARE)
    announce("ready")
    reads, sends = Notes("read"), Notes("send")
    for _ in range(20):
        for _ in range(2):
            sends.call(lambda: sock.send(bytes(EQUAL_BYTES)), unit=1)
        wait_for(sock, select.POLLIN)
        if with_errors:
            for _ in range(2):
                wait_for(sock, select.POLLERR)
                sock.recvmsg(1000, 1000, MSG_ERRQUEUE)
        for _ in range(2):
            reads.call(lambda: sock.recv(1000), unit=1)


def asks_and_reads_time_stamps(address, peer):
    asks(address, peer, with_errors=True)


def sends_equal_datagrams(address, peer):
    sock = datagrams(address, PORT + 1)
    sock.connect((peer, PORT))
    announce("ready")
    sends = Notes("send")
    for _ in range(45):
        sends.call(lambda: sock.send(bytes(EQUAL_BYTES)), unit=1)


def fails_to_read_some(address, _):
    """Every third read has a bad address: the kernel discards the datagram."""
    sock = datagrams(address, PORT)
    announce("ready")
    sys.stdin.readline()
    sock.setblocking(True)
    libc = ctypes.CDLL(None, use_errno=True)
    reads = Notes("read")
    for number in range(45):
        if number % 3 == 1:
            if libc.recv(sock.fileno(), ctypes.c_void_p(8), EQUAL_BYTES, 0) >= 0:
                sys.exit("a read to a bad address succeeded")
            reads.at += 1
        else:
            reads.call(lambda: sock.recv(1000), unit=1)


def checksum(data):
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


BAD = 4


def sends_bad_checksums(address, peer):
    """Every fourth datagram has a wrong checksum."""
    sock = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)
    announce("ready")
    sends = Notes("send")
    for number in range(40):
        length = 8 + EQUAL_BYTES
        head = struct.pack("!HHHH", PORT + 1, PORT, length, 0)
        ends = socket.inet_aton(address) + socket.inet_aton(peer)
        right = checksum(ends + struct.pack("!BBH", 0, 17, length) + head + bytes(EQUAL_BYTES)) or 0xFFFF
        head = struct.pack("!HHHH", PORT + 1, PORT, length, right ^ 0x1234 if number % BAD == 1 else right)
        ip = struct.pack("!BBHHHBBH", 0x45, 0, 20 + length, 1000 + number, 0, 64, 17, 0) + ends
        sends.call(lambda: sock.sendto(ip + head + bytes(EQUAL_BYTES), (peer, 0)), unit=1)


def reads_good_ones(address, _):
    sock = datagrams(address, PORT)
    announce("ready")
    sys.stdin.readline()
    sock.setblocking(True)
    reads = Notes("read")
    for number in range(40):
        if number % BAD == 1:
            reads.at += 1
        else:
            reads.call(lambda: sock.recv(1000), unit=1)


def opens_other_sockets(*_):
    """Sockets that are not followed: three of Unix, one for packets, one for raw IP, one of vsock where there is one."""
    socks = [*socket.socketpair(), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)]
    socks.append(socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0))
    socks.append(socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW))
    with contextlib.suppress(OSError):
        socks.append(socket.socket(socket.AF_VSOCK, socket.SOCK_STREAM))
    announce("ready")
    sys.stdin.readline()


def lists_vsock(*_):
    """Fails if the kernel has no list of the sockets of vsock (vsock_diag)."""
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 4) as sock:
        sock.send(struct.pack("=IHHIIBBHIIIQ", 40, 20, 0x301, 1, 0, socket.AF_VSOCK, 0, 0, 0xFFFFFFFF, 0, 0, 0))
        kind = struct.unpack_from("=H", sock.recv(65_536), 4)[0]
    sys.exit(kind == 2)


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
