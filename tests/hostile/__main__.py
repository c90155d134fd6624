"""Every room attacked from the command line, and counted: `python -m tests.hostile --result docs/results/hostile.json`."""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mutants.stopping import run
from mutants.tree import is_changed
from pillarbox.api.routes import ENDPOINTS
from tests.hostile.assault import Tally, assault, room_of
from tests.hostile.stand import open_stand
from tests.servers.postgres import Postgres, PostgresServer
from torture.result import commit, machine, write

SEED = 20260101
SHARE = 0.45


async def attack_room(room: str, place: Path, server: Postgres, *, seed: int, share: float) -> Tally:
    """One room on two databases of its own."""
    endpoints = [endpoint for endpoint in ENDPOINTS if room_of(endpoint) == room]
    name = room.replace("-", "_")
    async with open_stand(f"sqlite:///{place / name}.db") as one, open_stand(server.create_database(name)) as other:
        return await assault(one, other, endpoints, seed=seed, share=share)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.hostile", description=__doc__)
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument(
        "--share",
        type=float,
        default=SHARE,
        help="of the requests there are, those with a spoilt field counting a quarter; 4 is all",
    )
    parser.add_argument("--room", action="append", help="only this part of the API")
    parser.add_argument("--result", type=Path, help="where to write the figures; only where the tree is its commit")
    options = parser.parse_args(arguments)
    if options.result is not None and is_changed():
        parser.error(f"{options.result} is left as it was: what would be tried is not what is committed")
    known = sorted({room_of(endpoint) for endpoint in ENDPOINTS})
    if unknown := sorted(set(options.room or ()) - set(known)):
        parser.error(f"--room {unknown[0]}: there is no such part; those are {', '.join(known)}")
    counted, failed = dict[str, Tally](), list[str]()
    rooms = options.room or known
    with tempfile.TemporaryDirectory(prefix="pillarbox-hostile-") as folder, asyncio.Runner() as runner:
        # An interrupt while a loop is being made leaves half of one, which complains.
        runner.get_loop()
        place = Path(folder)
        place.chmod(0o755)
        server = PostgresServer(place / "postgres")
        try:
            server.start()
            print(f"{len(rooms)} parts of the API, one after another", flush=True)
            for room in rooms:
                try:
                    attack = attack_room(room, place, Postgres(server.url), seed=options.seed, share=options.share)
                    counted[room] = runner.run(attack)
                    print(f"{room}: {counted[room].inputs:,} inputs, {dict(counted[room].answers)}", flush=True)
                except Exception:
                    traceback.print_exc()
                    failed.append(room)
        finally:
            if server.running:
                server.stop("immediate")
    result = summary(counted, failed, options)
    print(f"{result['inputs']:,} distinct inputs; rooms that failed: {failed or 'none'}")
    if options.result is not None:
        write(result, options.result)
    return 1 if failed else 0


def summary(counted: dict[str, Tally], failed: list[str], options: argparse.Namespace) -> dict[str, Any]:
    """What was sent and how it was answered, with what it takes to do it again."""
    total = Tally()
    for tally in counted.values():
        total.add(tally)
    return {
        "command": " ".join(
            [f"python -m tests.hostile --seed {options.seed} --share {options.share}"]
            + [f"--room {room}" for room in options.room or ()]
        ),
        "seed": options.seed,
        "commit": commit(),
        "machine": machine(),
        "inputs": total.inputs,
        "signed in": total.signed_in,
        "answers": dict(sorted(total.answers.items())),
        "rooms": {room: tally.inputs for room, tally in counted.items()},
        "failed": failed,
    }


if __name__ == "__main__":
    sys.exit(run(main))
