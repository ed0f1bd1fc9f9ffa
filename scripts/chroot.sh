#!/usr/bin/env bash
# chroot.sh [--always] RELEASE COMMAND...: run a command, in a copy of the checkout, on a bare Debian RELEASE (bookworm, trixie).
#
# The same machine with another distribution: its PostgreSQL, its Python. Only what debootstrap's smallest variant has
# is there, plus make, so `make test` inside also shows that it installs all that it needs. The tree is kept in the
# runtime directory: a second run takes only the tests' time.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

# Without --always, and if this machine is that RELEASE, the command just runs here.
always=
[ "$1" != --always ] || { always=yes && shift; }
release=$1
shift
if [ -z "$always" ] && [ "$(. /etc/os-release && echo "${VERSION_CODENAME:-}")" = "$release" ]; then
  step "this is Debian $release: no chroot"
  exec "$@"
fi
[ "$(id -u)" = 0 ] || die "a chroot with Debian $release needs root" "Run it as root, or run \`make test\` on such a machine."
cd "$ROOT"
target=$(paths runtime)/$release
need debootstrap debian-archive-keyring ca-certificates

# pip's settings name folders on this machine? Then the same folders must be there inside.
pip_folders() {
  { "$(paths venv)/bin/python" -m pip config list 2>/dev/null || true; } | grep -oE "(file://)?/[^' ]+" | sed 's,^file://,,' | sort -u |
    while read -r folder; do [ ! -d "$folder" ] || echo "$folder"; done
}

make_base() {
  local mirror
  # Where this machine gets Debian from: the first archive that is not the security one.
  mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' | grep -E '/debian/?$' | head -1)
  [ -n "$mirror" ] || die "this machine's package lists name no Debian mirror" "Run apt-get update."
  step "making a bare Debian $release (a minute)"
  rm -rf --one-file-system "$target"
  mkdir -p "$target"
  retry debootstrap --variant=minbase --include=ca-certificates,make "$release" "$target" "$mirror" >"$target.log" 2>&1 ||
    die "debootstrap failed" "$(tail -3 "$target.log")"
  touch "$target/.made"
}

[ -e "$target/.made" ] || make_base

# Names and certificates as on this machine: package managers inside must reach what they reach outside.
cp /etc/resolv.conf /etc/hosts "$target/etc/"
[ ! -e /etc/pip.conf ] || cp /etc/pip.conf "$target/etc/"
mkdir -p "$target/usr/local/share/ca-certificates" "$target/etc/ssl/certs" "$target/checkout"
[ ! -e /etc/ssl/certs/ca-certificates.crt ] || cp /etc/ssl/certs/ca-certificates.crt "$target/etc/ssl/certs/"

# The checkout as it is now, without what was built outside. What was built inside stays.
find "$target/checkout" -mindepth 1 -maxdepth 1 ! -name '.venv*' ! -name .dev -exec rm -rf {} +
tar -C "$ROOT" --exclude=./.git --exclude='./.venv*' --exclude=./.dev --exclude=./build --exclude='./*.egg-info' -cf - . |
  tar -C "$target/checkout" -xf -

# Mounts and processes of their own: whatever happens inside, all of it goes when the command ends.
mapfile -t folders < <(pip_folders)
export target
status=0
# shellcheck disable=SC2016
unshare --mount --propagation private --pid --fork --kill-child bash -c '
  set -euo pipefail
  mount --bind "$target" "$target"
  mount -t proc proc "$target/proc"
  mount --rbind /dev "$target/dev"
  mount -t tmpfs -o mode=1777 shm "$target/dev/shm"
  while [ "$1" != -- ]; do
    mkdir -p "$target$1" && mount --bind -o ro "$1" "$target$1"
    shift
  done
  shift
  # No PYTHON* or virtual environment of the caller; the certificates and proxies that he uses, if any.
  unset PYTHONPATH PYTHONHOME VIRTUAL_ENV PG_EPSILON_PG PG_EPSILON_RUNTIME PG_EPSILON_VENV MAKEFLAGS MAKELEVEL
  export HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8
  cd "$target/checkout"
  exec chroot "$target" bash -c "cd /checkout && exec \"\$@\"" bash "$@"
' bash "${folders[@]}" -- "$@" || status=$?
[ "$status" = 0 ] || die "on bare Debian $release: FAILED: $*"
echo "on bare Debian $release: OK: $*"
