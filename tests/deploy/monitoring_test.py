#!/usr/bin/env python3
"""deploy/prometheus and deploy/grafana: promtool accepts configuration and rules and their unit tests pass; Prometheus scrapes
both daemons, on the tiny pair, while they serve; and every series that a rule or the dashboard names is there, and no series
of the daemons is left undrawn. Those of a shared store are there only with a Redis server; without redis-server they are
left out."""
import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.error
import urllib.parse
import urllib.request

from deploy_paths import DEPLOY, HERE, ROOT, free_port, program, read, tool
from processes import Daemon, Process

PROMTOOL = tool("promtool")
PROMETHEUS = tool("prometheus")
DASHBOARD = json.loads(read(DEPLOY, "grafana/dashboards/scd.json"))
RULES = read(DEPLOY, "prometheus/rules.yml")
SELECTOR = re.compile(r'\b(?:scd_[a-z0-9_]+|up)\b(?:\{[^}]*\})?')
REDIS = shutil.which("redis-server")
SHARED_STORE = re.compile(r"scd_shared_store_[a-z0-9_]+")
PROMPT = ",".join(str((i * 37 + 11) % 250) for i in range(200))


def panels():
    return [p for p in DASHBOARD["panels"] if p["type"] != "row"]


def filled(expression):
    """A dashboard's query without Grafana's variables."""
    return expression.replace("$instance", ".*").replace("$__rate_interval", "30s")


def dashboard_queries():
    """Those whose series are there in this test."""
    for panel in panels():
        for target in panel["targets"]:
            if REDIS or not SHARED_STORE.search(target["expr"]):
                yield panel["title"], filled(target["expr"])


class FilesTest(unittest.TestCase):
    def promtool(self, *arguments, folder=DEPLOY):
        done = subprocess.run([PROMTOOL, *arguments], cwd=folder, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_configuration_and_rules(self):
        self.promtool("check", "config", "prometheus/prometheus.yml")
        self.promtool("check", "rules", "--lint-fatal", "prometheus/rules.yml")

    def test_unit_tests_of_rules(self):
        self.promtool("test", "rules", "rules_test.yml", folder=HERE)

    def test_unit_tests_can_fail(self):
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "rules.yml"), "w", encoding="utf-8") as file:
                file.write(RULES.replace("for: 30s", "for: 3h"))
            with open(os.path.join(folder, "test.yml"), "w", encoding="utf-8") as file:
                file.write(read(HERE, "rules_test.yml").replace("../../deploy/prometheus/rules.yml", "rules.yml"))
            done = subprocess.run([PROMTOOL, "test", "rules", "test.yml"], cwd=folder, capture_output=True, text=True)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("ScdProducerDown", done.stdout + done.stderr)

    def test_each_alert_is_tested_and_explained(self):
        runbook = read(ROOT, "docs/operating.md")
        alerts = re.findall(r"- alert: (\w+)", RULES)
        self.assertGreater(len(alerts), 8)
        for alert in alerts:
            self.assertRegex(read(HERE, "rules_test.yml"), rf"alertname: {alert}\n\s+exp_alerts:", alert)
            self.assertIn(f"\n### {alert}\n", runbook)
            self.assertIn(f"runbook: docs/operating.md#{alert.lower()}\n", RULES)
        self.assertEqual(sorted(re.findall(r"\n### (Scd\w+)\n", runbook)), sorted(alerts))

    def test_dashboard_is_whole(self):
        self.assertEqual(DASHBOARD["uid"], "scd")
        ids = [p["id"] for p in DASHBOARD["panels"]]
        self.assertEqual(len(ids), len(set(ids)))
        uid = re.search(r"uid: (\S+)", read(DEPLOY, "grafana/provisioning/datasources/prometheus.yml"))[1]
        self.assertEqual(set(re.findall(r'"uid": "([^"]+)"', json.dumps(DASHBOARD))), {uid, "scd", "-- Grafana --"})
        taken = set()
        for panel in DASHBOARD["panels"]:
            at = panel["gridPos"]
            cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
            self.assertFalse(cells & taken, f"{panel['title']} lies on another panel")
            self.assertLessEqual(at["x"] + at["w"], 24)
            taken |= cells
        drawn = {name for panel in panels() for target in panel["targets"] for name in SHARED_STORE.findall(target["expr"])}
        documented = set(SHARED_STORE.findall(read(ROOT, "docs/sharing_codes.md")))
        self.assertEqual(drawn, documented)
        for panel in panels():
            self.assertTrue(panel["description"] and panel["targets"], panel["title"])
            self.assertTrue(panel["type"] == "table" or panel["fieldConfig"]["defaults"]["unit"], panel["title"])


class ScrapeTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        with contextlib.ExitStack() as stack:
            cls.start(stack)
            cls.addClassCleanup(stack.pop_all().close)

    @classmethod
    def start(cls, stack):
        cls.folder = stack.enter_context(tempfile.TemporaryDirectory())
        cls.producer_port = free_port()
        pair = os.path.join(cls.folder, "pair")
        os.mkdir(pair)
        subprocess.run([program("write_tiny_pair"), pair, f"127.0.0.1:{cls.producer_port}"], check=True)
        # The consumer looks where no producer writes: it has the series of a shared store, and nothing from there.
        cls.shared_store = cls.redis(stack) if REDIS else []
        cls.producer = cls.daemon("producer", f"server.listen=127.0.0.1:{cls.producer_port}", *cls.shared_store)
        stack.callback(lambda: cls.producer.close())
        cls.consumer = cls.daemon("consumer", *cls.shared_store, *(["code_store.redis.key_prefix=other"] if REDIS else []))
        stack.callback(cls.consumer.close)
        cls.start_prometheus(stack)
        # One scrape from before the first request, so that every increase can be seen.
        cls.until("both daemons scraped", lambda: len(cls.query("up == 1")) == 2)

        cls.client("generate", "--ids", PROMPT, "--max-tokens", "8", "--ignore-eos", "--policy", "require")
        cls.client("score", "--ids", PROMPT, "--continuation-ids", "1,2,3", "--policy", "require")
        cls.client("generate", "--ids", "1,2,3", "--max-tokens", "2", "--ignore-eos")
        # Without its producer the consumer falls back, and says so.
        cls.producer.close(signal.SIGKILL)
        cls.client("generate", "--ids", PROMPT, "--max-tokens", "4", "--ignore-eos", "--policy", "prefer",
                   "--no-prefix-cache")
        cls.client("generate", "--ids", PROMPT, "--max-tokens", "4", "--policy", "require", "--no-prefix-cache", fails=True)
        cls.until("the dead producer is noticed",
                  lambda: {a["labels"]["alertname"] for a in cls.get("alerts")["alerts"]} & {"ScdProducerDown"})
        cls.producer = cls.daemon("producer", f"server.listen=127.0.0.1:{cls.producer_port}",
                                  f"metrics.listen=127.0.0.1:{cls.producer.metrics_port}", "prefill.chunk_tokens=1",
                                  *cls.shared_store)
        cls.until("it is back", lambda: len(cls.query("up == 1")) == 2)
        cls.client("generate", "--ids", PROMPT, "--max-tokens", "8", "--ignore-eos", "--policy", "require",
                   "--no-prefix-cache")
        # Longer than this producer takes (prefill.max_prompt_tokens=512).
        cls.client("generate", "--ids", ",".join([PROMPT] * 3), "--max-tokens", "1", "--policy", "require", fails=True)
        # And one that runs out of time within its prefill, which this producer does token by token.
        for budget_ms in (40, 80, 160, 320, 640, 1280):
            cls.client("generate", "--ids", ",".join([PROMPT] * 2), "--max-tokens", "1", "--fresh",
                       "--transfer-timeout-ms", str(budget_ms))
            with urllib.request.urlopen(f"http://127.0.0.1:{cls.producer.metrics_port}/metrics", timeout=20) as page:
                if b"\nscd_transfers_failed_total{" in page.read():
                    break
        else:
            raise AssertionError(f"no prefill was cut short:\n{cls.producer.log()}")
        cls.until("requests are in the metrics", lambda: cls.query('scd_requests_total{method="Generate", code="ok"} >= 4')
                  and cls.query('scd_requests_total{method="Prefill", code="ok"} >= 1'))
        time.sleep(2.5)  # two scrapes more, for the rates of the producer that was started again

    @classmethod
    def redis(cls, stack):
        """Starts a server -> the daemons' settings for it"""
        path = os.path.join(cls.folder, "redis.sock")
        server = Process([REDIS, "--port", "0", "--unixsocket", path, "--save", "", "--dir", cls.folder],
                         os.path.join(cls.folder, "redis.log"))
        stack.callback(server.close)
        server.wait_for("[Rr]eady to accept connections")
        return [f"code_store.redis.address=unix:{path}"]

    @classmethod
    def daemon(cls, name, *settings):
        with open(os.path.join(cls.folder, "pair", f"{name}.args"), encoding="utf-8") as file:
            arguments = file.read().splitlines()
        for setting in settings:
            arguments += ["--set", setting]
        return Daemon([program(f"scd-{name}"), *arguments], os.path.join(cls.folder, f"{name}.log"))

    @classmethod
    def start_prometheus(cls, stack):
        """Prometheus with the shipped files, but for addresses and a faster pace."""
        config = os.path.join(cls.folder, "prometheus")
        shutil.copytree(os.path.join(DEPLOY, "prometheus"), config)
        path = os.path.join(config, "prometheus.yml")
        text = read(path)
        for shipped, here in [("producer:9470", f"127.0.0.1:{cls.producer.metrics_port}"),
                              ("consumer:9471", f"127.0.0.1:{cls.consumer.metrics_port}"),
                              ("_interval: 5s", "_interval: 1s"), ("scrape_timeout: 4s", "scrape_timeout: 1s")]:
            assert shipped in text, shipped
            text = text.replace(shipped, here)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        cls.url = f"http://127.0.0.1:{free_port()}"
        prometheus = Process([PROMETHEUS, f"--config.file={path}", f"--storage.tsdb.path={cls.folder}/data",
                              f"--web.listen-address={cls.url[7:]}"], os.path.join(cls.folder, "prometheus.log"))
        stack.callback(prometheus.close)
        prometheus.wait_for("Server is ready")

    @classmethod
    def client(cls, command, *arguments, fails=False):
        command = [program("scd-client"), command, "--quiet", "--address", f"127.0.0.1:{cls.consumer.port}", *arguments]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == int(fails), f"{done.args}: {done.returncode} {done.stderr}"

    @classmethod
    def get(cls, path, **parameters):
        url = f"{cls.url}/api/v1/{path}?{urllib.parse.urlencode(parameters)}"
        try:
            with urllib.request.urlopen(url, timeout=20) as answer:
                return json.load(answer)["data"]
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{url}: {error.read().decode()}") from None

    @classmethod
    def query(cls, expression):
        return cls.get("query", query=expression)["result"]

    @classmethod
    def until(cls, what, condition, seconds=30):
        deadline = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < deadline, f"not within {seconds} s: {what}\n{cls.producer.log()}\n{cls.consumer.log()}"
            time.sleep(0.1)

    def selectors(self):
        rules = [r["query"] for g in self.get("rules")["groups"] for r in g["rules"]]
        self.assertEqual(len(rules), RULES.count("- alert:"))
        for expression in rules + [q for _, q in dashboard_queries()]:
            found = SELECTOR.findall(expression)
            self.assertTrue(found, expression)
            yield from found

    def test_every_series_that_is_named_exists(self):
        missing = sorted({s for s in self.selectors() if not self.query(s)})
        self.assertEqual(missing, [])

    def test_every_panel_has_data(self):
        empty = sorted({f"{title}: {expression}" for title, expression in dashboard_queries() if not self.query(expression)})
        self.assertEqual(empty, [])

    def test_every_rule_is_evaluated(self):
        for group in self.get("rules")["groups"]:
            for rule in group["rules"]:
                self.assertEqual((rule["health"], rule.get("lastError", "")), ("ok", ""), rule["name"])

    def test_every_series_of_the_daemons_is_drawn(self):
        exported = {n for n in self.get("label/__name__/values") if n.startswith("scd_")}
        drawn = {re.match("[a-z0-9_]+", s)[0] for s in self.selectors()}
        histograms = {n[:-len("_bucket")] for n in exported if n.endswith("_bucket")}
        for name in sorted(exported):
            family = re.sub("_(bucket|sum|count)$", "", name)
            self.assertTrue(name in drawn or family in histograms and f"{family}_bucket" in drawn, f"{name} is not drawn")

    def test_values(self):
        """A few of them against what was asked for."""
        def value(expression):
            found = self.query(expression)
            self.assertEqual(len(found), 1, f"{expression}: {found}")
            return float(found[0]["value"][1])

        self.assertEqual(value('scd_fallbacks_total{reason="producer_unavailable"}'), 1)
        self.assertEqual(value('scd_fallbacks_total{reason="short_prompt"}'), 1)
        self.assertGreaterEqual(value("scd_time_to_first_token_seconds_count"), 5)
        if REDIS:
            self.assertEqual(value("scd_shared_store_up"), 1)
            self.assertGreaterEqual(value("scd_shared_store_unknown_total"), 2)
            self.assertEqual(value("scd_shared_store_served_total"), 0)
        self.assertEqual(value('scd_requests_total{method="Score", code="ok"}'), 1)
        raw, sent = value("scd_raw_kv_bytes_total"), value('sum(scd_transfer_bytes_total{job="scd-consumer"})')
        self.assertGreater(raw, 0)
        self.assertGreater(sent, 0)
        # What all stages but the producer's took lies within the time to first token.
        native = value('scd_ttft_stage_seconds_total{stage="native"}')
        self.assertGreater(native, 0)
        self.assertLess(native, value("scd_time_to_first_token_seconds_sum"))


if __name__ == "__main__":
    for path in (PROMTOOL, PROMETHEUS):
        if not os.access(path, os.X_OK):
            print("no prometheus: get_tools.sh could not get it")
            sys.exit(77)
    unittest.main()
