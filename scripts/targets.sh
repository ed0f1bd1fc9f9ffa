#!/usr/bin/env bash
# targets.sh NAME TARGET...: make the targets one by one, each with its seconds, whatever fails; then one verdict.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

cd "$ROOT"
name=$1
shift
failed=() took=() begun=$SECONDS
for target in "$@"; do
  echo "==> make $target"
  started=$SECONDS
  make "$target" </dev/null || failed+=("$target")
  took+=("$target $((SECONDS - started)) s")
  echo "==> make $target took $((SECONDS - started)) s"
done
echo "$name: $(printf '%s; ' "${took[@]}")"
keep_time "$name" $((SECONDS - begun)) ${#failed[@]} || true
[ ${#failed[@]} = 0 ] || { echo "$name: FAILED: ${failed[*]}" && exit 1; }
echo "$name: OK"
