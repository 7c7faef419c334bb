"""Bloom filters of an exported table of hops: they are there, each says no to what is not in its row group, and yes to what is.

usage: bloom.py hops.parquet
"""
import sys

import duckdb, pyarrow.parquet as pq

path = sys.argv[1]
db = duckdb.connect()
meta = pq.ParquetFile(path).metadata
assert meta.num_row_groups > 1, f"{meta.num_row_groups} row group: nothing to prune"
filters = db.execute(
    "select row_group_id, path_in_schema, bloom_filter_length from parquet_metadata(?) where bloom_filter_offset is not null", [path]
).fetchall()
for column in ("journey", "wire_key"):
    lengths = [length for _, name, length in filters if name == column]
    assert len(lengths) == meta.num_row_groups, f"{column}: {len(lengths)} filters of {meta.num_row_groups} row groups"

groups = [pq.ParquetFile(path).read_row_group(n, columns=["wire_key"])["wire_key"].to_pylist() for n in range(meta.num_row_groups)]
groups = [{key for key in keys if key is not None} for keys in groups]
absent, wrong, pruned = 0, 0, 0
for n, keys in enumerate(groups):
    for key in sorted(keys)[:: max(1, len(keys) // 50)]:
        answer = db.execute("select row_group_id, bloom_filter_excludes from parquet_bloom_probe(?, 'wire_key', ?)", [path, key]).fetchall()
        assert len(answer) == len(groups)
        for group, excludes in answer:
            there = key in groups[group]
            assert not (excludes and there), f"row group {group} has {key} and its filter says no"
            absent += not there
            wrong += not there and not excludes
        pruned += sum(excludes for _, excludes in answer)
assert absent > 0 and wrong <= absent * 0.1, f"{wrong} of {absent} wrong"
# And an engine that looks one up finds it.
key = min(groups[-1])
n = db.execute("select count(*) from read_parquet(?) where wire_key = ?", [path, key]).fetchone()[0]
assert n > 0
size = sum(length for _, _, length in filters)
print(f"{len(groups)} row groups, {size} bytes of filters, {pruned} groups skipped, {wrong} of {absent} in vain")
