"""TCP connections whose sockets the kernel itself uses: what it takes is not followed there.

    consumers.py ROLE ADDRESS PEER DIRECTORY
"""

import platform
from notes import *

IPPROTO_MPTCP = 262
MPTCP_INFO, SOL_MPTCP = 1, 284
BYTES = 30_000


def whole(notes, begin, what):
    notes.note(begin, time.monotonic_ns(), 0, BYTES, what)


def send_all(sock):
    """All bytes are one call of the notes: packets join those of several calls."""
    at = 0
    while at < BYTES:
        at += sock.send(numbered(at, 1_500))


def recv_all(sock):
    data = b""
    while len(data) < BYTES:
        part = sock.recv(BYTES)
        if not part:
            break
        data += part
    if data != numbered(0, BYTES):
        sys.exit("other bytes than those that were sent")


# Multipath TCP: the process uses the connection's socket, the packets are those of a subflow.


def reads_multipath(address, _, place):
    server = socket.socket(family(address), socket.SOCK_STREAM, IPPROTO_MPTCP)
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    server.bind((address, SERVER_PORT))
    server.listen(1)
    announce("ready")
    sock, _ = server.accept()
    begin = time.monotonic_ns()
    recv_all(sock)
    whole(Notes("read", talk("tcp", sock.getpeername(), sock.getsockname())), begin, "delivered")
    if sock.recv(1):
        sys.exit("bytes that nobody sent")


def sends_multipath(address, peer, place):
    sock = socket.socket(family(address), socket.SOCK_STREAM, IPPROTO_MPTCP)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    sock.bind((address, CLIENT_PORT))
    sock.connect((peer, SERVER_PORT))
    announce("ready")
    begin = time.monotonic_ns()
    send_all(sock)
    sock.getsockopt(SOL_MPTCP, MPTCP_INFO, 256)  # fails after a fall-back to TCP
    whole(Notes("send", talk("tcp", sock.getsockname(), sock.getpeername())), begin, "send")


# A sockmap: a program of the kernel sends each byte back, and no process reads it.

SYS_BPF = {"x86_64": 321, "aarch64": 280}.get(platform.machine())
MAP_CREATE, MAP_UPDATE, PROG_LOAD, PROG_ATTACH = 0, 2, 5, 8
SOCKMAP = 15
# Types of program and attachment, the redirecting helper, and its flags: to the send queue, to the receive queue.
ON_RECEIPT, ON_SEND = (14, 5, 52, 0), (16, 7, 60, 1)


def bpf(command, attributes):
    attributes = ctypes.create_string_buffer(attributes.ljust(128, b"\0"), 128)
    return checked(libc.syscall(SYS_BPF, command, attributes, 128), "bpf")


def instruction(code, dst=0, src=0, off=0, imm=0):
    return struct.pack("<BBhi", code, src << 4 | dst, off, imm)


def redirecting_map(kind):
    """A sockmap with a program that redirects to its first socket."""
    program_type, attach_type, helper, flags = kind
    sockets = bpf(MAP_CREATE, struct.pack("IIII", SOCKMAP, 4, 4, 2))
    program = b"".join(
        [
            instruction(0x18, dst=2, src=1, imm=sockets) + instruction(0),  # r2 = map
            instruction(0xB7, dst=3),  # r3 = 0: its key
            instruction(0xB7, dst=4, imm=flags),  # r4
            instruction(0x85, imm=helper),
            instruction(0x95),
        ]
    )
    code, text = ctypes.create_string_buffer(program), ctypes.create_string_buffer(b"GPL")
    verdict = bpf(
        PROG_LOAD,
        struct.pack("IIQQ", program_type, len(program) // 8, ctypes.addressof(code), ctypes.addressof(text)),
    )
    bpf(PROG_ATTACH, struct.pack("IIII", sockets, verdict, attach_type, 0))
    return sockets


def put(sockets, key, sock):
    key, value = ctypes.c_uint32(key), ctypes.c_uint32(sock.fileno())
    bpf(MAP_UPDATE, struct.pack("IIQQQ", sockets, 0, ctypes.addressof(key), ctypes.addressof(value), 0))


def echoes_by_sockmap(address, _, place):
    """To the sender itself."""
    sockets = redirecting_map(ON_RECEIPT)
    server = listener(address)
    announce("ready")
    sock, _ = server.accept()
    put(sockets, 0, sock)
    begin = time.monotonic_ns()
    notes = Notes("read", talk("tcp", sock.getpeername(), sock.getsockname()))
    place.reach("in the map")
    place.wait("echoed")
    whole(notes, begin, "delivered")


def sends_to_sockmap(address, peer, place):
    sock = connected(address, peer)
    announce("ready")
    place.wait("in the map")
    begin = time.monotonic_ns()
    send_all(sock)
    whole(sends_of(sock), begin, "send")
    recv_all(sock)
    place.reach("echoed")


def redirects_messages(address, _, place):
    """What one socket sends is in the receive queue of the other one, and TCP has none of it."""
    server = listener(address)
    out = connected(address, address)
    into, _ = server.accept()
    sockets = redirecting_map(ON_SEND)
    put(sockets, 0, into)
    put(sockets, 1, out)
    announce("ready")
    begin = time.monotonic_ns()
    for at in range(0, BYTES, 1_500):
        if out.send(numbered(at, 1_500)) != 1_500 or into.recv(1_500, socket.MSG_WAITALL) != numbered(at, 1_500):
            sys.exit("other bytes than those that were sent")
    whole(sends_of(out), begin, "send")


def idles(address, peer, place):
    announce("ready")


# TLS in the kernel, of which each side has the keys of both directions.

TCP_ULP, SOL_TLS, TLS_TX, TLS_RX = 31, 282, 1, 2


def with_tls(sock):
    sock.setsockopt(socket.IPPROTO_TCP, TCP_ULP, b"tls")
    keys = struct.pack("HH", 0x0303, 51) + b"iviviviv" + b"k" * 16 + b"salt" + b"sequence"
    for direction in (TLS_TX, TLS_RX):
        sock.setsockopt(SOL_TLS, direction, keys)
    return sock


def reads_tls(address, _, place):
    server = listener(address)
    announce("ready")
    sock, _ = server.accept()
    with_tls(sock)
    begin = time.monotonic_ns()
    place.reach("has keys")
    recv_all(sock)
    whole(reads_of(sock), begin, "delivered")


def sends_tls(address, peer, place):
    sock = with_tls(connected(address, peer))
    announce("ready")
    place.wait("has keys")
    begin = time.monotonic_ns()
    send_all(sock)
    whole(sends_of(sock), begin, "send")
    sock.shutdown(socket.SHUT_WR)


if __name__ == "__main__":
    role, address, peer, directory, *arguments = sys.argv[1:]
    globals()[role](address, peer, Place(directory), *arguments)
