"""Reads an agent with Arrow's own client: ADDRESS, folder of certificates, name of one. Prints what it found as JSON."""

import json
import sys

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.flight as flight

address, folder, identity = sys.argv[1:]


def read(name):
    with open(f"{folder}/{name}", "rb") as file:
        return file.read()


client = flight.connect(
    f"grpc+tls://{address}:6246",
    tls_root_certs=read("ca.pem"),
    cert_chain=read(f"{identity}.pem"),
    private_key=read(f"{identity}.key"),
)
about = json.loads(next(iter(client.do_action("about"))).body.to_pybytes())
tables = [info.descriptor.path[0].decode() for info in client.list_flights()]


def get(**request):
    return client.do_get(flight.Ticket(json.dumps(request).encode())).read_all()


# One instant for all, so that each sees the same.
until = about["holds"]["range_ns"][1]
request = {"from": "oldest", "until_ns": until, "pull": True}
events = get(table="events", **request)
hops = {row["hop"]: number for number, row in enumerate(about["node"]["coverage"]["hops"], 1)}
came = events.filter(pc.and_(pc.equal(events["hop"], hops["dev.recv"]), pc.equal(events["len"], 300)))
filtered = get(table="events", filter="hop = dev.recv and len = 300", **request)

# The same events out of the packets, opened with Arrow alone: a schema message, and each message behind it.
packets = get(table="packets", **request)
schema = client.get_schema(flight.FlightDescriptor.for_path("events")).schema
rows = 0
for table, message in zip(packets["table"].to_pylist(), packets["message"].to_pylist()):
    if table == "events":
        rows += pa.ipc.read_record_batch(pa.py_buffer(message), schema).num_rows

try:
    get(table="secrets")
    refused = None
except flight.FlightError as error:
    refused = str(error)
except pa.ArrowException as error:
    refused = str(error)

print(
    json.dumps(
        {
            "host": about["node"]["host"],
            "tables": tables,
            "events": events.num_rows,
            "packets": rows,
            "datagrams": came.num_rows,
            "filtered": filtered.num_rows,
            "refused": refused,
        }
    )
)
