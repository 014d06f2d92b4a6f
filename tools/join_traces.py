#!/usr/bin/env python3
"""Joins the producer's and the consumer's timeline of one request (--trace-dir of the daemons) into one file for
ui.perfetto.dev, with an arrow from each frame's sending over its arrival to its rebuilding, and prints what overlapped.

Run: tools/join_traces.py PRODUCER.json CONSUMER.json [--out FILE]
     tools/join_traces.py --dir DIR [--request ID] [--out FILE]    the newest pair there, or that of one request
docs/tracing.md explains the figures. Needs nothing but Python. Exit status 1 where the files are no pair."""
import argparse
import bisect
import json
import os
import sys

PIDS = {"producer": 1, "consumer": 2}
# Tracks and the stage that they are, in the order in which a prompt's state passes through them.
STAGES = ("prefill", "transfer", "rebuild", "native")
STAGE_WORDS = {"prefill": "prefill and encode", "transfer": "transfer", "rebuild": "rebuild", "native": "native positions"}


class TraceError(Exception):
    """A file that is no trace, or two that do not belong together."""


class Trace:
    def __init__(self, path):
        self.path = path
        try:
            with open(path, encoding="utf-8") as file:
                document = json.load(file)
            other = document["otherData"]
            self.request_id, self.side = other["request_id"], other["side"]
            self.outcome, self.dropped = other["outcome"], other["dropped_events"]
            self.events = document["traceEvents"]
            self.spans = [event for event in self.events if event["ph"] == "X"]
            whole = [span for span in self.spans if span["name"] == "request"]
            self.begin, self.end = whole[0]["ts"], whole[0]["ts"] + whole[0]["dur"]
        except OSError as error:
            raise TraceError(f"{path}: {error.strerror}") from error
        except (ValueError, KeyError, TypeError, IndexError, RecursionError) as error:
            raise TraceError(f"{path}: is no trace of a daemon ({type(error).__name__}: {error})") from error
        if self.side not in PIDS:
            raise TraceError(f"{path}: is of \"{self.side}\", neither producer nor consumer")

    def codes(self, track):
        """-> {(layer, kind, first token): span} of a track"""
        found = {}
        for span in self.spans:
            arguments = span.get("args", {})
            if span.get("cat") == track and "kind" in arguments:
                found[arguments["layer"], arguments["kind"], arguments["first_token"]] = span
        return found

    def shift(self, microseconds):
        for event in self.events:
            if "ts" in event:
                event["ts"] += microseconds
        self.begin += microseconds
        self.end += microseconds


def find_pair(folder, request_id):
    """The newest trace of a consumer, or the newest of one request, and the producer's that runs beside it."""
    try:
        names = sorted(name for name in os.listdir(folder) if name.endswith(".json"))
    except OSError as error:
        raise TraceError(f"{folder}: {error.strerror}") from error
    traces = {"producer": [], "consumer": []}
    for name in names:
        try:
            trace = Trace(os.path.join(folder, name))
        except TraceError:
            continue  # the folder may hold other files, or one that is cut short
        if request_id in (None, trace.request_id):
            traces[trace.side].append(trace)
    wanted = f" of request \"{request_id}\"" if request_id is not None else ""
    for consumer in sorted(traces["consumer"], key=lambda trace: -trace.begin):
        for producer in sorted(traces["producer"], key=lambda trace: -trace.begin):
            together = min(producer.end, consumer.end) >= max(producer.begin, consumer.begin)
            if producer.request_id == consumer.request_id and together:
                return producer, consumer
    raise TraceError(f"{folder}: has no pair of traces{wanted}: {len(traces['producer'])} of a producer, "
                     f"{len(traces['consumer'])} of a consumer")


def union(intervals):
    """Disjoint and sorted."""
    merged = []
    for begin, end in sorted(interval for interval in intervals if interval[1] > interval[0]):
        if merged and begin <= merged[-1][1]:
            merged[-1][1] = max(merged[-1][1], end)
        else:
            merged.append([begin, end])
    return merged


def length(intervals):
    return sum(end - begin for begin, end in intervals)


def joint(busy, stages):
    """The union of what some stages were busy."""
    return union([tuple(pair) for stage in stages for pair in busy[stage]])


def common(one, other):
    """The length of what two unions share."""
    shared, i, j = 0, 0, 0
    while i < len(one) and j < len(other):
        shared += max(0, min(one[i][1], other[j][1]) - max(one[i][0], other[j][0]))
        if one[i][1] < other[j][1]:
            i += 1
        else:
            j += 1
    return shared


def clip(intervals, begin, end):
    return [[max(begin, b), min(end, e)] for b, e in intervals if e > begin and b < end]


def covers(intervals, moment):
    place = bisect.bisect_right([begin for begin, _ in intervals], moment) - 1
    return place >= 0 and moment < intervals[place][1]


def interval(span):
    return span["ts"], span["ts"] + span["dur"]


def align(producer, consumer):
    """Clocks of two machines differ: no frame arrives before it is sent. -> how far the producer was moved back (µs)"""
    received = consumer.codes("receive")
    early = [span["ts"] - received[code]["ts"] for code, span in producer.codes("send").items() if code in received]
    skew = max(early, default=0)
    if skew <= 0:
        return 0
    producer.shift(-skew)
    return skew


def stages(producer, consumer):
    sent, received = producer.codes("send"), consumer.codes("receive")
    spans = {"prefill": [interval(s) for s in producer.spans if s.get("cat") == "prefill"],
             "transfer": [(sent[code]["ts"], interval(received[code])[1]) for code in sent if code in received],
             "rebuild": [interval(s) for s in consumer.spans if s.get("cat") == "rebuild"],
             "native": [interval(s) for s in consumer.spans if s.get("cat") == "native"]}
    return {stage: union(spans[stage]) for stage in STAGES}


def first_token(consumer):
    moments = [event["ts"] for event in consumer.events if event["ph"] == "i" and event["name"] == "first token"]
    return min(moments) if moments else consumer.end


def critical_path(busy, begin, end):
    """Each moment goes to the first stage, in the order of the pipeline, that works then; the rest to none."""
    inside = [clip(intervals, begin, end) for intervals in busy.values()]
    edges = sorted({begin, end} | {edge for intervals in inside for pair in intervals for edge in pair})
    shares = dict.fromkeys((*STAGES, "none"), 0)
    for left, right in zip(edges, edges[1:]):
        shares[next((stage for stage in STAGES if covers(busy[stage], left)), "none")] += right - left
    return shares


def percent(part, whole):
    return f"{100 * part / whole:.0f} %" if whole > 0 else "-"


def summary(producer, consumer, skew):
    sent, received, rebuilt = producer.codes("send"), consumer.codes("receive"), consumer.codes("rebuild")
    begin, end = consumer.begin, first_token(consumer)
    busy = {stage: clip(intervals, begin, end) for stage, intervals in stages(producer, consumer).items()}
    whole = end - begin
    lines = [f"request {json.dumps(consumer.request_id)}: {consumer.outcome or 'without an end'}, "
             f"first token after {whole / 1000:.1f} ms",
             f"frames: {len(sent)} sent, {len(received)} received, {len(rebuilt)} rebuilt, "
             f"{sum(span['args']['bytes'] for span in sent.values())} bytes"]
    lost = [code for code in sent if code not in received]
    if lost:
        layer, kind, token = lost[0]
        lines.append(f"never received: {len(lost)} frames, the first of layer {layer} {kind} at token {token}")
    if skew > 0:
        lines.append(f"the producer's clock was ahead by {skew / 1000:.3f} ms or more: its events were moved back by so much")
    for trace in (producer, consumer):
        if trace.dropped:
            lines.append(f"{trace.path}: {trace.dropped} events were dropped, figures are too small")
    lines.append("")
    lines.append(f"{'stage':<20}{'busy ms':>10}{'of the time':>13}{'beside others':>15}{'critical path':>15}")
    shares = critical_path(busy, begin, end)
    for stage in STAGES:
        others = joint(busy, [other for other in STAGES if other != stage])
        worked = length(busy[stage])
        lines.append(f"{STAGE_WORDS[stage]:<20}{worked / 1000:>10.1f}{percent(worked, whole):>13}"
                     f"{percent(common(busy[stage], others), worked):>15}{percent(shares[stage], whole):>15}")
    lines.append(f"{'nothing of these':<20}{shares['none'] / 1000:>10.1f}{percent(shares['none'], whole):>13}{'':>15}"
                 f"{percent(shares['none'], whole):>15}")
    total = sum(length(intervals) for intervals in busy.values())
    together = length(joint(busy, STAGES))
    lines.append("")
    lines.append(f"{total / 1000:.1f} ms of work in {together / 1000:.1f} ms: {percent(total - together, total)} of it was overlapped")
    hidden = {stage: percent(common(busy[stage], joint(busy, ahead)), length(busy[stage]))
              for stage, ahead in (("transfer", ["prefill"]), ("rebuild", ["prefill", "transfer"]))}
    lines.append(f"transfer during prefill: {hidden['transfer']}; rebuild during prefill or transfer: {hidden['rebuild']}")
    return "\n".join(lines)


def joined(producer, consumer):
    events = []
    for trace in (producer, consumer):
        pid = PIDS[trace.side]
        events.append({"ph": "M", "name": "process_sort_index", "pid": pid, "tid": 0, "args": {"sort_index": pid}})
        events += [dict(event, pid=pid) for event in trace.events]
    received, rebuilt = consumer.codes("receive"), consumer.codes("rebuild")
    for number, (code, span) in enumerate(sorted(producer.codes("send").items()), 1):
        if code not in received:
            continue
        path = [(PIDS["producer"], span), (PIDS["consumer"], received[code])]
        if code in rebuilt:
            path.append((PIDS["consumer"], rebuilt[code]))
        for place, (pid, stop) in enumerate(path):
            phase = "s" if place == 0 else "f" if place == len(path) - 1 else "t"
            arrow = {"ph": phase, "id": number, "name": "frame", "cat": "frame",
                     "pid": pid, "tid": stop["tid"], "ts": stop["ts"]}
            events.append(dict(arrow, bp="e") if phase == "f" else arrow)
    return {"displayTimeUnit": "ms", "otherData": {"request_id": consumer.request_id}, "traceEvents": events}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("files", nargs="*", metavar="FILE", help="the producer's and the consumer's trace, in any order")
    parser.add_argument("--dir", metavar="DIR", help="find them here instead")
    parser.add_argument("--request", metavar="ID", help="with --dir: of this request")
    parser.add_argument("--out", metavar="FILE", help="write the joined timeline")
    arguments = parser.parse_args()
    if (arguments.dir is None) != (len(arguments.files) == 2) or (arguments.request is not None and arguments.dir is None):
        parser.error("give two files, or --dir")
    try:
        if arguments.dir is not None:
            producer, consumer = find_pair(arguments.dir, arguments.request)
        else:
            traces = {trace.side: trace for trace in map(Trace, arguments.files)}
            if len(traces) != 2:
                raise TraceError("both traces are of one side")
            producer, consumer = traces["producer"], traces["consumer"]
            if producer.request_id != consumer.request_id:
                raise TraceError(f"two requests: \"{producer.request_id}\" and \"{consumer.request_id}\"")
        skew = align(producer, consumer)
        print(summary(producer, consumer, skew))
        if arguments.out:
            with open(arguments.out, "w", encoding="utf-8") as file:
                json.dump(joined(producer, consumer), file)
            print(f"joined: {arguments.out} (open it at https://ui.perfetto.dev)")
    except TraceError as error:
        sys.exit(f"join_traces.py: {error}")
    except OSError as error:
        sys.exit(f"join_traces.py: {error.filename}: {error.strerror}")


if __name__ == "__main__":
    main()
