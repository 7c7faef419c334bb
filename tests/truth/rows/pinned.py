"""Two senders on two CPUs, one socket that reads.

    pinned.py ROLE ADDRESS PEER DIRECTORY
"""

from notes import *

SO_RCVBUFFORCE = 33
EACH = 5_000
LENGTH = 200


def sends(address, peer, place):
    """Two processes, each on its own CPU, send datagrams of equal length at the same time."""
    children = []
    announce("ready")
    cpus = sorted(os.sched_getaffinity(0))[:2]
    for n, cpu in enumerate(cpus):
        child = os.fork()
        if child == 0:
            os.sched_setaffinity(0, {cpu})
            sock = socket.socket(family(address), socket.SOCK_DGRAM)
            sock.bind((address, CLIENT_PORT + n))
            sock.connect((peer, SERVER_PORT))
            notes = sends_of(sock, proto="udp")
            calls = []
            place.reach(f"sender {n}")
            while not (place.path / f"sender {1 - n}").exists():
                pass
            for number in range(EACH):
                data = HEAD.pack(number, LENGTH) + bytes(LENGTH - HEAD.size)
                begin = time.monotonic_ns()
                sock.send(data)
                calls.append((begin, time.monotonic_ns(), number))
            # Notes would slow the senders down.
            for begin, end, number in calls:
                notes.note(begin, end, number, 1)
            os._exit(0)
        children.append(child)
    for child in children:
        if os.waitpid(child, 0)[1]:
            sys.exit("a sender failed")


def reads(address, _, place):
    sock = socket.socket(family(address), socket.SOCK_DGRAM)
    sock.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 64 << 20)
    sock.bind((address, SERVER_PORT))
    announce("ready")
    calls = []
    for _ in range(2 * EACH):
        begin = time.monotonic_ns()
        data, sender = sock.recvfrom(1_000)
        calls.append((begin, time.monotonic_ns(), HEAD.unpack_from(data)[0], sender))
    for begin, end, number, sender in calls:
        Notes("read", talk("udp", sender, sock.getsockname())).note(begin, end, number, 1)


if __name__ == "__main__":
    role, address, peer, directory, *_ = sys.argv[1:]
    globals()[role](address, peer, Place(directory))
