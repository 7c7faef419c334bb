"""Ways that datagrams are sent and read. Each has its number and its length in its first bytes.

    packets.py ROLE ADDRESS PEER DIRECTORY [METHOD]
"""

from notes import *

UDP_SEGMENT, UDP_GRO = 103, 104
SEGMENT = 400


def datagram(number, length=SEGMENT):
    return HEAD.pack(number, length) + numbered(number, length - HEAD.size)


def number_of(data):
    number, length = HEAD.unpack_from(data)
    if bytes(data) != datagram(number, length):
        sys.exit("another datagram than those that were sent")
    return number


def bound(address, port, options=()):
    sock = socket.socket(family(address), socket.SOCK_DGRAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
    for option in options:
        sock.setsockopt(*option)
    sock.bind((address, port))
    return sock


class Reads:
    """Notes each datagram by its own number, and ends with the one that has nothing behind its head."""

    def __init__(self, sock):
        self.sock = sock
        self.notes = {}

    def take(self, begin, end, data, sender):
        self.note(begin, end, number_of(data), 1, sender)
        return len(data) > HEAD.size

    def note(self, begin, end, number, count, sender, what=None):
        key = talk("udp", sender, self.sock.getsockname())
        notes = self.notes.setdefault(key, Notes("read", key))
        notes.note(begin, end, number, count, what)

    def each(self, call):
        begin = time.monotonic_ns()
        data, sender = call()
        return self.take(begin, time.monotonic_ns(), data, sender)


# Ways to send `COUNT` datagrams.

COUNT = 60


def one_by_one(sock, notes, _):
    for _ in range(COUNT):
        send_one(sock, notes, SEGMENT)


def with_extensions(sock, notes, place):
    add_extensions(sock)
    one_by_one(sock, notes, place)


def send_one(sock, notes, length):
    data = datagram(notes.at, length)
    begin = time.monotonic_ns()
    sock.send(data)
    notes.note(begin, time.monotonic_ns(), notes.at, 1)
    notes.at += 1


def of_several_lengths(sock, notes, _):
    """Up to 60,000 bytes, that is 41 fragments."""
    for number in range(COUNT):
        send_one(sock, notes, [4_000, 9_000, 200, 60_000, 1_473, 3_001][number % 6])


def of_several_lengths_with_extensions(sock, notes, place):
    add_extensions(sock)
    of_several_lengths(sock, notes, place)


def by_segments(sock, notes, _):
    """Super-packets of up to ten datagrams; the last datagram of each is shorter."""
    sock.setsockopt(socket.IPPROTO_UDP, UDP_SEGMENT, SEGMENT)
    while notes.at < COUNT:
        count = 1 + notes.at % 10
        lengths = [SEGMENT] * (count - 1) + [SEGMENT - 50]
        data = b"".join(datagram(notes.at + n, length) for n, length in enumerate(lengths))
        begin = time.monotonic_ns()
        sock.send(data)
        notes.note(begin, time.monotonic_ns(), notes.at, count)
        notes.at += count


class iovec(ctypes.Structure):
    _fields_ = [("base", ctypes.c_void_p), ("len", ctypes.c_size_t)]


class msghdr(ctypes.Structure):
    _fields_ = [
        ("name", ctypes.c_void_p),
        ("namelen", ctypes.c_uint),
        ("iov", ctypes.POINTER(iovec)),
        ("iovlen", ctypes.c_size_t),
        ("control", ctypes.c_void_p),
        ("controllen", ctypes.c_size_t),
        ("flags", ctypes.c_int),
    ]


class mmsghdr(ctypes.Structure):
    _fields_ = [("hdr", msghdr), ("len", ctypes.c_uint)]


def messages(buffers):
    """Headers of these buffers, and what must live as long."""
    iovs = [iovec(ctypes.addressof(buffer), len(buffer)) for buffer in buffers]
    heads = (mmsghdr * len(buffers))()
    for head, iov in zip(heads, iovs):
        head.hdr.iov = ctypes.pointer(iov)
        head.hdr.iovlen = 1
    return heads, (iovs, buffers)


def by_sendmmsg(sock, notes, _):
    while notes.at < COUNT:
        texts = [datagram(notes.at + n, SEGMENT + n) for n in range(min(7, COUNT - notes.at))]
        heads, _keep = messages([(ctypes.c_char * len(text)).from_buffer_copy(text) for text in texts])
        begin = time.monotonic_ns()
        count = checked(libc.sendmmsg(sock.fileno(), heads, len(heads), 0), "sendmmsg")
        notes.note(begin, time.monotonic_ns(), notes.at, count)
        notes.at += count


def of_one_length(sock, notes, _):
    """Several in one call, which a receiver may merge."""
    while notes.at < COUNT:
        texts = [datagram(notes.at + n) for n in range(min(7, COUNT - notes.at))]
        heads, _keep = messages([(ctypes.c_char * len(text)).from_buffer_copy(text) for text in texts])
        begin = time.monotonic_ns()
        count = checked(libc.sendmmsg(sock.fileno(), heads, len(heads), 0), "sendmmsg")
        notes.note(begin, time.monotonic_ns(), notes.at, count)
        notes.at += count


def with_more(sock, notes, _):
    """Two calls make one datagram, and the second one sends it."""
    while notes.at < COUNT:
        data = datagram(notes.at, SEGMENT)
        sock.send(data[:100], socket.MSG_MORE)
        begin = time.monotonic_ns()
        sock.send(data[100:])
        notes.note(begin, time.monotonic_ns(), notes.at, 1)
        notes.at += 1


# Ways to read.


def by_recvfrom(reads, _):
    while reads.each(lambda: reads.sock.recvfrom(65_535)):
        pass


def with_peek_and_trunc(reads, _):
    """Sees each datagram twice, and reads a part of it with its whole length."""
    sock = reads.sock
    while True:
        whole, sender = sock.recvfrom(65_535, socket.MSG_PEEK)
        begin = time.monotonic_ns()
        part, _, flags, _ = sock.recvmsg(20, 0, socket.MSG_TRUNC)
        end = time.monotonic_ns()
        if part != whole[:20]:
            sys.exit("the peek saw another datagram")
        if not reads.take(begin, end, whole, sender):
            return


def by_recvmmsg(reads, _):
    sock = reads.sock
    MSG_WAITFORONE = 0x10000
    while True:
        buffers = [(ctypes.c_char * 2_000)() for _ in range(5)]
        heads, _keep = messages(buffers)
        begin = time.monotonic_ns()
        count = checked(libc.recvmmsg(sock.fileno(), heads, len(heads), MSG_WAITFORONE, None), "recvmmsg")
        end = time.monotonic_ns()
        for head, buffer in zip(heads[:count], buffers):
            # One sender: its address is that of the peer.
            if not reads.take(begin, end, buffer.raw[: head.len], sock.getpeername()):
                return


def with_gro(reads, _):
    """Reads several datagrams in one call, of which each but the last has the segment's length."""
    reads.sock.setsockopt(socket.IPPROTO_UDP, UDP_GRO, 1)
    while True:
        begin = time.monotonic_ns()
        data, ancillary, _, sender = reads.sock.recvmsg(65_535, socket.CMSG_SPACE(4))
        end = time.monotonic_ns()
        sizes = [struct.unpack("i", value)[0] for level, kind, value in ancillary if kind == UDP_GRO]
        size = sizes[0] if sizes else len(data)
        parts = [data[at : at + size] for at in range(0, len(data), size)]
        numbers = [number_of(part) for part in parts]
        if numbers != list(range(numbers[0], numbers[0] + len(numbers))):
            sys.exit("datagrams of one read are not in order")
        reads.note(begin, end, numbers[0], len(numbers), sender)
        if len(parts[-1]) == HEAD.size:
            return


def with_gro_and_a_small_buffer(reads, _):
    """Reads one and a half of the datagrams that a look shows to be in one buffer: the kernel discards the others."""
    sock = reads.sock
    sock.setsockopt(socket.IPPROTO_UDP, UDP_GRO, 1)
    while True:
        whole, ancillary, _, sender = sock.recvmsg(65_535, socket.CMSG_SPACE(4), socket.MSG_PEEK)
        sizes = [struct.unpack("i", value)[0] for level, kind, value in ancillary if kind == UDP_GRO]
        size = sizes[0] if sizes else len(whole)
        numbers = [number_of(whole[at : at + size]) for at in range(0, len(whole), size)]
        begin = time.monotonic_ns()
        part = sock.recv(size + size // 2)
        end = time.monotonic_ns()
        if part != whole[: size + size // 2]:
            sys.exit("the look saw other datagrams")
        reads.note(begin, end, numbers[0], len(numbers[:2]), sender)
        if numbers[2:]:
            reads.note(begin, end, numbers[2], len(numbers[2:]), sender, "discarded")
        if len(whole) == HEAD.size:
            return


def with_epoll(reads, _):
    sock = reads.sock
    sock.setblocking(False)
    poll = select.epoll()
    poll.register(sock, select.EPOLLIN)
    while True:
        poll.poll()
        try:
            if not reads.each(lambda: sock.recvfrom(2_000)):
                return
        except BlockingIOError:
            pass


# Roles.


def reads(address, peer, place, method):
    sock = bound(address, SERVER_PORT)
    sock.connect((peer, CLIENT_PORT))
    announce("ready")
    globals()[method](Reads(sock), place)


def sends(address, peer, place, method):
    sock = bound(address, CLIENT_PORT)
    sock.connect((peer, SERVER_PORT))
    announce("ready")
    notes = sends_of(sock, proto="udp")
    globals()[method](sock, notes, place)
    sock.setsockopt(socket.IPPROTO_UDP, UDP_SEGMENT, 0)
    # The reader ends at a datagram with nothing behind its head.
    send_one(sock, notes, HEAD.size)


def reads_mapped(address, peer, place):
    reads(MAPPED + address, MAPPED + peer, place, "by_recvfrom")


def sends_mapped(address, peer, place):
    sends(MAPPED + address, MAPPED + peer, place, "one_by_one")


SENDERS = 8


def reads_by_two(address, _, place):
    """Two processes have a socket each at one port."""
    reuse = [(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)]
    socks = [bound(address, SERVER_PORT, reuse) for _ in range(2)]
    children = []
    for sock in socks:
        child = os.fork()
        if child == 0:
            poll = select.poll()
            poll.register(sock, select.POLLIN)
            reads = Reads(sock)
            while not (place.path / "sent").exists() or poll.poll(0):
                if poll.poll(20):
                    reads.each(lambda: sock.recvfrom(2_000))
            os._exit(0)
        children.append(child)
    announce("ready")
    for child in children:
        if os.waitpid(child, 0)[1]:
            sys.exit("a reader failed")


def sends_from_several(address, peer, place):
    socks = [bound(address, CLIENT_PORT + n) for n in range(SENDERS)]
    for sock in socks:
        sock.connect((peer, SERVER_PORT))
    announce("ready")
    notes = [sends_of(sock, proto="udp") for sock in socks]
    for _ in range(12):
        for sock, note in zip(socks, notes):
            send_one(sock, note, SEGMENT)
    place.reach("sent")


def gives_away(address, peer, place):
    """Another process reads on: it has the socket by SCM_RIGHTS."""
    ours, theirs = socket.socketpair()
    child = os.fork()
    if child == 0:
        ours.close()
        _, fds, _, _ = socket.recv_fds(theirs, 8, 1)
        by_recvfrom(Reads(socket.socket(fileno=fds[0])), place)
        os._exit(0)
    sock = bound(address, SERVER_PORT)
    announce("ready")
    reads = Reads(sock)
    for _ in range(COUNT // 2):
        reads.each(lambda: sock.recvfrom(2_000))
    socket.send_fds(ours, [b"1"], [sock.fileno()])
    sock.close()
    if os.waitpid(child, 0)[1]:
        sys.exit("the other process failed")


if __name__ == "__main__":
    role, address, peer, directory, *arguments = sys.argv[1:]
    globals()[role](address, peer, Place(directory), *arguments)
