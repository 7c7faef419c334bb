"""Programs that drop every seventh datagram: of interfaces, cgroups and sockets.

    deciders.py attach KIND DIRECTION NAME [DEVICE]
                                                attaches one to a device of this namespace, `v0` by default, and ends;
                                                `by_chance` drops one packet of seven, `passes` none
    deciders.py ROLE ADDRESS PEER DIRECTORY     as packets.py
"""

import subprocess

from packets import *
from streams import large, much

NR_BPF = 280 if os.uname().machine == "aarch64" else 321
PROG_LOAD, PROG_ATTACH = 5, 8
SOCKET_FILTER, SCHED_CLS, XDP, CGROUP_SKB, SK_REUSEPORT = 1, 3, 6, 8, 21
SO_ATTACH_FILTER, SO_ATTACH_BPF, SO_ATTACH_REUSEPORT_EBPF = 26, 50, 52
# Loads of a number from memory: of four and of eight bytes.
FOUR, EIGHT = 0x61, 0x79
# The helper `bpf_get_prandom_u32`.
RANDOM = 7
# Where the number's last byte is: behind the headers that the program sees.
ETHERNET, IP, UDP, LAST = 14, 20, 8, 7


def bpf(command, attributes, what):
    buffer = (ctypes.c_char * 128).from_buffer_copy(attributes.ljust(128, b"\0"))
    return checked(libc.syscall(NR_BPF, command, buffer, 128), what)


def instruction(code, target=0, source=0, offset=0, value=0):
    return struct.pack("=BBhi", code, target | source << 4, offset, value)


def verdict(take, drop):
    """Drops by the number in register 0."""
    rest = [instruction(0x97, value=7), instruction(0x15, offset=2, value=3)]
    return rest + [instruction(0xB7, value=take), instruction(0x95), instruction(0xB7, value=drop), instruction(0x95)]


def of_packet(at, take, drop):
    """Reads a byte of the packet as classic programs do."""
    return [instruction(0xBF, 6, 1), instruction(0x30, value=at)] + verdict(take, drop)


def of_bytes(bounds, at, take, drop, load=FOUR):
    """Reads a byte between the bounds that the program's context has, if there are as many."""
    load = [instruction(load, 2, 1, bounds[0]), instruction(load, 3, 1, bounds[1]), instruction(0xBF, 4, 2)]
    load += [instruction(0x07, 4, value=at + 1), instruction(0x2D, 4, 3, 3)]
    return load + [instruction(0x71, 0, 2, at)] + verdict(take, drop)


def loaded(kind, name, code):
    text, license = b"".join(code), ctypes.create_string_buffer(b"GPL")
    code = ctypes.create_string_buffer(text)
    attributes = struct.pack("=IIQQ", kind, len(text) // 8, ctypes.addressof(code), ctypes.addressof(license))
    attributes += struct.pack("=IIQII", 0, 0, 0, 0, 0) + name.encode().ljust(16, b"\0")
    # A program of a cgroup is loaded for its direction.
    attributes += struct.pack("=II", 0, 1 if kind == CGROUP_SKB else 0)
    return bpf(PROG_LOAD, attributes, "a BPF program")


def attach_to(target, program, list, flags=0):
    bpf(PROG_ATTACH, struct.pack("=IIIIIIQ", target, program, list, flags, 0, 0, 0), "attaching a BPF program")


def attribute(kind, value):
    text = struct.pack("=HH", 4 + len(value), kind) + value
    return text.ljust((len(text) + 3) // 4 * 4, b"\0")


def request(kind, flags, body):
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0) as sock:
        sock.send(struct.pack("=IHHII", 16 + len(body), kind, 0x5 | flags, 1, 0) + body)
        error = struct.unpack_from("=i", sock.recv(65_536), 16)[0]
    if error:
        raise OSError(-error, f"netlink: {os.strerror(-error)}")


def attach_xdp(index, program, is_generic):
    mode = attribute(3, struct.pack("=I", 2 if is_generic else 4))
    link = struct.pack("=BxHiII", 0, 0, index, 0, 0)
    request(19, 0, link + attribute(43 | 0x8000, attribute(1, struct.pack("=i", program)) + mode))


def attach(kind, direction, name, device="v0"):
    index = socket.if_nametoindex(device)
    is_egress = direction == "egress"
    if kind in ("xdp", "xdp_generic"):
        passes = [instruction(0xB7, value=2), instruction(0x95)]
        of_seventh = of_bytes((0, 4), ETHERNET + IP + UDP + LAST, 2, 1)
        program = loaded(XDP, name, passes if name == "passes" else of_seventh)
        attach_xdp(index, program, kind == "xdp_generic")
        return
    by_chance = [instruction(0x85, value=RANDOM)] + verdict(0, 2)
    program = loaded(SCHED_CLS, name, by_chance if name == "by_chance" else of_packet(ETHERNET + IP + UDP + LAST, 0, 2))
    if kind == "tcx":
        attach_to(index, program, 47 if is_egress else 46)
        return
    of_filter = attribute(6, struct.pack("=I", program)) + attribute(7, name.encode() + b"\0")
    of_filter += attribute(8, struct.pack("=I", 1))
    parent = 0xFFFFFFF3 if is_egress else 0xFFFFFFF2
    head = struct.pack("=BxxxiIII", 0, index, 1, parent, 1 << 16 | socket.htons(3))
    request(44, 0x600, head + attribute(1, b"bpf\0") + attribute(2, of_filter))


def sends_in_cgroup(address, peer, place):
    """A cgroup of its own, whose program drops some of the datagrams: their calls fail."""
    # `ip netns exec` hides the mounts below /sys, and its own mounts end with this process.
    root = place.path / "cgroup"
    root.mkdir()
    checked(libc.mount(b"none", str(root).encode(), b"cgroup2", 0, None), "mounting cgroup v2")
    home = Path(f"{root}{Path('/proc/self/cgroup').read_text().rsplit('::', 1)[-1].strip()}")
    group = root / f"magscope-row-{os.getpid()}"
    group.mkdir()
    (group / "cgroup.procs").write_text(str(os.getpid()))
    directory = os.open(group, os.O_RDONLY)
    try:
        attach_to(directory, loaded(CGROUP_SKB, "seventh", of_bytes((76, 80), IP + UDP + LAST, 1, 0)), 1)
        sock = bound(address, CLIENT_PORT)
        sock.connect((peer, SERVER_PORT))
        announce("ready")
        place.wait("recorded")
        notes = sends_of(sock, proto="udp")
        for number in range(COUNT + 1):
            data = datagram(number, SEGMENT if number < COUNT else HEAD.size)
            begin = time.monotonic_ns()
            try:
                sock.send(data)
            except PermissionError:
                pass
            notes.note(begin, time.monotonic_ns(), number, 1)
    finally:
        (home / "cgroup.procs").write_text(str(os.getpid()))
        os.close(directory)
        group.rmdir()


def reads_through_filter(address, peer, place):
    """A classic filter of the socket drops some; it sees them from the header of UDP on."""
    sock = bound(address, SERVER_PORT)
    sock.connect((peer, CLIENT_PORT))
    code = [(0x30, 0, 0, UDP + LAST), (0x94, 0, 0, 7), (0x15, 0, 1, 3), (0x06, 0, 0, 0), (0x06, 0, 0, 0xFFFF)]
    code = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *line) for line in code))
    sock.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, struct.pack("@HP", 5, ctypes.addressof(code)))
    announce("ready")
    by_recvfrom(Reads(sock), place)


def reads_through_program(address, peer, place):
    """The same by a program."""
    sock = bound(address, SERVER_PORT)
    sock.connect((peer, CLIENT_PORT))
    program = loaded(SOCKET_FILTER, "seventh", of_packet(UDP + LAST, 0xFFFF, 0))
    sock.setsockopt(socket.SOL_SOCKET, SO_ATTACH_BPF, struct.pack("@i", program))
    announce("ready")
    place.wait("recorded")
    by_recvfrom(Reads(sock), place)


def reads_stream_through_program(address, peer, place):
    """A program drops one segment of seven, by chance. Those are sent again."""
    server = listener(address)
    announce("ready")
    sock, _ = server.accept()
    program = loaded(SOCKET_FILTER, "by_chance", [instruction(0x85, value=RANDOM)] + verdict(1 << 20, 0))
    sock.setsockopt(socket.SOL_SOCKET, SO_ATTACH_BPF, struct.pack("@i", program))
    large(sock, reads_of(sock), place)


def sends_stream(address, peer, place):
    sock = connected(address, peer)
    announce("ready")
    much(sock, sends_of(sock), place)


def reads_in_group(address, peer, place):
    """The program of a group of sockets at one port refuses some, as if no socket was there."""
    sock = bound(address, SERVER_PORT, [(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)])
    program = loaded(SK_REUSEPORT, "seventh", of_bytes((0, 8), UDP + LAST, 1, 0, EIGHT))
    sock.setsockopt(socket.SOL_SOCKET, SO_ATTACH_REUSEPORT_EBPF, struct.pack("@i", program))
    announce("ready")
    by_recvfrom(Reads(sock), place)


def sends_without_peer(address, peer, place):
    """A socket without a peer is not told that a datagram was refused."""
    sock = bound(address, CLIENT_PORT)
    announce("ready")
    to = (peer, SERVER_PORT)
    notes = Notes("send", talk("udp", sock.getsockname(), to))
    for number in range(COUNT + 1):
        data = datagram(number, SEGMENT if number < COUNT else HEAD.size)
        begin = time.monotonic_ns()
        sock.sendto(data, to)
        notes.note(begin, time.monotonic_ns(), number, 1)


def sends_later(address, peer, place):
    sock = bound(address, CLIENT_PORT)
    sock.connect((peer, SERVER_PORT))
    announce("ready")
    place.wait("recorded")
    notes = sends_of(sock, proto="udp")
    one_by_one(sock, notes, place)
    send_one(sock, notes, HEAD.size)


def reads_and_adds_a_rule(address, peer, place):
    """Adds a rule, which drops none of these, once the first half has come."""
    sock = bound(address, SERVER_PORT)
    sock.connect((peer, CLIENT_PORT))
    announce("ready")
    reads = Reads(sock)
    place.wait("half")
    while select.select([sock], [], [], 0)[0]:
        reads.each(lambda: sock.recvfrom(2_000))
    subprocess.run("nft add rule inet row arrivals udp dport 7200 drop".split(), check=True)
    place.reach("added")
    by_recvfrom(reads, place)


def sends_in_halves(address, peer, place):
    sock = bound(address, CLIENT_PORT)
    sock.connect((peer, SERVER_PORT))
    announce("ready")
    notes = sends_of(sock, proto="udp")
    for number in range(COUNT):
        if number == COUNT // 2:
            place.reach("half")
            place.wait("added")
        send_one(sock, notes, SEGMENT)
    send_one(sock, notes, HEAD.size)


def reads_later(address, peer, place):
    sock = bound(address, SERVER_PORT)
    sock.connect((peer, CLIENT_PORT))
    announce("ready")
    place.wait("recorded")
    by_recvfrom(Reads(sock), place)


if __name__ == "__main__":
    role, *others = sys.argv[1:]
    if role == "attach":
        attach(*others)
    else:
        address, peer, directory, *arguments = others
        globals()[role](address, peer, Place(directory), *arguments)
