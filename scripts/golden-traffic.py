"""Traffic for scripts/record-golden.sh, between the namespaces `client` and `server`, and the damage of one
recording."""

import ctypes
import http.server
import os
import signal
import socket
import sys
import threading
import time

CLONE_NEWNET = 0x40000000
SERVER = "10.78.0.2"
SERVER6 = "fd78::2"


def within(host, work):
    """Runs `work` in a thread of its own in a namespace. Its sockets stay in that namespace."""
    result = []

    def run():
        with open(f"/run/netns/{host}") as namespace:
            # os.setns exists since Python 3.12.
            if ctypes.CDLL(None, use_errno=True).setns(namespace.fileno(), CLONE_NEWNET) != 0:
                raise OSError(ctypes.get_errno(), "setns")
        result.append(work())

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    return result[0]


def udp(host, address, family=socket.AF_INET):
    def make():
        made = socket.socket(family, socket.SOCK_DGRAM)
        made.bind(address)
        return made

    return within(host, make)


def connection(address, family=socket.AF_INET):
    listener = within("server", lambda: socket.create_server(address, family=family))
    client = within("client", lambda: socket.create_connection(address))
    return client, listener.accept()[0]


def read(end, count):
    while count:
        count -= len(end.recv(min(count, 6000)))


def tcp():
    """A stream in each direction; over the lossy network in one scene, over a sound one in the other."""
    client, server = connection((SERVER, 5000))
    for sender, reader, size, times in [(client, server, 3000, 40), (server, client, 1800, 10)]:
        other = threading.Thread(target=read, args=(reader, size * times))
        other.start()
        for _ in range(times):
            sender.sendall(b"x" * size)
        other.join()
    time.sleep(0.3)


def fill():
    """A stream that has more to send than its link can carry."""
    client, server = connection((SERVER, 5001))
    size = 600_000
    reader = threading.Thread(target=read, args=(server, size))
    reader.start()
    for _ in range(size // 12_000):
        client.sendall(b"x" * 12_000)
    reader.join()


def burst():
    """Bursts into a small receive buffer, partly read by a slow reader."""
    server = udp("server", (SERVER, 5001))
    server.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 6000)
    client = udp("client", ("10.78.0.1", 0))
    for size in range(5):
        for i in range(20):
            client.sendto(b"x" * (100 + 7 * i + size), (SERVER, 5001))
        for _ in range(4):
            server.recv(2000)


def mixed():
    """Requests and responses over TCP and UDP, IPv4 and IPv6."""
    client, server = connection((SERVER6, 5002), socket.AF_INET6)
    there = udp("server", (SERVER, 5003))
    here = udp("client", ("10.78.0.1", 0))
    for i in range(25):
        client.sendall(b"q" * (50 + i))
        read(server, 50 + i)
        server.sendall(b"a" * 3000)
        read(client, 3000)
        here.sendto(b"q" * (80 + i), (SERVER, 5003))
        there.sendto(b"a" * 200, there.recvfrom(2000)[1])
        here.recv(2000)


def spaced():
    """The same a few times, far enough apart that the recorder makes a batch of each."""
    for _ in range(5):
        mixed()
        time.sleep(0.8)


def flood():
    """More records than the smallest ring holds, on one CPU, while the recorder is stopped; then a few that
    it sees."""
    os.sched_setaffinity(0, {0})
    recorder = int(sys.argv[2])
    server = udp("server", (SERVER, 5004))
    client = udp("client", ("10.78.0.1", 0))

    def exchange(times):
        for _ in range(times):
            client.sendto(b"x" * 300, (SERVER, 5004))
            server.recv(2000)

    exchange(50)
    time.sleep(0.2)
    os.kill(recorder, signal.SIGSTOP)
    try:
        exchange(4500)
    finally:
        os.kill(recorder, signal.SIGCONT)
    time.sleep(0.2)
    exchange(50)


class Pages(http.server.BaseHTTPRequestHandler):
    """Pages of some kilobytes. The seventh takes 40 ms."""

    protocol_version = "HTTP/1.1"

    def do_GET(self):
        if self.path == "/page/7":
            time.sleep(0.04)
        page = b"x" * 6000
        self.send_response(200)
        self.send_header("Content-Length", str(len(page)))
        self.end_headers()
        self.wfile.write(page)

    def log_message(self, *_):
        pass


def pages():
    """Serves until it is killed."""
    http.server.HTTPServer((SERVER, 8080), Pages).serve_forever()


def damage(path):
    with open(path, "r+b") as file:
        size = os.fstat(file.fileno()).st_size
        at = size * 2 // 5
        file.seek(at)
        byte = file.read(1)[0]
        file.seek(at)
        file.write(bytes([byte ^ 0x55]))
        file.truncate(size - size // 10)


if sys.argv[1] == "damage":
    damage(sys.argv[2])
else:
    {"tcp": tcp, "burst": burst, "mixed": mixed, "spaced": spaced, "flood": flood, "pages": pages, "fill": fill}[sys.argv[1]]()
