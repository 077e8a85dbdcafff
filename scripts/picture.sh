#!/bin/sh
# Takes the picture that the README shows: the upper part of the demo's page, in a headless browser.
#
#   scripts/picture.sh PAGE PICTURE
set -eu

page=${1:?usage: scripts/picture.sh PAGE PICTURE}
picture=${2:?usage: scripts/picture.sh PAGE PICTURE}

command -v chromium >/dev/null 2>&1 || { echo "picture: no chromium here; see scripts/browser.sh" >&2; exit 1; }
[ -f "$page" ] || { echo "picture: no page $page; 'make run' makes it" >&2; exit 1; }
mkdir -p "$(dirname "$picture")"
# The sandbox is for pages of strangers; a container's root has none.
log=$(mktemp)
chromium --headless --no-sandbox --disable-gpu --hide-scrollbars --blink-settings=preferredColorScheme=1 \
    --window-size=1280,1470 --virtual-time-budget=5000 \
    --screenshot="$picture" "file://$(realpath "$page")" >"$log" 2>&1 || { cat "$log" >&2; exit 1; }
rm -f "$log"
echo "picture: $picture"
