#!/usr/bin/env bash
# Builds the guests of the benchmark that the forge cannot build: QuickJS, Python and Extism.
# Usage: bench_guests.sh OUT. The toolchains go to a cache outside the clone; one that cannot be
# had is skipped with a line that says so, and its figures are missing.
set -euo pipefail
cd "$(dirname "$0")/.."

out=${1:?usage: scripts/bench_guests.sh OUT}
tools=${XDG_CACHE_HOME:-$HOME/.cache}/tandem/tools/bench
guests=$PWD/host/bench/guests
python=0.25.1
qjs=0.4.5
mkdir -p "$out" "$tools"
out=$(cd "$out" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# The contract, and the world that the guests export.
mkdir -p "$work/wit/deps/harness"
cp "$guests/wit/world.wit" "$work/wit/"
cp wit/harness.wit "$work/wit/deps/harness/"

# stamp and built GUEST SOURCE VERSION: whether OUT has the guest of this source, contract and toolchain.
stamp() { cat "$2" wit/harness.wit "$guests/wit/world.wit" | sha256sum | sed "s/ .*/ $3/"; }
built() { [ -f "$out/$1.wasm" ] && [ "$(stamp "$@")" = "$(cat "$out/$1.stamp" 2>/dev/null)" ]; }
# make_guest GUEST SOURCE VERSION: builds it with the function build_GUEST, or says why not.
make_guest() {
    if built "$@"; then return; fi
    rm -f "$out/$1.wasm"
    if "build_$1" "$2" >"$work/$1.log" 2>&1; then
        stamp "$@" >"$out/$1.stamp"
    else
        echo "skipped: the $1 guest cannot be built: $(grep -v '^$' "$work/$1.log" | tail -1)" >&2
    fi
}

build_quickjs() {
    local componentize=$tools/node_modules/.bin/componentize-qjs
    if [ ! -x "$componentize" ]; then
        npm install --prefix "$tools" --no-audit --no-fund --silent --save-exact "componentize-qjs@$qjs" || return 1
    fi
    "$componentize" --wit "$work/wit" --world hook --js "$1" --stub-wasi --sync --output "$out/quickjs.wasm"
}

build_python() (
    local dir=$tools/componentize-py-$python
    if [ ! -x "$dir/bin/componentize-py" ]; then
        rm -rf "$dir"
        python3 -m venv "$dir" && "$dir/bin/pip" install --quiet "componentize-py==$python" || return 1
    fi
    cp "$1" "$work/" && cd "$work" || return 1
    "$dir/bin/componentize-py" -d "$work/wit" -w hook componentize --stub-wasi "$(basename "$1" .py)" \
        -o "$work/python.wasm" && mv "$work/python.wasm" "$out/"
)

build_extism() {
    rustup target list --installed | grep -qx wasm32-unknown-unknown ||
        rustup target add wasm32-unknown-unknown || return 1
    cargo build --release --locked --target wasm32-unknown-unknown \
        --manifest-path "$guests/extism/Cargo.toml" --target-dir "$tools/extism-target" || return 1
    cp "$tools/extism-target/wasm32-unknown-unknown/release/hook.wasm" "$out/extism.wasm"
}

make_guest quickjs "$guests/quickjs.js" "$qjs"
make_guest python "$guests/hook.py" "$python"
make_guest extism "$guests/extism/src/lib.rs" "$(sha256sum <"$guests/extism/Cargo.toml")"
