#!/usr/bin/env python3
"""tools/report: faults of a document are named, its texts are escaped, what is absent is left out, and the page needs
nothing but itself. Exit status 77 where matplotlib or Jinja2 is missing."""
import copy
import html.parser
import json
import os
import re
import subprocess
import sys
import tempfile
import unittest

REPORT = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../tools/report"))
RENDER = os.path.join(REPORT, "render.py")
sys.path.insert(0, REPORT)
try:
    import jinja2  # noqa: F401
    import matplotlib
    matplotlib.use("svg")
except ImportError as error:
    print(f"{error.name} is not installed for {sys.executable}")
    sys.exit(77)

import figures  # noqa: E402
import labels  # noqa: E402
import schema  # noqa: E402

HOSTILE = '<script>alert("x")</script> & "quotes" | `code` </svg> https://evil.example/'
LAYERS = 4


def mode(name, row, group, **values):
    return {"mode": name, "row": row, "group": group, "native_head": 1, "native_tail": 16, "plan": "a plan", "codec": "bf16",
            "bytes_per_token": 1000.0, "percent_of_raw": 50.0, "f1": 0.5, "ppl": 17.0, "kl": 0.03, "kl_answer": 0.3,
            "ttft_ms_cold": 900, "ttft_ms_codes_ready": 200, "ttft_ms_native": 700, **values}


def document():
    latency = [{"mode": m, "row": m, "prefix_tokens": 128, "link_mbit_s": link, "measured": link != 10000,
                "ttft_ms_cold": 300.0 + i, "ttft_ms_codes_ready": 90.0 + i, "ttft_ms_native": 180.0, "bytes": 1000000,
                "stages_ms": {"queue": 0.1, "transfer": 12.5}}
               for i, m in enumerate(("reuse", "scd")) for link in (100, 10000, None)]
    grid = [{"rank_k": k, "rank_v": v, "kl": 0.01 * (k + v), "kl_answer": 0.1, "bytes_per_token": k + v}
            for k in (1, 2) for v in (1, 2)]
    budget = [{"num_patch_layers": k, "patch_layers": [2, 1][:k], "kl": 0.03 - 0.001 * k, "ppl": 17.0} for k in (0, 1, 2)]
    rates = [{"distortion": d, "bytes_per_token": 900.0 - 1e4 * d, "kl": 0.01 + d, "kl_answer": 0.1 + d, "patch_layers": []}
             for d in (0.001, 0.01, 0.05)]
    curve = {"mode": "scd", "patch_layers": [2], "kv_error_k": [0.1] * LAYERS, "kv_error_v": [0.2] * LAYERS,
             "hidden_error": [0.0] + [0.01] * LAYERS, "predicted": [0.0] + [0.02] * LAYERS, "alpha": [1.0] * LAYERS,
             "beta": [0.1] * LAYERS, "eps": [0.1] * LAYERS, "violated": [3]}
    return {"schema": "scd.eval.v1", "created": "2001-02-03T04:05:06Z", "commands": ["scd-eval table"],
            "machine": {"cpu": "a cpu", "cores": 2, "memory_gib": 23.4, "os": "an os"},
            "pair": {"producer": {"description": "base", "digest": "aa"}, "consumer": {"description": "expert", "digest": "bb"},
                     "bundle": {"path": "a/bundle", "digest": "cc"}, "num_layers": LAYERS, "d_kv": 8},
            "data": {"windows": {"source": "w.jsonl", "count": 10, "scored_tokens": 1280}},
            "raw_bytes_per_token": 2000,
            "modes": [mode("local", "local", "published", bytes_per_token=0, kl=0, kl_answer=0, ttft_ms_cold=None),
                      mode("raw", "raw", "published", kl=0.2), mode("scd", "scd", "published"),
                      mode("scd", "scd", "equal", kl=0.0123)],
            "latency": {"prefix_tokens": [128], "rows": latency},
            "ablations": [{"name": "ranks", "rows": grid}, {"name": "patch_layers", "rows": budget},
                          {"name": "distortion", "rows": rates}],
            "drift": {"layers": list(range(LAYERS)), "prefixes": 3, "decode_positions": 9, "curves": [curve], "note": "a note"}}


def render(content):
    """-> (exit status, standard error, {file name: text})"""
    with tempfile.TemporaryDirectory() as folder:
        source = os.path.join(folder, "in.json")
        with open(source, "w", encoding="utf-8") as file:
            file.write(content if isinstance(content, str) else json.dumps(content))
        out = os.path.join(folder, "out")
        done = subprocess.run([sys.executable, RENDER, source, out], capture_output=True, text=True)
        made = {}
        for name in os.listdir(out) if os.path.isdir(out) else []:
            with open(os.path.join(out, name), encoding="utf-8") as file:
                made[name] = file.read()
        return done.returncode, done.stderr, made


class Tags(html.parser.HTMLParser):
    """All tags of a page, and whether each that opens is closed."""
    VOID = {"meta", "input", "br", "hr", "img"}

    def __init__(self, text):
        super().__init__()
        self.tags, self.open, self.wrong = [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.wrong.append(tag)


class SchemaTest(unittest.TestCase):
    def test_whole_document_is_accepted(self):
        schema.check(document())

    def test_errors_name_the_field(self):
        def change(path, value):
            def apply(d):
                *parents, last = path
                for key in parents:
                    d = d[key]
                d[last] = value
            return apply

        for apply, words in [
                (change(["schema"], "scd.eval.v2"), 'schema: expected "scd.eval.v1"'),
                (change(["created"], None), "created: expected a text, got nothing"),
                (change(["commands"], ["a", 3]), "commands[1]: expected a text, got 3"),
                (change(["machine", "cores"], "two"), 'machine.cores: expected a number or null, got "two"'),
                (change(["pair", "producer"], []), "pair.producer: expected an object"),
                (change(["modes", 1, "kl"], "low"), 'modes[1].kl: expected a number or null, got "low"'),
                (change(["modes", 2, "kl"], True), "modes[2].kl: expected a number or null, got true"),
                (change(["modes", 0, "group"], "other"), 'modes[0].group: expected "published" or "equal"'),
                (change(["modes"], {}), "modes: expected a list"),
                (change(["latency", "rows", 0, "measured"], 1), "latency.rows[0].measured: expected true or false"),
                (change(["latency", "rows", 1, "link_mbit_s"], 0), "latency.rows[1].link_mbit_s: expected a number over 0"),
                (change(["latency", "rows", 0, "stages_ms", "queue"], []), "latency.rows[0].stages_ms.queue"),
                (change(["ablations", 0, "name"], "rank"), "ablations[0].name: expected"),
                (change(["ablations", 1, "rows", 2, "patch_layers"], [None]), "ablations[1].rows[2].patch_layers[0]"),
                (change(["drift", "curves", 0, "hidden_error"], [0.1] * LAYERS), "drift.curves[0].hidden_error: 4 numbers, expected 5"),
                (change(["drift", "layers"], None), "drift.layers: expected a list of numbers")]:
            broken = document()
            apply(broken)
            with self.assertRaises(schema.SchemaError) as caught:
                schema.check(broken)
            self.assertIn(words, str(caught.exception))

    def test_files_that_are_no_document(self):
        for content, words in [("", "not JSON"), ("[]", "document: expected an object"), ("[" * 100000, "not JSON"),
                               ('{"schema": "scd.eval.v1", "created": "x", "raw_bytes_per_token": NaN}', "NaN is no number")]:
            status, error, made = render(content)
            self.assertEqual((status, made), (1, {}), error)
            self.assertIn(words, error)
            self.assertEqual(error.count("\n"), 1, error)
        self.assertEqual(subprocess.run([sys.executable, RENDER, "/nonexistent.json", "/nonexistent"],
                                        capture_output=True).returncode, 1)
        self.assertEqual(subprocess.run([sys.executable, RENDER], capture_output=True).returncode, 2)


class PageTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.status, cls.error, cls.made = render(document())
        cls.page = cls.made.get("report.html", "")

    def setUp(self):
        self.assertEqual(self.status, 0, self.error)

    def test_needs_nothing_but_itself(self):
        self.assertEqual(re.findall(r"https?://(?!www\.w3\.org/2000/svg\")[^\s\"]*", self.page), [])
        tags = Tags(self.page)
        self.assertEqual((tags.open, tags.wrong), ([], []))
        self.assertFalse({tag for tag, _ in tags.tags} & {"script", "link", "img", "iframe", "object", "image"})
        for _, attributes in tags.tags:
            for name in ("src", "href", "xlink:href", "data", "action"):
                self.assertRegex(attributes.get(name) or "#", "^#")
        self.assertNotRegex(self.page, r"url\((?!#)|@import")

    def test_both_themes(self):
        self.assertIn("prefers-color-scheme: dark", self.page)
        for theme in ("light", "dark"):
            rule = re.search(r"#theme-%s:checked ~ \.page \{([^}]*)\}" % theme, self.page)[1]
            for name in set(re.findall(r"var\(--([a-z]+)\)", self.page)) - {"sans", "serif", "mono"}:
                self.assertIn(f"--{name}:", rule)
        self.assertNotIn("#0102", re.sub(r"<style>.*?</style>", "", self.page, flags=re.S))  # a colour that stands for one

    def test_ids_are_unique_and_references_are_met(self):
        ids = re.findall(r'\bid="([^"]+)"', self.page)
        self.assertEqual(len(ids), len(set(ids)))
        for target in re.findall(r'href="#([^"]+)"|url\(#([^)]+)\)|\bfor="([^"]+)"', self.page):
            self.assertIn("".join(target), ids)

    def test_every_plot_has_axes_with_units_and_words(self):
        plots = re.findall(r"<svg.*?</svg>", self.page, flags=re.S)
        self.assertEqual(len(plots), 2 * 7)  # wide and narrow: rate, two of latency, three ablations, drift
        units = re.compile(r"\((nats|ms|bit/s|ratio|count|columns|columns per token|per token)\)|bytes per prompt token|^layer")
        for plot in plots:
            self.assertRegex(plot, r'role="img" aria-label="[^"]{20,}"')
            texts = [t for t in re.findall(r"<text[^>]*>([^<]*)</text>", plot) if units.search(t)]
            self.assertGreaterEqual(len(texts), 2, plot[:300])

    def test_tables_are_accessible(self):
        tags = Tags(self.page).tags
        count = lambda tag: sum(name == tag for name, _ in tags)
        self.assertGreater(count("table"), 5)
        self.assertEqual(count("table"), count("caption"))
        for name, attributes in tags:
            if name == "th":
                self.assertIn(attributes.get("scope"), ("col", "row", "colgroup"))

    def test_groups_stand_side_by_side(self):
        line = re.search(r'<th scope="row">scd</th>.*?</tr>', self.page, flags=re.S)[0]
        self.assertIn("0.0300", line)  # as published
        self.assertIn("0.0123", line)  # at equal native positions
        self.assertIn("–", re.search(r'<th scope="row">raw</th>.*?</tr>', self.page, flags=re.S)[0])

    def test_measured_and_computed_are_told_apart(self):
        self.assertIn(">computed</td>", self.page)
        self.assertIn(">measured</td>", self.page)

    def test_same_input_same_bytes(self):
        self.assertEqual(render(document())[2], self.made)

    def test_results_are_copied(self):
        self.assertEqual(json.loads(self.made["results.json"]), document())

    def test_markdown_tables_are_whole(self):
        block = None
        for line in self.made["report.md"].splitlines() + [""]:
            if line.startswith("|"):
                cells = len(re.findall(r"(?<!\\)\|", line))
                self.assertEqual(cells, block or cells, line)
                block = cells
            else:
                block = None


class ContentTest(unittest.TestCase):
    def test_absent_sections_are_left_out(self):
        whole = document()
        titles = {"modes": "Main table", "latency": "Time to first token against bandwidth", "ablations": "Ablations",
                  "drift": "Drift by layer"}
        for section, title in titles.items():
            without = copy.deepcopy(whole)
            del without[section]
            status, error, made = render(without)
            self.assertEqual(status, 0, error)
            for name in ("report.html", "report.md"):
                self.assertNotIn(title, made[name])
                for other in set(titles) - {section}:
                    self.assertIn(titles[other], made[name])
        status, error, made = render({"schema": "scd.eval.v1", "created": "2001-02-03T04:05:06Z"})
        self.assertEqual(status, 0, error)
        self.assertNotIn("<svg", made["report.html"])
        self.assertIn("2001-02-03", made["report.html"])

    def test_a_run_that_ended_early_says_so(self):
        self.assertNotIn('class="warning"', self.render_small())
        self.assertIn("was interrupted", self.render_small(interrupted=True))
        self.assertIn("the &lt;producer&gt; ended", self.render_small(interrupted=True, error="the <producer> ended"))

    def render_small(self, **values):
        status, error, made = render({"schema": "scd.eval.v1", "created": "2001-02-03T04:05:06Z", **values})
        self.assertEqual(status, 0, error)
        return made["report.html"]

    def test_columns_that_nothing_was_measured_for_are_left_out(self):
        small = document()
        small["modes"] = [{"mode": "scd", "row": "scd", "group": "equal", "ppl": 17.23, "bytes_per_token": 5.0}]
        for name in ("latency", "ablations", "drift"):
            del small[name]
        status, error, made = render(small)
        self.assertEqual(status, 0, error)
        ours = made["report.md"].split("The paper's own figures")[0]
        self.assertIn("| Way | Bytes (per token) | PPL |", ours)
        self.assertNotIn("F1 (0", ours)

    def test_hostile_texts_are_escaped(self):
        hostile = document()
        hostile["commands"] = [HOSTILE + "\n```\n# not a title"]
        hostile["machine"]["cpu"] = hostile["pair"]["producer"]["description"] = hostile["drift"]["note"] = HOSTILE
        for row in hostile["modes"] + hostile["latency"]["rows"]:
            row["row"] = row["mode"] = row["plan"] = HOSTILE
        status, error, made = render(hostile)
        self.assertEqual(status, 0, error)
        page, text = made["report.html"], made["report.md"]
        self.assertNotIn("<script", page)
        tags = Tags(page)
        self.assertEqual((tags.open, tags.wrong), ([], []))
        self.assertNotIn("script", {tag for tag, _ in tags.tags})
        outside = re.sub(r"^````sh\n.*?^````\n", "", text, flags=re.S | re.M)
        self.assertNotIn("<script", outside)
        self.assertNotIn("\n# not a title", text)
        self.assertNotRegex(outside, r"[^\\]`")

    def test_numbers(self):
        self.assertEqual([figures.significant(v) for v in (None, 0, 7.49, 0.02634, 1409.0, 0.00004, 1e-9)],
                         ["–", "0", "7.49", "0.0263", "1,409", "0.0000400", "1.00e-09"])
        self.assertEqual([figures.link(v) for v in (None, 100, 10000)], ["loopback", "100 Mbit/s", "10 Gbit/s"])

    def test_layers_in_words(self):
        self.assertEqual(figures.ranges([7, 1, 3, 2]), "1 to 3, 7")
        self.assertEqual(figures.ranges([4, 5, 9, 10, 11]), "4, 5, 9 to 11")

    def test_labels_keep_their_distance(self):
        for wanted in ([0, 1, 2], [5, 5, 5, 5], [100, 99, 0], [50], [], [-10, 120, 50, 51]):
            placed = labels.spread(wanted, 10, 0, 100)
            ordered = sorted(placed)
            self.assertTrue(all(b - a >= 10 - 1e-9 for a, b in zip(ordered, ordered[1:])), placed)
            self.assertTrue(all(-1e-9 <= p <= 100 + 1e-9 for p in placed), placed)
        self.assertEqual(labels.spread([20, 80], 10, 0, 100), [20, 80])


if __name__ == "__main__":
    unittest.main()
