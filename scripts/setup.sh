#!/usr/bin/env bash
# Installs what Tandem needs beside rustup and Python, and only what is missing.
set -euo pipefail

missing=()
command -v bwrap >/dev/null || missing+=(bubblewrap)
command -v git >/dev/null || missing+=(git)
command -v cc >/dev/null || missing+=(gcc)
[ -x /usr/bin/python3 ] || missing+=(python3)
python3 -m pip --version >/dev/null 2>&1 || missing+=(python3-pip)
[ -x /usr/bin/prlimit ] || missing+=(util-linux)

if [ ${#missing[@]} -gt 0 ]; then
    if ! command -v apt-get >/dev/null; then
        echo "error: ${missing[*]} are missing and this is no Debian" >&2
        echo "help: install them with the package manager of this system" >&2
        exit 1
    fi
    sudo=()
    [ "$(id -u)" -eq 0 ] || sudo=(sudo)
    "${sudo[@]}" apt-get update -qq
    "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
fi

if ! command -v rustup >/dev/null; then
    echo "error: rustup is missing" >&2
    echo "help: install it as the Rust project's site describes" >&2
    exit 1
fi
rustup target list --installed | grep -qx wasm32-wasip2 || rustup target add wasm32-wasip2

if ! bwrap --unshare-all --ro-bind / / true 2>/dev/null; then
    echo "error: bubblewrap cannot make a sandbox here" >&2
    echo "help: allow user namespaces: sysctl kernel.unprivileged_userns_clone=1" >&2
    exit 1
fi
