"""Ways that bytes of a TCP connection are sent and read.

    streams.py ROLE ADDRESS PEER DIRECTORY [METHOD]

`reads METHOD` listens and reads by this method, `sends METHOD` connects and sends by it. Other roles are whole programs.
"""

import array
import mmap
from notes import *

BYTES = 60_000
CHUNK = 1_500
SO_ZEROCOPY, MSG_ZEROCOPY = 60, 0x4000000
TCP_CORK, TCP_FASTOPEN_CONNECT = 3, 30
TCP_INFO, TCP_CLOSE, SND_WND = 11, 7, 228


# Ways to send.


def send(sock, notes, data, flags=0):
    while data:
        data = data[notes.call(lambda: sock.send(data, flags)) :]


def plainly(sock, notes, _, total=BYTES):
    while notes.at < total:
        send(sock, notes, numbered(notes.at, min(CHUNK, total - notes.at)))


def with_extensions(sock, notes, place):
    add_extensions(sock)
    plainly(sock, notes, place)


def much(sock, notes, _):
    """Calls that are larger than a super-packet."""
    while notes.at < 4_000_000:
        send(sock, notes, numbered(notes.at, 400_000))


def with_more(sock, notes, _):
    for number in range(60):
        send(sock, notes, numbered(notes.at, 700), 0 if number % 6 == 5 else socket.MSG_MORE)


def with_cork(sock, notes, _):
    for _ in range(12):
        sock.setsockopt(socket.IPPROTO_TCP, TCP_CORK, 1)
        for _ in range(5):
            send(sock, notes, numbered(notes.at, 701))
        sock.setsockopt(socket.IPPROTO_TCP, TCP_CORK, 0)


def with_sendfile(sock, notes, place):
    path = place.path / "file"
    path.write_bytes(numbered(0, BYTES))
    with path.open("rb") as file:
        while notes.at < BYTES:
            notes.call(lambda: os.sendfile(sock.fileno(), file.fileno(), notes.at, min(7_000, BYTES - notes.at)))


def with_splice(sock, notes, _):
    out, into = os.pipe()
    while notes.at < BYTES:
        waiting = os.write(into, numbered(notes.at, min(7_000, BYTES - notes.at)))
        while waiting:
            waiting -= notes.call(lambda: os.splice(out, sock.fileno(), waiting))


def with_writev(sock, notes, _):
    while notes.at < BYTES:
        data = numbered(notes.at, 3_000)
        done = notes.call(lambda: os.writev(sock.fileno(), [data[:100], data[100:1_000], data[1_000:]]))
        send(sock, notes, data[done:])


def without_copies(sock, notes, _):
    """Each notification of the error queue is read: it is no data."""
    sock.setsockopt(socket.SOL_SOCKET, SO_ZEROCOPY, 1)
    pages = mmap.mmap(-1, 8_192)
    while notes.at < BYTES:
        pages[:6_000] = numbered(notes.at, 6_000)
        view = memoryview(pages)[:6_000]
        while view:
            view = view[notes.call(lambda: sock.send(view, MSG_ZEROCOPY)) :]
            poll = select.poll()
            poll.register(sock, 0)
            until(lambda: poll.poll(1_000))
            sock.recvmsg(0, 1_000, socket.MSG_ERRQUEUE)


def without_blocking(sock, notes, _):
    sock.setblocking(False)
    poll = select.epoll()
    poll.register(sock, select.EPOLLOUT)
    while notes.at < 10 * BYTES:
        poll.poll()
        try:
            notes.call(lambda: sock.send(numbered(notes.at, 20_000)))
        except BlockingIOError:
            pass


def after_failed_calls(sock, notes, place):
    """A call that fails for lack of room is made again, with as many bytes."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 20_000)
    sock.setblocking(False)
    poll = select.poll()
    poll.register(sock, select.POLLOUT)
    failed = 0
    while notes.at < 5 * BYTES or not failed:
        try:
            notes.call(lambda: sock.send(numbered(notes.at, 3_000)))
        except BlockingIOError:
            failed += 1
            place.reach("full")
            poll.poll()


def until_no_window(sock, notes, place):
    """Sends until the receiver has no window and the own queue no room, and the rest when they have."""
    poll = select.poll()
    poll.register(sock, select.POLLOUT)
    no_window = lambda: struct.unpack_from("I", sock.getsockopt(socket.IPPROTO_TCP, TCP_INFO, 256), SND_WND)[0] == 0
    while not no_window():
        if poll.poll(1):
            notes.call(lambda: sock.send(numbered(notes.at, 1_000), socket.MSG_DONTWAIT))
    place.reach("no window")
    plainly(sock, notes, place, notes.at + 20_000)


# Ways to read, to the end of the stream.


def simply(sock, notes, _, most=1_000):
    while data := notes.call(lambda: sock.recv(most)):
        verify(notes, data)


def large(sock, notes, place):
    simply(sock, notes, place, 300_000)


def with_peek(sock, notes, _):
    """Looks at more than it reads, so that each byte is seen several times."""
    while True:
        begin = time.monotonic_ns()
        data = sock.recv(1_800, socket.MSG_PEEK)
        end = time.monotonic_ns()
        if not data:
            return
        notes.note(begin, end, notes.at, len(data), "peek")
        verify(notes, notes.call(lambda: sock.recv(600)))


def with_trunc(sock, notes, _):
    """Discards every other piece: the kernel copies none of it."""
    while True:
        verify(notes, notes.call(lambda: sock.recv(900)))
        if not notes.call(lambda: sock.recv(900, socket.MSG_TRUNC)):
            return


def with_waitall(sock, notes, _):
    while data := notes.call(lambda: sock.recv(4_000, socket.MSG_WAITALL)):
        verify(notes, data)


def with_readv(sock, notes, _):
    parts = [bytearray(100), bytearray(700), bytearray(5_000)]
    while count := notes.call(lambda: os.readv(sock.fileno(), parts)):
        verify(notes, b"".join(parts)[:count])


def with_epoll(sock, notes, _):
    sock.setblocking(False)
    poll = select.epoll()
    poll.register(sock, select.EPOLLIN | select.EPOLLET)
    while True:
        poll.poll()
        while True:
            try:
                data = notes.call(lambda: sock.recv(3_000))
            except BlockingIOError:
                break
            if not data:
                return
            verify(notes, data)


def after_no_window(sock, notes, place):
    place.wait("no window")
    simply(sock, notes, place, 2_000)


def after_failures(sock, notes, place):
    place.wait("full")
    simply(sock, notes, place, 2_000)


# Roles.

SMALL = [(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)]


def reads(address, _, place, method):
    server = listener(address, options=SMALL if method in ("after_no_window", "after_failures") else ())
    announce("ready")
    sock, _ = server.accept()
    globals()[method](sock, reads_of(sock), place)


def sends(address, peer, place, method):
    sock = connected(address, peer)
    announce("ready")
    globals()[method](sock, sends_of(sock), place)


def reads_mapped(address, peer, place):
    reads(MAPPED + address, peer, place, "simply")


def sends_mapped(address, peer, place):
    sends(MAPPED + address, MAPPED + peer, place, "plainly")


CONNECTIONS = 6


def reads_one_after_the_other(address, _, place):
    """Closes first, so that its own side waits and the ports are free for the next."""
    server = listener(address)
    announce("ready")
    for number in range(CONNECTIONS):
        sock, _ = server.accept()
        notes = reads_of(sock, number)
        while notes.at < 5_000:
            verify(notes, notes.call(lambda: sock.recv(5_000 - notes.at)))
        sock.close()


def sends_one_after_the_other(address, peer, place):
    announce("ready")
    for number in range(CONNECTIONS):
        sock = connected(address, peer)
        plainly(sock, sends_of(sock, number), place, 5_000)
        if sock.recv(1):
            sys.exit("bytes that nobody sent")
        sock.shutdown(socket.SHUT_WR)
        # The address is free for the next connection once the peer has acknowledged this end.
        while sock.getsockopt(socket.IPPROTO_TCP, TCP_INFO, 1)[0] != TCP_CLOSE:
            time.sleep(0.001)
        sock.close()


def reads_fast_opened(address, _, place):
    server = listener(address, options=[(socket.IPPROTO_TCP, socket.TCP_FASTOPEN, 8)])
    announce("ready")
    for _ in range(3):
        sock, _ = server.accept()
        simply(sock, reads_of(sock), place)


def opens_fast(address, peer, place, call):
    """The first connection fetches the cookie, the others have bytes in their SYN: those of a call that also connects,
    or those of the first call after `connect`, which leaves the SYN to it."""
    announce("ready")
    for number in range(3):
        sock = socket.socket(family(address))
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((address, CLIENT_PORT + number))
        notes = Notes("send", talk("tcp", (address, CLIENT_PORT + number), (peer, SERVER_PORT)))
        if call == "at_connect":
            notes.call(lambda: sock.sendto(numbered(0, 900), socket.MSG_FASTOPEN, (peer, SERVER_PORT)))
        else:
            sock.setsockopt(socket.IPPROTO_TCP, TCP_FASTOPEN_CONNECT, 1)
            sock.connect((peer, SERVER_PORT))
            notes.call(lambda: sock.send(numbered(0, 900)))
        plainly(sock, notes, place, 9_000)
        info = sock.getsockopt(socket.IPPROTO_TCP, TCP_INFO, 256)
        if number and not info[5] & 32:  # TCPI_OPT_SYN_DATA: the SYN's bytes were acknowledged
            sys.exit("the SYN had no bytes")
        sock.close()


def meets(address, peer, place, turn):
    """Both sides connect. The first one's SYN is lost, and the second one's SYN meets a socket that has sent its own."""
    ports = [SERVER_PORT, CLIENT_PORT]
    if turn == "second":
        ports.reverse()
    sock = socket.socket(family(address))
    sock.bind((address, ports[0]))
    sock.setblocking(False)
    if turn == "second":
        place.wait("first")
    try:
        sock.connect((peer, ports[1]))
    except BlockingIOError:
        pass
    place.reach(turn)
    announce("ready")
    poll = select.poll()
    poll.register(sock, select.POLLOUT)
    until(lambda: poll.poll(1_000))
    if error := sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
        sys.exit(os.strerror(error))
    sock.setblocking(True)
    sends, reads = sends_of(sock), reads_of(sock)
    plainly(sock, sends, place, 8_000)
    sock.shutdown(socket.SHUT_WR)
    simply(sock, reads, place)


def gives_away(address, _, place):
    """Another process reads on: it has the socket by SCM_RIGHTS."""
    ours, theirs = socket.socketpair()
    child = os.fork()
    if child == 0:
        ours.close()
        data, fds, _, _ = socket.recv_fds(theirs, 8, 1)
        sock = socket.socket(fileno=fds[0])
        notes = reads_of(sock)
        notes.at = int.from_bytes(data)
        simply(sock, notes, place, 900)
        os._exit(0)
    server = listener(address)
    announce("ready")
    sock, _ = server.accept()
    notes = reads_of(sock)
    while notes.at < 20_000:
        verify(notes, notes.call(lambda: sock.recv(1_000)))
    socket.send_fds(ours, [notes.at.to_bytes(8)], [sock.fileno()])
    sock.close()
    if os.waitpid(child, 0)[1]:
        sys.exit("the other process failed")


SENDERS = 8


def reads_by_two(address, _, place):
    """Two processes listen on one port."""
    reuse = [(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)]
    servers = [listener(address, options=reuse) for _ in range(2)]
    children = []
    for server in servers:
        child = os.fork()
        if child == 0:
            server.setblocking(False)
            poll = select.poll()
            poll.register(server, select.POLLIN)
            while not (place.path / "sent").exists() or poll.poll(0):
                if poll.poll(20):
                    sock, _ = server.accept()
                    sock.setblocking(True)
                    simply(sock, reads_of(sock), place)
            os._exit(0)
        children.append(child)
    announce("ready")
    for child in children:
        if os.waitpid(child, 0)[1]:
            sys.exit("a reader failed")


def sends_from_several(address, peer, place):
    announce("ready")
    socks = [connected(address, peer, CLIENT_PORT + n) for n in range(SENDERS)]
    notes = [sends_of(sock) for sock in socks]
    for total in range(CHUNK, 6 * CHUNK + 1, CHUNK):
        for sock, note in zip(socks, notes):
            plainly(sock, note, place, total)
    place.reach("sent")


if __name__ == "__main__":
    role, address, peer, directory, *arguments = sys.argv[1:]
    globals()[role](address, peer, Place(directory), *arguments)
