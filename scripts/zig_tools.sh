#!/usr/bin/env bash
# Installs what builds plugins in C, C++ and Zig: one wheel of the Python package index, pinned by
# its hash. Does nothing when it is there.
set -euo pipefail

lock=$(cd "$(dirname "$0")/.." && pwd)/plugins/sdk-zig/requirements.txt
version=$(sed -n 's/^ziglang==\([0-9.]*\).*/\1/p' "$lock")
home=${XDG_CACHE_HOME:-$HOME/.cache}/tandem/tools/zig
[ -x "$home/$version/zig" ] && exit 0

mkdir -p "$home"
work=$(mktemp -d "$home/new-XXXXXX")
trap 'rm -rf "$work"' EXIT
python3 -m pip download --quiet --no-deps --only-binary :all: --require-hashes --dest "$work/wheels" -r "$lock"
python3 -m zipfile -e "$work"/wheels/*.whl "$work/unpacked"
chmod -R u+w,go-w "$work/unpacked/ziglang"
chmod 755 "$work/unpacked/ziglang" "$work/unpacked/ziglang/zig"
# Another run may have been faster: what it put there is the same.
mv -T "$work/unpacked/ziglang" "$home/$version" 2>/dev/null || [ -x "$home/$version/zig" ]
