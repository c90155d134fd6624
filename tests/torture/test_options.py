"""What cannot be played is said before anything is started."""

import pytest

from torture.__main__ import main


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (["--nodes", "0"], "at least one process that delivers"),
        (["--every-kind", "--messages", "100"], "say how many"),
        (["--every-kind", "--minutes", "1", "--calm"], "leave one out"),
        (["--calm", "--kills", "5"], "there will never be any --kills"),
        (["--light", "--nodes", "4"], "leave out --nodes 4"),
        (["--minutes", "-1"], "--minutes -1.0: this cannot be less than nothing"),
        (["--pace", "0"], "--pace 0.0: this has to be more than nothing"),
        (["--round-messages", "0"], "--round-messages 0: this has to be more than nothing"),
    ],
)
def test_options_that_mean_nothing_are_refused_with_what_to_do(
    asked: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as refused:
        main(asked)
    assert refused.value.code == 2
    assert said in capsys.readouterr().err
