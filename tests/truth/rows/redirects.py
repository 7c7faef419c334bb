"""Programs that send packets on, or back, before the stack has them.

    redirects.py attach KIND INTERFACE [INTERFACE]  attaches one to the first interface of this namespace, and ends
    redirects.py ROLE ADDRESS PEER DIRECTORY        as packets.py
"""

from deciders import *

REDIRECT = 23
XDP_PASS, XDP_TX = 2, 3


def to_interface(index):
    """Every packet goes to another interface."""
    call = [instruction(0xB7, 1, value=index), instruction(0xB7, 2), instruction(0x85, value=REDIRECT)]
    return call + [instruction(0x95)]


def swapped(first, second, bytes):
    """Swaps two fields of the packet, whose address is in register 2."""
    load, store = {4: (0x61, 0x63), 2: (0x69, 0x6B)}[bytes]
    loads = [instruction(load, 5, 2, first), instruction(load, 6, 2, second)]
    return loads + [instruction(store, 2, 6, first), instruction(store, 2, 5, second)]


def some_sent_back():
    """Every seventh datagram over IPv4 returns with its ends exchanged; all other packets pass."""
    swaps = swapped(0, 6, 4) + swapped(4, 10, 2) + swapped(26, 30, 4) + swapped(34, 36, 2)
    ends = [instruction(0xB7, 0, value=XDP_TX), instruction(0x95)]
    number = ETHERNET + IP + UDP + LAST
    load = [instruction(0x61, 2, 1, 0), instruction(0x61, 3, 1, 4), instruction(0xBF, 4, 2)]
    load += [instruction(0x07, 4, value=number + 1), instruction(0x2D, 4, 3, len(swaps) + 7)]
    load += [instruction(0x71, 5, 2, 23), instruction(0x55, 5, 0, len(swaps) + 5, socket.IPPROTO_UDP)]
    load += [instruction(0x71, 5, 2, number), instruction(0x97, 5, value=7)]
    load += [instruction(0x55, 5, 0, len(swaps) + 2, 3)]
    return load + swaps + ends + [instruction(0xB7, 0, value=XDP_PASS), instruction(0x95)]


def attach_between(kind, at, to=None):
    index = socket.if_nametoindex(at)
    if kind == "tcx":
        attach_to(index, loaded(SCHED_CLS, "onward", to_interface(socket.if_nametoindex(to))), 46)
    elif kind in ("xdp", "xdp_generic"):
        program = loaded(XDP, "onward", to_interface(socket.if_nametoindex(to)))
        attach_xdp(index, program, kind == "xdp_generic")
    elif kind == "back":
        attach_xdp(index, loaded(XDP, "back", some_sent_back()), False)
    else:
        # A driver takes frames of programs where a program is attached.
        passing = [instruction(0xB7, 0, value=XDP_PASS), instruction(0x95)]
        attach_xdp(index, loaded(XDP, "passing", passing), False)


def sends_to_be_sent_back(address, peer, place):
    """Reads what comes back. The last one is sent when the others are too old to be in flight: after ten seconds."""
    sock = bound(address, CLIENT_PORT)
    sock.connect((peer, SERVER_PORT))
    announce("ready")
    notes = sends_of(sock, proto="udp")
    for number in range(11):
        send_one(sock, notes, SEGMENT)
        if number % 7 == 3 and number_of(sock.recv(2_000)) != number:
            sys.exit("another datagram came back")
    time.sleep(11)
    send_one(sock, notes, HEAD.size)


def reads_others(address, peer, place):
    sock = bound(address, SERVER_PORT)
    sock.connect((peer, CLIENT_PORT))
    announce("ready")
    by_recvfrom(Reads(sock), place)


if __name__ == "__main__":
    role, *others = sys.argv[1:]
    if role == "attach":
        attach_between(*others)
    else:
        address, peer, directory, *arguments = others
        globals()[role](address, peer, Place(directory), *arguments)
