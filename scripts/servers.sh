#!/bin/sh
# Installs the servers and programs the tests need that no Python package carries.
set -eu

# Servers lie where only root's PATH leads.
PATH=$PATH:/usr/sbin
policy=/usr/sbin/policy-rc.d

install() {
    # Debian starts a server's service as it installs it; the tests start their own, so nothing may be left running.
    if [ ! -e "$policy" ]; then
        trap 'rm -f "$policy"' EXIT
        printf '#!/bin/sh\nexit 101\n' >"$policy"
        chmod 755 "$policy"
    fi
    { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq "$1"; } >/dev/null
}

need() {
    command=$1 package=$2
    command -v "$command" >/dev/null && return
    if [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null; then
        echo "Installing $package for the tests ..."
        install "$package" && return
    fi
    echo "The tests need $command: install the package $package (on Debian: sudo apt-get install $package)." >&2
    [ -z "${CI:-}" ] || exit 1
}

need tmux tmux
need pgbouncer pgbouncer
need rabbitmq-server rabbitmq-server
need chromium chromium
need strace strace
need promtool prometheus
need locale-gen locales
