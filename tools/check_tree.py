#!/usr/bin/env python3
"""Checks the project's tree: who may include whom, and a few rules of style that a compiler does not see.

Run: tools/check_tree.py [ROOT]   exit status 1 and one line a finding where something is wrong.
"""
import os
import re
import sys

# Folder -> folders, or single headers, that its sources may include (besides itself and system headers).
LOW = {"kernels"}
BASE = LOW | {"common/io"}
CONFIG = BASE | {"common/config"}
COMMON = CONFIG | {"common/cache", "common/wire", "common/store", "common/bundle", "common/translate", "common/model",
                   "common/trace", "common/server"}
MAY_INCLUDE = {
    "kernels": LOW,
    "common/io": LOW,
    "common/config": BASE,
    "common/cache": CONFIG,
    "common/wire": CONFIG,
    "common/store": CONFIG | {"common/wire"},
    "common/bundle": CONFIG,
    "common/translate": CONFIG | {"common/bundle", "common/wire"},
    "common/model": CONFIG | {"common/cache"},
    "common/trace": CONFIG,
    "common/server": CONFIG | {"common/trace"},
    "producer": COMMON,
    "consumer": COMMON,
    "calibrate": COMMON,
    "client": COMMON,
    # It speaks to the daemons as the client does.
    "eval": COMMON | {"client/rpc.h"},
}
# Generated protobuf headers are for the edges alone.
PROTO_EDGES = ("producer/", "consumer/", "client/", "common/wire/frame_codec.", "eval/pair_session.")
SOURCE = (".h", ".cc", ".cu", ".cuh")
MAX_LINES = 600

INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.M)
GENERATED = re.compile(r"\.pb\.h$")
DEVICE_IF = re.compile(r"^\s*#\s*(?:if|ifdef|ifndef|elif)\b(?!.*_(?:CU)?H_\s*$).*(?:\b|_)(?:CUDA|CUDACC|HIP|GPU)(?:\b|_)", re.M)


def folder_of(path):
    parts = path.split("/")
    return "/".join(parts[:2]) if parts[0] == "common" else parts[0]


def sources(root):
    for base, folders, files in os.walk(root):
        folders[:] = sorted(f for f in folders if not f.startswith((".", "build")) and f != "__pycache__")
        for name in sorted(files):
            yield os.path.relpath(os.path.join(base, name), root)


def check_source(path, text):
    folder = folder_of(path)
    is_test = folder in ("tests", "bench")
    for target in INCLUDE.findall(text):
        if GENERATED.search(target):
            if not is_test and not path.startswith(PROTO_EDGES):
                yield f"{path}: generated {target} is for services, clients and the frame codec alone"
            continue
        target_folder = folder_of(target)
        if is_test or target_folder not in MAY_INCLUDE or target_folder == folder:
            continue
        if not {target_folder, target} & MAY_INCLUDE.get(folder, set()):
            yield f"{path}: may not include {target} ({folder} -> {target_folder})"
    if not is_test and "getenv(" in text and not path.endswith("/main.cc"):
        yield f"{path}: getenv outside main"
    if DEVICE_IF.search(text):
        yield f"{path}: a device is chosen by a source list and a factory, not by #if"
    if path.endswith(".h"):
        guard = "SCD_" + re.sub(r"[^A-Za-z0-9]", "_", path).upper() + "_"
        if f"#ifndef {guard}" not in text and "HWY_TARGET_TOGGLE" not in text:
            yield f"{path}: include guard is not {guard}"
        if not text.startswith("//"):
            yield f"{path}: a header opens with what it is for"
    if text.count("\n") > MAX_LINES:
        yield f"{path}: {text.count(chr(10))} lines, more than one idea (limit {MAX_LINES})"


def check_cmake(path, text):
    if re.search(r"file\s*\(\s*GLOB", text, re.I):
        yield f"{path}: sources are listed, not globbed"


def main():
    root = sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
    findings, read = [], 0
    for path in sources(root):
        is_cmake = path.endswith("CMakeLists.txt") or path.endswith(".cmake")
        if not path.endswith(SOURCE) and not is_cmake:
            continue
        read += 1
        with open(os.path.join(root, path), encoding="utf-8") as f:
            findings += (check_cmake if is_cmake else check_source)(path, f.read())
    if read == 0:
        findings.append("no sources found under " + root)
    print("\n".join(findings) if findings else f"{read} files, nothing to report")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
