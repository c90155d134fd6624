#!/bin/sh
# Runs the static checks, and with `all` the tests after them; stops at the first that fails.
set -eu
cd "$(dirname "$0")/.."

step() {
    title=$1
    shift
    printf '==> %s\n' "$title"
    started=$(date +%s)
    "$@"
    printf '    done in %s s\n' "$(($(date +%s) - started))"
}

step "format" .venv/bin/ruff format --check --quiet .
step "lint" .venv/bin/ruff check --quiet .
step "types (the first run takes a minute)" .venv/bin/mypy
step "import rules" .venv/bin/lint-imports --no-cache
[ "$1" = all ] || exit 0
step "servers" scripts/servers.sh
# One worker more than there are processors: tests of real processes mostly wait. Neighbours stay together, and share what
# was set up for them, until a worker has nothing left to do.
step "tests (real databases and processes: this is the long one)" .venv/bin/pytest -q -n "$(($(getconf _NPROCESSORS_ONLN) + 1))" --dist worksteal -m "not long" --durations=25
