"""An application that adapts: a display that lowers its frame rate when the average of what comes falls.

    frame_rate.py renderer ADDRESS:PORT            sends frames, as many a second as the display wants
    frame_rate.py display ADDRESS:PORT SECONDS     draws them, and asks the agent on its host what the network gives

The display decides when the last half second, as the agent tells it, lies whole behind its last decision: before that it would see its
own doing. If clearly less came than it wanted, it wants what came; else it wants a tenth more. Prints a line of CSV each time.
"""

import os
import socket
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../python"))
import magnet_scope

FRAME = 250_000  # bytes
MOST, LEAST = 120.0, 5.0  # frames a second


def address(text):
    host, port = text.rsplit(":", 1)
    return host, int(port)


def renderer(at):
    """Frames at the rate that was wanted last, until the display goes."""
    with socket.create_server(at) as listener:
        display = listener.accept()[0]
    wanted = [MOST]

    def listen():
        try:
            with display.makefile() as lines:
                for line in lines:
                    wanted[0] = float(line)
        except OSError:
            pass  # it has gone

    threading.Thread(target=listen, daemon=True).start()
    due = time.monotonic()
    try:
        while True:
            display.sendall(bytes(FRAME))
            # What could not be sent in time is not made up for: that would only lengthen the queue.
            due = max(due + 1 / wanted[0], time.monotonic())
            time.sleep(max(0, due - time.monotonic()))
    except OSError:
        pass


def display(at, seconds):
    """Draws for so long. Frames that are late cost nothing here but the wish for fewer."""
    stream = socket.create_connection(at)
    watch = magnet_scope.Watch(stream, seconds=0.5, change=0.05, pause_s=0.1)
    began, drawn, wanted, decided = time.monotonic(), 0, MOST, time.monotonic_ns()
    asked = began
    print("time_s,wanted_fps,reported_bytes_per_s,drawn_bytes", flush=True)
    while time.monotonic() - began < seconds:
        drawn += len(stream.recv(FRAME))
        averages = watch.next(0)
        if averages is None and time.monotonic() - asked > 0.2:
            averages, asked = watch.ask(), time.monotonic()  # nothing has changed: then it may try for more
        if averages is None or "unknown" in averages["received"]:
            continue
        window = averages["received"]["window"]
        if window["from_ns"] < decided + 100_000_000 or window["bytes_per_s"] is None:
            continue
        came = window["bytes_per_s"] / FRAME
        wanted = max(LEAST, came) if came < 0.85 * wanted else min(MOST, 1.1 * wanted)
        decided = time.monotonic_ns()
        stream.sendall(f"{wanted}\n".encode())
        print(f"{time.monotonic() - began:.3f},{wanted:.1f},{window['bytes_per_s']:.0f},{drawn}", flush=True)


if __name__ == "__main__":
    if sys.argv[1] == "renderer":
        renderer(address(sys.argv[2]))
    else:
        display(address(sys.argv[2]), float(sys.argv[3]))
