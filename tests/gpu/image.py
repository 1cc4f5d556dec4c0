"""A small image made of this machine's own files: a shell, `ls`, and what the loader needs to start them."""

import hashlib
import io
import json
import os
import platform
import re
import subprocess
import tarfile

PROGRAMS = ["/bin/sh", "/bin/ls"]
# Programs of the driver load these besides what the shell needs.
LIBRARIES = ["libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0", "librt.so.1", "libgcc_s.so.1"]


def loaded_by(program):
    """Paths as the loader prints them, its own included."""
    listing = subprocess.run(["ldd", os.path.realpath(program)], stdout=subprocess.PIPE, text=True).stdout
    return re.findall(r"(/\S+) \(0x", listing)


def files():
    found = {program: program for program in PROGRAMS}
    for program in PROGRAMS:
        found.update({path: path for path in loaded_by(program)})
    folder = next(os.path.dirname(path) for path in found if os.path.basename(path) == "libc.so.6")
    for library in LIBRARIES:
        path = os.path.join(folder, library)
        if os.path.exists(path):
            found[path] = path
    return found


def add(archive, path, data, mode=0o755):
    member = tarfile.TarInfo(path.lstrip("/"))
    member.size, member.mode = len(data), mode
    archive.addfile(member, io.BytesIO(data))


def write(path, name):
    """Writes an archive as `docker save` does."""
    layer = io.BytesIO()
    with tarfile.open(fileobj=layer, mode="w") as archive:
        for target, source in sorted(files().items()):
            with open(os.path.realpath(source), "rb") as file:
                add(archive, target, file.read())
    layer = layer.getvalue()
    architecture = {"x86_64": "amd64", "aarch64": "arm64"}[platform.machine()]
    # CUDA's images ask for all GPUs; a container must get those that it was granted, whatever its image says.
    config = {"Env": ["PATH=/usr/bin:/bin", "NVIDIA_VISIBLE_DEVICES=all"], "Cmd": ["/bin/sh"]}
    rootfs = {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(layer).hexdigest()}"]}
    document = json.dumps({"architecture": architecture, "os": "linux", "config": config, "rootfs": rootfs}).encode()
    manifest = [{"Config": "config.json", "RepoTags": [name], "Layers": ["layer.tar"]}]
    with tarfile.open(path, "w") as archive:
        add(archive, "config.json", document, 0o644)
        add(archive, "layer.tar", layer, 0o644)
        add(archive, "manifest.json", json.dumps(manifest).encode(), 0o644)
