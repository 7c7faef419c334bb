#!/usr/bin/env python3
"""Runs every command of README.md, docs/agents.md, the tutorial and the how-to pages literally, on hosts made of
namespaces.

usage: scripts/run-documents.py MAGNET_SCOPE [PART…]     (default: all parts, one after the other, each on hosts of its own)
       scripts/run-documents.py --check                  (prints the parts; nothing runs)

Commands come from the documents: each line of a block of `sh`, and each command in the text. PLAN has for
each the method, or the reason why it is not run. A command without a line in PLAN fails, and so does a line
of PLAN without its command.

Hosts have their own namespaces for network, mounts and host name, on one bridge without a route to the
outside. Their /etc is a copy, so the machine's own /etc/hosts is never changed. The prompt before a command
names its host (`web-1$`); without a prompt it is `viewer`.
"""

import os
import pty
import re
import select
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
README, AGENTS, TUTORIAL = "README.md", "docs/agents.md", "docs/tutorial.md"
QUESTIONS = [f"docs/how-to/{name}.md" for name in
             ("slow-request", "dropped-packets", "network-or-server", "two-hosts", "container", "recording")]
SLOW, DROPS, SERVER, TWO_HOSTS, CONTAINER, RECORDING = QUESTIONS
PATIENCE = 120  # seconds for a condition to hold

ADDRESSES = {
    "web-1": "10.0.0.1", "web-2": "10.0.0.2", "web-3": "10.0.0.3", "relay": "10.0.0.5", "bus": "10.0.0.9",
    "client": "10.0.0.11", "server": "10.0.0.12", "worker-1": "10.0.0.21", "worker-2": "10.0.0.22", "viewer": "10.0.0.30",
}
ALIASES = {"bus": ["bus.example.org"]}


class Ends:
    """Runs to its end, with success, while there is traffic."""


class Serves:
    """Runs until the document's end. It is ready when it prints these words."""

    def __init__(self, words, also=()):
        self.words, self.also = words, also


class Screen:
    """Draws a screen; `q` ends it once it shows these words, and saved something into that directory."""

    def __init__(self, *words, saves=None):
        self.words, self.saves = words, saves


class Interrupted:
    """Runs until Ctrl-C, once these files are there."""

    def __init__(self, *files):
        self.files = files


class NotRun:
    """Is not run, with this reason."""

    def __init__(self, reason):
        self.reason = reason


DISPLAY = NotRun("it opens a window, and there is no display here; tests/window.rs draws it without one")
BUILDS = NotRun("it builds this program, of which this is a test")
ENGINE = NotRun("it needs a container; tests/containers.rs runs three engines and captures theirs")
# Both ends, recorded at the same time.
BOTH = {
    "client$ sudo magnet-scope record -o client.session --duration 20s": Ends(),
    "server$ sudo magnet-scope record -o server.session --duration 20s": Ends(),
}
FORM = NotRun("a form with placeholders or without arguments, not a command: tests/cli.rs has all subcommands")

PLAN = {
    README: {
        "make run": BUILDS,
        "make test": BUILDS,
        "client$ sudo magnet-scope record -o client.session --duration 1m": Ends(),
        "server$ sudo magnet-scope record -o server.session --duration 1m": Ends(),
        "magnet-scope journeys client.session server.session": Ends(),
        "sudo setcap cap_bpf,cap_perfmon,cap_net_admin+ep ./target/dist/magnet-scope": Ends(),
        "magnet-scope demo": Screen("client", "server"),
        "sudo magnet-scope demo --tour": NotRun("tests/tour.rs plays all of it"),
        "sudo magnet-scope": Screen("journeys"),
        "sudo magnet-scope gui --live": DISPLAY,
        "magnet-scope gui DIR…": DISPLAY,
        "sudo magnet-scope record -o DIR --duration 1m": NotRun("it is run as `record -o client.session --duration 1m`"),
        "magnet-scope replay DIR…": Screen("journeys"),
        "magnet-scope info DIR…": Ends(),
        "magnet-scope ship DIR URL": FORM,
        "magnet-scope report DIR…": Ends(),
        "magnet-scope requests DIR…": FORM,
        "sudo magnet-scope run -- curl …": FORM,
        "sudo magnet-scope run -- curl -sS -o page.html http://server:8080/": NotRun("it is run with a page's path, on the client"),
        "magnet-scope journeys DIR… --where 'total > 5ms'": Ends(),
        "magnet-scope compare BEFORE AFTER": Ends(),
        "magnet-scope align A B": Ends(),
        "magnet-scope export DIR… --format parquet -o OUT": Ends(),
        "magnet-scope import LOG -o DIR": FORM,
        'magnet-scope query DIR… "SELECT …"': FORM,
        "magnet-scope agent": FORM,
        "magnet-scope --connect A,B": FORM,
        "magnet-scope relay": FORM,
        "magnet-scope metrics": FORM,
        "magnet-scope health": NotRun("its exit code is what the host's network is like"),
        "magnet-scope ctl disable dev.queue": NotRun("it needs a capture that runs on the viewer's host; tests/ctl.rs has it"),
        "magnet-scope mon": FORM,
        "magnet-scope supermon": FORM,
        "magnet-scope sched": FORM,
        "magnet-scope config": Ends(),
        "magnet-scope doctor": Ends(),
        "magnet-scope hops": Ends(),
        "magnet-scope man": Ends(),
        "magnet-scope completions bash": Ends(),
    },
    AGENTS: {
        "magnet-scope agent init tls --host web-1,10.0.0.1 --host web-2,10.0.0.2 --host web-3,10.0.0.3": Ends(),
        "magnet-scope agent init tls --relay relay,10.0.0.5 --viewer ops --viewer 'guest?no-payload'": Ends(),
        "web-1$ sudo magnet-scope agent --listen 0.0.0.0:6246 --tls /etc/magnet-scope":
            Serves("listening at 0.0.0.0:6246", also=("web-2", "web-3")),
        "magnet-scope --connect web-1,web-2": Screen("web-1", "web-2"),
        "magnet-scope gui --connect web-1,web-2": DISPLAY,
        "magnet-scope record --connect web-1,web-2 -o slow --duration 1m": Ends(),
        "magnet-scope agent about web-1": Ends(),
        "magnet-scope --connect unix:/run/magnet-scope/agent.sock":
            NotRun("it is for the agent's own host; tests/agents.rs reads one by its socket"),
        "relay$ magnet-scope relay --connect web-1,web-2,web-3 --listen 0.0.0.0:6246 --tls /etc/magnet-scope":
            Serves("listening at 0.0.0.0:6246"),
        "magnet-scope --connect relay": Screen("web-1", "web-2", "web-3"),
        "magnet-scope agent init tls --host bus.example.org,10.0.0.9": Ends(),
        "bus$ nats-server -c bus.conf": Serves("Server is ready"),
        "web-1$ sudo magnet-scope agent --via tls://bus.example.org --tls /etc/magnet-scope":
            Serves("publishing as", also=("web-2",)),
        "magnet-scope --via tls://bus.example.org": Screen("web-1", "web-2"),
        "magnet-scope record --via tls://bus.example.org --hosts web-1,web-2 -o both":
            Interrupted("both/web-1/meta.toml", "both/web-2/meta.toml"),
        "worker-1$ magnet-scope record --via tls://bus.example.org --buckets 0-31 -o one":
            Interrupted("one/web-1/meta.toml", "one/web-2/meta.toml"),
        "worker-2$ magnet-scope record --via tls://bus.example.org --buckets 32-63 -o two":
            Interrupted("two/web-1/meta.toml", "two/web-2/meta.toml"),
        "magnet-scope journeys one/web-1 one/web-2 --slowest 10": Ends(),
        "magnet-scope export one/web-1 --format parquet --buckets -o a": Ends(),
        "magnet-scope agent revoke tls viewer-guest": Ends(),
        "magnet-scope ctl": FORM,
        "magnet-scope metrics --connect": FORM,
        "magnet-scope health": FORM,
        "magnet-scope ship": FORM,
    },
    TUTORIAL: {
        "make build": BUILDS,
        "sudo make install": BUILDS,
        "magnet-scope doctor": Ends(),
        "sudo magnet-scope demo": Screen("client", "server", "slow-reader"),
        "sudo ip netns add left": Ends(),
        "sudo ip netns add right": Ends(),
        "sudo ip -n left link add eth0 type veth peer name eth0 netns right": Ends(),
        "sudo ip -n left addr add 10.9.0.1/24 dev eth0": Ends(),
        "sudo ip -n left link set eth0 up": Ends(),
        "sudo ip -n right addr add 10.9.0.2/24 dev eth0": Ends(),
        "sudo ip -n right link set eth0 up": Ends(),
        "sudo tc -n left qdisc add dev eth0 root tbf rate 20mbit burst 16kb limit 64kb": Ends(),
        "sudo ip netns exec right iperf3 -s -1 -D": Ends(),
        "sudo ip netns exec left iperf3 -c 10.9.0.2 -t 120 >/dev/null 2>&1 &": Ends(),
        "sudo magnet-scope live --netns left --netns right --hops +dev.queue": Screen("left", "right"),
        "sudo magnet-scope record --netns left --netns right --hops +dev.queue -o queue.session --duration 10s": Ends(),
        "magnet-scope report queue.session": Ends(),
        "sudo ip netns del left": Ends(),
        "sudo ip netns del right": Ends(),
        "magnet-scope replay queue.session": Screen("left", "right"),
    },
    SLOW: {
        "client$ sudo magnet-scope run -- curl -sS -o page.html http://server:8080/page/7": Ends(),
        **BOTH,
        "magnet-scope requests client.session server.session": Ends(),
        "magnet-scope requests client.session server.session --where 'request > 20ms'": Ends(),
        "magnet-scope requests client.session server.session --where 'answer > 20ms and port = 8080'": Ends(),
        "magnet-scope replay client.session server.session": Screen("client", "server"),
        "server$ sudo magnet-scope --trigger 'request > 20ms' --save-on-trigger slow": Screen("server", saves="slow"),
    },
    DROPS: {
        "sudo magnet-scope record -o drops.session --duration 20s --hops all": Ends(),
        "magnet-scope report drops.session": Ends(),
        "magnet-scope journeys drops.session --where dropped --slowest 2": Ends(),
        "magnet-scope journeys retransmissions.session --where resent --slowest 2": Ends(),
        "sudo magnet-scope": Screen("journeys"),
    },
    SERVER: {
        **BOTH,
        "magnet-scope report client.session server.session": Ends(),
        "magnet-scope requests client.session": Ends(),
        "magnet-scope requests server.session": Ends(),
        "magnet-scope compare before-1 before-2 before-3 -- after-1 after-2 after-3":
            NotRun("it needs six recordings of one service; crates/report/tests compares such"),
    },
    TWO_HOSTS: {
        **BOTH,
        "magnet-scope journeys client.session server.session --slowest 2": Ends(),
        "magnet-scope align client.session server.session": Ends(),
        "magnet-scope replay client.session server.session": Screen("client", "server"),
        "magnet-scope --connect client,server": NotRun("it is run as `--connect web-1,web-2`, with agents"),
    },
    CONTAINER: {
        "sudo magnet-scope --container web": ENGINE,
        "sudo magnet-scope record --container web -o web.session --duration 20s": ENGINE,
        "sudo magnet-scope record --netns all -o all.session --duration 20s":
            NotRun("it captures every namespace of this machine, those of other tests too; tests/containers.rs has it"),
        "magnet-scope report all.session --by container": Ends(),
        "magnet-scope requests all.session --by container": Ends(),
    },
    RECORDING: {
        "magnet-scope info lost.session": Ends(),
        "magnet-scope info --verify drops.session": Ends(),
        "magnet-scope report retransmissions.session": Ends(),
        "magnet-scope requests retransmissions.session": Ends(),
        "magnet-scope journeys retransmissions.session --slowest 3": Ends(),
        "magnet-scope replay retransmissions.session": Screen("journeys"),
        "magnet-scope replay retransmissions.session --picture 104x36 --press 'Down Enter'": Ends(),
        "magnet-scope export retransmissions.session --format parquet -o tables": Ends(),
        "magnet-scope export retransmissions.session --format pcapng -o packets.pcapng": Ends(),
        "magnet-scope query retransmissions.session 'SELECT hop, count(*) AS n FROM events GROUP BY hop ORDER BY n DESC, hop LIMIT 5'":
            Ends(),
    },
}

# Recordings that replace the names in README.md's table.
FILLED = {"DIR…": "client.session server.session", "BEFORE": "client.session", "AFTER": "server.session",
          "A": "client.session", "B": "server.session", "OUT": "out"}

PROMPT = re.compile(r"^([a-z0-9-]+)\$\s+")
IN_TEXT = re.compile(r"`((?:sudo )?magnet-scope(?:\s[^`]*)?)`")


def commands(document):
    """Every command of a document, once, in order: with its prompt, single spaces and no comment."""
    found, text, block = [], [], None
    for line in (ROOT / document).read_text().split("\n"):
        if line.startswith("```"):
            block = line[3:].strip() if block is None else None
            continue
        if block == "sh":
            line = re.sub(r"(^|\s)#.*$", "", line).strip()
            found.extend([line] if line else [])
        elif block is None:
            text.append(line)
    found += IN_TEXT.findall("\n".join(text))
    found = [re.sub(r"\s+", " ", command).strip() for command in found]
    return list(dict.fromkeys(found))


def uncovered():
    """Commands that only one of the documents and PLAN has."""
    problems = []
    for document, plan in PLAN.items():
        there = commands(document)
        problems += [f"{document}: `{one}` is neither run nor listed" for one in there if one not in plan]
        problems += [f"{document}: `{one}` is in PLAN and not in the document" for one in plan if one not in there]
    return problems


class Host:
    """Namespaces with a name, an address, a copy of /etc and a home."""

    def __init__(self, scene, name, bridge=None):
        self.name, self.dir = name, scene.dir / name
        for folder in ("home", "work", "tmp"):
            (self.dir / folder).mkdir(parents=True)
        shutil.copytree("/etc", self.dir / "etc", symlinks=True, ignore_dangling_symlinks=True)
        names = [f"{address} {' '.join([host, *ALIASES.get(host, [])])}" for host, address in ADDRESSES.items()]
        (self.dir / "etc/hosts").write_text("127.0.0.1 localhost\n" + "\n".join(names) + "\n")
        (self.dir / "etc/magnet-scope").mkdir(exist_ok=True)
        self.environment = {
            **{key: value for key, value in os.environ.items() if not key.startswith("XDG_")},
            "HOME": str(self.dir / "home"), "PATH": f"{scene.bin}:{os.environ['PATH']}", "TERM": "xterm-256color",
        }
        setup = (
            f"mount --make-rprivate / && mount -t tmpfs tmpfs /run && mount --bind {self.dir}/etc /etc"
            f" && hostname {name} && ip link set lo up && echo ready && exec sleep infinity"
        )
        self.holder = subprocess.Popen(
            ["unshare", "--mount", "--net", "--uts", "bash", "-c", setup], stdout=subprocess.PIPE, text=True)
        scene.processes.append(self.holder)
        if self.holder.stdout.readline() != "ready\n":
            raise SystemExit(f"{name}: no namespaces")
        if bridge is None:
            self.run("ip link add br0 type bridge && ip link set br0 up")
        else:
            port = f"p{len(scene.hosts)}"
            self.run(f"ip link add eth0 type veth peer name {port} netns {bridge.holder.pid}"
                     f" && ip addr add {ADDRESSES[name]}/24 dev eth0 && ip link set eth0 up")
            bridge.run(f"ip link set {port} master br0 up")

    def enter(self, command):
        return ["nsenter", "-t", str(self.holder.pid), "-m", "-n", "-u", f"--wd={self.dir / 'work'}",
                "bash", "-c", f"exec {command}" if " && " not in command else command]

    def start(self, command, log):
        return subprocess.Popen(self.enter(command), env=self.environment, stdin=subprocess.DEVNULL, stdout=log,
                                stderr=subprocess.STDOUT)

    def run(self, command):
        ended = subprocess.run(self.enter(command), env=self.environment, stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        if ended.returncode != 0:
            raise SystemExit(f"{self.name}: `{command}` failed ({ended.returncode}):\n{ended.stdout}")
        return ended.stdout


def wait_for(what, holds):
    end = time.monotonic() + PATIENCE
    while not holds():
        if time.monotonic() > end:
            raise SystemExit(f"in {PATIENCE} s not seen: {what()}")
        time.sleep(0.1)


TALKER = """
import socket, threading, time, sys
me, other = sys.argv[1:]
server = socket.create_server((me, 7000)); udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); udp.bind((me, 7001))
def serve(c):
    while c.recv(65536): c.sendall(b"y" * 100)
def accept():
    while True: threading.Thread(target=serve, args=(server.accept()[0],), daemon=True).start()
def hear():
    while True: udp.recvfrom(2048)
for work in (accept, hear): threading.Thread(target=work, daemon=True).start()
while True:
    try:
        c = socket.create_connection((other, 7000), 5); out = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        while True:
            c.sendall(b"x" * 300); c.recv(65536); out.sendto(b"z" * 200, (other, 7001)); time.sleep(0.02)
    except OSError: time.sleep(0.2)
"""


# Pages of a server, of which the seventh takes 40 ms; datagrams into a small buffer.
PAGES = """
import http.server, time
class Pages(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        if self.path == "/page/7": time.sleep(0.04)
        self.send_response(200); self.send_header("Content-Length", "6000"); self.end_headers()
        self.wfile.write(b"x" * 6000)
    def log_message(self, *_): pass
http.server.ThreadingHTTPServer(("", 8080), Pages).serve_forever()
"""
READERS = """
import socket, time, urllib.request
while True:
    try:
        for page in range(12):
            urllib.request.urlopen(f"http://server:8080/page/{page}", timeout=5).read()
    except OSError: pass
    time.sleep(0.2)
"""
BURSTS = """
import socket, time
reader = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); reader.bind(("127.0.0.1", 5001))
reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 6000)
sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
while True:
    for _ in range(20): sender.sendto(b"x" * 200, ("127.0.0.1", 5001))
    for _ in range(3): reader.recv(2000)
    time.sleep(0.2)
"""


class Scene:
    """Hosts, their processes, and their output."""

    def __init__(self, directory, binary):
        self.dir, self.bin, self.processes, self.hosts, self.serving = Path(directory), Path(directory) / "bin", [], {}, []
        self.bin.mkdir()
        (self.bin / "magnet-scope").symlink_to(binary)
        if shutil.which("sudo") is None:
            # Every user here is root.
            (self.bin / "sudo").write_text('#!/bin/sh\nexec "$@"\n')
            (self.bin / "sudo").chmod(0o755)
        self.binary, self.logs = binary, 0
        switch = Host(self, "switch")
        for name in ADDRESSES:
            self.hosts[name] = Host(self, name, switch)
        for one, other in (("web-1", "web-2"), ("web-2", "web-1"), ("web-3", "web-1"), ("client", "server"), ("server", "client")):
            talker = shlex.join(["python3", "-c", TALKER, ADDRESSES[one], ADDRESSES[other]])
            self.processes.append(self.hosts[one].start(talker, subprocess.DEVNULL))

    def log(self):
        self.logs += 1
        return open(self.dir / f"log-{self.logs}", "w+b")

    def place(self, command):
        prompt = PROMPT.match(command)
        return (prompt[1], command[prompt.end():]) if prompt else ("viewer", command)

    def do(self, command, method):
        name, plain = self.place(command)
        print(f"{name}$ {plain}", flush=True)
        if isinstance(method, Serves):
            for host in (name, *method.also):
                self.serve(self.hosts[host], plain, method.words)
        elif isinstance(method, Screen):
            self.screen(self.hosts[name], plain, method)
        elif isinstance(method, Interrupted):
            self.interrupted(self.hosts[name], plain, method.files)
        else:
            self.hosts[name].run(plain)

    def serve(self, host, plain, words):
        log = self.log()
        process = host.start(plain, log)
        self.serving.append(process)
        text = lambda: Path(log.name).read_text(errors="replace")
        wait_for(lambda: f"{host.name}: `{plain}` says `{words}`:\n{text()}", lambda: words in text() or process.poll() is not None)
        if process.poll() is not None:
            raise SystemExit(f"{host.name}: `{plain}` has ended:\n{text()}")

    def stop_serving(self):
        for process in reversed(self.serving):
            process.send_signal(signal.SIGINT)
        for process in self.serving:
            process.wait(PATIENCE)
        self.serving = []

    def interrupted(self, host, plain, files):
        log = self.log()
        process = host.start(plain, log)
        self.processes.append(process)
        text = lambda: Path(log.name).read_text(errors="replace")
        there = lambda: all((host.dir / "work" / file).exists() for file in files)
        wait_for(lambda: f"{host.name}: `{plain}` makes {files}:\n{text()}", lambda: there() or process.poll() is not None)
        if process.poll() is None:
            time.sleep(2)  # time to record some traffic
            process.send_signal(signal.SIGINT)
        if process.wait(PATIENCE) != 0 or not there():
            raise SystemExit(f"{host.name}: `{plain}` failed:\n{text()}")

    def screen(self, host, plain, method):
        child, terminal = pty.fork()
        if child == 0:
            os.execvpe("nsenter", host.enter(f"stty rows 50 cols 160 && exec {plain}"), host.environment)
        words, saves = method.words, method.saves and host.dir / "work" / method.saves
        is_saved = lambda: saves is None or saves.is_dir() and any(saves.iterdir())
        begun = time.monotonic()
        seen, end, drawn, asked = b"", begun + PATIENCE, begun, False
        try:
            while True:
                readable, _, _ = select.select([terminal], [], [], 0.2)
                if readable:
                    try:
                        seen += os.read(terminal, 65536)
                    except OSError:
                        break  # the other end is closed
                text = seen.decode(errors="replace")
                if not asked and time.monotonic() > drawn + 1:
                    # A frame has only what changed: of a word, perhaps one letter. Ctrl-L draws everything.
                    os.write(terminal, b"\x0c")
                    drawn = time.monotonic()
                if not asked and is_saved() and all(word in text for word in words):
                    os.write(terminal, b"q")
                    asked = True
                if time.monotonic() > end:
                    os.kill(child, signal.SIGKILL)
                    raise SystemExit(f"{host.name}: `{plain}` does not show {words} or end:\n{text[-4000:]}")
        finally:
            os.close(terminal)
        _, status = os.waitpid(child, 0)
        if not asked or os.waitstatus_to_exitcode(status) != 0:
            raise SystemExit(f"{host.name}: `{plain}` failed ({status}):\n{seen.decode(errors='replace')[-4000:]}")

    def copy(self, source, host, folder, *names):
        """Copies files to their places in the documents."""
        to = self.hosts[host].dir / folder
        to.mkdir(parents=True, exist_ok=True)
        for name in names:
            for found in source.glob(name):
                shutil.copytree(found, to / found.name, dirs_exist_ok=True) if found.is_dir() else shutil.copy2(found, to)

    def end(self):
        for process in self.serving + self.processes:
            if process.poll() is None:
                process.kill()
        for process in self.serving + self.processes:
            process.wait()


def agents(scene):
    """docs/agents.md from its beginning to its end."""
    plan = PLAN[AGENTS]
    tls = scene.hosts["viewer"].dir / "work/tls"
    has_bus = shutil.which("nats-server") is not None
    there = commands(AGENTS)
    bus = [one for one in there if "bus" in one or one.split()[-1].startswith("one/") or " one/" in one]
    for command in there:
        method = plan[command]
        if isinstance(method, NotRun):
            continue
        if command in bus and not has_bus:
            print(f"skipped: `{command}`, because there is no nats-server (scripts/setup-clients.sh installs it)")
            continue
        if command.endswith("--tls /etc/magnet-scope"):
            for host in ("web-1", "web-2", "web-3"):
                scene.copy(tls, host, "etc/magnet-scope", "ca.pem", "crl.pem", f"host-{host}.*")
            scene.copy(tls, "relay", "etc/magnet-scope", "ca.pem", "crl.pem", "relay-relay.*")
            for host in ("viewer", "worker-1", "worker-2"):
                scene.copy(tls, host, "home/.config/magnet-scope/tls", "ca.pem", "viewer-ops.*")
        if "nats-server" in command:
            work = scene.hosts["bus"].dir / "work"
            scene.copy(tls, "bus", "work", "ca.pem", "host-bus.example.org.*")
            conf = re.search(r"```\n# bus.conf\n(.*?)```", (ROOT / AGENTS).read_text(), re.S)[1]
            (work / "bus.conf").write_text(conf.replace("/var/lib/nats", str(work / "nats")))
        if "--via" in command and "agent" in command:
            # One agent a host: the bus continues, the others end.
            remaining = [one for one in scene.serving if "nats-server" in one.args[-1]]
            scene.serving = [one for one in scene.serving if one not in remaining]
            scene.stop_serving()
            scene.serving = remaining
        if " one/" in command:
            scene.copy(scene.hosts["worker-1"].dir / "work", "viewer", "work", "one")
        scene.do(command, method)
        if command.startswith("magnet-scope record --connect"):
            made = sorted(path.name for path in (scene.hosts["viewer"].dir / "work/slow").iterdir())
            if made != ["web-1", "web-2"]:
                raise SystemExit(f"`{command}` made {made}, and the document says slow/web-1, slow/web-2")
    scene.stop_serving()


def readme(scene):
    """README.md from its beginning to its end, with certificates as docs/agents.md makes them."""
    plan = PLAN[README]
    viewer = scene.hosts["viewer"]
    made = viewer.dir / "work/two"
    viewer.run(f"magnet-scope agent init {made} --host client --host server --viewer me")
    for host in ("client", "server"):
        scene.copy(made, host, "work/tls", "ca.pem", "crl.pem", f"host-{host}.*")
    shutil.rmtree(viewer.dir / "home/.config", ignore_errors=True)
    scene.copy(made, "viewer", "home/.config/magnet-scope/tls", "ca.pem", "viewer-me.*")
    release = viewer.dir / "work/target/dist"
    release.mkdir(parents=True)
    shutil.copy2(scene.binary, release / "magnet-scope")
    walk(scene, README, plan, set())
    scene.stop_serving()


def walk(scene, document, plan, ran):
    """A document from its beginning to its end. Recordings of several hosts run at the same time, like those of several
    users, and are then on the viewer's host too. A recording that another document made is not made again."""
    recorders = []
    for command in commands(document):
        method = plan[command]
        name, plain = scene.place(command)
        if isinstance(method, NotRun):
            continue
        if " record " in command:
            if command in ran:
                continue
            ran.add(command)
            print(f"{name}$ {plain}", flush=True)
            log = scene.log()
            recorders.append((name, plain, log, scene.hosts[name].start(plain, log)))
            scene.processes.append(recorders[-1][3])
            continue
        while recorders:
            name, plain, log, process = recorders.pop()
            if process.wait(60 + PATIENCE) != 0:
                raise SystemExit(f"{name}: `{plain}` failed:\n{Path(log.name).read_text(errors='replace')}")
            if name != "viewer":
                scene.copy(scene.hosts[name].dir / "work", "viewer", "work", f"{name}.session")
        scene.do(" ".join(FILLED.get(word, word) for word in command.split(" ")), method)


def pages(scene):
    """The tutorial and the how-to pages, with the traffic that they speak of."""
    viewer = scene.hosts["viewer"]
    for name in ("lost", "retransmissions"):
        shutil.copytree(ROOT / f"tests/golden/{name}/session", viewer.dir / f"work/{name}.session")
    # Any recording has no container here, and the report says so.
    shutil.copytree(ROOT / "tests/golden/demo/session", viewer.dir / "work/all.session")
    viewer.run("ip link set lo up")
    for host, program in (("server", PAGES), ("client", READERS), ("viewer", BURSTS)):
        scene.processes.append(scene.hosts[host].start(shlex.join(["python3", "-c", program]), subprocess.DEVNULL))
    ran = set()
    for document in (*QUESTIONS, TUTORIAL):
        if document == TUTORIAL and shutil.which("iperf3") is None:
            print("skipped: the tutorial, because there is no iperf3 (scripts/setup-clients.sh installs it)")
            continue
        walk(scene, document, PLAN[document], ran)


def main():
    parts = {"agents": agents, "readme": readme, "pages": pages}
    if problems := uncovered():
        raise SystemExit("\n".join(problems))
    if sys.argv[1:] == ["--check"]:
        print(" ".join(parts))
        return
    asked = sys.argv[2:] or list(parts)
    if unknown := [part for part in asked if part not in parts]:
        raise SystemExit(f"no parts: {' '.join(unknown)}; there are {' '.join(parts)}")
    for part in asked:
        with tempfile.TemporaryDirectory() as directory:
            scene = Scene(directory, Path(sys.argv[1]).resolve())
            try:
                parts[part](scene)
            finally:
                scene.end()
    for document, plan in PLAN.items():
        for command, method in plan.items():
            if isinstance(method, NotRun):
                print(f"not run: `{command}` of {document}: {method.reason}")
    print("every command of the documents was run or is listed" if not sys.argv[2:] else f"ran: {' '.join(asked)}")


if __name__ == "__main__":
    main()
