#!/usr/bin/env bash
# Makes the zip archive with pytest that `tandem tasks mutate` puts into tasks, and prints
# its path. Nothing is done when it is there already.
#
#   scripts/pytest_zip.sh                        pytest alone
#   scripts/pytest_zip.sh OUT.zip typeguard …    pytest and what a package's tests import
set -euo pipefail

version=8.3.5
cache=${TANDEM_HOME:-${XDG_CACHE_HOME:-$HOME/.cache}/tandem}/python
out=${1:-$cache/pytest-$version.zip}
shift || true
if [ -e "$out" ]; then
    echo "$out"
    exit
fi
mkdir -p "$cache"
work=$(mktemp -d "$cache/new.XXXXXX")
trap 'rm -rf "$work"' EXIT

# A venv only for pip, where the system's Python has none.
if ! python3 -m pip --version >/dev/null 2>&1; then
    python3 -m venv "$work/venv"
    PATH=$work/venv/bin:$PATH
fi
python3 -m pip install --quiet --no-compile --root-user-action=ignore --target "$work/site" "pytest==$version" "$@" >&2
rm -rf "$work/site/bin"

# Byte code beside the source, which Python takes from an archive without looking at times.
"$([ -x /usr/bin/python3 ] && echo /usr/bin/python3 || echo python3)" - "$work/site" "$work/all.zip" <<'PYTHON'
import os, py_compile, sys, zipfile

root, out = sys.argv[1:]
code = out + ".pyc"
with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
    for folder, folders, files in os.walk(root):
        folders.sort()
        for name in sorted(files):
            path = os.path.join(folder, name)
            inner = os.path.relpath(path, root)
            archive.write(path, inner)
            if name.endswith(".py"):
                mode = py_compile.PycInvalidationMode.UNCHECKED_HASH
                try:
                    py_compile.compile(path, code, inner, doraise=True, invalidation_mode=mode)
                except py_compile.PyCompileError:
                    continue  # a template or a test of a newer Python
                archive.write(code, inner + "c")
PYTHON
mv "$work/all.zip" "$out"
echo "$out"
