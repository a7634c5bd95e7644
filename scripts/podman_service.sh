#!/usr/bin/env bash
# A rootless podman for the tests, in a folder of its own, with the image
# localhost/tandem-test made of programs of this machine; nothing is pulled.
#   podman_service.sh DIR             serves the Docker API on DIR/run/socket; DIR/ready says when
#   podman_service.sh DIR ARGUMENT…   runs podman over the same store
set -euo pipefail
dir=$1
shift

as_user=()
if [ "$(id -u)" -eq 0 ]; then
    # Rootless means another user than root; any will do.
    plain=64321
    as_user=(setpriv "--reuid=$plain" "--regid=$plain" --clear-groups --)
fi
podman() {
    local before=("${as_user[@]}" env -i "PATH=/usr/bin:/bin:/usr/sbin:/sbin" "HOME=$dir/home" "XDG_RUNTIME_DIR=$dir/run" USER=plain)
    local hybrid='umount -l /sys/fs/cgroup/unified; exec "$@"'
    cd "$dir"
    # crun refuses control groups of both versions at once: with root, version 2 is hidden from it.
    if [ "$(id -u)" -eq 0 ] && grep -q . /sys/fs/cgroup/unified/cgroup.controllers 2>/dev/null; then
        exec unshare --mount -- bash -c "$hybrid" bash "${before[@]}" podman --log-level=error "$@"
    fi
    exec "${before[@]}" podman --log-level=error "$@"
}

if [ $# -gt 0 ]; then
    podman "$@"
fi

if [ "$(id -u)" -ne 0 ] && grep -q . /sys/fs/cgroup/unified/cgroup.controllers 2>/dev/null; then
    echo "crun refuses control groups of both versions at once, and only root can hide one" >&2
    exit 1
fi
image=$dir/image
mkdir -p "$dir/home/.config/containers" "$dir/run"
# Podman keeps a process of each command for five minutes after its end otherwise.
printf '[engine]\nexit_command_delay = 1\n' >"$dir/home/.config/containers/containers.conf"
mkdir -p "$image"/{bin,etc,tmp,usr,workspace,proc,dev,sys,home/agent}
ln -s ../bin "$image/usr/bin"
for name in bash sh cat ls sleep echo mkdir rm cp mv chmod ln touch seq head tail printf sort id setsid kill sed awk true git env grep tr wc date patch; do
    path=$(command -v "$name" -- || true)
    [ -f "$path" ] && install "$(readlink -f "$path")" "$image/bin/$name"
done
for file in "$image"/bin/*; do
    ldd "$file" 2>/dev/null | grep -o '/[^ ]*' || true
done | sort -u | while read -r library; do
    install -D "$(readlink -f "$library")" "$image$library"
done
echo 'root:x:0:0::/home/agent:/bin/sh' >"$image/etc/passwd"
tar -C "$image" --owner=0 --group=0 -cf "$dir/image.tar" .
rm -rf "$image"
if [ "$(id -u)" -eq 0 ]; then
    chmod 711 "$dir"
    chown -R "$plain:$plain" "$dir/home" "$dir/run" "$dir/image.tar"
fi
"$0" "$dir" import --quiet "$dir/image.tar" localhost/tandem-test
rm -f "$dir/image.tar"
"$0" "$dir" system service --time=0 "unix://$dir/run/socket" &
service=$!
# Podman's own keeper of the namespaces outlives the service.
finish() {
    kill $service 2>/dev/null || true
    kill "$(cat "$dir/run/libpod/tmp/pause.pid")" 2>/dev/null || true
}
trap finish EXIT
trap 'exit 0' TERM INT
until [ -S "$dir/run/socket" ]; do
    kill -0 $service
    sleep 0.02
done
touch "$dir/ready"
wait $service
