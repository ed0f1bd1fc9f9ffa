#!/usr/bin/env bash
# `make dev`: everything that the tests and the demo need, on a bare Debian 12 or 13. Safe to repeat: seconds when
# nothing is missing, no rights needed then.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

# A new server package starts a cluster of its own on port 5432. Nobody asked for it: say no while we install, if it is
# we who bring postgresql-common (an administrator's own setting is left alone).
without_main_cluster() { # COMMAND...
  local sudo conf=/etc/postgresql-common/createcluster.d/pg_epsilon.conf
  if is_installed postgresql-common || ! sudo=$(rights); then "$@"; return; fi
  need postgresql-common
  $sudo mkdir -p "${conf%/*}"
  echo "create_main_cluster = false" | $sudo tee "$conf" >/dev/null
  "$@" || { $sudo rm -f "$conf"; exit 1; }
  $sudo rm -f "$conf"
}

what_to_install() {
  local debian version
  paths supported | while read -r _ debian version; do
    echo "on Debian $debian: postgresql-$version postgresql-plpython3-$version python3-venv"
  done
}

packages() {
  local version
  command -v apt-get >/dev/null || paths pg-version >/dev/null ||
    die "this is not Debian, and PostgreSQL with PL/Python is missing" \
      "Use Debian 12 or 13, where \`make dev\` installs everything, or a container of it."
  need ca-certificates python3 python3-venv
  if version=$(paths pg-version 2>/dev/null); then
    need "postgresql-$version" "postgresql-plpython3-$version"
    return
  fi
  version=${PG_EPSILON_PG:-$(paths debian-postgres 2>/dev/null)} || {
    local sudo lines
    mapfile -t lines < <(what_to_install)
    sudo=$(rights) || die "PostgreSQL with PL/Python is missing, and you are not root and have no sudo" \
      "Ask an administrator to install:" "${lines[@]}"
    refresh_lists "$sudo"
    version=$(paths debian-postgres)
  }
  without_main_cluster need "postgresql-$version" "postgresql-plpython3-$version"
}

# The environment is made by the system's python (PL/Python loads its packages) and brought up to date, in place, when
# pyproject.toml, the pins or that python have changed.
environment() {
  local venv stamp wanted
  venv=$(paths venv)
  stamp=$venv/.pg_epsilon
  wanted=$({ "$SYSTEM_PYTHON" --version && cat "$ROOT"/{pyproject.toml,scripts/pins/dev.txt} && pwd -P; } | sha256sum)
  [ -e "$stamp" ] && [ "$(cat "$stamp")" = "$wanted" ] && return 0
  if ! "$venv/bin/python" -c '' 2>/dev/null; then
    step "making the Python environment $venv"
    "$SYSTEM_PYTHON" -m venv --clear "$venv" || die "python3 -m venv failed" "On Debian: apt-get install python3-venv"
  fi
  step "installing the Python packages of pyproject.toml (a minute or two the first time)"
  pinned dev "$venv/bin/python" -m pip install -qq --disable-pip-version-check -e "$ROOT[dev]" ||
    die "pip could not install the Python packages" "Its message is above; then run this again."
  printf '%s\n' "$wanted" >"$stamp"
}

cd "$ROOT"
packages
[ $# = 0 ] || need "$@"  # what one target needs besides: `scripts/env.sh pgbouncer`
exec 9>"$(paths runtime)/.lock" && flock 9  # two makes at once: the second waits, then finds all done
environment
# Only `make lint` wants it, which says so where it is missing: no other verdict is lost.
program pgspot "$ROOT/.venv-pgspot" || step "pgspot could not be installed (pip's message is above): make lint will fail"
paths runtime >/dev/null
step "ready: PostgreSQL $(paths pg-version), $("$(paths venv)/bin/python" --version)"
