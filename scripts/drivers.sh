#!/usr/bin/env bash
# What `make test-drivers` needs beside `make dev`, on a bare Debian 12 or 13: Debian packages, Python packages of the
# tests in the project's environment (pyproject.toml, extra `drivers`), and clients that are programs of their own, with
# dependencies of their own, each in an environment under .venv-drivers. Safe to repeat: a second when nothing is missing.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

packages() {
  need openssl
  need libpostgresql-jdbc-java odbc-postgresql libodbc2
  command -v javac >/dev/null || need default-jdk-headless
  command -v npm >/dev/null || need nodejs npm
  need chromium chromium-driver
}

# node-pg, pg-cursor, postgres.js: exactly what the lock file names.
modules() {
  local folder=$ROOT/tests/drivers/node stamp wanted
  stamp=$folder/node_modules/.requirements
  wanted=$(sha256sum <"$folder/package-lock.json")
  [ -e "$stamp" ] && [ "$(cat "$stamp")" = "$wanted" ] && return 0
  step "installing the npm packages of the driver tests"
  (cd "$folder" && retry limited npm ci --silent --ignore-scripts --no-audit --no-fund) ||
    die "npm could not install the packages of tests/drivers/node" "Its message is above; then run this again."
  printf '%s\n' "$wanted" >"$stamp"
}

cd "$ROOT"
packages
exec 9>"$(paths runtime)/.lock" && flock 9  # two makes at once: the second waits, then finds all done
extra drivers "the driver tests"
for name in pgcli pgadmin; do
  program "$name" "$ROOT/.venv-drivers/$name" || die "pip could not install $name" "Its message is above; then run this again."
done
modules
step "ready: drivers"
