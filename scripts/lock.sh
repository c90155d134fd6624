#!/bin/sh
# Pins every requirement with its hashes, for all platforms, naming no package index.
set -eu
cd "$(dirname "$0")/.."

compile() {
    .venv/bin/uv pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes \
        --no-header --no-annotate --no-emit-index-url "$@"
}

compile pyproject.toml --output-file requirements/run.txt
compile pyproject.toml --constraint requirements/run.txt --all-extras --group dev --output-file requirements/dev.txt
compile --constraint requirements/dev.txt --group bench --output-file requirements/bench.txt
