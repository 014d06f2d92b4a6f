#!/usr/bin/env python3
"""deploy/docker-compose*.yml: docker-compose accepts every combination of files and profiles, what it makes of them is as
closed and as bounded as docs/deploying.md says, every variable stands in .env with a comment, the mounted configurations are
valid for the programs, and the Dockerfiles copy nothing that the context leaves out."""
import fnmatch
import glob
import json
import os
import re
import subprocess
import sys
import tempfile
import unittest

from deploy_paths import DEPLOY, ROOT, program, read, tool, tool_environment

COMPOSE = tool("docker-compose")
BASE = ["-f", "docker-compose.yml"]
GPU = BASE + ["-f", "docker-compose.gpu.yml"]
OBSERVABILITY = ["--profile", "observability"]
SHARED_STORE = ["--profile", "shared-store"]
COMBINATIONS = [BASE, GPU, BASE + OBSERVABILITY, GPU + OBSERVABILITY, BASE + OBSERVABILITY + ["--profile", "client"],
                BASE + SHARED_STORE, GPU + OBSERVABILITY + SHARED_STORE]
OURS = ("init", "producer", "consumer", "client")
# docker-compose's own YAML library, wherever its packages lie.
TO_JSON = ["/usr/bin/python3", "-c", "import json, sys, yaml; json.dump(yaml.safe_load(sys.stdin), sys.stdout)"]


def environment(**more):
    """Without variables of the caller that would stand over .env."""
    return {k: v for k, v in tool_environment(**more).items() if not k.startswith("SCD_") or k in more}


def config(arguments, **variables):
    done = subprocess.run([COMPOSE, *arguments, "config"], cwd=DEPLOY, env=environment(**variables), capture_output=True, text=True)
    if done.returncode != 0 or done.stderr:
        raise AssertionError(f"{arguments}: {done.returncode} {done.stderr}")
    return json.loads(subprocess.run(TO_JSON, input=done.stdout, env=environment(), capture_output=True, text=True, check=True).stdout)


def steps(dockerfile):
    """-> (instruction, rest) of each step"""
    text = re.sub(r"^\s*#.*\n", "", read(DEPLOY, dockerfile), flags=re.M).replace("\\\n", " ")
    return [tuple(line.strip().split(None, 1)) for line in text.splitlines() if line.strip()]


class ComposeTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.services = config(BASE + OBSERVABILITY + SHARED_STORE)["services"]

    def test_every_combination_is_accepted(self):
        for arguments in COMBINATIONS:
            self.assertLessEqual(set(OURS), set(config(arguments)["services"]))

    def test_compose_v2_accepts_them_too(self):
        if subprocess.run(["docker", "compose", "version"], capture_output=True).returncode != 0:
            return  # this machine has the first one only
        for arguments in COMBINATIONS:
            subprocess.run(["docker", "compose", *arguments, "config", "--quiet"], cwd=DEPLOY, env=environment(), check=True)

    def test_waits_for(self):
        def conditions(name):
            return {k: v["condition"] for k, v in self.services[name].get("depends_on", {}).items()}
        self.assertEqual(conditions("init"), {})
        self.assertEqual(conditions("producer"), {"init": "service_completed_successfully"})
        self.assertEqual(conditions("consumer"), {"init": "service_completed_successfully", "producer": "service_healthy"})
        self.assertEqual(conditions("client"), {"consumer": "service_healthy"})

    def test_producer_is_not_reachable_from_outside(self):
        networks = config(BASE)["networks"]
        self.assertEqual({n for n, v in networks.items() if v.get("internal")}, {"inside"})
        self.assertEqual(set(self.services["producer"]["networks"]), {"inside"})
        self.assertNotIn("ports", self.services["producer"])
        self.assertEqual({n for n, s in self.services.items() if "inside" in (s.get("networks") or {})},
                         {"producer", "consumer", "prometheus", "store"})
        for service in self.services.values():
            for port in service.get("ports", []):
                self.assertTrue(str(port).startswith("127.0.0.1:"), port)

    def test_every_service_is_closed_and_bounded(self):
        for name, service in self.services.items():
            with self.subTest(name):
                self.assertTrue(service["read_only"])
                self.assertEqual(service["cap_drop"], ["ALL"])
                self.assertEqual(service["security_opt"], ["no-new-privileges:true"])
                self.assertGreater(service["pids_limit"], 0)
                self.assertIn("max-size", service["logging"]["options"])
                self.assertNotIn("privileged", service)
                self.assertRegex(str(service["mem_limit"]), r"^\d+[mg]$")
                if name != "client":
                    self.assertEqual(service["restart"], "no" if name == "init" else "unless-stopped")
                tag = service["image"].rpartition(":")[2]
                self.assertRegex(tag, r"\d+\.\d+", "an image without a version")

    def test_mounts(self):
        writable = {}
        for name, service in self.services.items():
            for mount in service.get("volumes", []):
                source, target, *mode = mount.split(":")
                if source.startswith("/"):
                    self.assertTrue(os.path.exists(source), source)
                    self.assertEqual(mode, ["ro"], mount)
                elif mode != ["ro"]:
                    writable.setdefault(source, []).append(name)
                if target == "/etc/scd":
                    self.assertEqual(os.path.realpath(source), os.path.join(DEPLOY, "config"))
        self.assertEqual(writable, {"models": ["init"], "metrics": ["prometheus"], "grafana": ["grafana"]})

    def test_shared_store_is_for_the_daemons_alone(self):
        store = self.services["store"]
        self.assertEqual(set(store["networks"]), {"inside"})
        self.assertNotIn("ports", store)
        self.assertEqual(store["user"], "10001:10001")
        self.assertIn("--maxmemory-policy allkeys-lru", " ".join(store["command"]))
        for name in ("producer", "consumer"):
            self.assertIn('address: "store:6379"', read(DEPLOY, f"config/{name}.yaml"))

    def test_gpu(self):
        services = config(GPU)["services"]
        for name in OURS:
            self.assertEqual(services[name]["build"]["dockerfile"], "deploy/Dockerfile.cuda")
            self.assertEqual(services[name]["build"]["target"], name)
        for name in ("producer", "consumer"):
            self.assertEqual(services[name]["command"], ["--config", f"/etc/scd/{name}.yaml", "--set", "device=cuda",
                                                         "--set", "cuda.memory_mib=8192"])
            device, = services[name]["deploy"]["resources"]["reservations"]["devices"]
            self.assertEqual((device["driver"], device["capabilities"]), ("nvidia", ["gpu"]))
            self.assertTrue(services[name]["read_only"])

    def test_variables(self):
        lines = read(DEPLOY, ".env").splitlines()
        defined = [line.split("=")[0] for line in lines if line and not line.startswith("#")]
        used = set(re.findall(r"\$\{(\w+)", read(DEPLOY, "docker-compose.yml") + read(DEPLOY, "docker-compose.gpu.yml")))
        self.assertEqual(sorted(defined), sorted(used))
        documented = True
        for line in lines:
            self.assertTrue(not line or line.startswith("#") or documented, f"{line} has no comment")
            documented = bool(line)
        # A folder, a port and a limit of the caller's choice.
        service = config(BASE, SCD_MODELS="/srv/m", SCD_CONSUMER_PORT="9999", SCD_BIND="0.0.0.0")["services"]["consumer"]
        self.assertIn("/srv/m:/models:ro", service["volumes"])
        self.assertEqual(service["ports"], ["0.0.0.0:9999:7071/tcp"])

    def test_version_is_the_projects(self):
        version = subprocess.run([program("scd-client"), "--version"], capture_output=True, text=True, check=True).stdout.split()[1]
        self.assertIn(f"\nSCD_VERSION={version}\n", read(DEPLOY, ".env"))

    def test_configurations_are_valid(self):
        """Each program reads its mounted file and only then misses the model, which is not here."""
        for name, missing in [("producer", "/models/base/"), ("consumer", "/models/base/"), ("calibrate", "/models/base/")]:
            path = os.path.join(DEPLOY, "config", f"{name}.yaml")
            done = subprocess.run([program(f"scd-{name}"), "--config", path, "--check"], capture_output=True, text=True)
            self.assertEqual(done.returncode, 1, done.stderr)
            self.assertIn(missing, done.stderr)
    def test_files_of_a_pair_of_ones_own_are_valid(self):
        """Those that docs/own_pair.md shows, likewise."""
        document = read(ROOT, "docs/own_pair.md")
        for name in ("producer", "consumer", "calibrate"):
            text = re.search(rf"`deploy/config/{name}\.yaml`[^\n]*(?:\n[^`]*)?:\n\n```yaml\n(.*?)```", document, re.S)[1]
            with tempfile.TemporaryDirectory() as folder:
                path = os.path.join(folder, f"{name}.yaml")
                with open(path, "w", encoding="utf-8") as file:
                    file.write(text)
                done = subprocess.run([program(f"scd-{name}"), "--config", path, "--check"], capture_output=True, text=True)
            self.assertEqual(done.returncode, 1, done.stderr)
            self.assertIn("/local/", done.stderr)
        settings = re.search(r"`deploy/\.env`.*?```sh\n(.*?)```", document, re.S)[1]
        for line in settings.splitlines():
            self.assertIn("\n" + line.partition("=")[0] + "=", read(DEPLOY, ".env"))

    def test_configurations_find_each_other(self):
        self.assertIn("listen: 0.0.0.0:7070", read(DEPLOY, "config/producer.yaml"))
        self.assertIn("address: producer:7070", read(DEPLOY, "config/consumer.yaml"))


class DockerfileTest(unittest.TestCase):
    def test_bases_are_pinned_and_users_unprivileged(self):
        for name in ("Dockerfile", "Dockerfile.cuda"):
            arguments = dict(rest.split("=", 1) for word, rest in steps(name) if word == "ARG" and "=" in rest)
            stages, user = {}, None
            for word, rest in steps(name):
                if word == "FROM":
                    image, _, stage = rest.partition(" AS ")
                    if image not in stages:
                        tag = re.fullmatch(r"[\w/]+:\$\{(\w+_TAG)\}\$\{(\w+_DIGEST)\}", image)
                        self.assertTrue(tag, image)
                        self.assertRegex(arguments[tag[1]], r"^\d+\.\d+")
                        self.assertIn(f"{tag[1].replace('_TAG', '')}_TAG={arguments[tag[1]]}\n", read(DEPLOY, ".env"))
                    user = stages.get(image)
                    stages[stage] = user
                if word == "USER":
                    stages[stage] = rest
            for target in OURS:
                self.assertEqual(stages[target], "10001:10001", f"{name}: {target}")

    def test_both_files_have_the_same_targets(self):
        def targets(name):
            words = ("COPY", "ENTRYPOINT", "CMD", "EXPOSE", "HEALTHCHECK", "USER")
            found, stage = {}, None
            for word, rest in steps(name):
                if word == "FROM":
                    stage = rest.partition(" AS ")[2]
                elif stage in OURS and word in words:
                    found.setdefault(stage, []).append((word, rest))
            return found
        self.assertEqual(targets("Dockerfile"), targets("Dockerfile.cuda"))

    def test_context_has_what_is_copied_and_little_else(self):
        kept = [line[1:].rstrip("/") for line in read(ROOT, ".dockerignore").splitlines() if line.startswith("!")]
        self.assertIn("*", read(ROOT, ".dockerignore").splitlines())
        copied = set()
        for name in ("Dockerfile", "Dockerfile.cuda"):
            for word, rest in steps(name):
                if word == "COPY" and not rest.startswith("--from"):
                    copied |= set(rest.split()[:-1])
        for source in copied:
            self.assertTrue(os.path.exists(os.path.join(ROOT, source)), source)
            self.assertTrue(any(source == k or source.startswith(k + "/") for k in kept), f"{source} is not in the context")
        for entry in kept:
            self.assertTrue(any(s == entry or s.startswith(entry + "/") for s in copied), f"{entry} is copied by nobody")
        size = 0
        for entry in kept:
            path = os.path.join(ROOT, entry)
            for file in glob.glob(os.path.join(path, "**"), recursive=True) if os.path.isdir(path) else [path]:
                if os.path.isfile(file) and not fnmatch.fnmatch(file, "*/__pycache__/*"):
                    size += os.path.getsize(file)
        self.assertLess(size, 32 << 20)


if __name__ == "__main__":
    if not os.access(COMPOSE, os.X_OK):
        print("no docker-compose: get_tools.sh could not get it")
        sys.exit(77)
    unittest.main()
