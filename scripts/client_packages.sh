#!/usr/bin/env bash
# Puts the programs that talk to `tandem serve` in tests into the cache: the OpenAI client, litellm (which
# mini-SWE-agent asks through) and the MCP SDK for Python, and the MCP SDK for TypeScript where npm is there.
set -euo pipefail

cache=${XDG_CACHE_HOME:-$HOME/.cache}/tandem
mkdir -p "$cache"

# keep FOLDER COMMAND… : runs the command in a new folder and keeps that, whole or not at all.
keep() {
    local folder=$cache/$1 scratch
    shift
    [ -d "$folder" ] && return
    scratch=$(mktemp -d "$folder.XXXXXX")
    mkdir "$scratch/files"
    if "$@" "$scratch/files" >/dev/null 2>&1; then
        chmod -R a+rX "$scratch/files"
        mv -T "$scratch/files" "$folder" 2>/dev/null || true
    else
        echo "left out: $(basename "$folder") cannot be fetched; the tests with it say so" >&2
    fi
    rm -rf "$scratch"
}

python_clients() {
    PIP_ROOT_USER_ACTION=ignore python3 -m pip install --quiet --disable-pip-version-check --only-binary :all: \
        --target "$1" openai==3.57.0 mcp==2.3.0 litellm==1.110.2
}

node_clients() {
    command -v npm && npm install --prefix "$1" --no-audit --no-fund --ignore-scripts @modelcontextprotocol/sdk@1.32.2
}

keep clients-python-1 python_clients
keep clients-node-1 node_clients
