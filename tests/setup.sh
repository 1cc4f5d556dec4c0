#!/usr/bin/env bash
# Installs what the tests need and this machine lacks; a second run finds everything and changes nothing.
# `setup.sh bench` also installs the programs that pods and images are measured beside.
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
    DEBIAN_FRONTEND=noninteractive "${as_root[@]}" apt-get install -y -qq --no-install-recommends "${packages[@]}" >&2
}

# The stamp is a copy of what was installed, so an edited list is noticed.
install_python_clients() {
    local venv=.cache/venv stamp=.cache/venv/installed.txt
    if cmp -s tests/requirements.txt "$stamp"; then
        return 0
    fi
    echo "installing the Python clients into $venv" >&2
    python3 -m venv "$venv"
    "$venv/bin/pip" install --quiet --disable-pip-version-check -r tests/requirements.txt
    cp tests/requirements.txt "$stamp"
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
need docker-registry docker-registry
need python3 python3
if [ "${1:-}" = bench ]; then
    need crun crun
    need runc runc
    need skopeo skopeo
    need umoci umoci
    need zstd zstd
fi
python3 -c 'import ensurepip, venv' 2>/dev/null || packages+=(python3-venv)
install_packages
install_python_clients
