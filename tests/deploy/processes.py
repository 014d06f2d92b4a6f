"""Programs that a test starts and that end with it."""
import re
import signal
import subprocess
import time


class Process:
    """A program whose output goes to a file; ends with close()."""

    def __init__(self, command, log_path, env=None):
        self.log_path = log_path
        with open(log_path, "wb") as log:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=env)

    def log(self):
        with open(self.log_path, encoding="utf-8", errors="replace") as file:
            return file.read()

    def wait_for(self, pattern, seconds=60):
        """-> the match of `pattern` in the log"""
        deadline = time.monotonic() + seconds
        while True:
            ended = self.process.poll() is not None
            found = re.search(pattern, self.log())
            if found:
                return found
            if ended or time.monotonic() > deadline:
                raise AssertionError(f"{self.process.args[0]}: no {pattern!r} in its log:\n{self.log()}")
            time.sleep(0.02)

    def close(self, how=signal.SIGTERM, seconds=30):
        if self.process.poll() is None:
            self.process.send_signal(how)
            try:
                self.process.wait(seconds)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()


class Daemon(Process):
    """scd-producer or scd-consumer once it serves."""

    def __init__(self, command, log_path):
        super().__init__(command, log_path)
        try:
            listens = self.wait_for(r" listens on [^ ]*:(\d+).*, metrics on [^ ]*:(\d+)")
        except AssertionError:
            self.close()
            raise
        self.port, self.metrics_port = int(listens[1]), int(listens[2])
