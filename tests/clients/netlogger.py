"""Feeds ULM or BP lines to LBL's own NetLogger parser (carried by Pegasus): BP whole, of ULM the tokens.

usage: netlogger.py bp|ulm FILE
"""
import sys

from Pegasus.netlogger.parsers.base import NLSimpleParser, _bp_extract

dialect, path = sys.argv[1:]
parser, lines, ids = NLSimpleParser(verify=True), 0, set()
for line in open(path, encoding="utf-8", newline="\n"):
    line = line.rstrip("\n")
    lines += 1
    if dialect == "bp":
        fields = parser.parseLine(line)
        assert abs(fields["ts"] - int(fields["mag.ns"]) / 1e9) < 1e-5, line
        assert fields["event"] and fields["level"], line
    else:
        fields = _bp_extract(line, validate=True)
        assert list(fields)[:4] == ["DATE", "HOST", "PROG", "LVL"], line
        assert len(fields["DATE"]) == 21 and fields["DATE"][14] == ".", line
        assert all(len(part) <= 4 for name in fields for part in name.split(".")), line
        # Six digits of the same instant as the nine.
        assert fields["DATE"][15:] == fields["MAG.NS"][-9:-3], line
        ids.add(fields.get("ID"))
print(lines)
