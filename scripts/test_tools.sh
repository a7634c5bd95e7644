#!/usr/bin/env bash
# Installs what only tests need, and only what is missing: rootless podman, what the tests of imported
# tasks in JavaScript and C++ run with, and a registry with a program that carries things out of it.
set -euo pipefail

missing=()
command -v podman >/dev/null || missing+=(podman)
command -v crun >/dev/null || missing+=(crun)
command -v g++ >/dev/null || missing+=(g++)
command -v node >/dev/null || missing+=(nodejs)
command -v docker-registry >/dev/null || missing+=(docker-registry)
command -v skopeo >/dev/null || missing+=(skopeo)

[ ${#missing[@]} -eq 0 ] && exit 0
if ! command -v apt-get >/dev/null; then
    echo "error: ${missing[*]} are missing and this is no Debian" >&2
    echo "help: install them with the package manager of this system" >&2
    exit 1
fi
sudo=()
[ "$(id -u)" -eq 0 ] || sudo=(sudo)
"${sudo[@]}" apt-get update -qq
"${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
# Tests start it themselves; the service that the package sets up is not wanted.
case " ${missing[*]} " in
*" docker-registry "*) "${sudo[@]}" systemctl disable --now docker-registry >/dev/null 2>&1 || true ;;
esac
