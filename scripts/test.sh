#!/usr/bin/env bash
# Run the tests in three parts side by side: two that wait for a broker or for what is killed and started again, and all
# others. Each has one Spark session, and the first one broker. What the waiting parts say is shown when they have ended.
# With arguments there is one run, with these arguments.
#   scripts/test.sh PYTHON [ARGUMENTS OF PYTEST]
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

python=$1
shift
if [ $# -gt 0 ]; then
  exec "$python" -m pytest "$@"
fi

# A folder that is new is among the others until it is named here.
first=(tests/integration)
second=(tests/route tests/match)
words=$(mktemp -d)
trap 'rm -rf "$words"' EXIT
trap 'kill $(jobs -p) 2>/dev/null; wait; exit 130' INT TERM

"$python" -m pytest -p no:cacheprovider "${first[@]}" >"$words/first" 2>&1 &
first_run=$!
"$python" -m pytest -p no:cacheprovider "${second[@]}" >"$words/second" 2>&1 &
second_run=$!
"$python" -m pytest tests "${first[@]/#/--ignore=}" "${second[@]/#/--ignore=}"
worst=$?

wait "$second_run" || worst=1
echo "test: ${second[*]}"
cat "$words/second"
wait "$first_run" || worst=1
echo "test: ${first[*]}"
cat "$words/first"
exit "$worst"
