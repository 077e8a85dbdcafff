#!/bin/sh
# What `make run` shows: one key under every client; a whole day routed on Spark, before and after; and what a check
# says of both. Ends with the address of a page to look at. Everything stays in build/demo.
set -eu
cd "$(dirname "$0")/.."
keylane=.venv/bin/keylane
out=build/demo

say() { printf '\n== %s\n$ keylane %s\n' "$1" "$2"; }

say "Where does this key go? It depends on who writes it." "explain TT0124 --lanes 15"
"$keylane" explain TT0124 --lanes 15

say "A whole day of records, routed before and after" "demo --to $out"
"$keylane" demo --to "$out"

say "Does the day keep the contract it had? (no: exit code 4)" \
    "check $out/contracts/payments-naive.yaml --data $out/source/payments"
"$keylane" check "$out/contracts/payments-naive.yaml" --data "$out/source/payments" || [ $? -eq 4 ]

say "And the better one?" "check $out/contracts/payments-spread.yaml --data $out/source/payments"
"$keylane" check "$out/contracts/payments-spread.yaml" --data "$out/source/payments"

printf '\nLook at it: file://%s/%s/index.html\n' "$PWD" "$out"
