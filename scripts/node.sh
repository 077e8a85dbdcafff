#!/bin/sh
# Makes sure that there is a Node.js with npm, in which the tests start Kinesis servers: 18 or later. Keeps what is there.
#
#   scripts/node.sh
set -eu

oldest=18

has_node() {
    command -v npm >/dev/null 2>&1 && command -v node >/dev/null 2>&1 || return 1
    major=$(node --version 2>/dev/null | sed -n 's/^v\([0-9]*\)\..*/\1/p') || major=
    [ "${major:-0}" -ge "$oldest" ]
}

if has_node; then exit 0; fi
"$(dirname "$0")/apt_install.sh" node nodejs npm && has_node && exit 0
echo "node: no Node.js $oldest or later with npm on the path; install them (Debian: nodejs npm)" >&2
exit 1
