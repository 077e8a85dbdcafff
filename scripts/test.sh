#!/usr/bin/env bash
# Run the tests in parts side by side, each a pytest of its own. What a part says is shown when it has ended, and one line
# for each at the end. Ends with 1 if one of them fails.
#   scripts/test.sh PYTHON all [MORE ARGUMENTS]   two parts with Spark, in one session each, and two without it
#   scripts/test.sh PYTHON fast [MORE ARGUMENTS]  what starts no Java, no broker and no browser
#   scripts/test.sh PYTHON ARGUMENTS              one pytest with these arguments
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

python=$1
shift
# Tests start many processes, and each would compile keylane anew.
unset PYTHONDONTWRITEBYTECODE
words=$(mktemp -d)
trap 'rm -rf "$words"' EXIT
trap 'kill $(jobs -p) 2>/dev/null; wait; exit 130' INT TERM
names=()
pids=()

part() {
  local name=$1
  shift
  "$python" -m pytest -p no:cacheprovider "$@" >"$words/$name" 2>&1 &
  pids+=($!)
  names+=("$name")
}

case "${1-}" in
  all)
    shift
    # Which test is in which: tests/needs.py.
    for name in routes spark servers plain; do
      part "$name" --part="$name" "$@"
    done
    ;;
  fast)
    shift
    # About as long, one as the other: the commands start processes.
    ignored=()
    for path in tests/unit/*; do
      [ "$path" = tests/unit/cli ] || ignored+=("--ignore=$path")
    done
    part unit tests/unit --ignore=tests/unit/cli --fast "$@"
    part other tests "${ignored[@]}" --fast "$@"
    ;;
  *)
    exec "$python" -m pytest "$@"
    ;;
esac

worst=0
for at in "${!pids[@]}"; do
  wait "${pids[$at]}" || worst=1
  echo "test: part ${names[$at]}"
  cat "$words/${names[$at]}"
done
for name in "${names[@]}"; do
  printf 'test: %-7s %s\n' "$name" "$(tail -n 1 "$words/$name")"
done
exit "$worst"
