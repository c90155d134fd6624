"""What cannot be played is said before anything is started."""

import pytest

from torture.__main__ import main


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (["--nodes", "0"], "at least one process that delivers"),
        (["--every-kind", "--messages", "100"], "say how many"),
        (["--every-kind", "--minutes", "1", "--calm"], "leave one out"),
    ],
)
def test_options_that_mean_nothing_are_refused_with_what_to_do(
    asked: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as refused:
        main(asked)
    assert refused.value.code == 2
    assert said in capsys.readouterr().err
