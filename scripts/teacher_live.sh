#!/bin/sh
# Asks a real model behind a real server program for one proposal. The server is
# llama.cpp's, from a wheel that is installed outside the repository; the model is
# the fetched SmolLM2. A model of this size rarely writes a plugin that builds: what
# counts is that the exchange is held and that its reply is read or refused with a reason.
#
# $1: the program `tandem`.
set -eu
tandem=$1
cd "$(dirname "$0")/.."
home=${XDG_CACHE_HOME:-$HOME/.cache}/tandem
model=$home/models/smollm2-135m.gguf
venv=$home/teacher-live
package=xllamacpp==2026.10.11549

left_out() {
    echo "left out: $1"
    exit 0
}

[ -f "$model" ] || left_out "the weights are not here; \`tandem model fetch smollm2-135m\` gets them"
if [ ! -x "$venv/ready/bin/python" ]; then
    command -v python3 >/dev/null || left_out "there is no python3 to install a server with"
    rm -rf "$venv"
    python3 -m venv "$venv/ready" || left_out "python3 cannot make a virtual environment"
    "$venv/ready/bin/pip" install --quiet --only-binary :all: "$package" || {
        rm -rf "$venv"
        left_out "no wheel of $package for this machine"
    }
fi

work=$(mktemp -d)
server=
trap '[ -z "$server" ] || kill "$server" 2>/dev/null; rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
"$venv/ready/bin/python" - "$model" >"$work/address" 2>"$work/server.log" <<'PYTHON' &
import sys, threading
import xllamacpp
params = xllamacpp.CommonParams()
params.model.path = sys.argv[1]
params.hostnames = ["127.0.0.1"]
params.port = 0
params.n_ctx = 8192
params.n_parallel = 1
server = xllamacpp.Server(params)
print(server.listening_address, flush=True)
threading.Event().wait()
PYTHON
server=$!
for _ in $(seq 600); do
    [ ! -s "$work/address" ] || break
    kill -0 "$server" 2>/dev/null || { cat "$work/server.log"; left_out "the server did not start"; }
    sleep 0.2
done
address=$(cat "$work/address")
[ -n "$address" ] || left_out "the server did not start within two minutes"

cat >"$work/campaign.toml" <<TOML
name = "teacher-live"
method = "harness-only"
[policy]
base = "smollm2-135m"
[tasks]
train = "$PWD/examples/tasks/first-steps"
[evolve]
min_tasks = 1
[teacher.harness]
kind = "openai"
url = "$address/v1"
model = "smollm2-135m"
temperature = 0.2
max_tokens = 400
idle_seconds = 300
timeout_seconds = 900
evidence_tokens = 600
prompts = "$PWD/examples/teachers/short-prompts"
TOML
"$tandem" episode examples/tasks/first-steps/leap-years --script examples/teachers/hand-in-nothing.json \
    --json >"$work/failed.json" || [ $? = 3 ]
code=0
"$tandem" teacher ask "$work/campaign.toml" --role harness --evidence "$work/failed.json" || code=$?
case $code in
0) echo "live: the model wrote a plugin that was built and admitted" ;;
3) echo "live: the exchange was held, and the reply was refused with the reason above" ;;
*) tail -20 "$work/server.log"; exit "$code" ;;
esac
