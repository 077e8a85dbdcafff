#!/bin/sh
# Makes sure that there is a browser to look at pages with: chromium and its driver. Keeps what is there.
#
#   scripts/browser.sh
#
# Without one it fails: a page that nobody opened is not a tested page.
set -eu

has_browser() { command -v chromium >/dev/null 2>&1 && command -v chromedriver >/dev/null 2>&1; }

if has_browser; then exit 0; fi
# The typeface is the first choice of the page's style, so that its picture is the same everywhere.
"$(dirname "$0")/apt_install.sh" browser chromium chromium-driver fonts-inter && has_browser && exit 0
echo "browser: no chromium and chromedriver on the path; install them (Debian: chromium chromium-driver)" >&2
exit 1
