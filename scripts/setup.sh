#!/bin/sh
# Makes .venv with the pinned requirements and this package: setup.sh run|dev|bench
set -eu
cd "$(dirname "$0")/.."
which=$1

say() { printf '%s\n' "$*" >&2; }
fail() { say "$*"; exit 1; }

choose_python() {
    for candidate in python3 python3.13 python3.12 python3.11; do
        if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            echo "$candidate"
            return
        fi
    done
    fail "Pillarbox needs Python 3.11 or newer, and none was found: install it (on Debian: apt-get install python3 python3-venv) and try again."
}

make_venv() {
    rm -rf .venv
    "$python" -m venv .venv >/dev/null 2>&1 && return
    package="$python-venv"
    if [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null; then
        say "Installing $package, which $python needs to make an environment ..."
        { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq "$package"; } >/dev/null ||
            fail "Could not install $package: install it and try again."
        rm -rf .venv
        "$python" -m venv .venv && return
    fi
    rm -rf .venv
    fail "$python cannot make an environment: install $package (on Debian: sudo apt-get install $package) and try again."
}

install() {
    if [ -x .venv/bin/uv ]; then
        .venv/bin/uv pip install --quiet --python .venv/bin/python "$@"
    else
        .venv/bin/python -m pip install --quiet --disable-pip-version-check "$@"
    fi
}

python=$(choose_python)
.venv/bin/python -m pip --version >/dev/null 2>&1 || make_venv
[ -x .venv/bin/uv ] || .venv/bin/python -m pip install --quiet --disable-pip-version-check uv ||
    say "uv is not available here; pip does the same more slowly."

say "Installing requirements/$which.txt into .venv ..."
install --require-hashes -r "requirements/$which.txt"
install --no-deps --editable .

touch .venv/run.stamp
[ "$which" = run ] || touch ".venv/$which.stamp"
