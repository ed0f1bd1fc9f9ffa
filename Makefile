# The only front door. `make help` lists the targets; the work is in scripts/ and demo/.
SHELL := /bin/bash
.DEFAULT_GOAL := help
.PHONY: help dev sql lint check quick test pins test-thorough test-thorough-here test-all steady test-pg17 test-other test-versions test-versions-here base-other test-bare test-user test-drivers test-timescale test-pg-upgrade demo demo-stop notebook bench clean distclean

help: ## this list
	@grep -hE '^[a-z0-9-]+%?:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z0-9%-]+):.*## /\1\t/' | while IFS=$$'\t' read -r target text; do printf '  make %-12s %s\n' "$$target" "$$text"; done

dev: ## install what is missing (Debian packages, Python environments)
	@scripts/env.sh

pins: dev ## renew scripts/pins: exact versions of all Python packages, on both Debians (needs root)
	@scripts/pins.sh

sql: ## build the extension's script from sql/
	@/usr/bin/python3 scripts/build_sql.py

lint: dev sql ## ruff, mypy --strict, pgspot
	@scripts/lint.sh

check: dev ## the first minute: ruff, mypy --strict, the quick half of the pure tests
	@scripts/test.sh --check

quick: dev sql ## three minutes: check, and of every suite with servers a happy path, a refusal and a control
	@scripts/test.sh --check
	@scripts/test.sh --quick

test: dev sql ## the fast tier of the tests, on this machine's PostgreSQL (PYTEST_ARGS="tests/unit -k noise" for some of them)
	@scripts/test.sh

test-thorough: ## all else that a release has passed: the thorough tier, the other Debian, drivers, TimescaleDB, pg_upgrade
	@scripts/targets.sh "make test-thorough" test-thorough-here test-other test-pg-upgrade test-drivers test-timescale

test-thorough-here: dev sql ## the thorough tier of the tests (tests/thorough.txt), on this machine's PostgreSQL
	@scripts/test.sh --thorough

test-all: dev sql ## with the slow ones: volume, 2,000,000-run audits (PART=privacy for one folder, at most 60 minutes)
	@scripts/notebook.sh --packages
	@scripts/test.sh --all

steady: ## make test three times in clean clones, on a machine made unkind: a table of failures by test (N=8 TESTS="tests/sql")
	@scripts/steady.py

test-pg17: dev ## tests and demo on Debian 13 with PostgreSQL 17 (in a chroot, unless this is one; needs root)
	@scripts/chroot.sh trixie make test demo demo-stop

# What a server's version changes nothing of: one Debian runs these.
ONCE := tests/unit tests/privacy/test_black_box.py tests/privacy/test_decide_black_box.py

test-other: dev ## both tiers and the demo, but for what runs once, on the supported Debian that this is not (scripts/paths.py supported)
	@scripts/chroot.sh "$$(scripts/paths.py other-release)" make test test-thorough-here demo demo-stop "WITHOUT=$(ONCE)"

test-versions: dev ## what a server's version may change (tests/versions.txt), on that other Debian: 3 minutes, a few more the first time
	@scripts/chroot.sh "$$(scripts/paths.py other-release)" make test-versions-here

test-versions-here: dev sql
	@scripts/test.sh --versions

base-other: dev ## download what test-versions and test-other need: a base tree of the other Debian in /var/cache/pg_epsilon (needs root)
	@scripts/chroot.sh --base "$$(scripts/paths.py other-release)"

test-pg-upgrade: dev ## pg_upgrade from PostgreSQL 15 to 17, in a chroot with Debian 13 and Debian 12's server (needs root)
	@scripts/chroot.sh --always trixie scripts/pg_upgrade.sh

test-bare: dev ## make test and make demo on a bare Debian 12, in a chroot (needs root)
	@scripts/chroot.sh --bare bookworm make test demo demo-stop

test-user: dev sql ## a few tests as an ordinary user, who cannot become postgres (needs root, to stop being it)
	@scripts/test.sh --as-user

test-drivers: dev sql ## real drivers: JDBC, ODBC, SQLAlchemy, node, pgcli, pgAdmin (installs them first)
	@scripts/drivers.sh
	@scripts/test.sh --drivers

test-timescale: ## hypertables of a real TimescaleDB, on Debian 13 (in a chroot, unless this is one; needs root)
	@scripts/chroot.sh trixie bash -c 'scripts/env.sh && scripts/env.sh "postgresql-$$(scripts/paths.py pg-version)-timescaledb" && make sql && scripts/test.sh --timescale'

demo: dev sql ## real data, three analysts, a guided psql session through the proxy
	@/usr/bin/python3 demo/demo.py start

demo-stop: ## stop what `make demo` started
	@/usr/bin/python3 demo/demo.py stop

notebook: demo ## start the demo afresh, execute docs/notebook.ipynb against it, keep the outputs in the file
	@scripts/notebook.sh

bench: ## all benchmarks (tables, and build/bench/*.json); make bench-NAME runs one, for example bench-core
	@for file in tests/benchmarks/bench_*.py; do name=$${file##*/bench_}; $(MAKE) --no-print-directory bench-$${name%.py} || exit 1; done

bench-%: dev sql
	@[ $* != proxy ] || scripts/env.sh pgbouncer
	@[ $* != ledger ] || scripts/env.sh rsync
	@"$$(scripts/paths.py venv)/bin/python" tests/benchmarks/bench_$*.py

clean: ## remove what was built (not the Python environment, not the demo)
	@rm -rf build .mypy_cache .ruff_cache

distclean: demo-stop clean ## remove all that make ever made in this checkout: demo, Python environments (not the bases in /var/cache/pg_epsilon)
	@rm -rf --one-file-system "$$(scripts/paths.py runtime)" "$$(scripts/paths.py venv)" .venv-pgspot .venv-drivers
