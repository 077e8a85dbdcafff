#!/bin/sh
# What `make run` shows, all on seeded data made here: one key under every client, who wrote a data set and whether it
# keeps its contract; then the demo, which ends with a page to look at. The results stay in build/run.
set -eu
cd "$(dirname "$0")/.."
bin=.venv/bin
out=build/run
mkdir -p "$out"

say() { printf '\n== %s\n$ keylane %s\n' "$1" "$2"; }

"$bin/python" scripts/make_sample.py "$out"

say "Where does this key go? It depends on who writes it." "explain TT0124 --lanes 15"
"$bin/keylane" explain TT0124 --lanes 15

say "A day of payments with two writers: who are they?" "identify $out/payments.parquet --key merchant_id --lane lane"
"$bin/keylane" identify "$out/payments.parquet" --key merchant_id --lane lane

say "Does that day keep its contract? (it does not: exit code 4)" "check $out/payments.yaml --data $out/payments.parquet"
"$bin/keylane" check "$out/payments.yaml" --data "$out/payments.parquet" || [ $? -eq 4 ]

say "Would refunds join with payments?" "check $out/payments.yaml $out/refunds.yaml"
"$bin/keylane" check "$out/payments.yaml" "$out/refunds.yaml" || [ $? -eq 4 ]

if ! command -v java >/dev/null 2>&1 && [ -z "${JAVA_HOME:-}" ]; then
    printf '\nThe demo runs on Spark, which needs Java 17 or later; there is none here.\n' >&2
    printf 'On Debian and Ubuntu: sudo apt-get install openjdk-17-jre-headless\n' >&2
    exit 1
fi

say "A whole day, routed before and after" "demo --to $out/demo"
"$bin/keylane" demo --to "$out/demo"

printf '\nThe contracts and the data are in %s: change one and ask again.\n' "$out"
