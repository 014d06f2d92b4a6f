#!/usr/bin/env python3
"""`cmake --install` into a new prefix: programs run from there with the configurations installed there, units and manual
pages are clean, and every part tells the same version. Run: installed_tree_test.py CMAKE BUILD_FOLDER VERSION
What needs a tool that is not installed (systemd-analyze, mandoc) says so and is left out."""
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.normpath(os.path.join(HERE, "../.."))
CMAKE = BUILD = VERSION = ""
RUNTIME = ("scd-producer", "scd-consumer", "scd-calibrate", "scd-client", "scd-health")
PROGRAMS = RUNTIME + ("scd-eval",)
DAEMONS = ("scd-producer", "scd-consumer")
DATA = os.path.join(ROOT, "tests/data")


def run(*command, status=0, **options):
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, **options)
    if done.returncode != status:
        raise AssertionError(f"{' '.join(command)} ended with {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout + done.stderr


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


class InstalledTree(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.prefix = os.path.join(cls.folder.name, "prefix")
        for component in ("runtime", "system", "eval"):
            run(CMAKE, "--install", BUILD, "--prefix", cls.prefix, "--component", component)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def path(self, *parts):
        return os.path.join(self.prefix, *parts)

    def unit(self, name):
        """The settings of a unit: a list of values for each name."""
        settings = {}
        for line in read(self.path("lib/systemd/system", name)).splitlines():
            if re.match(r"[A-Za-z]+=", line):
                key, value = line.split("=", 1)
                settings.setdefault(key, []).append(value)
        return settings

    # Version

    def test_versions_agree(self):
        for program in PROGRAMS:
            self.assertEqual(run(self.path("bin", program), "--version"), f"{program} {VERSION}\n")
            page = run("gzip", "-dc", self.path("share/man/man1", f"{program}.1.gz"))
            self.assertIn(f'"SCD {VERSION}"', page.splitlines()[0].replace("\\-", "-"))
        self.assertRegex(VERSION, r"^(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)$")
        releases = re.findall(r"^## \[(.+?)\](?: - \d{4}-\d\d-\d\d)?$", read(os.path.join(ROOT, "CHANGELOG.md")), re.M)
        self.assertEqual(releases[:2], ["Unreleased", VERSION])

    # Programs

    def test_the_component_runtime_is_programs_and_their_module(self):
        with tempfile.TemporaryDirectory() as prefix:
            run(CMAKE, "--install", BUILD, "--prefix", prefix, "--component", "runtime")
            files = sorted(os.path.relpath(os.path.join(base, name), prefix)
                           for base, _, names in os.walk(prefix) for name in names)
        self.assertEqual(files, sorted([f"bin/{program}" for program in RUNTIME] + ["lib/scd/libscd_sentencepiece.so"]))

    def test_run_path(self):
        for program in PROGRAMS:
            self.assertRegex(run("readelf", "-d", self.path("bin", program)), r"R(UN)?PATH.*\[\$ORIGIN/\.\./lib/scd\]")
        self.assertNotRegex(run("readelf", "-d", self.path("lib/scd/libscd_sentencepiece.so")), "R(UN)?PATH")

    def check_mistral(self, status):
        return run(self.path("bin/scd-consumer"), "--config", self.path("etc/scd/consumer.yaml"), "--check", "--set",
                   f"model.path={DATA}/tiny-mistral", "--set", 'model.adapter=""', "--set", 'bundle=""', "--set",
                   "mode=local", status=status)

    def test_the_module_is_found_from_the_prefix(self):
        self.assertIn("is good", self.check_mistral(0))
        module = self.path("lib/scd/libscd_sentencepiece.so")
        os.rename(module, module + ".away")
        try:
            self.assertIn("libscd_sentencepiece.so", self.check_mistral(1))
        finally:
            os.rename(module + ".away", module)

    # Configurations

    def test_configurations_name_paths_of_the_prefix(self):
        for name in ("producer", "consumer", "calibrate", "quickstart_calibrate", "eval"):
            text = read(self.path("etc/scd", f"{name}.yaml"))
            for line in text.splitlines():
                self.assertNotRegex(line.split("#")[0], r"[ :](models|run|configs|tools|\.\.)/", f"{name}.yaml")
        consumer = read(self.path("etc/scd/consumer.yaml"))
        self.assertIn(f"path: {self.prefix}/var/lib/scd/models/SmolLM2-135M-Instruct.Q4_1.gguf\n", consumer)
        self.assertIn(f"bundle: {self.prefix}/var/lib/scd/bundles/smollm2-135m-expert\n", consumer)
        adapter = re.search(r"^  adapter: (\S+)$", consumer, re.M)[1]
        self.assertTrue(os.path.exists(os.path.join(adapter, "adapter_model.safetensors")), adapter)
        seeds = re.search(r"^ *seeds: (\S+)$", read(self.path("etc/scd/calibrate.yaml")), re.M)[1]
        self.assertTrue(os.path.exists(seeds), seeds)
        named = re.findall(r"^  (?:\w+_config|renderer): (\S+)$", read(self.path("etc/scd/eval.yaml")), re.M)
        self.assertEqual(len(named), 4)
        for path in named:
            self.assertTrue(path.startswith(self.prefix) and os.path.exists(path), path)

    def test_what_is_missing_is_named_by_its_installed_path(self):
        for daemon in DAEMONS:
            config = self.path("etc/scd", daemon.removeprefix("scd-") + ".yaml")
            self.assertIn(f"{self.prefix}/var/lib/scd/models",
                          run(self.path("bin", daemon), "--config", config, "--check", status=1))

    def test_an_edited_configuration_stays(self):
        config = self.path("etc/scd/producer.yaml")
        before = read(config)
        try:
            with open(config, "a", encoding="utf-8") as file:
                file.write("# mine\n")
            out = run(CMAKE, "--install", BUILD, "--prefix", self.prefix, "--component", "system")
            self.assertIn("Kept: " + config, out)
            self.assertEqual(read(config), before + "# mine\n")
        finally:
            with open(config, "w", encoding="utf-8") as file:
                file.write(before)

    def test_below_usr_paths_are_the_systems(self):
        with tempfile.TemporaryDirectory() as stage:
            run(CMAKE, "--install", BUILD, "--prefix", "/usr", "--component", "system", env={**os.environ, "DESTDIR": stage})
            self.assertIn("bundle: /var/lib/scd/bundles/", read(f"{stage}/etc/scd/consumer.yaml"))
            unit = read(f"{stage}/usr/lib/systemd/system/scd-consumer.service")
            self.assertIn("ExecStart=/usr/bin/scd-consumer --config /etc/scd/consumer.yaml\n", unit)
            conffiles = read(os.path.join(BUILD, "packaging/daemons/conffiles")).split()
            self.assertEqual(conffiles, sorted(f"/etc/scd/{name}" for name in os.listdir(f"{stage}/etc/scd")))

    # Units

    def test_stop_times_agree(self):
        for daemon in DAEMONS:
            config = read(self.path("etc/scd", daemon.removeprefix("scd-") + ".yaml"))
            grace = int(re.search(r"^  shutdown_grace_seconds: (\d+)", config, re.M)[1])
            stop = int(self.unit(f"{daemon}.service")["TimeoutStopSec"][0])
            self.assertGreaterEqual(stop, grace + 10, daemon)

    def test_what_units_name_is_installed(self):
        for daemon in DAEMONS:
            unit = self.unit(f"{daemon}.service")
            program, option, config = unit["ExecStart"][0].split()
            self.assertEqual((program, option), (self.path("bin", daemon), "--config"))
            self.assertTrue(os.path.exists(config), config)
            self.assertIn(f"u {unit['User'][0]} ", read(self.path("lib/sysusers.d/scd.conf")))
            self.assertIn(f"d {unit['WorkingDirectory'][0]} ", read(self.path("lib/tmpfiles.d/scd.conf")))
            self.assertTrue(os.path.exists(self.path("share/man/man1", f"{daemon}.1.gz")))

    @unittest.skipUnless(shutil.which("systemd-analyze"), "systemd-analyze is not installed")
    def test_units_verify_and_are_confined(self):
        # In folders of their own: verify also reads everything that lies beside a unit.
        with tempfile.TemporaryDirectory() as units:
            for daemon in DAEMONS:
                # Pages below a prefix that man does not search are no fault of the unit.
                text = read(self.path("lib/systemd/system", f"{daemon}.service"))
                path = os.path.join(units, f"{daemon}.service")
                with open(path, "w", encoding="utf-8") as file:
                    file.write(re.sub(r"^Documentation=.*\n", "", text, flags=re.M))
                self.assertEqual(run("systemd-analyze", "verify", "--man=no", path), "")
                out = run("systemd-analyze", "security", "--offline=true", "--threshold=20", "--no-pager", path)
                self.assertRegex(out, r"Overall exposure level for .*: [01]\.\d OK")

    # Manual pages

    @unittest.skipUnless(shutil.which("mandoc"), "mandoc is not installed")
    def test_manual_pages_lint(self):
        for program in PROGRAMS:
            self.assertEqual(run("mandoc", "-T", "lint", "-W", "warning",
                                 os.path.join(BUILD, "help/man", f"{program}.1")), "")

    @unittest.skipUnless(shutil.which("man"), "man is not installed")
    def test_manual_pages_show_every_option(self):
        for program in PROGRAMS:
            shown = run("man", "--warnings", "-l", self.path("share/man/man1", f"{program}.1.gz"),
                        env={**os.environ, "MANWIDTH": "100", "LC_ALL": "C.UTF-8"})
            self.assertNotIn("warning:", shown)
            helps = [run(self.path("bin", program), "--help")]
            for command in re.findall(r"^  ([a-z]+) {10,}\S", helps[0].partition("Subcommands:")[2], re.M):
                helps.append(run(self.path("bin", program), command, "--help"))
            for flag in set(re.findall(r"^ +(?:-\w,)?(--[a-z-]+)", "".join(helps), re.M)):
                self.assertIn(flag, shown, program)

    # Daemons

    def test_daemons_serve_from_the_prefix(self):
        pair = os.path.join(self.folder.name, "pair")
        os.makedirs(pair)
        started = []
        try:
            run(os.path.join(BUILD, "bin/write_tiny_pair"), pair, "127.0.0.1:1", cwd=ROOT)
            producer = self.start("scd-producer", pair, started)
            consumer = self.start("scd-consumer", pair, started, f"producer.address={producer}")
            for address in (producer, consumer):
                self.assertEqual(run(self.path("bin/scd-health"), address), "")
            self.assertIn(f"scd-health: {consumer}: ",
                          run(self.path("bin/scd-health"), "--service", "no.such.Service", consumer, status=1))
            answer = json.loads(run(self.path("bin/scd-client"), "generate", "--address", consumer, "--json", "--ids",
                                    ",".join(str(i * 37 % 250) for i in range(120)), "--policy", "require",
                                    "--max-tokens", "4"))
            self.assertEqual(answer["report"]["mode"], "fused")
            self.assertGreater(answer["report"]["transferred_tokens"], 0)
            for process in reversed(started):
                process.terminate()
                self.assertEqual(process.wait(30), 0)
            self.assertIn("nothing answers", run(self.path("bin/scd-health"), consumer, status=1))
        finally:
            for process in started:
                process.kill()
                process.wait()

    def start(self, daemon, pair, started, *settings):
        """Starts a daemon on the tiny pair and waits until it tells its service manager that it serves. -> its address"""
        arguments = read(os.path.join(pair, daemon.removeprefix("scd-") + ".args")).splitlines()
        arguments[arguments.index("--config") + 1] = self.path("etc/scd", daemon.removeprefix("scd-") + ".yaml")
        for setting in settings:
            arguments += ["--set", setting]
        self.assertIn("is good", run(self.path("bin", daemon), *arguments, "--check"))
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
            name = os.path.join(pair, f"{daemon}.notify")
            manager.bind(name)
            manager.settimeout(60)
            # pylint: disable=consider-using-with
            started.append(subprocess.Popen([self.path("bin", daemon), *arguments], stderr=subprocess.DEVNULL,
                                            env={**os.environ, "NOTIFY_SOCKET": name}))
            told = manager.recv(1000).decode()
        self.assertTrue(told.startswith("READY=1\n"), told)
        return re.search(r"Serving on (\S+)", told)[1]


if __name__ == "__main__":
    CMAKE, BUILD, VERSION = sys.argv[1], os.path.abspath(sys.argv[2]), sys.argv[3]
    del sys.argv[1:4]
    unittest.main()
