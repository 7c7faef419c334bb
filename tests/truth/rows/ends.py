"""Ways that bytes of a TCP connection end without a plain read.

    ends.py ROLE ADDRESS PEER DIRECTORY [METHOD]

A note of such bytes has their verdict in place of the call.
"""

import fcntl
import termios
from notes import *

SIOCOUTQNSD = 0x894B
BYTES = 30_000


def sends(address, peer, place, method="plainly"):
    sock = connected(address, peer)
    announce("ready")
    globals()[method](sock, sends_of(sock), place)


def reads(address, _, place, method):
    options = [(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)] if method == "and_resets" else ()
    server = listener(address, options=options)
    announce("ready")
    sock, _ = server.accept()
    globals()[method](sock, reads_of(sock), place)


def number_of(sock, request):
    return struct.unpack("i", fcntl.ioctl(sock, request, bytes(4)))[0]


def plainly(sock, notes, _, total=BYTES):
    while notes.at < total:
        notes.call(lambda: sock.send(numbered(notes.at, min(1_500, total - notes.at))))


# A socket is closed with unread bytes.


def until_it_is_closed(sock, notes, place):
    plainly(sock, notes, place)
    place.wait("closed")


def not_to_the_end(sock, notes, place):
    """The rest has arrived when the socket is closed."""
    while notes.at < 10_000:
        verify(notes, notes.call(lambda: sock.recv(1_000)))
    sock.recv(3_000, socket.MSG_PEEK)
    rest = BYTES - notes.at
    until(lambda: number_of(sock, termios.FIONREAD) == rest)
    begin = time.monotonic_ns()
    sock.close()
    notes.note(begin, time.monotonic_ns(), notes.at, rest, "discarded")
    place.reach("closed")


# A sender's socket ends with bytes that have not left it.


def until_a_reset(sock, notes, place):
    """Until the reader's window is full and all that left is acknowledged."""
    sock.setblocking(False)
    unsent = lambda: number_of(sock, SIOCOUTQNSD)
    while True:
        try:
            notes.call(lambda: sock.send(numbered(notes.at, 1_000)))
        except BlockingIOError:
            if unsent() and number_of(sock, termios.TIOCOUTQ) == unsent():
                break
            time.sleep(0.001)
    place.reach("full")
    poll = select.poll()
    poll.register(sock, 0)
    until(lambda: poll.poll(1_000))
    rest = unsent()
    begin = time.monotonic_ns()
    sock.close()
    notes.note(begin, time.monotonic_ns(), notes.at - rest, rest, "discarded")


def and_resets(sock, notes, place):
    """Reads nothing: the end with unread bytes is a reset."""
    place.wait("full")
    count = number_of(sock, termios.FIONREAD)
    begin = time.monotonic_ns()
    sock.close()
    notes.note(begin, time.monotonic_ns(), 0, count, "discarded")


# A reader that splices.


def with_splice(sock, notes, _):
    out, into = os.pipe()
    begin, data = time.monotonic_ns(), b""
    while count := os.splice(sock.fileno(), into, 5_000):
        data += os.read(out, count)
    if data != numbered(0, BYTES):
        sys.exit("other bytes than those that were sent")
    notes.note(begin, time.monotonic_ns(), 0, len(data), "read-unseen")


# Two processes read one socket. The bytes say where they are.

RECORD = struct.Struct("!Q")
RECORDS = 40_000


def with_positions(sock, notes, _):
    while notes.at < RECORDS * RECORD.size:
        first = notes.at // RECORD.size
        data = b"".join(RECORD.pack((first + n) * RECORD.size) for n in range(100))
        while data:
            data = data[notes.call(lambda: sock.send(data)) :]


def by_two_processes(sock, notes, _):
    child = os.fork()
    while True:
        begin = time.monotonic_ns()
        data = sock.recv(400)
        end = time.monotonic_ns()
        if not data:
            break
        if len(data) % RECORD.size:
            sys.exit("a part of a record")
        notes.note(begin, end, RECORD.unpack_from(data)[0], len(data))
    if child == 0:
        os._exit(0)
    if os.waitpid(child, 0)[1]:
        sys.exit("the other process failed")


# Urgent bytes. Each round has one, and the next round begins when the reader has passed it.

ROUNDS, BEFORE, AFTER = 7, 900, 300


def with_urgent_bytes(sock, notes, place):
    for turn in range(ROUNDS):
        plainly(sock, notes, place, notes.at + BEFORE)
        notes.call(lambda: sock.send(numbered(notes.at, 1), socket.MSG_OOB))
        if turn == ROUNDS - 1:
            return
        plainly(sock, notes, place, notes.at + AFTER)
        place.wait(f"round {turn}")


def and_urgent_bytes(sock, notes, place):
    """Takes an urgent byte before the bytes before it, after them, or not at all. The last one is not taken."""
    poll = select.poll()
    poll.register(sock, select.POLLPRI)

    def take(at):
        until(lambda: poll.poll(1_000))
        begin = time.monotonic_ns()
        data = sock.recv(1, socket.MSG_OOB)
        notes.note(begin, time.monotonic_ns(), at, 1)
        if data != numbered(at, 1):
            sys.exit("another urgent byte")

    def read(end):
        while notes.at < end:
            verify(notes, notes.call(lambda: sock.recv(min(400, end - notes.at))))

    for turn in range(ROUNDS):
        mark, kind = notes.at + BEFORE, turn % 3
        if kind == 0 and turn < ROUNDS - 1:
            take(mark)
        read(mark)
        if kind == 1:
            take(mark)
        elif kind == 2 or turn == ROUNDS - 1:
            until(lambda: poll.poll(1_000))
            notes.note(time.monotonic_ns(), time.monotonic_ns(), mark, 1, "discarded")
        notes.at += 1
        if turn == ROUNDS - 1:
            break
        read(notes.at + AFTER)
        place.reach(f"round {turn}")
    if sock.recv(1):
        sys.exit("bytes that nobody sent")


if __name__ == "__main__":
    role, address, peer, directory, *arguments = sys.argv[1:]
    globals()[role](address, peer, Place(directory), *arguments)
