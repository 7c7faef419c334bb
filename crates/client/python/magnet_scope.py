"""Running averages of one's own traffic, asked of a magnet-scope agent on this host. docs/client.md says what the figures say.

    import magnet_scope
    watch = magnet_scope.Watch(sock, receives=1000)
    print(watch.ask()["received"]["window"]["bytes_per_s"])

Nothing but the standard library is needed (Python 3.9). Copy the file to where it is used. MIT OR Apache-2.0.
"""

import json
import os
import select
import socket

SOCKET = "/run/magnet-scope-watch/watch.sock"


class Refused(Exception):
    """The agent says no: what failed, the likely cause, the next step."""

    def __init__(self, error):
        super().__init__(f"{error['what']}: {error['likely']}; {error['next']}")
        self.error = error


class Ended(Exception):
    """The agent has closed the connection."""


class Watch:
    """Of a socket that this program holds, or of this process where that is None."""

    def __init__(self, of=None, receives=1000, seconds=None, change=None, figure="received", pause_s=0.02, path=None):
        self._unread = []
        self._beyond = b""
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.connect(path or os.environ.get("MAGNET_SCOPE_WATCH", SOCKET))
        window = {"seconds": seconds} if seconds else {"receives": receives}
        watch = {"of": "process" if of is None else "socket", "window": window}
        if change is not None:
            watch["push"] = {"of": figure, "change": change, "pause_s": pause_s}
        self._say({"watch": watch}, [] if of is None else [of.fileno()])
        begun = self._hear()["watching"]
        self._id, self.since_ns = begun["id"], begun["since_ns"]

    def ask(self):
        """How it stands now."""
        self._say({"ask": self._id})
        while True:
            reply = self._hear()
            if "averages" in reply:
                return reply["averages"]
            self._unread = self._unread[-63:] + [reply["changed"]]

    def next(self, timeout=None):
        """The next change, or None where none came within so many seconds."""
        if self._unread:
            return self._unread.pop(0)
        if b"\n" not in self._beyond and not select.select([self._socket], [], [], timeout)[0]:
            return None
        return self._hear()["changed"]

    def fileno(self):
        """To be polled for reading; then next(0) until it is None."""
        return self._socket.fileno()

    def close(self):
        """Ends it."""
        self._socket.close()

    def _say(self, request, fds=()):
        line = json.dumps(request).encode() + b"\n"
        try:
            if fds:
                socket.send_fds(self._socket, [line], list(fds))
            else:
                self._socket.sendall(line)
        except BrokenPipeError:
            pass  # what it said before it closed is read next

    def _hear(self):
        while b"\n" not in self._beyond:
            try:
                came = self._socket.recv(4096)
            except ConnectionResetError:
                came = b""
            if not came:
                raise Ended("the agent has ended, or was not read from for too long; connect again")
            self._beyond += came
        line, self._beyond = self._beyond.split(b"\n", 1)
        reply = json.loads(line)
        if "error" in reply:
            raise Refused(reply["error"])
        return reply
