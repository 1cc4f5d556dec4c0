#!/usr/bin/env bash
# Installs what the tests need and this machine lacks; a second run finds everything and changes nothing.
# `setup.sh bench` also installs the programs that pods and images are measured beside, `setup.sh screenshots` fonts.
set -euo pipefail
cd "$(dirname "$0")/.."

packages=()
# A command that must be there, and the Debian package that brings it.
need() {
    command -v "$1" >/dev/null || packages+=("$2")
}

install_packages() {
    [ "${#packages[@]}" -gt 0 ] || return 0
    if ! command -v apt-get >/dev/null; then
        echo "error: these are missing, and there is no apt-get to install them: ${packages[*]}" >&2
        exit 1
    fi
    local as_root=()
    [ "$(id -u)" = 0 ] || as_root=(sudo)
    echo "installing ${packages[*]}" >&2
    "${as_root[@]}" apt-get update -qq
    DEBIAN_FRONTEND=noninteractive "${as_root[@]}" apt-get install -y -qq --no-install-recommends "${packages[@]}" >&2 || {
        echo "error: apt-get could not install all of these: ${packages[*]}" >&2
        echo "hint: its own words are above; install what it lacks in another way and run this again" >&2
        exit 1
    }
}

# Installs a list of Python packages into a folder; the stamp is a copy of the list, so an edited one is noticed.
install_python() {
    local list=$1 venv=$2 stamp=$2/installed.txt
    if cmp -s "$list" "$stamp"; then
        return 0
    fi
    echo "installing the Python clients of $list into $venv" >&2
    python3 -m venv "$venv"
    "$venv/bin/pip" install --quiet --disable-pip-version-check -r "$list"
    cp "$list" "$stamp"
}

# Pods on the machine's own environment train with the torch of Debian's own Python, whichever python3 is first in the PATH.
has_torch() {
    /usr/bin/python3 -c 'import importlib.util, sys; sys.exit(importlib.util.find_spec("torch") is None)' 2>/dev/null &&
        command -v torchrun >/dev/null
}

command -v cargo >/dev/null || { echo "error: cargo is missing; hint: install Rust from https://rustup.rs" >&2; exit 1; }
need cc build-essential
need curl curl
need kubectl kubernetes-client
need busybox busybox-static
need ip iproute2
need nft nftables
need iptables iptables
need setpriv util-linux
need git git
# Containers beside the cluster; runc, because crun refuses machines with both versions of cgroups.
need podman podman
need runc runc
need docker-registry docker-registry
need python3 python3
has_torch || packages+=(python3-torch)
need psql postgresql
need node nodejs
need npm npm
need chromium chromium
if [ "${1:-}" = bench ]; then
    need crun crun
    need skopeo skopeo
    need umoci umoci
    need zstd zstd
fi
if [ "${1:-}" = screenshots ] && ! fc-list 2>/dev/null | grep -q 'Noto Sans CJK'; then
    packages+=(fontconfig fonts-noto-cjk fonts-inter)
fi
python3 -c 'import ensurepip, venv' 2>/dev/null || packages+=(python3-venv)
install_packages
node -e 'const [major, minor] = process.versions.node.split("."); process.exit(major > 20 || (major == 20 && minor >= 19) ? 0 : 1)' || {
    echo "error: the web page is built with Node 20.19 or newer; this is $(node --version)" >&2
    echo "hint: install a newer one, and run this again" >&2
    exit 1
}
has_torch || {
    echo "error: training jobs cannot be tested: /usr/bin/python3 has no torch, or there is no torchrun in the PATH" >&2
    echo "hint: install Debian's python3-torch (or torch into that Python) and run this again" >&2
    exit 1
}
install_python tests/requirements.txt .cache/venv
install_python tests/training/requirements.txt .cache/venv-training
install_python tests/wandb/requirements.txt .cache/wandb
install_python tests/wandb/requirements-older.txt .cache/wandb-older
install_python tests/agent/requirements.txt .cache/wandb-launch
