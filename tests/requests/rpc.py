"""A gRPC server without messages of its own, and its client.

usage: rpc.py serve HOST PORT
       rpc.py ask HOST PORT CALLS        one call after the other
       rpc.py many HOST PORT CALLS       calls of eight threads on one channel

The client prints a JSON object as `client.py` does: its port, and begin and end of each call by CLOCK_MONOTONIC.
"""
import json
import sys
import threading
import time
from concurrent import futures

import grpc

METHOD = "/test.Echo/Call"
clock = lambda: time.clock_gettime_ns(time.CLOCK_MONOTONIC)


class Echo(grpc.GenericRpcHandler):
    def service(self, details):
        # Long enough that calls of several threads are under way at once.
        return grpc.unary_unary_rpc_method_handler(lambda data, context: time.sleep(0.001) or data)


def serve(host, port):
    server = grpc.server(futures.ThreadPoolExecutor(8), handlers=[Echo()])
    server.add_insecure_port(f"{host}:{port}")
    server.start()
    server.wait_for_termination()


def calls(channel, count, notes):
    call = channel.unary_unary(METHOD)
    for _ in range(count):
        begin = clock()
        assert call(b"x" * 100, timeout=60) == b"x" * 100
        notes.append({"begin_ns": begin, "end_ns": clock(), "requests": 1})


def ask(host, port, count, threads=1):
    notes = []
    # Its own questions about the bandwidth would be requests too.
    options = [("grpc.http2.bdp_probe", 0)]
    with grpc.insecure_channel(f"{host}:{port}", options=options) as channel:
        grpc.channel_ready_future(channel).result(timeout=60)
        each = [threading.Thread(target=calls, args=[channel, int(count) // threads, notes]) for _ in range(threads)]
        for thread in each:
            thread.start()
        for thread in each:
            thread.join()
    assert len(notes) == int(count) // threads * threads
    print(json.dumps({"port": 0, "requests": notes}))


def many(host, port, count):
    ask(host, port, count, 8)


{"serve": serve, "ask": ask, "many": many}[sys.argv[1]](*sys.argv[2:])
