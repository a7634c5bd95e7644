#!/usr/bin/env bash
# Builds the JavaScript plugins of a folder into components, with QuickJS inside.
#
#   scripts/js_guests.sh OUT [FOLDER]
#
# FOLDER is examples/contract unless given. A file POINT.js exports that point, or those of a line
# `// exports: a, b`; a line `// imports: a, b` names the capabilities that it uses. Needs Node and npm; the npm
# package is kept outside the repository, in TANDEM_JS_TOOLS or the cache folder of the user.
# What is newer than its source stays. Ends with 3 where Node or npm is missing or the package cannot be fetched.
set -euo pipefail

PACKAGE=componentize-qjs@0.4.5

here=$(cd "$(dirname "$0")/.." && pwd)
if [ $# -lt 1 ] || [ $# -gt 2 ]; then
    echo "usage: scripts/js_guests.sh OUT [FOLDER]" >&2
    exit 2
fi
out=$1
folder=${2:-$here/examples/contract}
tools=${TANDEM_JS_TOOLS:-${XDG_CACHE_HOME:-$HOME/.cache}/tandem/js}

for program in node npm; do
    if ! command -v "$program" >/dev/null; then
        echo "error: $program is missing, so no JavaScript plugin is built" >&2
        echo "help: install Node 20 or newer" >&2
        exit 3
    fi
done
componentize=$tools/node_modules/.bin/componentize-qjs
if [ ! -x "$componentize" ]; then
    mkdir -p "$tools"
    if ! npm install --prefix "$tools" --no-audit --no-fund --silent --save-exact "$PACKAGE"; then
        echo "error: npm cannot fetch $PACKAGE" >&2
        echo "help: check the network, or point TANDEM_JS_TOOLS at a folder that has it" >&2
        exit 3
    fi
fi

# The words behind a mark, one a line.
words() {
    sed -n "s|^$1||p" "$2" | tr -d ' ' | tr ',' '\n'
}

mkdir -p "$out"
world=$(mktemp -d)
trap 'rm -rf "$world"' EXIT
mkdir -p "$world/deps/harness"
cp "$here/wit/harness.wit" "$world/deps/harness/"
version=$(sed -n 's/^package tandem:harness@\(.*\);$/\1/p' "$here/wit/harness.wit")
for source in "$folder"/*.js; do
    point=$(basename "$source" .js)
    built=$out/$point.wasm
    if [ "$built" -nt "$source" ] && [ "$built" -nt "$here/wit/harness.wit" ] && [ "$built" -nt "$0" ]; then
        continue
    fi
    {
        echo "package tandem:example;"
        echo "world plugin {"
        words "// imports: " "$source" | sed "s|.*|    import tandem:harness/&@$version;|"
        { words "// exports: " "$source" | grep . || echo "$point"; } | sed "s|.*|    export tandem:harness/&@$version;|"
        echo "}"
    } >"$world/world.wit"
    "$componentize" --wit "$world" --world plugin --js "$source" --stub-wasi --sync --output "$built" >/dev/null
done
