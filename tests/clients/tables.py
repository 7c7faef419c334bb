"""Reads exported tables with pyarrow, duckdb and polars and holds them against the report.

usage: tables.py TABLES REPORT.json
"""
import glob, json, math, os, sys

import duckdb, polars, pyarrow.parquet as pq

tables, report = sys.argv[1], json.load(open(sys.argv[2]))
WHOLE = report["denominator"]["measured"]


def files(table):
    flat = os.path.join(tables, table + ".parquet")
    return [flat] if os.path.exists(flat) else sorted(glob.glob(f"{tables}/{table}/**/*.parquet", recursive=True))


def check(what, got, want):
    assert got == want, f"{what}: {got} instead of {want}"


def near(what, got, want):
    # The report's histogram keeps two significant digits, but of the longest: a bucket is at most 1/128 wide.
    assert abs(got - want) <= max(2, want / 128), f"{what}: {got} instead of about {want}"


def exact_percentile(values, q):
    values = sorted(values)
    return values[max(0, math.ceil(q * len(values)) - 1)]


def latencies(row):
    """Protocol and latency of each that passed the hop; a hop of one protocol has its latency in the row itself."""
    several = row.get("protocols", [])
    assert not (several and row["latency"]) and len(several) != 1, row
    if several:
        return [(of["proto"], of["latency"]) for of in several]
    return [(None, row["latency"])] if row["latency"] else []


def read(table):
    return pq.ParquetDataset(files(table)).read().to_pylist() if files(table) else []


events, hops, journeys, losses = read("events"), read("hops"), read("journeys"), read("losses")
check("pyarrow: events", len(events), report["events"])
check("pyarrow: journeys", len(journeys), report["denominator"]["journeys"])
check("pyarrow: whole journeys", sum(j["whole"] for j in journeys), WHOLE)
check("pyarrow: lost records", sum(l["lost"] for l in losses), report["losses"]["records"])
assert all(e["ts_ns"] // 1000 == int(e["ts"].timestamp() * 1_000_000 + 0.5) for e in events[:200] if e["ts"])
measured = 0
for row in report["hops"]:
    here = [e for e in events if e["hop"] == row["hop"]]
    # The state of a connection has a table of its own.
    check(f"pyarrow: events at {row['hop']}", len(read("tcp") if row["hop"] == "tcp.state" else here), row["events"])
    check(f"pyarrow: bytes at {row['hop']}", sum(e["len"] for e in here), row["bytes"])
    timed = [h for h in hops if h["hop"] == row["hop"] and h["whole"] and h["latency_ns"] is not None]
    check(f"pyarrow: latencies to {row['hop']}", len(timed), sum(latency["n"] for _, latency in latencies(row)))
    check(f"pyarrow: protocols at {row['hop']}", len({h["proto"] for h in timed}), len(latencies(row)))
    for proto, latency in latencies(row):
        to = f"{row['hop']} of {proto}" if proto else row["hop"]
        ns = [h["latency_ns"] for h in timed if proto in (None, h["proto"])]
        measured += 1
        check(f"pyarrow: latencies to {to}", len(ns), latency["n"])
        check(f"pyarrow: max to {to}", max(ns), latency["max_ns"])
        for q, key in ((0.5, "p50_ns"), (0.9, "p90_ns"), (0.99, "p99_ns"), (0.999, "p999_ns")):
            near(f"pyarrow: {key} to {to}", exact_percentile(ns, q), latency[key])
for row in report["verdicts"]:
    here = [j for j in journeys if j["proto"] == row["proto"]]
    check(f"journeys of {row['proto']}", len(here), row["journeys"])
    check(f"complete of {row['proto']}", sum(j["verdict"] == "complete" for j in here), row["complete"])
    check(f"retransmits of {row['proto']}", sum(j["retransmits"] for j in here), row["retransmits"])

# The same through two engines of their own.
db = duckdb.connect()
for table in ("events", "hops", "journeys", "flows", "losses", "tcp", "clock"):
    paths = files(table)
    if not paths:
        continue
    db.execute(f"create view {table} as select * from read_parquet({paths!r})")
    rows = db.execute(f"select count(*), count(ts_ns) from {table}").fetchone()
    lazy = polars.scan_parquet(paths)
    check(f"polars: rows of {table}", lazy.select(polars.len()).collect().item(), rows[0])
    if rows[0]:
        total = db.execute(f"select sum(ts_ns::hugeint)::varchar from {table}").fetchone()[0]
        ours = sum(r["ts_ns"] for r in pq.ParquetDataset(paths).read(columns=["ts_ns"]).to_pylist())
        check(f"duckdb: sum of times of {table}", int(total), ours)
        times = lazy.select("ts_ns").collect()["ts_ns"].to_list()
        check(f"polars: sum of times of {table}", sum(times), ours)
for row in report["hops"]:
    for proto, latency in latencies(row):
        to = f"{row['hop']} of {proto}" if proto else row["hop"]
        n, top, p99 = db.execute(
            "select count(latency_ns), max(latency_ns), quantile_disc(latency_ns, 0.99) from hops "
            "where hop = $1 and whole and proto = coalesce($2, proto)",
            [row["hop"], proto],
        ).fetchone()
        check(f"duckdb: latencies to {to}", n, latency["n"])
        check(f"duckdb: max to {to}", top, latency["max_ns"])
        near(f"duckdb: p99 to {to}", p99, latency["p99_ns"])
        ns = polars.scan_parquet(files("hops")).filter(
            (polars.col("hop") == row["hop"]) & polars.col("whole") & polars.col("latency_ns").is_not_null()
        )
        if proto:
            ns = ns.filter(polars.col("proto") == proto)
        ns = ns.select("latency_ns").collect()["latency_ns"]
        check(f"polars: latencies to {to}", len(ns), n)
        near(f"polars: p99 to {to}", exact_percentile(ns.to_list(), 0.99), latency["p99_ns"])

# How the files are made: sorted within row groups, statistics, bloom filters, metadata.
for table in ("events", "hops", "journeys"):
    for path in files(table):
        meta = pq.ParquetFile(path).metadata
        assert meta.metadata[b"magscope.schema"] == b"1", path
        for group in range(meta.num_row_groups):
            group = meta.row_group(group)
            assert [c.column_index for c in group.sorting_columns] == [0], path
            assert group.column(0).is_stats_set, path
        times = pq.read_table(path, columns=["ts_ns"])["ts_ns"].to_pylist()
        if meta.num_row_groups == 1:
            assert times == sorted(times), path
print(f"agreed: {len(events)} events, {len(hops)} hops, {len(journeys)} journeys, {measured} latencies")
