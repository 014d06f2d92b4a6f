#!/usr/bin/env python3
"""Executes every RUN and COPY step of a Dockerfile of deploy/ without a container engine: in chroots over a root file system
made by debootstrap, with the context that .dockerignore leaves. Then it starts what was built as docker-compose would (user
10001, read-only root file systems, no capabilities, no network but their own): init fills a models folder from a local file,
both daemons serve, their health checks pass, and the client gets an answer through the codes. Needs root and debootstrap.

Usage: run_dockerfile_in_chroot.py [--dockerfile NAME] [--cache FOLDER] [--ccache FOLDER] [--model FILE] [--base IMAGE=FOLDER]... [--only-build]
  --dockerfile NAME     Dockerfile (default) or Dockerfile.cuda
  --cache FOLDER        root file systems and the layers of steps that were done before (default ~/.cache/scd-chroot)
  --ccache FOLDER       mounted at the build's CCACHE_DIR
  --model FILE          the base model (default models/base/..., made by models/get_models.sh)
  --base IMAGE=FOLDER   the root file system of a base image; debian:... is made by debootstrap otherwise
  --only-build          do not start anything
"""
import argparse
import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import dockerfile
from deploy_paths import DEPLOY, ROOT, read
from layers import Layers, digest_of, mounted
from processes import Process

MODEL = "SmolLM2-135M-Instruct.Q4_1.gguf"
PROMPT = ("Context: The lighthouse on the cape was built in 1871 by the engineer Ada Brandt, who had learned her trade in the "
          "harbour of the old town, and it was lit for the first time on the first night of the following spring. Question: Who "
          "built the lighthouse? Answer:")
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def say(text):
    print(f"[{time.monotonic() - STARTED:6.0f} s] {text}", flush=True)


def run(command, **options):
    subprocess.run(command, check=True, **options)


def context(folder):
    """Copies what .dockerignore (a list of what is kept) leaves of the project."""
    for line in read(ROOT, ".dockerignore").splitlines():
        if line.startswith("!"):
            source, target = os.path.join(ROOT, line[1:].rstrip("/")), os.path.join(folder, line[1:].rstrip("/"))
            os.makedirs(os.path.dirname(target), exist_ok=True)
            if os.path.isdir(source):
                shutil.copytree(source, target, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy2(source, target)


def base_image(image, given, cache):
    """-> the folder of an image's root file system"""
    if image in given:
        return given[image]
    if not image.startswith("debian:12"):
        sys.exit(f"no root file system for {image}: give --base {image}=FOLDER")
    root = os.path.join(cache, "debian-12")
    if not os.path.isdir(root):
        say("debootstrap")
        shutil.rmtree(root + ".new", ignore_errors=True)
        with open(os.path.join(cache, "debootstrap.log"), "wb") as log:
            run(["debootstrap", "--variant=minbase", "bookworm", root + ".new"], stdout=log, stderr=log)
        os.rename(root + ".new", root)
    return root


def copy(step, source_root, root):
    *sources, target = step.text.split()
    into = os.path.join(root, os.path.join(step.folder, target).lstrip("/"))
    for source in sources:
        path = os.path.join(source_root, source.lstrip("/"))
        if os.path.isdir(path):
            os.makedirs(into, exist_ok=True)
            run(["cp", "-a", "--no-preserve=ownership", path + "/.", into])
        else:
            end = os.path.join(into, os.path.basename(path)) if target.endswith("/") or len(sources) > 1 else into
            os.makedirs(os.path.dirname(end), exist_ok=True)
            run(["cp", "-a", "--no-preserve=ownership", path, end])


def execute(step, root, ccache, log_path):
    """RUN, in namespaces of its own, with the network's names as an engine gives them; what it says goes to a file."""
    environment = {"PATH": PATH, "HOME": "/root", "DEBIAN_FRONTEND": "noninteractive", **step.environment}
    prepare = ["set -e", 'mount -t proc proc "$0/proc"', 'mount --rbind /dev "$0/dev"',
               'touch "$0/etc/resolv.conf"', 'mount --bind /etc/resolv.conf "$0/etc/resolv.conf"']
    if ccache and "CCACHE_DIR" in step.environment:
        inside = f'"$0{step.environment["CCACHE_DIR"]}"'
        prepare += [f"mkdir -p {inside}", f"mount --bind {ccache} {inside}"]
        environment["LANG"] = os.environ.get("LANG", "C.UTF-8")  # ccache takes an object only for the locale that it was made in
    os.makedirs(os.path.join(root, step.folder.lstrip("/")), exist_ok=True)
    user = [] if step.user == "root" else ["setpriv", *as_user(step.user)]
    inner = ["chroot", root, *user, "/bin/sh", "-c", f"cd {step.folder} || exit 1; {step.text}"]
    command = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "bash", "-c", "\n".join(prepare) + '\nexec "$@"', root, *inner]
    with open(log_path, "w+", encoding="utf-8", errors="replace") as log:
        if subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log).returncode != 0:
            log.seek(0)
            sys.exit(f"RUN {step.text} failed:\n{''.join(log.readlines()[-60:])}")


def as_user(user):
    uid, _, gid = user.partition(":")
    return [f"--reuid={uid}", f"--regid={gid}", "--clear-groups", "--no-new-privs", "--bounding-set=-all", "--inh-caps=-all"]


def build(stages, given, options):
    """-> {stage: its layers}"""
    layers, built = Layers(os.path.join(options.cache, "layers")), {}
    with tempfile.TemporaryDirectory() as folder:
        context(folder)
        for name, stage in stages.items():
            stack = list(built[stage.base]) if stage.base in built else [base_image(stage.base, given, options.cache)]
            for step in stage.steps:
                key = f"{step.word} {step.text} {step.folder} {step.user} {sorted(step.environment.items())}"
                sources = [os.path.join(folder, s) for s in step.text.split()[:-1]] if step.word == "COPY" else []
                with contextlib.ExitStack() as stack_of_mounts:
                    source_root = folder
                    if step.from_stage:
                        key += " ".join(built[step.from_stage])
                        source_root = stack_of_mounts.enter_context(mounted(built[step.from_stage]))
                    elif sources:
                        key += digest_of(sources)
                    make = ((lambda root: copy(step, source_root, root)) if step.word == "COPY" else
                            (lambda root: execute(step, root, options.ccache, os.path.join(options.cache, "step.log"))))
                    before = time.monotonic()
                    stack, cached = layers.add(stack, key, make)
                say(f"{name}: {step.word} {step.text[:90]}" + (" (cached)" if cached else f" ({time.monotonic() - before:.1f} s)"))
            built[name] = stack
            say(f"{name}: {' '.join(f'{k.rpartition(chr(46))[2]}={v!r}' for k, v in stage.labels.items())}")
    return built


class Containers:
    """Runs stages as docker-compose runs their images, in one network that leads nowhere."""
    NAMES = ("init", "producer", "consumer", "client")

    def __init__(self, stages, built, folder, cleanup):
        self.stages, self.folder, self.roots = stages, folder, {}
        for name in self.NAMES:
            # Mount points that the image does not have: an engine makes them in the container's own layer.
            points = os.path.join(folder, "points", name)
            for place in ("local", "models", "etc/scd"):
                os.makedirs(os.path.join(points, place))
            open(os.path.join(points, "etc/hosts"), "w", encoding="utf-8").close()
            self.roots[name] = cleanup.enter_context(mounted([*built[name], points]))
        self.network = f"scd-chroot-{os.getpid()}"
        run(["ip", "netns", "add", self.network])
        cleanup.callback(run, ["ip", "netns", "delete", self.network])
        run(["ip", "-n", self.network, "link", "set", "lo", "up"])
        with open(os.path.join(folder, "hosts"), "w", encoding="utf-8") as hosts:
            hosts.write("127.0.0.1 localhost producer consumer\n")
        for name in ("models", "local"):
            os.makedirs(os.path.join(folder, name))
        os.chown(os.path.join(folder, "models"), 10001, 10001)

    def command(self, name, words):
        """What runs `words` in the stage's file system: chroot, user and mounts of docker-compose.yml."""
        root = self.roots[name]
        mounts = [f"mount --rbind /dev {root}/dev", f"mount -t tmpfs tmpfs {root}/tmp",
                  f"mount --bind -o ro {self.folder}/hosts {root}/etc/hosts"]
        if name != "client":
            mounts += [f"mount --bind -o {'rw' if name == 'init' else 'ro'} {self.folder}/models {root}/models",
                       f"mount --bind -o ro {DEPLOY}/config {root}/etc/scd",
                       f"mount --bind -o ro {self.folder}/local {root}/local"]
        script = "set -e\nmount -t proc proc " + root + "/proc\n" + "\n".join(mounts) + '\nexec "$@"'
        return ["nsenter", f"--net=/run/netns/{self.network}", "unshare", "--mount", "env", "-i", f"PATH={PATH}",
                "bash", "-c", script, "bash", "chroot", root, "setpriv", *as_user(self.stages[name].user), *words]

    def run(self, name, words):
        """-> what it wrote; an error where it fails"""
        done = subprocess.run(self.command(name, words), capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(f"{name}: {words}: exit status {done.returncode}\n{done.stdout}{done.stderr}")
        return done.stdout + done.stderr

    def start(self, name):
        stage = self.stages[name]
        return Process(self.command(name, [*stage.entrypoint, *stage.command]), os.path.join(self.folder, f"{name}.log"))

    def wait_until_healthy(self, name, process, seconds=120):
        deadline = time.monotonic() + seconds
        while subprocess.run(self.command(name, self.stages[name].health), capture_output=True).returncode != 0:
            if process.process.poll() is not None or time.monotonic() > deadline:
                sys.exit(f"{name} is not healthy:\n{process.log()}")
            time.sleep(0.2)


def status_of(process):
    """-> {field: value} of /proc/PID/status"""
    text = read("/proc", str(process.process.pid), "status")
    return {name: value.strip() for name, value in (line.split(":", 1) for line in text.splitlines())}


def expect(condition, words):
    if not condition:
        sys.exit(f"FAILED: {words}")


def serve(stages, built, model):
    with contextlib.ExitStack() as cleanup:
        folder = cleanup.enter_context(tempfile.TemporaryDirectory())
        os.chmod(folder, 0o755)
        containers = Containers(stages, built, folder, cleanup)
        shutil.copy(model, os.path.join(folder, "local", MODEL))
        os.chmod(os.path.join(folder, "local", MODEL), 0o644)

        for name in containers.NAMES:
            refused = subprocess.run(containers.command(name, ["touch", "/written"]), capture_output=True, text=True)
            expect("Read-only file system" in refused.stderr, f"{name}: its root file system can be written to: {refused.stderr}")
        say("init: fills the models folder")
        init = containers.start("init")
        cleanup.callback(init.close)
        init.wait_for(r"init: done\n", seconds=3600)
        print(init.log())
        again = containers.run("init", stages["init"].entrypoint)
        expect("bundle: is there" in again, again)

        daemons = {}
        for name in ("producer", "consumer"):
            say(f"{name}: starts")
            daemons[name] = containers.start(name)
            cleanup.callback(daemons[name].close)
            containers.wait_until_healthy(name, daemons[name])
            status = status_of(daemons[name])
            expect(status["Uid"].split() == ["10001"] * 4 and int(status["CapBnd"], 16) == 0 and status["NoNewPrivs"] == "1",
                   f"{name} is not as unprivileged as it should be: {status}")
            say(f"{name}: healthy, user 10001, {int(status['VmRSS'].split()[0]) >> 10} MiB resident")

        answer = containers.run("client", [*stages["client"].entrypoint, "generate", "--prompt", PROMPT, "--policy", "require",
                                           "--max-tokens", "16", "--stop", "\n"])
        say("an answer through the codes:")
        print(answer)
        expect("Brandt" in answer, "the answer does not name the engineer")
        print(containers.run("client", [*stages["client"].entrypoint, "info"]))
        for name, daemon in daemons.items():
            peak = int(status_of(daemon)["VmHWM"].split()[0]) >> 10
            daemon.close(signal.SIGTERM)
            expect(daemon.process.returncode == 0, f"{name}: exit status {daemon.process.returncode}\n{daemon.log()}")
            say(f"{name}: ended in order; at most {peak} MiB resident")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dockerfile", default="Dockerfile")
    parser.add_argument("--cache", default=os.path.expanduser("~/.cache/scd-chroot"))
    parser.add_argument("--ccache")
    parser.add_argument("--model", default=os.path.join(ROOT, "models/base", MODEL))
    parser.add_argument("--base", action="append", default=[])
    parser.add_argument("--only-build", action="store_true")
    options = parser.parse_args()
    # So that a stop ends what runs and takes every mount back.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped"))
    if os.geteuid() != 0:
        sys.exit("this needs root: it mounts file systems and changes into them")
    os.makedirs(options.cache, exist_ok=True)
    given = dict(base.split("=", 1) for base in options.base)
    stages = dockerfile.parse(read(DEPLOY, options.dockerfile), {"SCD_VERSION": "chroot"})
    say(f"{options.dockerfile}: stages {', '.join(stages)}")
    built = build(stages, given, options)
    if not options.only_build:
        serve(stages, built, options.model)
    say("all steps work")


STARTED = time.monotonic()
if __name__ == "__main__":
    main()
