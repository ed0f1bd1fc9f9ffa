#!/usr/bin/env bash
# `make test` and its kin (check, quick, test-thorough-here, test-versions, test-all, test-user, test-drivers, test-timescale,
# test-pg-upgrade): pytest within a time limit, then a verdict, with the seconds that it took beside its budget.
#
# PYTEST_ARGS: what to run instead of everything. TEST_MINUTES: the limit, in minutes. WITHOUT: files or folders to leave
# out (the second Debian does not repeat the pure tests, nor 40,000 runs of a mechanism). PART: the one folder of tests/
# that `make test-all` runs.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

cd "$ROOT"
venv=$(paths venv)
started=$SECONDS
as_user=() place= budget=

# The folders that `make test-all` runs: all with tests but those that have a target of their own.
volume() {
  find tests -name 'test_*.py' -not -path '*/node_modules/*' | cut -d/ -f2 | sort -u | grep -vxE 'drivers|timescale|pgupgrade'
}

# Two files at a time: each starts servers of its own, which alone takes a loaded machine a minute. Hence --timeout, the
# seconds of a test with its fixtures: several times what tests/fix_waiting.py waits for one thing. Files in the order of
# their names, so that a long file of few tests is not the last one, for which the other core waits.
workers=(-n 2 --dist loadfile --no-loadscope-reorder)
case ${1:-} in
  --check)
    name="make check" minutes=${TEST_MINUTES:-10} budget=60 what=(-m "not slow and not thorough and not long" tests/unit)
    "$venv/bin/ruff" check extension proxy scripts demo tests docs/notebook.ipynb
    "$venv/bin/mypy"
    ;;
  --quick) name="make quick" minutes=${TEST_MINUTES:-15} budget=120 what=(-m "not slow and not thorough" --quick)
    read -ra files < <("$venv/bin/python" tests/quick_tier.py) && what+=("${files[@]}")
    ;;
  # The limit is against a hang: a busy machine takes five times its idle minutes.
  "") name="make test" minutes=${TEST_MINUTES:-50} budget=360 what=(-m "not slow and not thorough") ;;
  --thorough) name="make test-thorough-here" minutes=${TEST_MINUTES:-60} what=(-m "thorough and not slow") ;;
  --versions) name="make test-versions" minutes=${TEST_MINUTES:-25} budget=180 what=(-m "versions and not slow")
    read -ra files < <("$venv/bin/python" tests/versions.py) && what+=("${files[@]}")
    ;;
  --all) name="make test-all" minutes=${TEST_MINUTES:-170} what=()
    if [ -n "${PART:-}" ]; then
      mapfile -t parts < <(volume)
      printf '%s\n' "${parts[@]}" | grep -qxF -e "$PART" || die "make test-all PART=$PART: there is no such folder of tests" "There are: ${parts[*]}"
      name="make test-all PART=$PART" minutes=${TEST_MINUTES:-60} what=("tests/$PART")
    fi
    ;;
  --drivers) name="make test-drivers" minutes=${TEST_MINUTES:-20} what=(tests/drivers) workers=() ;;
  --timescale) name="make test-timescale" minutes=${TEST_MINUTES:-15} what=(tests/timescale) workers=() ;;
  --pg-upgrade) name="make test-pg-upgrade" minutes=${TEST_MINUTES:-10} what=(tests/pgupgrade) workers=() ;;
  --as-user)
    # Starts a cluster, installs the extension and its channel, asks through it.
    name="make test-user" minutes=${TEST_MINUTES:-15} what=(-m "not slow and not thorough" tests/clients/test_{psql,psycopg,login,upstream}.py)
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
for left_out in ${WITHOUT:-}; do what+=("--ignore=$left_out"); done
[ -z "${PYTEST_ARGS:-}" ] || eval "what+=($PYTEST_ARGS)"  # eval: so that quotes in it work (-k 'a or b')

step "$name: pytest ${what[*]} (limit: $minutes minutes)"
status=0
read -ra words < <(alone) || true
[ ${#words[@]} = 0 ] || words+=(bash -c '"$@"; exit $?' bash)  # the namespace's first process, which waits for orphans
"${words[@]}" "${as_user[@]}" timeout --foreground --signal=INT --kill-after=60 "${minutes}m" \
  "$venv/bin/python" -m pytest --timeout=400 --durations=15 --durations-min=5 "${workers[@]}" "${what[@]}" || status=$?

keep_time "$name${PYTEST_ARGS:+ of some}${WITHOUT:+ but for some}" $((SECONDS - started)) "$status" || true
on="PostgreSQL $(paths pg-version), $("$venv/bin/python" --version), $((SECONDS - started)) s${budget:+, budget $budget s on two idle cores}"
case $status in
  0) echo "$name: OK ($on)" ;;
  5) die "$name: FAILED: no test was found ($on)" ;;
  124 | 137) die "$name: FAILED: not done after $minutes minutes ($on)" ;;
  *) die "$name: FAILED ($on)" ;;
esac
