#!/usr/bin/env bash
# Run the tests in two halves side by side: those that wait for a broker or for routes that are killed, and all others.
# The first half mostly waits, so both take little longer than one. Each has one Spark session, and the first one broker.
# Its words are shown when it has ended. With arguments there is one run, with these arguments.
#   scripts/test.sh PYTHON [ARGUMENTS OF PYTEST]
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

python=$1
shift
if [ $# -gt 0 ]; then
  exec "$python" -m pytest "$@"
fi

# What is new is in the other half until it is named here.
waiting=(tests/integration tests/route tests/match)
words=$(mktemp)
trap 'rm -f "$words"' EXIT
trap 'kill "$half" 2>/dev/null; wait "$half"; exit 130' INT TERM

"$python" -m pytest -p no:cacheprovider "${waiting[@]}" >"$words" 2>&1 &
half=$!
"$python" -m pytest tests "${waiting[@]/#/--ignore=}"
others=$?
wait "$half"
first=$?
echo "test: ${waiting[*]}"
cat "$words"
exit $((others > first ? others : first))
