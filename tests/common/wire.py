"""A wire between two hosts in user space: each frame is sent again after a delay, or lost.

usage: wire.py NETNS DEVICE NETNS DEVICE DELAY_MS DELAY_MS LOSS_PERCENT

Both devices are made here, as TAPs: whatever a kernel sends on one is read by this program. The delays are of frames
from the first device and of those from the second.
"""

import ctypes
import fcntl
import heapq
import os
import random
import select
import struct
import sys
import time

TUNSETIFF, IFF_TAP, IFF_NO_PI, CLONE_NEWNET = 0x400454CA, 2, 0x1000, 0x40000000


def opened(netns, device):
    with open(f"/run/netns/{netns}", "rb") as there:
        if ctypes.CDLL(None, use_errno=True).setns(there.fileno(), CLONE_NEWNET) != 0:
            raise OSError(ctypes.get_errno(), netns)
    tap = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(tap, TUNSETIFF, struct.pack("16sH22x", device.encode(), IFF_TAP | IFF_NO_PI))
    return tap


def main():
    ends = [opened(*sys.argv[1:3]), opened(*sys.argv[3:5])]
    delays_ns = [int(float(ms) * 1e6) for ms in sys.argv[5:7]]
    loss = float(sys.argv[7]) / 100
    chance = random.Random(2026)
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    except OSError:
        pass  # the quickest packets count
    print("ready", flush=True)
    waiting, number = [], 0
    while True:
        now_ns = time.monotonic_ns()
        while waiting and waiting[0][0] <= now_ns:
            _, _, end, frame = heapq.heappop(waiting)
            try:
                os.write(end, frame)
            except OSError:
                pass  # a device that is down, or without room
        left = max(0, waiting[0][0] - now_ns) / 1e9 if waiting else None
        for end in select.select(ends, [], [], left)[0]:
            side = ends.index(end)
            came_ns = time.monotonic_ns()
            while True:
                try:
                    frame = os.read(end, 1 << 17)
                except BlockingIOError:
                    break
                except OSError:
                    return
                if chance.random() >= loss:
                    number += 1
                    heapq.heappush(waiting, (came_ns + delays_ns[side], number, ends[1 - side], frame))


main()
