"""Decodes a trace with Perfetto's own protobuf definitions and prints what is in it, as JSON.

usage: perfetto_trace.py FILE
"""
import json, sys

from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as pb

trace = pb.Trace()
trace.ParseFromString(open(sys.argv[1], "rb").read())
tracks, hits, flows, ended, counters = {}, [], {}, 0, 0
spans, begun = {}, {}
probes, counted, lost, reasons, bare, widths, total_widths = {}, {}, [], [], 0, 0, 0
for packet in trace.packet:
    if packet.HasField("track_descriptor"):
        track = packet.track_descriptor
        assert track.uuid not in tracks, "a track told of twice"
        assert not track.parent_uuid or track.parent_uuid in tracks, "a track below none"
        tracks[track.uuid] = track.name
    if packet.HasField("track_event"):
        event = packet.track_event
        assert event.track_uuid in tracks, "an event on no track"
        if event.type == pb.TrackEvent.TYPE_INSTANT and event.categories:
            notes = {note.name: note.string_value for note in event.debug_annotations}
            if "journey" not in notes:
                probes[event.name] = notes["values"]
                continue
            crosses = notes.get("since") == "dev.xmit" and event.name.startswith("dev.recv ")
            bare += crosses and "half_width_ns" not in notes
            widths += "half_width_ns" in notes
            total_widths += "total_half_width_ns" in notes
            hits.append([event.name.split(" ")[0], int(notes["journey"]), packet.timestamp])
            for flow in list(event.flow_ids) + list(event.terminating_flow_ids):
                assert flow == int(notes["journey"])
                flows[flow] = flows.get(flow, 0) + 1
        elif event.type == pb.TrackEvent.TYPE_INSTANT:
            ended += 1
            reasons += [note.string_value for note in event.debug_annotations if note.name == "reason"]
        elif event.type == pb.TrackEvent.TYPE_COUNTER:
            counters += 1
            counted[tracks[event.track_uuid]] = event.counter_value
        elif event.type == pb.TrackEvent.TYPE_SLICE_BEGIN and "request" in event.categories:
            assert event.track_uuid not in begun, "requests of one connection overlap"
            begun[event.track_uuid] = (event.name, packet.timestamp)
        elif event.type == pb.TrackEvent.TYPE_SLICE_BEGIN:
            lost.append(event.name)
        elif event.track_uuid in begun:
            name, begin = begun.pop(event.track_uuid)
            spans[name] = packet.timestamp - begin
found = {"hits": hits, "flows": len(flows), "ended": ended, "counters": counters, "probes": probes, "counted": counted, "lost": lost, "spans": spans}
json.dump(found | {"reasons": reasons, "bare": bare, "widths": widths, "total_widths": total_widths}, sys.stdout)
