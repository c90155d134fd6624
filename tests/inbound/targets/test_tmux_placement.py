import socket
from typing import Any

import pytest

from pillarbox.errors import InvalidInput
from pillarbox.inbound.targets.placement import Placement, TmuxTarget, place, read_target


def tmux(**fields: Any) -> dict[str, Any]:
    return {"kind": "tmux", "name": "agent", **fields}


@pytest.mark.parametrize(
    ("target", "node", "here", "placement"),
    [
        (tmux(), "n1", "n2", Placement("tmux:n1:default", "node:n1")),
        (tmux(), None, "n2", Placement("tmux:n2:default", "node:n2")),
        (tmux(socket="work"), "n1", None, Placement("tmux:n1:work", "node:n1")),
        (tmux(socket="/run/t.sock"), "n1", None, Placement("tmux:n1:/run/t.sock", "node:n1")),
        (
            tmux(),
            None,
            None,
            Placement(f"tmux:{socket.gethostname()}:default", f"node:{socket.gethostname()}"),
        ),
    ],
)
def test_a_terminal_is_served_by_its_own_machine_alone(
    target: dict[str, Any], node: str | None, here: str | None, placement: Placement
) -> None:
    assert place(target, node, here=here) == placement


def test_what_is_not_said_is_the_safe_choice() -> None:
    assert read_target(tmux()) == TmuxTarget(name="agent", socket=None, paste="auto", envelope=True)


@pytest.mark.parametrize(
    ("target", "field"),
    [
        ({"kind": "tmux"}, "target.name"),
        (tmux(name=""), "target.name"),
        (tmux(name="$1"), "target.name"),
        (tmux(name="a\nb"), "target.name"),
        (tmux(name="a\x1bb"), "target.name"),
        (tmux(name="x" * 201), "target.name"),
        (tmux(name=7), "target.name"),
        (tmux(socket=""), "target.socket"),
        (tmux(socket="../x"), "target.socket"),
        (tmux(socket="a/b"), "target.socket"),
        (tmux(socket="-f"), "target.socket"),
        (tmux(socket=".."), "target.socket"),
        (tmux(socket="/" + "x" * 100), "target.socket"),
        (tmux(socket="/a\nb"), "target.socket"),
        (tmux(paste="keys"), "target.paste"),
        (tmux(envelope="yes"), "target.envelope"),
        (tmux(pane="%1"), "target.pane"),
    ],
    ids=repr,
)
def test_a_wrong_target_is_refused_by_the_name_of_its_field(target: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidInput) as refusal:
        read_target(target)
    assert refusal.value.field == field
