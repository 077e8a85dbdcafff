#!/bin/sh
# What `make run` shows: one key under every client, then who wrote two data sets, all on seeded data made here.
# The results stay in build/run.
set -eu
cd "$(dirname "$0")/.."
bin=.venv/bin
out=build/run
mkdir -p "$out"

say() { printf '\n== %s\n$ keylane %s\n' "$1" "$2"; }

"$bin/python" scripts/make_sample.py "$out"

say "Where does this key go? It depends on who writes it." "explain TT0124 --lanes 15"
"$bin/keylane" explain TT0124 --lanes 15

say "The contract: every check a file can pass without data." "check $out/payments.yaml"
"$bin/keylane" check "$out/payments.yaml"

say "A day of payments with two writers: who are they?" "identify $out/payments.parquet --key merchant_id --lane lane"
"$bin/keylane" identify "$out/payments.parquet" --key merchant_id --lane lane

say "Does that day keep its contract? (it does not: exit code 4)" "check $out/payments.yaml --data $out/payments.parquet"
"$bin/keylane" check "$out/payments.yaml" --data "$out/payments.parquet" || [ $? -eq 4 ]

say "Would refunds join with payments?" "check $out/payments.yaml $out/refunds.yaml"
"$bin/keylane" check "$out/payments.yaml" "$out/refunds.yaml" || [ $? -eq 4 ]

printf '\nThe contracts and the data are in %s: change one and ask again.\n' "$out"
