"""Joins hops on the wire key bucket by bucket, each alone as a worker would, and holds the sum against the join of all.

usage: buckets.py BUCKETED FLAT (directories with hops)
"""
import os, sys

import duckdb

bucketed, flat = sys.argv[1], os.path.join(sys.argv[2], "hops.parquet")
db = duckdb.connect()
JOIN = """select count(*), sum(b.ts_ns - a.ts_ns)::bigint from read_parquet('{0}') a join read_parquet('{0}') b
          on a.wire_key = b.wire_key where a.hop = 'dev.xmit' and b.hop = 'dev.recv'"""
whole = db.execute(JOIN.format(flat)).fetchone()
rows, pairs, ns, filled = 0, 0, 0, 0
for table in ("hops", "journeys"):
    parts = sorted(os.listdir(os.path.join(bucketed, table)))
    assert parts == sorted([f"wire_bucket={n}" for n in range(64)] + ["wire_bucket=__HIVE_DEFAULT_PARTITION__"]), parts
for part in os.listdir(os.path.join(bucketed, "hops")):
    path = os.path.join(bucketed, "hops", part, "part-0.parquet")
    rows += db.execute("select count(*) from read_parquet(?, hive_partitioning = false)", [path]).fetchone()[0]
    n, sum_ns = db.execute(JOIN.format(path)).fetchone()
    pairs, ns, filled = pairs + n, ns + (sum_ns or 0), filled + (n > 0)
    name = part.split("=")[1]
    if name.isdigit():
        wrong = db.execute("select count(*) from read_parquet(?, hive_partitioning = false) where wire_key % 64 <> ?", [path, int(name)]).fetchone()[0]
        assert wrong == 0, f"{wrong} rows in the wrong bucket {name}"
assert (pairs, ns) == whole, f"{pairs} pairs, {ns} ns by buckets; {whole} at once"
assert rows == db.execute("select count(*) from read_parquet(?)", [flat]).fetchone()[0]
assert pairs > 100 and filled > 8, f"{pairs} pairs in {filled} buckets"
print(f"{pairs} pairs in {filled} buckets, the same as at once")
