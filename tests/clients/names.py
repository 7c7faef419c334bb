"""Prints the command names that an export has, as a sorted JSON list: from Parquet, CSV, JSON lines or Chrome's JSON.

usage: names.py FORMAT FILE
"""
import csv, json, sys

form, path = sys.argv[1:]
if form == "parquet":
    import pyarrow.parquet as pq

    names = set(pq.read_table(path, columns=["comm"])["comm"].to_pylist())
elif form == "csv":
    names = {row["comm"] for row in csv.DictReader(open(path, encoding="utf-8", newline=""))}
elif form == "jsonl":
    names = {json.loads(line).get("comm") for line in open(path, encoding="utf-8", newline="\n")}
elif form == "chrome":
    threads = (e.get("args", {}).get("thread") for e in json.load(open(path, encoding="utf-8"))["traceEvents"])
    names = {thread.rsplit(" ", 1)[0] for thread in threads if thread}
json.dump(sorted(name for name in names if name), sys.stdout)
