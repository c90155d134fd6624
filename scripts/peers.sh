#!/bin/sh
# Makes the environments of the queues that `make bench` measures us beside, with the newest Python there is.
set -eu
cd "$(dirname "$0")/.."

python=.venv/bin/python
for candidate in python3.14 python3.13 python3.12; do
    if "$candidate" -c 'import venv' 2>/dev/null; then
        python=$candidate
        break
    fi
done

for name in peers peers-arq; do
    echo "Installing requirements/$name.txt into .venv/$name ..." >&2
    rm -rf ".venv/$name"
    if [ -x .venv/bin/uv ]; then
        .venv/bin/uv venv --quiet --python "$python" ".venv/$name"
        .venv/bin/uv pip install --quiet --python ".venv/$name/bin/python" --require-hashes -r "requirements/$name.txt"
    else
        "$python" -m venv ".venv/$name"
        ".venv/$name/bin/python" -m pip install --quiet --require-hashes -r "requirements/$name.txt"
    fi
done
touch .venv/peers.stamp
