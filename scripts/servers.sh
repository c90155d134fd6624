#!/bin/sh
# Installs the servers and programs the tests need that no Python package carries.
set -eu

need() {
    command=$1 package=$2
    command -v "$command" >/dev/null && return
    if [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null; then
        echo "Installing $package for the tests ..."
        { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq "$package"; } >/dev/null && return
    fi
    echo "The tests need $command: install the package $package (on Debian: sudo apt-get install $package)." >&2
    [ -z "${CI:-}" ] || exit 1
}

need tmux tmux
need pgbouncer pgbouncer
