#!/bin/sh
# Writes src/bindings.rs from wit/harness.wit. Run it after a change of the
# contract; a test of tandem-host fails until then.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
cargo run --quiet --locked --manifest-path "$here/generate/Cargo.toml" -- \
    "$here/../../wit/harness.wit" "$here/src/bindings.rs"
