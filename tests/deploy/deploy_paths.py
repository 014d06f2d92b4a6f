"""Where the tests of deploy/ find things. From the environment: SCD_PROGRAM_DIR, the built programs; SCD_DEPLOY_TOOLS, the
folder of get_tools.sh."""
import os
import shutil
import socket

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.normpath(os.path.join(HERE, "../.."))
DEPLOY = os.path.join(ROOT, "deploy")


def program(name):
    return os.path.join(os.environ["SCD_PROGRAM_DIR"], name)


def tool(name):
    """The tool of the machine, or the one that get_tools.sh unpacked."""
    unpacked = os.path.join(os.environ.get("SCD_DEPLOY_TOOLS", ""), "usr/bin", name)
    return shutil.which(name) or unpacked


def tool_environment(**more):
    packages = os.path.join(os.environ.get("SCD_DEPLOY_TOOLS", ""), "usr/lib/python3/dist-packages")
    return {**os.environ, "PYTHONPATH": packages, **more}


def read(*path):
    with open(os.path.join(*path), encoding="utf-8") as file:
        return file.read()


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
