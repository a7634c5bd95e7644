#!/usr/bin/env bash
# Puts the files of the package swebench 5.0.2 into the cache, where a test asks its
# parsers. Nothing of it is installed, and none of its dependencies is fetched.
set -euo pipefail

version=5.0.2
folder=${XDG_CACHE_HOME:-$HOME/.cache}/tandem/swebench-$version
[ -d "$folder/swebench" ] && exit 0

mkdir -p "$(dirname "$folder")"
scratch=$(mktemp -d "$folder.XXXXXX")
trap 'rm -rf "$scratch"' EXIT
if ! python3 -m pip download --quiet --disable-pip-version-check --no-deps --only-binary :all: \
    --dest "$scratch" "swebench==$version" >/dev/null; then
    echo "left out: the package swebench $version cannot be fetched; the stored answers are used alone" >&2
    exit 0
fi
python3 -m zipfile -e "$scratch"/*.whl "$scratch/files"
chmod -R a+rX "$scratch/files"
mv -T "$scratch/files" "$folder" 2>/dev/null || true
