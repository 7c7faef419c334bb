"""Datagrams that wait in queues, and their readers.

    queues.py ROLE ADDRESS PEER DIRECTORY [NUMBER]
"""

from packets import *

AFTER = 200
BURSTS, BURST = 200, 10
# Numbers of datagrams that no capture sees.
BEFORE = 1_000_000


def sends_before_and_after(address, peer, place, before):
    sock = bound(address, CLIENT_PORT)
    sock.connect((peer, SERVER_PORT))
    for number in range(int(before)):
        sock.send(datagram(BEFORE + number))
    announce("ready")
    place.wait("recorded")
    notes = sends_of(sock, proto="udp")
    for _ in range(AFTER):
        send_one(sock, notes, SEGMENT)
    place.reach("sent")


def reads_late(address, _, place):
    sock = bound(address, SERVER_PORT)
    announce("ready")
    place.wait("sent")
    reads = Reads(sock)
    for _ in range(AFTER):
        number = BEFORE
        while number >= BEFORE:
            begin = time.monotonic_ns()
            data, sender = sock.recvfrom(1_000)
            end = time.monotonic_ns()
            number = number_of(data)
        reads.note(begin, end, number, 1, sender)


def sends_in_bursts(address, peer, place):
    sock = bound(address, CLIENT_PORT)
    sock.connect((peer, SERVER_PORT))
    announce("ready")
    notes = sends_of(sock, proto="udp")
    for burst in range(BURSTS):
        calls = []
        for number in range(BURST * burst, BURST * (burst + 1)):
            data = datagram(number)
            begin = time.monotonic_ns()
            sock.send(data)
            calls.append((begin, time.monotonic_ns(), number))
        for begin, end, number in calls:
            notes.note(begin, end, number, 1)
        place.wait(f"read {burst}")


def reads_by_two_threads(address, _, place):
    sock = bound(address, SERVER_PORT)
    sock.setblocking(False)
    announce("ready")
    reads = []
    lock = threading.Lock()

    def read():
        while len(reads) < BURSTS * BURST:
            select.select([sock], [], [], 0.1)
            try:
                begin = time.monotonic_ns()
                data, sender = sock.recvfrom(1_000)
                end = time.monotonic_ns()
            except BlockingIOError:
                continue
            with lock:
                reads.append((begin, end, number_of(data), sender, threading.get_native_id()))
                if len(reads) % BURST == 0:
                    place.reach(f"read {len(reads) // BURST - 1}")

    threads = [threading.Thread(target=read) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for begin, end, number, sender, tid in reads:
        Notes("read", talk("udp", sender, sock.getsockname())).note(begin, end, number, 1, tid=tid)


if __name__ == "__main__":
    role, address, peer, directory, *more = sys.argv[1:]
    globals()[role](address, peer, Place(directory), *more)
