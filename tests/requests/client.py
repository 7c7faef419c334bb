"""Clients of real servers. Each notes its requests by CLOCK_MONOTONIC: just before it sends the first byte, and just
after it has read the last byte of the response. Prints one JSON object: its own port, the list of requests, and for
Redis the number of segments that were sent again.

usage: client.py http|https|small-window|redis|pipelined|subscriber|dns HOST PORT REQUESTS [PATH]
"""
import json
import random
import socket
import ssl
import struct
import sys
import time

kind, host, port, requests = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
path = sys.argv[5] if len(sys.argv) > 5 else "/"
notes, printed = [], {}


def now():
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC)


def note(begin, many=1):
    notes.append({"begin_ns": begin, "end_ns": now(), "requests": many})


def connect():
    if kind == "small-window":
        return connect_with_small_window()
    plain = socket.create_connection((host, port), timeout=60)
    plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return plain


def connect_with_small_window():
    """The window is 2 kB, and each read waits 5 ms."""
    stream = socket.socket()
    stream.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
    stream.settimeout(60)
    stream.connect((host, port))
    return stream


class Reader:
    """Reads responses from a stream."""

    def __init__(self, stream):
        self.stream, self.buffer = stream, b""

    def more(self):
        if kind == "small-window":
            time.sleep(0.005)
        data = self.stream.recv(65536)
        if not data:
            raise SystemExit("the server closed the connection")
        self.buffer += data

    def line(self):
        while b"\r\n" not in self.buffer:
            self.more()
        line, self.buffer = self.buffer.split(b"\r\n", 1)
        return line

    def take(self, many):
        while len(self.buffer) < many:
            self.more()
        taken, self.buffer = self.buffer[:many], self.buffer[many:]
        return taken

    def http(self):
        length = 0
        self.line()
        while line := self.line():
            name, value = line.split(b":", 1)
            if name.lower() == b"content-length":
                length = int(value)
        self.take(length)

    def redis(self):
        line = self.line()
        kind, value = line[:1], line[1:]
        if kind == b"$" and int(value) >= 0:
            self.take(int(value) + 2)
        elif kind == b"*":
            for _ in range(int(value)):
                self.redis()


def command(*words):
    parts = [b"*%d\r\n" % len(words)] + [b"$%d\r\n%s\r\n" % (len(word), word) for word in words]
    return b"".join(parts)


def http():
    stream = connect()
    own = stream.getsockname()[1]
    if kind == "https":
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        stream = context.wrap_socket(stream, server_hostname=host)
    reader = Reader(stream)
    request = f"GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode()
    for _ in range(requests):
        begin = now()
        stream.sendall(request)
        reader.http()
        note(begin)
    return own


def resent(stream):
    """Segments that the kernel says it sent again: `tcpi_total_retrans`."""
    return struct.unpack_from("=I", stream.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 104), 100)[0]


def ended(stream):
    """Waits until the server has closed too, so that the last response has ended for whoever watches."""
    own = stream.getsockname()[1]
    stream.shutdown(socket.SHUT_WR)
    stream.recv(1)
    return own


def redis():
    stream = connect()
    reader, opening = Reader(stream), resent(stream)
    for number in range(requests):
        key = b"key-%d" % (number % 100)
        request = command(b"SET", key, b"x" * random.randrange(1, 3000)) if number % 3 == 0 else command(b"GET", key)
        begin = now()
        stream.sendall(request)
        reader.redis()
        note(begin)
    printed["resent"] = resent(stream) - opening
    return ended(stream)


def pipelined():
    """Eight requests at once, and a new one with each response. Responses are read one by one: who reads eight at
    once, and then sends eight, takes turns."""
    stream = connect()
    request, response = command(b"PING"), b"+PONG\r\n"
    begin, sent = now(), 0
    for _ in range(min(8, requests)):
        stream.sendall(request)
        sent += 1
    for _ in range(requests):
        if stream.recv(len(response), socket.MSG_WAITALL) != response:
            raise SystemExit("no response to PING")
        if sent < requests:
            stream.sendall(request)
            sent += 1
    note(begin, requests)
    return stream.getsockname()[1]


def subscriber():
    """Subscribes, and another connection publishes."""
    stream, other = connect(), connect()
    reader, other_reader = Reader(stream), Reader(other)
    begin = now()
    stream.sendall(command(b"SUBSCRIBE", b"news"))
    reader.redis()
    note(begin)
    for number in range(requests):
        time.sleep(0.002)
        other.sendall(command(b"PUBLISH", b"news", b"%d" % number))
        other_reader.redis()
        reader.redis()
    stream.sendall(command(b"UNSUBSCRIBE"))
    reader.redis()
    return stream.getsockname()[1]


def dns():
    stream = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    stream.settimeout(60)
    stream.connect((host, port))
    name = b"".join(struct.pack("B", len(part)) + part for part in path.encode().strip(b"/").split(b".")) + b"\0"
    for number in range(requests):
        query = struct.pack(">HHHHHH", number & 0xFFFF, 0x0100, 1, 0, 0, 0) + name + struct.pack(">HH", 1, 1)
        begin = now()
        stream.send(query)
        stream.recv(4096)
        note(begin)
    return stream.getsockname()[1]


run = {
    "http": http,
    "https": http,
    "small-window": http,
    "redis": redis,
    "pipelined": pipelined,
    "subscriber": subscriber,
    "dns": dns,
}
printed["port"] = run[kind]()
print(json.dumps({**printed, "requests": notes}))
