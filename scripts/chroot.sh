#!/usr/bin/env bash
# chroot.sh [--always | --bare] RELEASE COMMAND...: run a command, in a copy of the checkout, on Debian RELEASE (bookworm,
# trixie). chroot.sh --base RELEASE: only make what that needs, or bring it up to date.
#
# The same machine with another distribution: its PostgreSQL, its Python. What debootstrap's smallest variant makes,
# with make and what `make dev` installs there, is the release's base: it is kept outside every checkout, for all of
# them, and no command changes it. A command runs on an overlay of its own, which is gone when it ends. --bare: without
# a base, on what debootstrap makes now, so that `make test` inside also shows that it installs all that it needs.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

# Without an option, and if this machine is that RELEASE, the command just runs here.
option=
case $1 in --always | --bare | --base) option=$1 && shift ;; esac
release=$1
shift
if [ -z "$option" ] && [ "$(. /etc/os-release && echo "${VERSION_CODENAME:-}")" = "$release" ]; then
  step "this is Debian $release: no chroot"
  exec "$@"
fi
[ "$(id -u)" = 0 ] || die "a chroot with Debian $release needs root" "Run it as root, or run \`make test\` on such a machine."
cd "$ROOT"
bases=$(paths bases)
base=$bases/$release

# pip's settings name folders on this machine? Then the same folders must be there inside.
pip_folders() {
  { "$(paths venv)/bin/python" -m pip config list 2>/dev/null || true; } | grep -oE "(file://)?/[^' ]+" | sed 's,^file://,,' | sort -u |
    while read -r folder; do [ ! -d "$folder" ] || echo "$folder"; done
}

bare() { # FOLDER: what debootstrap makes
  local mirror
  need debootstrap debian-archive-keyring ca-certificates
  # Where this machine gets Debian from: the first archive that is not the security one.
  mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' | grep -E '/debian/?$' | head -1)
  [ -n "$mirror" ] || die "this machine's package lists name no Debian mirror" "Run apt-get update."
  step "making a bare Debian $release (a minute)"
  mkdir -p "$1"
  retry limited debootstrap --variant=minbase --include=ca-certificates,make "$release" "$1" "$mirror" >"$1.log" 2>&1 ||
    die "debootstrap failed" "$(tail -3 "$1.log")"
  rm "$1.log"
}

# What this machine and this checkout put over a tree.
put_over() { # FOLDER
  # Names and certificates as on this machine: package managers inside must reach what they reach outside.
  mkdir -p "$1"/{etc/ssl/certs,usr/local/share/ca-certificates,checkout}
  cp --remove-destination /etc/resolv.conf /etc/hosts "$1/etc/"
  [ ! -e /etc/pip.conf ] || cp /etc/pip.conf "$1/etc/"
  [ ! -e /etc/ssl/certs/ca-certificates.crt ] || cp --remove-destination /etc/ssl/certs/ca-certificates.crt "$1/etc/ssl/certs/"
  # The checkout as it is now, without what was built.
  tar -C "$ROOT" --exclude=./.git --exclude='./.venv*' --exclude=./.dev --exclude=./build --exclude='./*.egg-info' -cf - . |
    tar -C "$1/checkout" -xf -
}

# inside ROOT BASE OVER COMMAND...: the command, in ROOT; if BASE is not empty, then ROOT becomes BASE with OVER over it.
# Mounts and processes of their own: whatever happens inside, all of it goes when the command ends, or this script.
inside() {
  local folders
  mapfile -t folders < <(pip_folders)
  # shellcheck disable=SC2016
  setpriv --pdeathsig KILL unshare --mount --propagation private --pid --fork --kill-child bash -c '
    set -euo pipefail
    root=$1 base=$2 over=$3
    shift 3
    if [ -z "$base" ]; then
      mount --bind "$root" "$root"
    elif ! mount -t overlay -o "lowerdir=$base,upperdir=$over,workdir=$over.work" overlay "$root" 2>/dev/null; then
      echo "==> no overlay can be mounted here: copying $base" >&2
      cp -a --reflink=auto "$base/." "$root"
      cp -a --remove-destination "$over/." "$root"
      mount --bind "$root" "$root"
    else
      # The servers of tests live in /tmp: an overlay makes up the inode by which a ledger knows its place.
      mkdir -p -m 1777 "$over.tmp" && mount --bind "$over.tmp" "$root/tmp"
    fi
    mount -t proc proc "$root/proc"
    mount --rbind /dev "$root/dev"
    mount -t tmpfs -o mode=1777 shm "$root/dev/shm"
    while [ "$1" != -- ]; do
      mkdir -p "$root$1" && mount --bind -o ro "$1" "$root$1"
      shift
    done
    shift
    # No PYTHON* or virtual environment of the caller; the certificates and proxies that he uses, if any.
    unset PYTHONPATH PYTHONHOME VIRTUAL_ENV PG_EPSILON_PG PG_EPSILON_RUNTIME PG_EPSILON_VENV PG_EPSILON_BASES MAKEFLAGS MAKELEVEL
    export HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8
    cd "$root/checkout"
    exec chroot "$root" bash -c "cd /checkout && exec \"\$@\"" bash "$@"
  ' bash "$1" "$2" "$3" "${folders[@]}" -- "${@:4}"
}

# What a base was made from. Where a checkout wants another one, `make dev` at the start of its command installs what
# differs, in the overlay; so a base that is out of date costs minutes and no more.
key() { cat pyproject.toml scripts/pins/*.txt scripts/env.sh | sha256sum; }

# Under a name of its own until it is whole. `make dev` inside sees the path that it will have at every run, /checkout:
# an environment cannot be moved.
make_base() {
  local new=$bases/.$release.new
  rm -rf --one-file-system "$new"
  if [ -d "$base" ]; then
    step "bringing $base up to date"
    cp -a --reflink=auto "$base" "$new"
  else
    bare "$new"
  fi &&
    put_over "$new" &&
    inside "$new" "" "" make dev &&
    find "$new/checkout" -mindepth 1 -maxdepth 1 ! -name '.venv*' -exec rm -rf {} + &&
    rm -rf "$new"/{root/.cache,var/cache/apt/archives/*.deb,tmp/*} &&
    key >"$new/.key" &&
    { [ ! -d "$base" ] || mv -T "$base" "$bases/.$release.old"; } &&
    mv -T "$new" "$base" &&
    rm -rf --one-file-system "$bases/.$release.old"
}

# It stands, as the checkout wants it if nobody else uses it now, and stays while we hold the lock.
have_base() {
  # Whoever can write here is root in every command that follows.
  mkdir -p "$bases"
  [ -z "$(find "$bases" -maxdepth 0 \( ! -user root -o -perm /022 \))" ] ||
    die "$bases is not a directory of root's alone: remove it, or set PG_EPSILON_BASES"
  exec 8>"$bases/.$release.lock"
  flock -n -s 8 || { step "waiting for another make, which makes $base" && flock -s 8; }
  if [ ! -d "$base" ]; then
    flock 8
    [ -d "$base" ] || make_base || die "on bare Debian $release: make dev FAILED"
  elif [ "$(cat "$base/.key")" != "$(key)" ] && flock -n 8; then
    make_base || step "$base could not be brought up to date"
  fi
  flock -s 8
}

[ "$option" = --bare ] || have_base
[ "$option" != --base ] || exit 0

# Folders of runs that were killed: nobody holds their locks.
runtime=$(paths runtime)
for left in "$runtime"/chroot.*; do
  [ ! -d "$left" ] || flock -n "$left" rm -rf --one-file-system "$left" || true
done
place=$(mktemp -d "$runtime/chroot.XXXXXX")
exec 7<"$place" && flock 7
trap 'rm -rf --one-file-system "$place"' EXIT
mkdir "$place"/{root,over,over.work}

status=0
if [ "$option" = --bare ]; then
  bare "$place/root"
  put_over "$place/root"
  inside "$place/root" "" "" "$@" || status=$?
else
  put_over "$place/over"
  inside "$place/root" "$base" "$place/over" "$@" || status=$?
fi
[ "$status" = 0 ] || die "on Debian $release: FAILED: $*"
echo "on Debian $release: OK: $*"
