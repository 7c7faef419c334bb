"""Settings of interfaces that old versions of `ip` lack.

    networks.py big INTERFACE BYTES
"""

from notes import *

RTM_NEWLINK, NLM_F_REQUEST, NLM_F_ACK, NLMSG_ERROR = 16, 1, 4, 2
SIZES = {"GRO_MAX": 58, "GSO_MAX": 41, "GSO_IPV4_MAX": 63, "GRO_IPV4_MAX": 64}


def big(interface, size):
    """Super-packets of an interface may have this many bytes (BIG TCP)."""
    attributes = b"".join(struct.pack("=HHI", 8, kind, int(size)) for kind in SIZES.values())
    body = struct.pack("=BxHiII", 0, 0, socket.if_nametoindex(interface), 0, 0) + attributes
    sock = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)
    sock.send(struct.pack("=IHHII", 16 + len(body), RTM_NEWLINK, NLM_F_REQUEST | NLM_F_ACK, 1, 0) + body)
    answer = sock.recv(4_096)
    _, kind, _, _, _, error = struct.unpack_from("=IHHIIi", answer)
    if kind != NLMSG_ERROR or error:
        sys.exit(f"the kernel refused the size: {os.strerror(-error)}")


if __name__ == "__main__":
    big(*sys.argv[2:])
