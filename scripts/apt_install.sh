#!/bin/sh
# Installs Debian packages by apt-get, as root or by a sudo that asks nothing; says why when it cannot.
#
#   scripts/apt_install.sh WHO PACKAGE...        WHO begins each line it prints
set -eu

who=${1:?usage: scripts/apt_install.sh WHO PACKAGE...}
shift

fail() { printf '%s: %s\n' "$who" "$*" >&2; exit 1; }

command -v apt-get >/dev/null 2>&1 || fail "no apt-get here to install $*"
if [ "$(id -u)" = 0 ]; then
    as_root=
elif sudo -n true >/dev/null 2>&1; then
    as_root="sudo -n"
else
    fail "no right to install $* (neither root, nor sudo without a password)"
fi

apt="$as_root env DEBIAN_FRONTEND=noninteractive apt-get -y -qq"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
printf '%s: installing %s by apt-get\n' "$who" "$*"
# A fresh image has empty package lists: hence update, and once more.
$apt install --no-install-recommends "$@" >"$log" 2>&1 && exit 0
{ $apt update && $apt install --no-install-recommends "$@"; } >>"$log" 2>&1 && exit 0
tail -n 5 "$log" >&2
fail "apt-get could not install $*; its last words are above"
