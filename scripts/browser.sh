#!/bin/sh
# Makes sure that the tests of pages have a browser: Debian's chromium with its driver. Keeps what is there.
#
#   scripts/browser.sh
#
# Without apt-get or the right to use it, it says so and ends well: those tests are then skipped, and say why.
set -eu

packages="chromium chromium-driver fonts-inter"

say() { printf 'browser: %s\n' "$*"; }

if command -v chromium >/dev/null 2>&1 && command -v chromedriver >/dev/null 2>&1; then
    exit 0
fi
by_hand="install chromium and chromedriver by hand to run the tests of pages, or go without: they are skipped"
if ! command -v apt-get >/dev/null 2>&1; then
    say "no chromium here, and no apt-get to install it; $by_hand"
    exit 0
fi
if [ "$(id -u)" = 0 ]; then
    as_root=
elif sudo -n true >/dev/null 2>&1; then
    as_root="sudo -n"
else
    say "no chromium here, and no right to install it (sudo apt-get install $packages); $by_hand"
    exit 0
fi
apt="$as_root env DEBIAN_FRONTEND=noninteractive apt-get -y -qq"
say "installing $packages by apt-get"
# shellcheck disable=SC2086  # words are meant to split
# A fresh image has empty package lists: hence update, and once more.
$apt install --no-install-recommends $packages >/dev/null 2>&1 ||
    { $apt update && $apt install --no-install-recommends $packages; } >/dev/null 2>&1 ||
    say "apt-get could not install $packages; $by_hand"
