"""Ways that io_uring sends and reads, by its system calls alone.

    rings.py ROLE ADDRESS PEER DIRECTORY METHOD

The kernel completes each operation inside a call of `io_uring_enter`, because the ring defers its task work.
"""

import mmap
from notes import *

SETUP, ENTER, REGISTER = 425, 426, 427
SQPOLL, SINGLE_ISSUER, DEFER_TASKRUN = 1 << 1, 1 << 12, 1 << 13
ASYNC = 1 << 4
MAX_WORKERS, WAKE = 19, 2
GETEVENTS = 1
OFF_SQ, OFF_CQ, OFF_SQES = 0, 0x8000000, 0x10000000
SEND, RECV, PROVIDE_BUFFERS, SEND_ZC = 26, 27, 31, 47
RECV_MULTISHOT = 2
BUFFER_SELECT = 1 << 5
CQE_MORE, CQE_NOTIFICATION = 2, 8
SQE = struct.Struct("=BBHiQQIIQHHIQQ")
BYTES = 60_000


class Ring:
    def __init__(self, entries=64, flags=SINGLE_ISSUER | DEFER_TASKRUN):
        parameters = bytearray(120)
        # A thread of the kernel that submits sleeps after 50 ms.
        struct.pack_into("III", parameters, 8, flags, 0, 50)
        self.polls = bool(flags & SQPOLL)
        buffer = (ctypes.c_char * 120).from_buffer(parameters)
        self.fd = checked(libc.syscall(SETUP, entries, buffer), "io_uring_setup")
        self.sq = struct.unpack_from("10I", parameters, 40)
        self.cq = struct.unpack_from("10I", parameters, 80)
        cq_entries = struct.unpack_from("I", parameters, 4)[0]
        self.sq_map = mmap.mmap(self.fd, self.sq[6] + 4 * entries, offset=OFF_SQ)
        self.cq_map = mmap.mmap(self.fd, self.cq[5] + 16 * cq_entries, offset=OFF_CQ)
        self.entries = mmap.mmap(self.fd, 64 * entries, offset=OFF_SQES)

    def number(self, memory, offset):
        return struct.unpack_from("I", memory, offset)[0]

    def put(self, opcode, fd=-1, address=0, length=0, offset=0, flags=0, priority=0, group=0, user=0):
        """Queues an operation."""
        tail = self.number(self.sq_map, self.sq[1])
        at = tail & self.number(self.sq_map, self.sq[2])
        sqe = SQE.pack(opcode, flags, priority, fd, offset, address, length, 0, user, group, 0, 0, 0, 0)
        self.entries[64 * at : 64 * at + 64] = sqe
        struct.pack_into("I", self.sq_map, self.sq[6] + 4 * at, at)
        struct.pack_into("I", self.sq_map, self.sq[1], tail + 1)

    def enter(self, submit, wait):
        return checked(libc.syscall(ENTER, self.fd, submit, wait, GETEVENTS, 0, 0), "io_uring_enter")

    def done(self):
        """Takes the completed operations: user data, result, flags."""
        head, tail = (self.number(self.cq_map, self.cq[n]) for n in range(2))
        mask = self.number(self.cq_map, self.cq[2])
        for at in range(head, tail):
            user, result, flags = struct.unpack_from("QiI", self.cq_map, self.cq[5] + 16 * (at & mask))
            if result < 0:
                sys.exit(f"an operation failed: {os.strerror(-result)}")
            yield user, result, flags
        struct.pack_into("I", self.cq_map, self.cq[0], tail)

    def one_worker(self):
        numbers = (ctypes.c_uint * 2)(1, 1)
        checked(libc.syscall(REGISTER, self.fd, MAX_WORKERS, numbers, 2), "io_uring_register")

    def call(self, submit=1, wait=1):
        """Completed operations of one call, and its times."""
        begin = time.monotonic_ns()
        if self.polls:
            checked(libc.syscall(ENTER, self.fd, 0, wait, GETEVENTS | WAKE, 0, 0), "io_uring_enter")
        else:
            self.enter(submit, wait)
        end = time.monotonic_ns()
        return begin, end, list(self.done())


def with_send(sock, notes, opcode=SEND):
    ring = Ring()
    memory = mmap.mmap(-1, 1 << 20)
    base = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    while notes.at < BYTES:
        length = min(2_500, BYTES - notes.at)
        # Every piece has memory of its own: the kernel may read it until the notification.
        at = notes.at
        memory[at : at + length] = numbered(at, length)
        while at < notes.at + length:
            ring.put(opcode, sock.fileno(), base + at, notes.at + length - at)
            waits = 2 if opcode == SEND_ZC else 1
            begin, end, done = ring.call(wait=waits)
            results = [result for _, result, flags in done if not flags & CQE_NOTIFICATION]
            if len(results) != 1 or len(done) != waits:
                sys.exit(f"one result was expected: {done}")
            notes.note(begin, end, at, results[0])
            at += results[0]
        notes.at = at


def without_copies(sock, notes):
    with_send(sock, notes, SEND_ZC)


def with_recv(sock, notes):
    ring = Ring()
    memory = mmap.mmap(-1, 4_096)
    base = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    while True:
        ring.put(RECV, sock.fileno(), base, 1_100)
        begin, end, [(_, count, _)] = ring.call()
        if not count:
            return
        notes.note(begin, end, notes.at, count)
        notes.at += count
        verify(notes, memory[:count])


def thread_named(start):
    """The one thread of this process that the kernel made for the ring. An idle one may just be ending."""
    found = []

    def is_one():
        found.clear()
        for thread in Path("/proc/self/task").iterdir():
            try:
                name = (thread / "comm").read_text()
            except OSError:
                continue
            if name.startswith(start):
                found.append(int(thread.name))
        return len(found) == 1

    until(is_one)
    return found[0]


def through(ring, sock, notes, reads, thread, flags=0):
    """Sends, or reads to the end, by a thread of the kernel."""
    memory = mmap.mmap(-1, 1 << 16)
    base = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    if not reads:
        memory[:BYTES] = numbered(0, BYTES)
    while reads or notes.at < BYTES:
        length = 1_100 if reads else min(2_500, BYTES - notes.at)
        # A thread that polls begins as soon as the operation is in the queue.
        begin = time.monotonic_ns()
        ring.put(RECV if reads else SEND, sock.fileno(), base + (0 if reads else notes.at), length, flags=flags)
        _, end, [(_, count, _)] = ring.call()
        if not count:
            return
        notes.note(begin, end, notes.at, count, tid=thread_named(thread))
        notes.at += count
        if reads:
            verify(notes, memory[:count])


def by_worker(sock, notes, reads):
    ring = Ring()
    ring.one_worker()
    through(ring, sock, notes, reads, "iou-wrk-", ASYNC)


def by_poller(sock, notes, reads):
    through(Ring(flags=SQPOLL), sock, notes, reads, "iou-sqp-")


def sends_by_worker(sock, notes):
    by_worker(sock, notes, False)


def reads_by_worker(sock, notes):
    by_worker(sock, notes, True)


def sends_by_poller(sock, notes):
    by_poller(sock, notes, False)


def reads_by_poller(sock, notes):
    by_poller(sock, notes, True)


READS, BUFFERS = 1, 2


def with_multishot(sock, notes):
    """One operation reads many times, into buffers that the kernel chooses."""
    ring = Ring()
    size, count, group = 1_300, 128, 7
    memory = mmap.mmap(-1, size * count)
    base = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    ring.put(PROVIDE_BUFFERS, count, base, size, group=group, user=BUFFERS)
    ring.call()
    ring.put(RECV, sock.fileno(), flags=BUFFER_SELECT, priority=RECV_MULTISHOT, group=group, user=READS)
    submit = 1
    while True:
        begin, end, done = ring.call(submit)
        submit = 0
        for user, length, flags in done:
            if user != READS:
                continue
            if not length:
                return
            buffer = flags >> 16
            notes.note(begin, end, notes.at, length)
            notes.at += length
            verify(notes, memory[buffer * size : buffer * size + length])
            ring.put(PROVIDE_BUFFERS, 1, base + buffer * size, size, buffer, group=group, user=BUFFERS)
            submit += 1
            if not flags & CQE_MORE:
                sys.exit("the operation ended early")


def datagrams(address, peer, ports):
    sock = socket.socket(family(address), socket.SOCK_DGRAM)
    sock.bind((address, ports[0]))
    sock.connect((peer, ports[1]))
    announce("ready")
    return sock


COUNT = 60


def reads_datagrams(address, peer, _):
    """One operation reads all of them, into buffers that the kernel chooses."""
    sock = datagrams(address, peer, (SERVER_PORT, CLIENT_PORT))
    notes = reads_of(sock, proto="udp")
    ring = Ring()
    # One more than datagrams: an operation without a buffer fails.
    size, count, group = 500, COUNT + 1, 7
    memory = mmap.mmap(-1, size * count)
    base = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    ring.put(PROVIDE_BUFFERS, count, base, size, group=group, user=BUFFERS)
    ring.call()
    ring.put(RECV, sock.fileno(), flags=BUFFER_SELECT, priority=RECV_MULTISHOT, group=group, user=READS)
    submit, seen = 1, 0
    while seen < COUNT:
        begin, end, done = ring.call(submit)
        submit = 0
        for _, _, flags in done:
            number, _ = HEAD.unpack_from(memory, (flags >> 16) * size)
            notes.note(begin, end, number, 1)
            seen += 1


def sends_datagrams(address, peer, _):
    """Four operations in a call."""
    sock = datagrams(address, peer, (CLIENT_PORT, SERVER_PORT))
    notes = sends_of(sock, proto="udp")
    ring = Ring()
    length, batch = 400, 4
    memory = mmap.mmap(-1, 1 << 16)
    base = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    for number in range(COUNT):
        memory[number * length : number * length + HEAD.size] = HEAD.pack(number, length)
    for number in range(0, COUNT, batch):
        for n in range(number, number + batch):
            ring.put(SEND, sock.fileno(), base + n * length, length)
        begin, end, done = ring.call(batch, batch)
        if len(done) != batch:
            sys.exit(f"{batch} results were expected: {done}")
        notes.note(begin, end, number, batch)


def reads(address, _, __, method):
    server = listener(address)
    announce("ready")
    sock, _ = server.accept()
    globals()[method](sock, reads_of(sock))


def sends(address, peer, _, method):
    sock = connected(address, peer)
    announce("ready")
    globals()[method](sock, sends_of(sock))


if __name__ == "__main__":
    role, address, peer, directory, *arguments = sys.argv[1:]
    globals()[role](address, peer, Place(directory), *arguments)
