"""Reads an export of a recording that has everything: every table has as many rows as the JSON lines had, and intervals are there.

usage: everything.py TABLES COUNTED.json
"""
import glob, json, os, sys

import duckdb, pyarrow.parquet as pq

folder, counted = sys.argv[1], json.load(open(sys.argv[2]))
db = duckdb.connect()
for table, rows in counted.items():
    files = sorted(glob.glob(os.path.join(folder, table, "**", "*.parquet"), recursive=True))
    assert files, table
    assert sum(pq.ParquetFile(path).metadata.num_rows for path in files) == rows, table
    db.execute(f"create view {table} as select * from read_parquet({files!r}, hive_partitioning = true)")
one = lambda sql: db.execute(sql).fetchone()
bare = one("select count(*) from hops where from_hop = 'dev.xmit' and hop = 'dev.recv' and not half_width_ns > 0")[0]
assert bare == 0, f"{bare} crossings without their half width"
assert one("select count(*) from hits where name0 = 'len' and value0 = 1448 and value1 is null")[0] == 1
assert one("select sum(lost) from losses")[0] == 12
assert one("select max(weight), max(sampled) from counts") == (10.0, 90)
assert one("select sum(n), sum(bytes) from sums where sum_of = 'flow' and local_addr is not null") == (800, 51200)
assert one("select sum(n), sum(sum_ns) from sums where sum_of = 'since'") == (800, 4 * 345402)
assert one("select sum(n), count(*) from histograms where from_hop = 'dev.queue' and hop = 'dev.xmit'") == (800, 16)
running = '''select min(max_ns) from (select max_ns, sum(sum(n)) over (order by max_ns) as up_to, sum(sum(n)) over () as passes
             from histograms group by max_ns) as running where up_to * 100 >= passes * %d'''
assert [one(running % percent)[0] for percent in (50, 90, 99, 100)] == [927, 927, 2559, 73727]
assert bytes.fromhex(one("select hex from heads")[0]) == b"GET /everything"
keys = pq.ParquetFile(glob.glob(os.path.join(folder, "hops", "**", "*.parquet"), recursive=True)[0]).metadata.metadata
print("agreed", len(counted), "tables", len(keys), "keys")
