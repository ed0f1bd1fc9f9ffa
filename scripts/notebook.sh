#!/usr/bin/env bash
# `make notebook`: execute docs/notebook.ipynb against the running demo (scripts/notebook.py). What it needs
# beside `make dev` is installed first (pyproject.toml, extra `notebook`); with --packages, that is all.
# `make dev` leaves it out because no check before a landing needs it: 40 packages, half a minute in every
# clone. `make test-all` installs it before its first test.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

cd "$ROOT"
(
  flock 9  # two makes at once: the second waits, then finds all done
  extra notebook docs/notebook.ipynb
) 9>"$(paths runtime)/.lock"
[ "${1:-}" = --packages ] || exec "$(paths venv)/bin/python" scripts/notebook.py "$@"
