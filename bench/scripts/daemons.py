"""scd-producer and scd-consumer for a measurement: started on free ports of loopback, ended with it."""
import json
import re
import signal
import subprocess
import tempfile
import time

START_SECONDS = 120
STORE_MIB = 1024  # all prompts of one length at once


def on_cores(cores, command):
    """`command`, held to these cores where there are any."""
    prefix = ["taskset", "-c", ",".join(str(core) for core in cores)] if cores else []
    return prefix + [str(part) for part in command]


class Daemon:
    def __init__(self, command):
        self._log = tempfile.NamedTemporaryFile(prefix="scd-ttft-", suffix=".log")
        self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=self._log, stderr=self._log)
        try:
            self.address = f"127.0.0.1:{self._wait_until_it_serves()}"
        except RuntimeError:
            self.close()
            raise

    def _wait_until_it_serves(self):
        deadline = time.monotonic() + START_SECONDS
        while True:
            ended = self._process.poll() is not None
            with open(self._log.name, encoding="utf-8", errors="replace") as file:
                log = file.read()
            found = re.search(r" listens on [^ ]*:(\d+)", log)
            if found:
                return found[1]
            if ended or time.monotonic() > deadline:
                raise RuntimeError(f"{' '.join(self._process.args)}: does not serve:\n{log}")
            time.sleep(0.05)

    def close(self):
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            try:
                self._process.wait(30)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()


class Pair:
    """Both daemons, and the client that measures them.

    threads: of each. cores: (of the producer, of consumer and client), two lists, or None.
    """

    def __init__(self, options, threads, cores=None):
        self._client = options.bin + "/scd-client"
        self._cores = cores or (None, None)
        common = ["server.listen=127.0.0.1:0", "metrics.listen=off", f"threads={threads}", f"math={options.math}"]
        self.producer = self._start(options, "producer", self._cores[0],
                                    common + [f"bundles=[{options.bundle}]", f"code_store.capacity_mib={STORE_MIB}",
                                              *options.producer_set])
        try:
            self.consumer = self._start(options, "consumer", self._cores[1],
                                        common + [f"bundle={options.bundle}", f"producer.address={self.producer.address}",
                                                  *options.consumer_set])
        except RuntimeError:
            self.producer.close()
            raise

    @staticmethod
    def _start(options, name, cores, settings):
        command = [f"{options.bin}/scd-{name}", "--config", f"configs/{name}.yaml"]
        for setting in settings:
            command += ["--set", setting]
        return Daemon(on_cores(cores, command))

    def bench(self, *arguments):
        """-> the first level of scd-client bench; a failed request ends the measurement"""
        command = [self._client, "bench", "--address", self.consumer.address, "--quiet", "--json", "-", *arguments]
        done = subprocess.run(on_cores(self._cores[1], command), stdout=subprocess.PIPE, check=False)
        if done.returncode != 0:
            raise SystemExit(f"ttft: exit status {done.returncode}: {' '.join(str(part) for part in command)}\n"
                             f"{done.stdout.decode()}")
        return json.loads(done.stdout)["levels"][0]

    def producer_info(self):
        """-> what the producer says of itself"""
        command = [self._client, "info", "--role", "producer", "--producer-address", self.producer.address, "--json"]
        return json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)["producer"]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.consumer.close()
        self.producer.close()
