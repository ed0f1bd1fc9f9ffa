# Sourced by the other scripts: messages, rights, and where the checkout is.
set -euo pipefail
umask 022  # what we build must be readable by the user that the server runs as

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
# The system's interpreter, whatever else is on PATH: Debian's PL/Python is linked to it, and imports our packages.
SYSTEM_PYTHON=/usr/bin/python3

step() { printf '==> %s\n' "$*" >&2; }
die() {
  printf 'pg_epsilon: %s\n' "$1" >&2
  shift
  for line in "$@"; do printf '  %s\n' "$line" >&2; done
  exit 1
}
paths() { "$SYSTEM_PYTHON" "$ROOT/scripts/paths.py" "$@"; }

# retry COMMAND...: what downloads, once more after 5, 20 and 60 seconds. A connection that breaks is no verdict.
retry() {
  local pause
  for pause in 5 20 60; do
    "$@" && return 0
    step "failed, again in $pause s: $*"
    sleep "$pause"
  done
  "$@"
}

# limited COMMAND...: a download that stalls ends after ten minutes, so that `retry` begins it anew. pip and npm keep what
# they had got.
limited() { timeout --foreground --kill-after=10 "${DOWNLOAD_SECONDS:-600}" "$@"; }

# pinned NAME COMMAND...: pip, with the versions of scripts/pins/NAME.txt. By its variable, because -c does not reach the
# environments in which pip builds, for which it downloads setuptools. pip splits that at blanks: hence no absolute path.
pinned() {
  (cd "$ROOT" && export PIP_CONSTRAINT="scripts/pins/$1.txt${PIP_CONSTRAINT:+ $PIP_CONSTRAINT}" PIP_DEFAULT_TIMEOUT=60 &&
    retry limited "${@:2}")
}

# extra NAME WHAT: the Python packages of that extra of pyproject.toml, in the project's environment, for WHAT. A second
# when nothing is missing.
extra() {
  local venv stamp wanted
  venv=$(paths venv)
  stamp=$venv/.pg_epsilon_$1
  wanted=$(cat "$ROOT"/{pyproject.toml,scripts/pins/dev.txt} | sha256sum)
  [ -e "$stamp" ] && [ "$(cat "$stamp")" = "$wanted" ] && return 0
  step "installing the Python packages of $2"
  pinned dev "$venv/bin/python" -m pip install -qq --disable-pip-version-check -e "$ROOT[dev,$1]" ||
    die "pip could not install the Python packages" "Its message is above; then run this again."
  printf '%s\n' "$wanted" >"$stamp"
}

# Programs that lint and tests run: each in an environment of its own, because what they require contradicts ours.
declare -A PROGRAMS=([pgspot]="pgspot==0.9.4" [pgcli]="pgcli==4.7.* psycopg[binary]==3.3.*" [pgadmin]="pgadmin4==9.18")

# program NAME FOLDER: that program in the environment FOLDER. Fails if it cannot be had.
program() {
  local name=$1 venv=$2 stamp=$2/.pg_epsilon wanted words
  read -ra words <<<"${PROGRAMS[$name]}"
  wanted=$({ "$SYSTEM_PYTHON" --version && echo "${words[*]} $venv" && cat "$ROOT/scripts/pins/$name.txt"; } | sha256sum)
  [ -e "$stamp" ] && [ "$(cat "$stamp")" = "$wanted" ] && return 0
  step "making the environment of $name"
  mkdir -p "${venv%/*}"
  "$SYSTEM_PYTHON" -m venv --clear "$venv" || return 1
  pinned "$name" "$venv/bin/python" -m pip install -qq --disable-pip-version-check "${words[@]}" || return 1
  printf '%s\n' "$wanted" >"$stamp"
}

# The words that make a command take along all that it started when it ends, and end with us, even if we are killed: a
# process namespace of its own. None where nobody lets us make one.
alone() {
  local namespace="unshare --pid --fork --kill-child --mount-proc"
  ! $namespace true 2>/dev/null || echo "setpriv --pdeathsig KILL $namespace"
}

# keep_time NAME SECONDS STATUS: a line of build/times.jsonl, from which `make bench-landing` takes what takes long. A
# commit with changes on top is no commit; load says whether the machine was idle when the run ended.
keep_time() {
  local commit
  commit=$(git -C "$ROOT" describe --always --dirty --abbrev=12 --exclude='*' 2>/dev/null) || commit=
  mkdir -p "$ROOT/build"
  printf '{"name": "%s", "seconds": %s, "commit": "%s", "status": %s, "load": %s}\n' \
    "$1" "$2" "$commit" "$3" "$(cut -d' ' -f3 /proc/loadavg)" >>"$ROOT/build/times.jsonl"
}

# The words that make a command run as root; fails if there is no way.
rights() {
  if [ "$(id -u)" = 0 ]; then
    return 0
  elif command -v sudo >/dev/null && { sudo -n true 2>/dev/null || [ -t 0 ]; }; then
    echo sudo
  else
    return 1
  fi
}

is_installed() { dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null | grep -qx installed; }

# need PACKAGE...: what of it is missing, from the distribution, or a message that says what is missing.
need() {
  local missing=() package sudo
  for package in "$@"; do is_installed "$package" || missing+=("$package"); done
  [ ${#missing[@]} -gt 0 ] || return 0
  command -v apt-get >/dev/null || die "this needs Debian 12 or 13 (or a system with its packages); missing: ${missing[*]}" \
    "On another platform, run it in a Debian container or virtual machine."
  sudo=$(rights) || die "these Debian packages are missing, and you are not root and have no sudo: ${missing[*]}" \
    "Ask an administrator to run: apt-get install --no-install-recommends ${missing[*]}"
  apt-cache show "${missing[@]}" >/dev/null 2>&1 || refresh_lists "$sudo"  # a new machine's lists are empty
  step "installing ${missing[*]}"
  apt_get "$sudo" install -y --no-install-recommends "${missing[@]}" ||
    { refresh_lists "$sudo" && apt_get "$sudo" install -y --no-install-recommends "${missing[@]}"; } ||
    die "apt-get could not install: ${missing[*]}" "Its messages are above; then run this again."
}

apt_get() { # SUDO ARGUMENT...: quiet, unless it fails
  local sudo=$1 log
  shift
  log=$(mktemp)
  $sudo env DEBIAN_FRONTEND=noninteractive apt-get -qq -o DPkg::Lock::Timeout=300 -o Dpkg::Use-Pty=0 "$@" >"$log" 2>&1 ||
    { cat "$log" >&2 && rm -f "$log" && return 1; }
  rm -f "$log"
}

refresh_lists() { step "reading the package lists" && apt_get "$1" update; }
