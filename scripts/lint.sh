#!/usr/bin/env bash
# `make lint`: every check runs, then one verdict.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

cd "$ROOT"
bin=$(paths venv)/bin
code=(extension proxy scripts demo tests)
failed=()
check() { # NAME COMMAND...
  step "$1"
  "${@:2}" || failed+=("$1")
}

# pgspot pins another pglast than ours: an environment of its own.
pgspot_environment() {
  local venv=$ROOT/.venv-pgspot
  if [ ! -x "$venv/bin/pgspot" ]; then
    step "making pgspot's environment"
    "$SYSTEM_PYTHON" -m venv --clear "$venv"
    retry "$venv/bin/python" -m pip install -qq --disable-pip-version-check 'pgspot==0.9.4' ||
      die "pip could not install pgspot" "Its message is above."
  fi
}

# pgspot reads SQL and plpgsql; a PL/Python function here is two lines that call the package, and a test walks pg_proc.
pgspot_options=(--ignore-lang plpython3u)

check "ruff check" "$bin/ruff" check "${code[@]}"
check "ruff format" "$bin/ruff" format --check "${code[@]}"
check "mypy --strict" "$bin/mypy"
check "mypy --strict (scripts, demo)" "$bin/mypy" scripts demo
pgspot_environment
scripts=$(mktemp -d)
trap 'rm -rf "$scripts"' EXIT
for script in "$(paths build)"/sql/pg_epsilon{--?.?.?,_install}.sql; do
  sed 's/^ *\\.*//' "$script" >"$scripts/${script##*/}"  # psql's own commands are not SQL; line numbers stay
done
check "pgspot" "$ROOT/.venv-pgspot/bin/pgspot" "${pgspot_options[@]}" "$scripts"/*.sql

[ ${#failed[@]} = 0 ] || die "make lint: FAILED: $(printf '%s; ' "${failed[@]}")"
echo "make lint: OK (ruff, mypy --strict, pgspot)"
