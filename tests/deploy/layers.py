"""Root file systems made of layers, as a container engine makes them: each step writes into a folder of its own over those
before it (overlayfs), named by everything that it depends on, so that a step that was done once is not done again. Needs root."""
import contextlib
import hashlib
import os
import shutil
import subprocess

MOUNTS = ["mount", "-t", "overlay", "overlay"]


def digest_of(paths):
    """Names, modes and contents of files and folders."""
    digest = hashlib.sha256()
    for path in paths:
        entries = [path] if not os.path.isdir(path) else sorted(
            os.path.join(folder, name) for folder, folders, files in os.walk(path) for name in folders + files)
        for entry in entries:
            digest.update(f"{os.path.relpath(entry, os.path.dirname(path))} {os.stat(entry).st_mode:o}\0".encode())
            if os.path.isfile(entry):
                with open(entry, "rb") as file:
                    digest.update(hashlib.file_digest(file, "sha256").digest() if hasattr(hashlib, "file_digest")
                                  else file.read())
    return digest.hexdigest()


class Layers:
    def __init__(self, folder):
        self.folder = folder
        os.makedirs(folder, exist_ok=True)

    def add(self, below, key, make):
        """-> the layers with one more, made by make(root) unless there is one for this key over these."""
        name = hashlib.sha256("\n".join([*below, key]).encode()).hexdigest()[:24]
        layer = os.path.join(self.folder, name)
        if os.path.isdir(os.path.join(layer, "done")):
            return [*below, os.path.join(layer, "done")], True
        shutil.rmtree(layer, ignore_errors=True)
        work = os.path.join(layer, "work")
        for folder in (work, os.path.join(layer, "new")):
            os.makedirs(folder)
        with mounted(below, upper=os.path.join(layer, "new"), work=work) as root:
            make(root)
        shutil.rmtree(work)
        os.rename(os.path.join(layer, "new"), os.path.join(layer, "done"))
        return [*below, os.path.join(layer, "done")], False


@contextlib.contextmanager
def mounted(layers, upper=None, work=None):
    """The file system of these layers at a folder; read-only without an upper one."""
    root = f"{layers[-1].rstrip('/')}.root-{os.getpid()}"
    os.makedirs(root, exist_ok=True)
    options = "lowerdir=" + ":".join(reversed(layers))
    if upper is None and len(layers) == 1:
        subprocess.run(["mount", "--bind", "-o", "ro", layers[0], root], check=True)
    else:
        options += f",upperdir={upper},workdir={work}" if upper else ""
        subprocess.run([*MOUNTS, root, "-o", options], check=True)
    try:
        yield root
    finally:
        subprocess.run(["umount", "--recursive", root], check=True)
        os.rmdir(root)
