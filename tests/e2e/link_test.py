#!/usr/bin/env python3
"""Both daemons on the tiny pair across links of 100 Mbit/s, 1 and 10 Gbit/s (tools/link.sh): the answer through the codes is
the model's own, and no transfer is faster than its link. Run: link_test.py FOLDER_OF_PROGRAMS. Exit status 77 where the
machine cannot make network namespaces."""
import json
import os
import shlex
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
LINK = os.path.normpath(os.path.join(HERE, "../../tools/link.sh"))
RATES = {"100mbit": 100e6, "1gbit": 1e9, "10gbit": 10e9}  # bits per second
REPEATS = 3
PROMPT = ",".join(str((i * 37 + 11) % 250) for i in range(480))
# The link's bucket lets one burst through at once: ten frames, or what the link carries in a millisecond.
MIN_BURST_BYTES = 15140


def client_script(client):
    """Two native answers' worth of checks in one shell command: local first, then REPEATS transfers, one JSON document each."""
    ask = f"{shlex.quote(client)} generate --json --quiet --ids {PROMPT} --max-tokens 12 --ignore-eos --policy require --no-prefix-cache"
    return " && ".join([f"{ask} --mode local"] + [f"{ask} --mode scd"] * REPEATS)


def daemon(programs, name, pair, settings):
    with open(os.path.join(pair, f"{name}.args"), encoding="utf-8") as file:
        arguments = file.read().splitlines()
    for setting in settings:
        arguments += ["--set", setting]
    # Only the addresses are left for link.sh to fill in; nothing else in a path looks like them.
    return shlex.join([os.path.join(programs, f"scd-{name}"), *arguments])


def documents(text):
    found, decoder, text = [], json.JSONDecoder(), text.strip()
    while text:
        document, end = decoder.raw_decode(text)
        found.append(document)
        text = text[end:].strip()
    return found


def run_over(rate, programs, pair):
    """-> the JSON documents that the client wrote"""
    client = os.path.join(programs, "scd-client")
    done = subprocess.run(
        [LINK, "--rate", rate,
         "--producer", daemon(programs, "producer", pair, ["server.listen=10.77.0.1:7070"]),
         "--consumer", daemon(programs, "consumer", pair, ["server.listen=127.0.0.1:7071"]),
         "--ready", f"{shlex.quote(client)} health --address {{producer_ip}}:7070",
         "--ready", f"{shlex.quote(client)} health --address 127.0.0.1:7071",
         "--", "bash", "-c", client_script(client)], capture_output=True, text=True, timeout=240)
    if done.returncode == 77:
        print(done.stderr.strip())
        sys.exit(77)
    if done.returncode != 0:
        sys.exit(f"{rate}: exit status {done.returncode}\n{done.stdout}\n{done.stderr}")
    return documents(done.stdout)


def namespaces():
    listed = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True).stdout
    return {line.split()[0] for line in listed.splitlines() if line.startswith("scd-link-")}


def expect(condition, words):
    if not condition:
        sys.exit(f"FAILED: {words}")


def check(rate, answers):
    local, *transfers = answers
    expect(len(transfers) == REPEATS, f"{rate}: {len(transfers)} answers through the codes")
    expect(len(local["tokens"]) == 12 and local["report"]["transferred_tokens"] == 0, f"{rate}: the native answer")
    burst = max(MIN_BURST_BYTES, RATES[rate] / 8 / 1000)
    for answer in transfers:
        report = answer["report"]
        expect(report["mode"] == "scd" and not report["reason"], f"{rate}: served as {report['mode']}, {report['reason']}")
        expect([t["id"] for t in answer["tokens"]] == [t["id"] for t in local["tokens"]], f"{rate}: another answer")
        expect(report["transferred_tokens"] > 400, f"{rate}: {report['transferred_tokens']} tokens transferred")
        expect(report["received_bytes"] > 250_000, f"{rate}: {report['received_bytes']} bytes received")
        least_ms = (report["received_bytes"] - burst) * 8 / RATES[rate] * 1000
        print(f"{rate}: {report['received_bytes']} bytes, last frame after {report['transfer_ms']:.1f} ms, "
              f"at least {max(0.0, least_ms):.1f} ms, {report['stored_tokens']} tokens from the store")
        expect(report["transfer_ms"] >= least_ms, f"{rate}: faster than the link")
    return min(answer["report"]["transfer_ms"] for answer in transfers)


def check_taken_down():
    """A signal, a daemon that fails and a client that fails: the exit status says which, and nothing stays."""
    def link(producer, *command):
        return subprocess.Popen([LINK, "--rate", "1gbit", "--producer", producer, "--consumer", "sleep 100", "--", *command],
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    interrupted = link("sleep 100", "bash", "-c", "echo runs; sleep 100")
    expect(interrupted.stdout.readline() == "runs\n", "the command does not run")
    interrupted.terminate()
    interrupted.communicate(timeout=30)
    expect(interrupted.returncode == 143, f"SIGTERM: exit status {interrupted.returncode}")
    failed = link("sleep 100", "bash", "-c", "exit 5")
    failed.communicate(timeout=30)
    expect(failed.returncode == 5, f"a command that fails: exit status {failed.returncode}")
    ended = link("echo last words; exit 1", "bash", "-c", "sleep 0.5; exit 1")
    words = ended.communicate(timeout=30)[1]
    expect(ended.returncode == 70 and "last words" in words, f"a producer that ends: {ended.returncode}, {words}")


def main():
    programs = os.path.abspath(sys.argv[1])
    before = namespaces()
    with tempfile.TemporaryDirectory() as folder:
        pair = os.path.join(folder, "pair")
        os.mkdir(pair)
        subprocess.run([os.path.join(programs, "write_tiny_pair"), pair, "10.77.0.1:7070"], check=True)
        fastest_ms = {rate: check(rate, run_over(rate, programs, pair)) for rate in RATES}
    # The link is what bounds: the same bytes, from the store, take longer over the slowest one.
    expect(fastest_ms["100mbit"] > fastest_ms["10gbit"], f"100 Mbit/s is as fast as 10 Gbit/s: {fastest_ms}")
    check_taken_down()
    expect(namespaces() <= before, "a namespace was left behind")


if __name__ == "__main__":
    main()
