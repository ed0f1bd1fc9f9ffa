#!/usr/bin/env bash
# `make lint`: every check runs, then one verdict.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

cd "$ROOT"
bin=$(paths venv)/bin
code=(extension proxy scripts demo tests docs/notebook.ipynb)
failed=()
check() { # NAME COMMAND...
  step "$1"
  "${@:2}" || failed+=("$1")
}

# `make dev` has made its environment, or could not: then this is the verdict of this check alone.
pgspot() {
  [ -e "$ROOT/.venv-pgspot/.pg_epsilon" ] || { echo "pgspot is not installed: make dev" >&2 && return 1; }
  "$ROOT/.venv-pgspot/bin/pgspot" "$@"
}

# pgspot reads SQL and plpgsql; a PL/Python function here is two lines that call the package, and a test walks pg_proc.
pgspot_options=(--ignore-lang plpython3u
  # ends a transaction, hence has no SET; its names are in full, and tests/sql/test_grants.py watches it
  --proc-without-search-path "dp._charge_and_answer(request_id uuid,who text,request jsonb,witness jsonb,INOUT reply jsonb)")

check "ruff check" "$bin/ruff" check "${code[@]}"
check "ruff format" "$bin/ruff" format --check "${code[@]}"
check "mypy --strict" "$bin/mypy"
check "mypy --strict (scripts, demo)" "$bin/mypy" scripts demo
scripts=$(mktemp -d)
trap 'rm -rf "$scripts"' EXIT
for script in "$(paths build)"/sql/pg_epsilon{--?.?.?,_install}.sql; do
  sed 's/^ *\\.*//' "$script" >"$scripts/${script##*/}"  # psql's own commands are not SQL; line numbers stay
done
check "pgspot" pgspot "${pgspot_options[@]}" "$scripts"/*.sql

[ ${#failed[@]} = 0 ] || die "make lint: FAILED: $(printf '%s; ' "${failed[@]}")"
echo "make lint: OK (ruff, mypy --strict, pgspot)"
