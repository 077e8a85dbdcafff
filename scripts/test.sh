#!/usr/bin/env bash
# Run the tests in parts side by side, each a pytest of its own. What a part says is shown when it has ended, and one line
# for each at the end. Ends with 1 if one of them fails.
#   scripts/test.sh PYTHON all [MORE ARGUMENTS]   the parts with Spark, in one session each, and the part without it
#   scripts/test.sh PYTHON fast [MORE ARGUMENTS]  what starts no Java, no broker and no browser
#   scripts/test.sh PYTHON ARGUMENTS              one pytest with these arguments
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

python=$1
shift
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
    # By what a test needs (tests/conftest.py), so that a new folder is in the right part without being named here.
    # The tests of match go with those of Kafka, so that the two parts with Spark take about as long.
    part kafka tests/integration tests/match "$@"
    part spark tests --ignore=tests/integration --ignore=tests/match -m "not faults and jvm" "$@"
    part plain tests --ignore=tests/integration --ignore=tests/match -m "not faults and not jvm" "$@"
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
  printf 'test: %-6s %s\n' "$name" "$(tail -n 1 "$words/$name")"
done
exit "$worst"
