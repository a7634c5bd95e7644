#!/bin/sh
# Applies the reference patch.
set -e
here=$(cd "$(dirname "$0")" && pwd)
cd "${TASK_WORKSPACE:-/workspace}"
git apply "$here/patch.diff"
