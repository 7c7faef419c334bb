"""Reads an agent with Arrow's own client: ADDRESS, folder of certificates, name of one. Prints what it found as JSON.

With a fourth argument it reads what is pushed while there is traffic, until it has seen enough of it.
"""

import json
import signal
import sys

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.flight as flight

signal.alarm(120)  # whatever does not come
address, folder, identity = sys.argv[1:4]


def read(name):
    with open(f"{folder}/{name}", "rb") as file:
        return file.read()


client = flight.connect(
    f"grpc+tls://{address}:6246",
    tls_root_certs=read("ca.pem"),
    cert_chain=read(f"{identity}.pem"),
    private_key=read(f"{identity}.key"),
)
about = json.loads(next(iter(client.do_action("about"))).body.to_pybytes())["hosts"][0]
tables = [info.descriptor.path[0].decode() for info in client.list_flights()]


def get(**request):
    return client.do_get(flight.Ticket(json.dumps(request).encode())).read_all()




def pushed(enough, **request):
    """Reads a stream as it comes until `enough` of it has come, and breaks it off."""
    stream, tables = client.do_get(flight.Ticket(json.dumps(request).encode())), []
    for chunk in stream:
        tables.append(chunk.data)
        if enough(pa.Table.from_batches(tables)):
            break
    stream.cancel()
    return pa.Table.from_batches(tables)


if len(sys.argv) > 4:
    journeys = pushed(lambda rows: rows.num_rows >= 100, table="journeys", where="bytes = 300")

    def reads_of(rows):
        return rows.filter(pc.and_(pc.equal(rows["group_by"], "hop"), pc.equal(rows["hop"], "app.recv")))

    # A period may have other rows than reads.
    periods = pushed(lambda rows: reads_of(rows).num_rows >= 3, table="periods", every_ms=200, where="bytes = 300")
    reads = reads_of(periods)
    print(
        json.dumps(
            {
                "journeys": journeys.num_rows,
                "alike": sorted(set(zip(journeys["bytes"].to_pylist(), journeys["verdict"].to_pylist()))),
                "periods": reads.num_rows,
                "of_them": sum(reads["journeys"].to_pylist()),
                "every_ns": sorted(set(reads["every_ns"].to_pylist())),
            }
        )
    )
    sys.exit()

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

# What the agent works out.
journeys = get(table="journeys", where="bytes = 300", **request)
hops = get(table="hops", where="bytes = 300", **request)
periods = get(table="periods", every_ms=1000, where="bytes = 300", **request)
of_hop = periods.filter(pc.and_(pc.equal(periods["group_by"], "hop"), pc.equal(periods["hop"], "app.recv")))

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
            "journeys": journeys.num_rows,
            "verdicts": sorted(set(journeys["verdict"].to_pylist())),
            "reads": pc.sum(pc.equal(hops["hop"], "app.recv")).as_py(),
            "in_periods": sum(of_hop["journeys"].to_pylist()),
            "refused": refused,
        }
    )
)
