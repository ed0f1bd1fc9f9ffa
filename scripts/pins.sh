#!/usr/bin/env bash
# `make pins`: renew scripts/pins/*.txt, the exact versions of all Python packages that the tests use, on both supported
# Debians: what pip takes today, in fresh environments, without constraints. scripts/pins.py merges the two Pythons.
#
# pins.sh --freeze FOLDER: only this machine's Python, as FOLDER/NAME-3.11.txt.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

cd "$ROOT"

# freeze FOLDER NAME REQUIREMENT...: what an environment with these requirements holds. setuptools and wheel are what
# pip's isolated builds download besides.
freeze() {
  local venv python
  venv=$(mktemp -d)
  python=$venv/bin/python
  step "asking pip for ${*:3}"
  "$SYSTEM_PYTHON" -m venv "$venv"
  PIP_CONSTRAINT='' retry limited "$python" -m pip install -qq --disable-pip-version-check --upgrade setuptools wheel "${@:3}" ||
    die "pip could not install ${*:3}" "Its message is above; then run this again."
  "$python" -m pip freeze --all --exclude pip --exclude pg-epsilon \
    >"$1/$2-$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])').txt"
  rm -rf "$venv"
}

freeze_all() { # FOLDER
  local name words
  freeze "$1" dev -e ".[dev,drivers,notebook]"
  for name in "${!PROGRAMS[@]}"; do
    read -ra words <<<"${PROGRAMS[$name]}"
    freeze "$1" "$name" "${words[@]}"
  done
}

if [ "${1:-}" = --freeze ]; then
  mkdir -p "$2"
  freeze_all "$2"
  exit
fi

found=$(mktemp -d)
trap 'rm -rf "$found"' EXIT
freeze_all "$found"
# It comes out of the chroot by its standard output, because nothing else of a chroot stays.
scripts/chroot.sh "$(paths other-release)" bash -c 'scripts/pins.sh --freeze /tmp/pins >&2 && grep -r "" /tmp/pins' |
  sed -n 's,^/tmp/pins/\([^:]*\):,\1 ,p' | while read -r file line; do echo "$line" >>"$found/$file"; done
"$SYSTEM_PYTHON" scripts/pins.py "$found" scripts/pins
step "renewed: scripts/pins. What has changed is in git diff; make test shows whether it can stay"
