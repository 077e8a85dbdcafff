#!/bin/sh
# Makes the virtual environment that `make` works in, or keeps the one that is there and works.
#
#   scripts/venv.sh FOLDER
#
# Takes the newest Python that really runs, is new enough and can make environments. A name on the path proves
# nothing: version managers leave stubs there which only print an error. Set PYTHON to choose one yourself.
set -eu

folder=${1:?usage: scripts/venv.sh FOLDER}

say() { printf 'venv: %s\n' "$*"; }
fail() { printf 'venv: %s\n' "$*" >&2; exit 1; }

is_new_enough() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; }
can_make_venv() { "$1" -c 'import ensurepip, venv' >/dev/null 2>&1; }
has_pip() { "$1" -m pip --version >/dev/null 2>&1; }
version() { "$1" -c 'import platform; print(platform.python_version())'; }

# Debian ships ensurepip apart from Python, in python3.N-venv.
add_debian_venv() {
    command -v apt-get >/dev/null 2>&1 || return 1
    if [ "$(id -u)" = 0 ]; then as_root=; else as_root="sudo -n"; fi
    apt="$as_root env DEBIAN_FRONTEND=noninteractive apt-get -y -qq"
    package=$("$1" -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])')
    say "$1 cannot make environments yet: installing $package by apt-get"
    for name in "$package" python3-venv; do
        # A fresh image has empty package lists: hence update, and once more.
        $apt install "$name" >/dev/null 2>&1 ||
            { $apt update && $apt install "$name"; } >/dev/null 2>&1 ||
            continue
        if can_make_venv "$1"; then return 0; fi
    done
    return 1
}

if is_new_enough "$folder/bin/python" && has_pip "$folder/bin/python"; then
    say "keeping $folder (Python $(version "$folder/bin/python"))"
    exit 0
fi

python=
without_venv=
candidates=${PYTHON:-python3.13 python3.12 python3.11 python3}
for candidate in $candidates; do
    is_new_enough "$candidate" || continue
    if can_make_venv "$candidate"; then
        python=$candidate
        break
    fi
    without_venv=${without_venv:-$candidate}
done

if [ -z "$python" ] && [ -n "$without_venv" ]; then
    add_debian_venv "$without_venv" ||
        fail "$without_venv has no ensurepip; on Debian and Ubuntu run: sudo apt-get install python3-venv"
    python=$without_venv
fi
if [ -z "$python" ]; then
    fail "no Python 3.11 or later runs here (tried: $candidates); install one, or name it: make venv PYTHON=python3.12"
fi

say "making $folder with $python (Python $(version "$python"))"
"$python" -m venv --clear "$folder" || fail "'$python -m venv $folder' failed; its own message is above"
