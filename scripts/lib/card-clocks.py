#!/usr/bin/env python3
"""Holds the recordings of scripts/card-clocks.sh against the readings of the cards by phc_ctl.

usage: card-clocks.py SCENARIO FOLDER MAGNET_SCOPE

The scenarios, all with the right time on the grandmaster, whose chronyd follows its card:
  right       ptp4l and phc2sys follow it
  slewed      ptp4l follows; the wall clock runs 500 ppm fast, and nothing steers it
  second      chronyd follows a card that is a second ahead
  utc-offset  the grandmaster states that TAI is 36 s ahead of UTC; ptp4l and phc2sys follow
  contradiction  ptp4l follows; chronyd follows the second card, which is a second ahead
  jump        chronyd follows a card that jumps by a second
  tai         phc2sys sets the wall clock to TAI
  software    ptp4l follows with time stamps of software

The follower has a second card. Nothing else sets its clock.
"""

import csv
import io
import json
import subprocess
import sys

TAI_NS = 37_000_000_000
# The time since boot is given in hundredths of a second, in which a wall clock drifts.
TICK_NS = 10_000_000
FASTEST_PPM = 600
# phc_ctl takes the middle of two readings. Its clock and the reading have errors of microseconds on an emulated CPU.
READING_NS = 20_000

scenario, folder, program = sys.argv[1:]
roles = ["grandmaster", "follower"]
paths = [f"{folder}/{role}/recording" for role in roles]


def fail(message):
    sys.exit(f"{scenario}: {message}")


def run(*arguments):
    done = subprocess.run([program, *arguments], capture_output=True, text=True)
    if done.returncode:
        fail(f"{' '.join(arguments)}: {done.stderr}")
    return done.stdout


def samples_of(path):
    rows = csv.DictReader(io.StringIO(run("export", path, "--tables", "clock", "--format", "csv", "-o", "-")))
    names = ["monotonic_ns", "raw_ns", "realtime_ns", "utc_error_ns"]
    return [{name: int(row[name]) if row[name] else None for name in names} for row in rows]


def readings_of(role):
    """Instants since boot, earliest and latest, with REALTIME less the card's clock."""
    for line in open(f"{folder}/{role}/readings"):
        words = line.split()
        if len(words) == 3:
            yield float(words[0]) * 1e9, float(words[1]) * 1e9 + TICK_NS, int(words[2])


def held(role, samples):
    """Number of readings whose distance from UTC is within the bound of the nearest sample, which is never too small."""
    count, tightest = 0, None
    bounded = [sample for sample in samples if sample["utc_error_ns"] is not None]
    for begin, end, offset_ns in readings_of(role):
        near = [sample for sample in bounded if begin - 1e8 <= sample["monotonic_ns"] <= end + 1e8]
        for sample in near:
            away_ns = max(abs(sample["monotonic_ns"] - begin), abs(sample["monotonic_ns"] - end))
            slack_ns = READING_NS + away_ns * FASTEST_PPM / 1e6
            true_ns = abs(offset_ns + TAI_NS)
            count += 1
            if true_ns > sample["utc_error_ns"] + slack_ns:
                fail(f"{role} is {true_ns} ns off UTC by its card, and claims {sample['utc_error_ns']} ns: {sample}")
        tightest = min([sample["utc_error_ns"] for sample in near] + ([tightest] if tightest else []), default=None)
    if not count:
        fail(f"no reading of the card of {role} is near a sample with a bound")
    return count, tightest


def raw_at(samples, realtime_ns):
    """The sample that is nearest by the wall clock."""
    return min(samples, key=lambda sample: abs(sample["realtime_ns"] - realtime_ns))


def utc_and_packets_agree(pair, one, two):
    """R of B less R of A by both wall clocks and their bounds, beside the bounds of packets."""
    count = 0
    for at in pair["over_time"]:
        here = min(one, key=lambda sample: abs(sample["raw_ns"] - at["at_ns"]))
        there = raw_at(two, here["realtime_ns"])
        errors = [here["utc_error_ns"], there["utc_error_ns"]]
        if None in errors or None in (at["lower_ns"], at["upper_ns"]):
            continue
        apart_ns = there["realtime_ns"] - here["realtime_ns"]
        # The samples' rate is nearly one, and the two clocks drift by 200 ppm at most.
        difference_ns = there["raw_ns"] - here["raw_ns"] - apart_ns
        slack_ns = sum(errors) + (abs(apart_ns) + abs(at["at_ns"] - here["raw_ns"])) * FASTEST_PPM / 1e6
        count += 1
        if not at["lower_ns"] - slack_ns <= difference_ns <= at["upper_ns"] + slack_ns:
            fail(f"UTC gives {difference_ns} ± {slack_ns:.0f} ns, packets {at}")
    if not count:
        fail("no instant has bounds by UTC and by packets")
    return count


def main():
    for role in roles:
        console = open(f"{folder}/{role}.log", errors="replace").read()
        if "MACHINE: recorded" not in console:
            fail(f"{role} did not record")
    # PTP_SYS_OFFSET_PRECISE is refused by this card, PTP_SYS_OFFSET_EXTENDED is not.
    requests = [line.split() for line in console.splitlines() if line.startswith("MACHINE: number=")]
    if [request[1] for request in requests] != ["number=0xc0403d08", "number=0xc4c03d09"]:
        fail(f"the follower's card was not read as it should be: {requests}")
    one, two = (samples_of(path) for path in paths)
    pair = json.loads(run("align", "--json", *paths))["pairs"][0]
    refuted = {"second": [0, 1], "utc-offset": [0, 1], "jump": [1]}.get(scenario, [])
    print(f"  {pair['state']}, half width {pair['half_width_ns']} ns, by UTC {pair['external_half_width_ns']} ns")
    if pair["state"] != "CERTIFIED" or pair["utc_refuted"] != refuted:
        fail(f"{pair['state']}, refuted {pair['utc_refuted']}, not {refuted}")
    print(f"  refuted: {', '.join(roles[number] for number in refuted) or 'none'}")
    claims = [[sample for sample in samples if sample["utc_error_ns"] is not None] for samples in (one, two)]
    if scenario in ("tai", "software"):
        if claims[1]:
            fail(f"the follower has a bound of UTC: {claims[1][0]}")
        return
    print("  grandmaster: %d readings of the card are within its bounds of %d ns and more" % held(roles[0], one))
    if refuted:
        for role, claim in zip(roles, claims):
            if not claim or min(sample["utc_error_ns"] for sample in claim) > 100_000_000:
                fail(f"{role} claims no UTC that could be refuted")
        return
    print("  follower: %d readings of the card are within its bounds of %d ns and more" % held(roles[1], two))
    print(f"  at {utc_and_packets_agree(pair, one, two)} instants UTC and packets agree")


main()
