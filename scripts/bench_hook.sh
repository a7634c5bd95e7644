#!/usr/bin/env bash
# Times calls of hooks as an agent makes them: three first-party plugins, a warm daemon.
set -euo pipefail
tandem=$1
here=$(cd "$(dirname "$0")/.." && pwd)
scratch=$(mktemp -d)
export TANDEM_HOOK_DIR=$scratch/run TANDEM_HARNESS_HOME=$scratch/home
trap '"$tandem" hook stop --harness current >/dev/null 2>&1 || true; rm -rf "$scratch"' EXIT

for plugin in interactive-guard stop-repeats timeout-advice; do
    "$tandem" plugin build "$here/plugins/$plugin/src/lib.rs" -o "$scratch/$plugin.wasm" >/dev/null
    "$tandem" harness add "$plugin" "$scratch/$plugin.wasm" --grant log --grant state --reason "to be timed" >/dev/null
done
"$tandem" hook bench --harness current -n 500
