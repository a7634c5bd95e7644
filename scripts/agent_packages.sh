#!/usr/bin/env bash
# Puts mini-SWE-agent 2.4.6 and Harbor's models 0.25.0 (trajectories, tasks) into the cache, where tests ask
# them: wheels with the few libraries that those parts import, no other dependency.
set -euo pipefail

cache=${XDG_CACHE_HOME:-$HOME/.cache}/tandem

# fetch FOLDER PACKAGE… : into a folder of the cache, whole or not at all.
fetch() {
    local folder=$cache/$1 scratch
    shift
    [ -d "$folder" ] && return
    mkdir -p "$cache"
    scratch=$(mktemp -d "$folder.XXXXXX")
    # The version of Python that Harbor asks for is newer than its models need.
    if python3 -m pip install --quiet --disable-pip-version-check --no-deps --ignore-requires-python \
        --only-binary :all: --target "$scratch/files" "$@" >/dev/null; then
        chmod -R a+rX "$scratch/files"
        mv -T "$scratch/files" "$folder" 2>/dev/null || true
    else
        echo "left out: $1 cannot be fetched; the stored answers are used alone" >&2
    fi
    rm -rf "$scratch"
}

export PIP_ROOT_USER_ACTION=ignore
pydantic=(pydantic==2.13.4 pydantic-core==2.46.4 typing-extensions==4.16.0 typing-inspection==0.4.5 annotated-types==0.8.0)
fetch mini-swe-agent-2.4.6 mini-swe-agent==2.4.6 jinja2==3.1.6 markupsafe==3.0.4 tenacity==9.2.1 rich==15.0.0 \
    markdown-it-py==4.3.0 mdurl==0.1.2 pygments==2.21.0 python-dotenv==1.2.4 platformdirs==4.14.8 "${pydantic[@]}"
fetch harbor-0.25.0 harbor==0.25.0 "${pydantic[@]}"
# What its models of tasks import beside that.
fetch harbor-tasks-0.25.0 toml==0.10.2 pathspec==1.1.1
