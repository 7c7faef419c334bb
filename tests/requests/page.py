"""A server of lines with faults, and its client.

usage: page.py serve HOST PORT DATABASE_PORT
       page.py ask HOST PORT WORD…

The server answers each line with `done`. The words are what it does before:

    ping    nothing
    spin    computes for 40 ms of its thread's time
    lock    waits for a lock that another thread holds for 60 ms
    rest    sleeps for 5 ms
    sleep   sleeps for 500 ms
    ask     asks a Redis server at DATABASE_PORT, which sleeps for 50 ms

The client prints a JSON object as `client.py` does: its port, and begin and end of each call by CLOCK_MONOTONIC.
"""
import json
import socket
import sys
import threading
import time

lock = threading.Lock()


def spin():
    end = time.thread_time() + 0.04
    while time.thread_time() < end:
        pass


def hold(held):
    with lock:
        held.set()
        time.sleep(0.06)


def wait_for_lock():
    held = threading.Event()
    holder = threading.Thread(target=hold, args=[held])
    holder.start()
    held.wait()
    with lock:
        pass
    holder.join()


def serve_one(stream, database_end):
    database = None
    for line in stream.makefile("rb", buffering=0):
        word = line.strip()
        if word == b"spin":
            spin()
        elif word == b"lock":
            wait_for_lock()
        elif word in (b"rest", b"sleep"):
            time.sleep(0.005 if word == b"rest" else 0.5)
        elif word == b"ask":
            database = database or connect(*database_end)
            database.sendall(b"DEBUG SLEEP 0.05\r\n")
            database.recv(100)
        stream.sendall(b"done\n")
    stream.close()


def connect(host, port):
    stream = socket.create_connection((host, port), timeout=60)
    stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return stream


def serve(host, port, database_port):
    listener = socket.create_server((host, int(port)))
    while True:
        stream, _ = listener.accept()
        stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        threading.Thread(target=serve_one, args=[stream, (host, int(database_port))], daemon=True).start()


def ask(host, port, *words):
    stream, notes = connect(host, int(port)), []
    for word in words:
        begin = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
        stream.sendall(word.encode() + b"\n")
        stream.recv(100)
        notes.append({"begin_ns": begin, "end_ns": time.clock_gettime_ns(time.CLOCK_MONOTONIC), "requests": 1})
    # Until the server has closed too, so that the last response has ended for whoever watches.
    stream.shutdown(socket.SHUT_WR)
    stream.recv(1)
    print(json.dumps({"port": stream.getsockname()[1], "requests": notes}))


{"serve": serve, "ask": ask}[sys.argv[1]](*sys.argv[2:])
