"""Where every `pillarbox` process begins: a hook on its short way, all other commands on theirs."""

import sys

_FOR_PEOPLE = ("install", "uninstall", "--help", "-h")


def main() -> None:
    """Run the command that the arguments name."""
    if sys.argv[1:2] == ["hook"] and (len(sys.argv) == 2 or sys.argv[2] not in _FOR_PEOPLE):
        from pillarbox.hooks.receiver import main as receive

        receive(sys.argv[2:])
    else:
        from pillarbox.cli.main import main as command

        command()


if __name__ == "__main__":
    main()
