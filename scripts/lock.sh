#!/bin/sh
# Pins every requirement with its hashes, for all platforms, naming no package index.
set -eu
cd "$(dirname "$0")/.."

compile() {
    .venv/bin/uv pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes \
        --no-header --no-annotate --no-emit-index-url "$@"
}

compile pyproject.toml --extra discord --extra mongo --extra otel --extra rabbitmq --extra redis --group dev --output-file requirements/dev.txt
compile pyproject.toml --constraint requirements/dev.txt --output-file requirements/run.txt
compile --constraint requirements/dev.txt --group bench --output-file requirements/bench.txt
compile --group peers --output-file requirements/peers.txt
compile --group peers-arq --output-file requirements/peers-arq.txt
