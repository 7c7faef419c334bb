"""Figures 6 and 7 of "MAGNET: a tool for debugging, analyzing and adapting computing systems" (2003), with real traffic of this host.

    sudo figures.py run MAGNET-SCOPE OUT [NAME…]   two namespaces, 300 Mbit/s between them, an agent at the receiver: CSV files in OUT
    figures.py plot OUT PICTURES                   pictures of them; needs matplotlib

Names are figure-6, figure-7 and frame-rate; all of them unless some are given.

The receiver gives its rights away and is an ordinary user's program. Nothing is left behind.
"""

import collections
import csv
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../python"))
import magnet_scope

MBIT = 300
SENDER, RECEIVER = "10.78.0.1", "10.78.0.2"
FILE = 467_000_000  # bytes, as the file of figure 6
WINDOW = 1000  # receives
READ = 16_384  # bytes a receive, at most
CONGESTED = 14.3, 19.3  # seconds


def send(to, port, seconds=None, size=None):
    """Sends for so long, or so much."""
    stream = socket.create_connection((to, int(port)))
    chunk, sent, began = bytes(65_536), 0, time.monotonic()
    while (seconds and time.monotonic() - began < float(seconds)) or (size and sent < int(size)):
        left = int(size) - sent if size else len(chunk)
        stream.sendall(chunk[:left])
        sent += min(left, len(chunk))


def receive(out, watch_socket):
    """Reads one stream to its end; meanwhile asks twenty times a second, and keeps a window of its own to compare."""
    listener = socket.create_server((RECEIVER, 9000))
    file = open(out + ".csv", "w", newline="")
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
    print("ready", flush=True)
    stream = listener.accept()[0]
    watch = magnet_scope.Watch(stream, receives=WINDOW, path=watch_socket)
    began = watch.since_ns
    own = collections.deque([(began, 0)], WINDOW + 1)
    state = {"bytes": 0, "calls": 0, "end": None}
    rows = []

    def ask():
        while True:
            at = time.monotonic_ns()
            averages = watch.ask()
            times = list(own)
            if "unknown" not in averages["received"]:
                rate = averages["received"]
                mine = (times[-1][1] - times[0][1]) * 1e9 / max(1, times[-1][0] - times[0][0])
                rows.append(
                    [
                        (at - began) / 1e9,
                        (averages["as_of_ns"] - began) / 1e9,
                        rate["window"]["bytes_per_s"],
                        rate["overall"]["bytes_per_s"],
                        mine,
                        averages["age_ns"] / 1e6,
                        averages["lost"],
                    ]
                )
            if state["end"] and averages["as_of_ns"] > state["end"]:
                return averages
            time.sleep(0.05)

    last = []
    asks = threading.Thread(target=lambda: last.append(ask()))
    asks.start()
    while data := stream.recv(READ):
        state["bytes"] += len(data)
        state["calls"] += 1
        own.append((time.monotonic_ns(), state["bytes"]))
    state["end"] = time.monotonic_ns()
    asks.join()
    with file:
        lines = csv.writer(file)
        names = ["asked_s", "as_of_s", "reported_bytes_per_s", "reported_overall_bytes_per_s", "own_bytes_per_s", "age_ms", "lost"]
        lines.writerow(names)
        lines.writerows([[f"{value:.6g}" if isinstance(value, float) else value for value in row] for row in rows])
    overall = last[0]["received"]["overall"]
    own_rate = state["bytes"] * 1e9 / (state["end"] - began)
    latency = last[0]["latency"]
    print(f"program: {state['bytes']} bytes in {state['calls']} receives, {own_rate:.0f} bytes/s")
    print(f"agent:   {overall['bytes']} bytes in {overall['calls']} receives, {overall['bytes_per_s']:.0f} bytes/s")
    print(f"lost {last[0]['lost_overall']}, latency {latency}")


def run(binary, out, *chosen):
    """The experiments, one after the other."""
    wanted = lambda name: not chosen or name in chosen
    os.makedirs(out, exist_ok=True)
    names = [f"figures-{os.getpid()}-{role}" for role in ("sender", "receiver")]
    ip = lambda *words: subprocess.run(["ip", *words], check=True)
    inside = lambda name, *words, **more: subprocess.Popen(["ip", "netns", "exec", name, *words], **more)
    me = [sys.executable, os.path.abspath(__file__)]
    with tempfile.TemporaryDirectory() as place:
        os.chmod(place, 0o755)
        watch_socket, running = os.path.join(place, "watch.sock"), []
        environment = {**os.environ, "MAGNET_SCOPE_WATCH": watch_socket}
        try:
            for name in names:
                ip("netns", "add", name)
            ip("link", "add", "f0", "netns", names[0], "type", "veth", "peer", "name", "f1", "netns", names[1])
            for name, device, address in zip(names, ("f0", "f1"), (SENDER, RECEIVER)):
                ip("-n", name, "addr", "add", f"{address}/24", "dev", device)
                ip("-n", name, "link", "set", device, "up")
            tc = ["tc", "-n", names[0], "qdisc", "add", "dev", "f0"]
            shape = ["root", "handle", "1:", "tbf", "rate", f"{MBIT}mbit", "burst", "64kb", "latency", "50ms"]
            subprocess.run(tc + shape, check=True)
            agent = inside(
                names[1],
                binary,
                "agent",
                *("--socket", os.path.join(place, "agent.sock"), "--watch-socket", watch_socket, "--max-overhead", "off"),
                stderr=subprocess.DEVNULL,
            )
            running.append(agent)
            while not os.path.exists(watch_socket):
                time.sleep(0.1)
            time.sleep(1)
            other = lambda: inside(names[1], *me, "swallow", stdout=subprocess.PIPE, text=True)
            for figure, stream in (("figure-6", [f"size={FILE}"]), ("figure-7", ["seconds=25"])):
                if not wanted(figure):
                    continue
                receiver = inside(
                    names[1], *me, "receive", os.path.join(out, figure), watch_socket, stdout=subprocess.PIPE, text=True
                )
                assert receiver.stdout.readline() == "ready\n"
                second = other() if figure == "figure-7" else None
                running += [process for process in (receiver, second) if process]
                sender = inside(names[0], *me, "send", RECEIVER, "9000", *stream)
                began = time.monotonic()
                if second:
                    second.stdout.readline()
                    congest(inside, names[0], me, began)
                sender.wait()
                text = receiver.communicate()[0]
                with open(os.path.join(out, figure + ".txt"), "w") as file:
                    file.write(text)
                print(f"{figure}\n{text}", end="")
            if not wanted("frame-rate"):
                return
            example = [sys.executable, os.path.join(HERE, "frame_rate.py")]
            second = other()
            second.stdout.readline()
            renderer = inside(names[0], *example, "renderer", f"{SENDER}:9002")
            running += [second, renderer]
            time.sleep(1)
            with open(os.path.join(out, "frame-rate.csv"), "w") as file:
                words = (*example, "display", f"{SENDER}:9002", "25")
                display = inside(names[1], *words, stdout=file, env=environment)
                running.append(display)
                congest(inside, names[0], me, time.monotonic())
                display.wait()
        finally:
            for process in running:
                process.kill()
                process.wait()
            for name in names:
                subprocess.run(["ip", "netns", "del", name], check=False)


def congest(inside, name, me, began):
    """The second stream, in its time."""
    time.sleep(max(0, began + CONGESTED[0] - time.monotonic()))
    inside(name, *me, "send", RECEIVER, "9001", f"seconds={CONGESTED[1] - CONGESTED[0]}").wait()


def swallow():
    """Reads one other stream."""
    listener = socket.create_server((RECEIVER, 9001))
    print("ready", flush=True)
    stream = listener.accept()[0]
    while stream.recv(65_536):
        pass


def plot(out, pictures):
    import matplotlib

    matplotlib.use("svg")
    import matplotlib.pyplot as plot

    matplotlib.rcParams["svg.hashsalt"] = "magnet-scope"

    def columns(name):
        with open(os.path.join(out, name)) as file:
            rows = list(csv.DictReader(file))
        return {key: [float(row[key] or "nan") for row in rows] for key in rows[0]}

    def draw(name, y, lines, marks=()):
        figure, axes = plot.subplots(figsize=(7, 3.2), layout="constrained")
        for x, values, label, style in lines:
            axes.plot(x, values, style, label=label, linewidth=1.2)
        for mark in marks:
            axes.axvline(mark, color="grey", linestyle=":", linewidth=1)
        axes.set(xlabel="s", ylabel=y, ylim=(0, None), xlim=(0, None))
        axes.legend(loc="lower left", frameon=False)
        figure.savefig(os.path.join(pictures, name), metadata={"Date": None})

    mbit = lambda values: [value * 8 / 1e6 for value in values]
    six = columns("figure-6.csv")
    draw(
        "client-figure-6.svg",
        "Mbit/s",
        [
            (six["as_of_s"], mbit(six["reported_bytes_per_s"]), f"reported, over {WINDOW:,} receives", "C0-"),
            (six["as_of_s"], mbit(six["reported_overall_bytes_per_s"]), "reported, overall", "C1-"),
        ],
    )
    seven = columns("figure-7.csv")
    draw(
        "client-figure-7.svg",
        "Mbit/s",
        [
            (seven["asked_s"], mbit(seven["own_bytes_per_s"]), f"the program's own, over {WINDOW:,} receives", "C2-"),
            (seven["as_of_s"], mbit(seven["reported_bytes_per_s"]), f"reported, over {WINDOW:,} receives", "C0--"),
        ],
        CONGESTED,
    )
    frames = columns("frame-rate.csv")
    draw(
        "client-frame-rate.svg",
        "frames/s",
        [
            (frames["time_s"], frames["wanted_fps"], "wanted", "C3-"),
            (frames["time_s"], [rate / 250_000 for rate in frames["reported_bytes_per_s"]], "reported, in frames", "C0--"),
        ],
        CONGESTED,
    )


if __name__ == "__main__":
    role, *rest = sys.argv[1:]
    if role == "send":
        send(*rest[:2], **dict(word.split("=") for word in rest[2:]))
    else:
        {"run": run, "receive": receive, "swallow": swallow, "plot": plot}[role](*rest)
