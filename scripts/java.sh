#!/bin/sh
# Makes sure that there is a Java for Spark: 17 or later. Keeps what is there, and says which.
#
#   scripts/java.sh [FOLDER]        FOLDER holds the system's Javas; default /usr/lib/jvm
#
# Looks where src/keylane/spark/java.py looks when Spark starts: JAVA_HOME, the path, the system's folder.
set -eu

oldest=17
folder=${1:-/usr/lib/jvm}

# As the file beside the binary tells it, or else the binary itself; nothing where neither does.
version() {
    told=$(sed -n 's/^JAVA_VERSION="\(.*\)"/\1/p' "$1/release" 2>/dev/null) || told=
    [ -n "$told" ] || told=$("$1/bin/java" -version 2>&1 | sed -n 's/.*version "\([^"]*\)".*/\1/p') || told=
    printf '%s' "$told"
}

# 17 of 17.0.15, and 8 of 1.8.0_412.
major() { version "$1" | sed 's/^1\.//; s/[^0-9].*//'; }

is_new_enough() { [ -x "$1/bin/java" ] && [ "$(major "$1" | grep . || echo 0)" -ge "$oldest" ]; }

homes() {
    printf '%s\n' "${JAVA_HOME:-}"
    on_path=$(command -v java) && dirname "$(dirname "$(readlink -f "$on_path")")"
    for home in "$folder"/*; do printf '%s\n' "$home"; done
}

found() {
    homes | while read -r home; do
        if [ -n "$home" ] && is_new_enough "$home"; then
            printf 'java: Java %s in %s\n' "$(version "$home")" "$home"
            break
        fi
    done | grep .
}

if found; then exit 0; fi
# What Spark was tried on; where a system no longer has it, what it has.
for package in openjdk-17-jre-headless default-jre-headless; do
    if "$(dirname "$0")/apt_install.sh" java "$package" && found; then exit 0; fi
done
echo "java: Spark needs Java $oldest or later; install one (Debian: openjdk-17-jre-headless), or set JAVA_HOME" >&2
exit 1
