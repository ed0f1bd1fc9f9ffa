#!/usr/bin/env bash
# The test of pg_upgrade from 15 to 17: on Debian 13, with Debian 12's server and Python beside its own. It adds Debian
# 12 to apt's sources, so it runs in the chroot only (make test-pg-upgrade).
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

[ "$(. /etc/os-release && echo "$VERSION_CODENAME")" = trixie ] || die "this is not Debian 13" "Run make test-pg-upgrade."
cd "$ROOT"
scripts/env.sh
"$SYSTEM_PYTHON" scripts/build_sql.py

list=/etc/apt/sources.list.d/bookworm.list
if [ ! -e "$list" ]; then
  mirror=$(awk '$1 == "deb" { print $(NF - 2); exit }' /etc/apt/sources.list)
  [ -n "$mirror" ] || die "/etc/apt/sources.list names no mirror"
  echo "deb $mirror bookworm main" >"$list"
  refresh_lists ""
fi
mkdir -p /etc/postgresql-common/createcluster.d
echo "create_main_cluster = false" >/etc/postgresql-common/createcluster.d/pg_epsilon.conf
version=$(paths supported | awk '$1 == "bookworm" { print $3 }')
need "postgresql-$version" "postgresql-plpython3-$version" python3.11

# Debian 12's PL/Python loads packages for its own Python. Its package of venv cannot stand beside Debian 13's: our pip
# runs in the older interpreter.
older=$ROOT/.venv-bookworm
wanted=$(cat pyproject.toml scripts/pins/dev.txt | sha256sum)
if [ "$(cat "$older/.pg_epsilon" 2>/dev/null)" != "$wanted" ]; then
  step "installing the Python packages of pyproject.toml for Python 3.11"
  rm -rf "$older"
  mapfile -t requirements < <("$SYSTEM_PYTHON" -c '
import tomllib
project = tomllib.load(open("pyproject.toml", "rb"))["project"]
print(*project["dependencies"], *project["optional-dependencies"]["engine"], sep="\n")')
  pinned dev "$(paths venv)/bin/python" -m pip --python /usr/bin/python3.11 install -qq --disable-pip-version-check \
    --target "$older" "${requirements[@]}"
  printf '%s\n' "$wanted" >"$older/.pg_epsilon"
fi
PG_EPSILON_OLDER_PACKAGES=$older exec scripts/test.sh --pg-upgrade
