#!/bin/sh
# Lets the OpenHands SDK work on a task with a served policy, from the first call to the patch that it hands
# in. The SDK is large (half a gigabyte, minutes to install), so `make test` leaves it out.
#
# $1: the program `tandem`. Passes when the conversation ended by a hand-in, whatever the patch is worth.
set -eu
tandem=$1
cd "$(dirname "$0")/.."
venv=${XDG_CACHE_HOME:-$HOME/.cache}/tandem/openhands-1.58.2
task=examples/tasks/first-steps/greeting-lost

left_out() {
    echo "left out: $1"
    exit 0
}

if [ ! -x "$venv/bin/python" ]; then
    command -v python3.12 >/dev/null || left_out "the OpenHands SDK needs python3.12"
    rm -rf "$venv.part"
    python3.12 -m venv "$venv.part" || left_out "python3.12 cannot make a virtual environment"
    "$venv.part/bin/python" -m pip install --quiet openhands-sdk==1.58.2 || left_out "openhands-sdk cannot be installed"
    mv "$venv.part" "$venv"
fi

work=$(mktemp -d)
server=
trap '[ -z "$server" ] || kill "$server" 2>/dev/null; rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
"$tandem" serve policy smollm2-135m --adapter examples/quickstart/adapter --name warm --context 4096 --slots 1 \
    --listen 127.0.0.1:0 >"$work/address" 2>"$work/server.log" &
server=$!
for _ in $(seq 600); do
    url=$(sed -n 's/.*\(http:\/\/[0-9.:]*\).*/\1/p' "$work/address" "$work/server.log" | head -n 1)
    [ -z "$url" ] || break
    kill -0 "$server" 2>/dev/null || { cat "$work/server.log" >&2; exit 1; }
    sleep 0.2
done
[ -n "$url" ] || { echo "the server did not start within two minutes" >&2; exit 1; }

mkdir "$work/repo"
cp -r "$task/environment/workspace/." "$work/repo"
HOME=$work "$venv/bin/python" tests/clients/openhands_client.py "$url/v1" warm "$task" "$work/repo" | tail -n 1 | tee "$work/said"
"$venv/bin/python" - "$work/said" <<'PYTHON'
import json, sys
told = json.loads(open(sys.argv[1]).read())
assert told["commands"], "no command was called"
assert told["patch"] is not None, f"nothing was handed in: {told['status']}"
print(f"{len(told['commands'])} calls of `bash`, the last one handed in {len(told['patch'])} bytes")
PYTHON
