#!/usr/bin/env bash
# `make test` and its kin (test-all, test-user, test-drivers, test-timescale): pytest within a time limit, then a verdict.
#
# PYTEST_ARGS: what to run instead of everything. TEST_MINUTES: the limit, in minutes.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

cd "$ROOT"
venv=$(paths venv)
as_user=() place=
# Two files at a time: each starts servers of its own, which alone takes a loaded machine a minute. Hence --timeout, the
# seconds of a test with its fixtures: several times what tests/fix_waiting.py waits for one thing.
workers=(-n 2 --dist loadfile)
case ${1:-} in
  "") name="make test" minutes=${TEST_MINUTES:-30} what=(-m "not slow") ;;
  --all) name="make test-all" minutes=${TEST_MINUTES:-170} what=() ;;
  --drivers) name="make test-drivers" minutes=${TEST_MINUTES:-20} what=(tests/drivers) workers=() ;;
  --timescale) name="make test-timescale" minutes=${TEST_MINUTES:-15} what=(tests/timescale) workers=() ;;
  --as-user)
    # Starts a cluster, installs the extension and its channel, asks through it.
    name="make test-user" minutes=${TEST_MINUTES:-15} what=(-m "not slow" tests/clients/test_{psql,psycopg,login,upstream,tpch}.py)
    if [ "$(id -u)" = 0 ]; then
      # An ordinary user (nobody: neither root nor postgres) with a checkout of his own; he shares the environment.
      place=$(mktemp -d /var/tmp/pg_epsilon-user-XXXXXX)
      trap 'rm -rf "$place"' EXIT
      mkdir "$place/tree"
      tar -C "$ROOT" --exclude=./.git --exclude='./.venv*' --exclude=./.dev --exclude=./build -cf - . | tar -C "$place/tree" -xf -
      chmod 755 "$place" && chown -R nobody "$place"
      as_user=(runuser -u nobody -- env "HOME=$place" "PG_EPSILON_VENV=$venv" "PG_EPSILON_RUNTIME=$place/run")
      cd "$place/tree"
      "${as_user[@]}" "$SYSTEM_PYTHON" scripts/build_sql.py
    fi
    ;;
  *) die "unknown option $1" ;;
esac
[ -z "${PYTEST_ARGS:-}" ] || eval "what+=($PYTEST_ARGS)"  # eval: so that quotes in it work (-k 'a or b')

step "$name: pytest ${what[*]} (limit: $minutes minutes)"
status=0
started=$SECONDS
"${as_user[@]}" timeout --foreground --signal=INT --kill-after=60 "${minutes}m" \
  "$venv/bin/python" -m pytest --timeout=400 --durations=15 --durations-min=5 "${workers[@]}" "${what[@]}" || status=$?

on="PostgreSQL $(paths pg-version), $("$venv/bin/python" --version), $((SECONDS - started)) s"
case $status in
  0) echo "$name: OK ($on)" ;;
  5) die "$name: FAILED: no test was found ($on)" ;;
  124 | 137) die "$name: FAILED: not done after $minutes minutes ($on)" ;;
  *) die "$name: FAILED ($on)" ;;
esac
