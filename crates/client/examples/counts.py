"""Reads from a socket, counts, and asks the agent what it has seen of that."""

import os
import socket
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../python"))
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import magnet_scope

listener = socket.create_server(("127.0.0.1", 0))
near = socket.create_connection(listener.getsockname())
far = listener.accept()[0]
watch = magnet_scope.Watch(far, receives=100, change=0.1)
counted = 0
for n in range(250):
    near.sendall(bytes(1000))
    counted += len(far.recv(1000, socket.MSG_WAITALL))
for tries in range(500):
    now = watch.ask()
    counted_there = now["received"].get("overall", {}).get("bytes", 0)
    if counted_there >= counted:
        break
    time.sleep(0.02)  # what was captured arrives some hundredths of a second later
window = now["received"]["window"]
print(f"{counted_there} of {counted} bytes, {window['bytes_per_s']:.0f} bytes/s over the last {window['calls']} receives")
if watch.next(10):
    print("a change came")
