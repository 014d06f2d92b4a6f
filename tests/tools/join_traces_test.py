#!/usr/bin/env python3
"""tools/join_traces.py on timelines whose overlaps are known by hand."""
import json
import os
import subprocess
import sys
import tempfile
import unittest

TOOL = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../tools/join_traces.py")
TRACKS = {"request": 1, "prefill": 2, "encode": 3, "send": 4, "transfer": 5, "receive": 6, "rebuild": 7, "native": 8}


def span(track, name, begin, end, **arguments):
    return {"ph": "X", "name": name, "cat": track, "pid": 77, "tid": TRACKS[track], "ts": begin, "dur": end - begin,
            "args": arguments}


def code(track, begin, end, layer, kind="k", first_token=0):
    return span(track, f"{track} layer {layer} {kind}", begin, end, layer=layer, kind=kind, first_token=first_token,
                tokens=8, bytes=100)


def document(side, events, request_id="r", dropped=0):
    return {"displayTimeUnit": "ms",
            "otherData": {"request_id": request_id, "program": "scd-" + side, "side": side, "outcome": "ok",
                          "dropped_events": dropped},
            "traceEvents": [{"ph": "M", "name": "process_name", "pid": 77, "tid": 0, "args": {"name": "scd-" + side}}] + events}


def producer(request_id="r", shift=0, dropped=0):
    """Prefill from 1000 to 5000; frames leave at 2000 and 5000."""
    events = [span("request", "request", 500, 6000), span("prefill", "prefill chunk 0", 1000, 5000, chunk=0),
              code("encode", 1900, 2000, 0), code("encode", 4900, 5000, 1),
              code("send", 2000, 2100, 0), code("send", 5000, 5100, 1)]
    for event in events:
        event["ts"] += shift
    return document("producer", events, request_id, dropped)


def consumer(request_id="r", without_last=False):
    """Frames arrive until 3000 and 6000, each takes 1000 to rebuild; native from 7000 to 9000; first token at 10000."""
    events = [span("request", "request", 0, 20000), code("receive", 2900, 3000, 0), code("rebuild", 3000, 4000, 0),
              span("native", "native rest", 7000, 9000),
              {"ph": "i", "name": "first token", "cat": "request", "pid": 77, "tid": 1, "ts": 10000, "s": "t", "args": {}}]
    if not without_last:
        events += [code("receive", 5900, 6000, 1), code("rebuild", 6000, 7000, 1)]
    return document("consumer", events, request_id)


class JoinTracesTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def write(self, name, value):
        with open(self.path(name), "w", encoding="utf-8") as file:
            file.write(value if isinstance(value, str) else json.dumps(value))
        return self.path(name)

    def run_tool(self, *arguments):
        return subprocess.run([sys.executable, "-B", TOOL, *arguments], capture_output=True, text=True, timeout=60)

    def join(self, one, other):
        done = self.run_tool(self.write("p.json", one), self.write("c.json", other), "--out", self.path("out.json"))
        self.assertEqual(done.returncode, 0, done.stderr)
        with open(self.path("out.json"), encoding="utf-8") as file:
            return done.stdout, json.load(file)["traceEvents"]

    def row(self, text, stage):
        line = next(line for line in text.splitlines() if line.startswith(stage))
        return line[len(stage):].split()

    def test_shares(self):
        text, _ = self.join(producer(), consumer())
        self.assertIn('request "r": ok, first token after 10.0 ms', text)
        self.assertIn("frames: 2 sent, 2 received, 2 rebuilt, 200 bytes", text)
        # Transfers are 2000-3000 and 5000-6000, rebuilding 3000-4000 and 6000-7000.
        self.assertEqual(self.row(text, "prefill and encode"), ["4.0", "40", "%", "50", "%", "40", "%"])
        self.assertEqual(self.row(text, "transfer  "), ["2.0", "20", "%", "50", "%", "10", "%"])
        self.assertEqual(self.row(text, "rebuild  "), ["2.0", "20", "%", "50", "%", "10", "%"])
        self.assertEqual(self.row(text, "native positions"), ["2.0", "20", "%", "0", "%", "20", "%"])
        self.assertEqual(self.row(text, "nothing of these"), ["2.0", "20", "%", "20", "%"])
        self.assertIn("10.0 ms of work in 8.0 ms: 20 % of it was overlapped", text)
        self.assertIn("transfer during prefill: 50 %; rebuild during prefill or transfer: 50 %", text)
        self.assertNotIn("clock", text)

    def test_arrows(self):
        _, events = self.join(producer(), consumer())
        arrows = [event for event in events if event["ph"] in "stf"]
        self.assertEqual([(a["id"], a["ph"], a["pid"], a["ts"]) for a in arrows],
                         [(1, "s", 1, 2000), (1, "t", 2, 2900), (1, "f", 2, 3000),
                          (2, "s", 1, 5000), (2, "t", 2, 5900), (2, "f", 2, 6000)])
        self.assertEqual({event["pid"] for event in events}, {1, 2})
        # Each begins inside a span of its track.
        spans = [event for event in events if event["ph"] == "X"]
        for arrow in arrows:
            self.assertTrue(any(s["pid"] == arrow["pid"] and s["tid"] == arrow["tid"] and
                                s["ts"] <= arrow["ts"] <= s["ts"] + s["dur"] for s in spans), arrow)

    def test_a_frame_that_was_lost(self):
        text, events = self.join(producer(), consumer(without_last=True))
        self.assertIn("never received: 1 frames, the first of layer 1 k at token 0", text)
        self.assertEqual(sum(event["ph"] == "s" for event in events), 1)

    def test_clocks_that_differ(self):
        text, events = self.join(producer(shift=1_000_000), consumer())
        # As far as is known: the frame that seems to arrive earliest arrives as it is sent.
        self.assertIn("the producer's clock was ahead by 999.100 ms or more", text)
        self.assertEqual([event["ts"] for event in events if event["ph"] == "s"], [2900, 5900])

    def test_dropped_events_are_told(self):
        text, _ = self.join(producer(dropped=5), consumer())
        self.assertIn("5 events were dropped", text)

    def test_finds_the_pair(self):
        for name, value in {"a.producer.000001.json": producer("a"), "a.consumer.000001.json": consumer("a"),
                            "b.producer.000002.json": producer("b", shift=5), "b.consumer.000002.json": consumer("b"),
                            "a.producer.000003.json": producer("a", shift=100_000), "notes.json": "{", "x.txt": ""}.items():
            self.write(name, value)
        for request in ("a", "b"):
            done = self.run_tool("--dir", self.folder.name, "--request", request)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn(f'request "{request}"', done.stdout)
            self.assertNotIn("clock", done.stdout)
        self.assertEqual(self.run_tool("--dir", self.folder.name).returncode, 0)
        done = self.run_tool("--dir", self.folder.name, "--request", "c")
        self.assertEqual(done.returncode, 1)
        self.assertIn('no pair of traces of request "c"', done.stderr)

    def test_what_is_no_pair_is_refused(self):
        good = self.write("p.json", producer())
        for other, words in ((self.write("p2.json", producer()), "of one side"),
                             (self.write("c.json", consumer("other")), "two requests"),
                             (self.write("t.json", "[1, 2"), "is no trace"),
                             (self.write("n.json", "[]"), "is no trace"),
                             (self.write("s.json", document("client", [span("request", "request", 0, 1)])), "neither producer"),
                             (self.path("missing.json"), "No such file")):
            done = self.run_tool(good, other)
            self.assertEqual(done.returncode, 1, other)
            self.assertIn(words, done.stderr)
            self.assertNotIn("Traceback", done.stderr)
        self.assertEqual(self.run_tool(good).returncode, 2)


if __name__ == "__main__":
    unittest.main()
