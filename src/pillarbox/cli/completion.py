"""`pillarbox completion`"""

from __future__ import annotations

import click

from pillarbox.cli.options import Command, Options
from pillarbox.cli.output import show_json

_VARIABLE = "_PILLARBOX_COMPLETE"
# A start-up file that is all one's own has not loaded the completion system of zsh yet.
_REGISTER = "    compdef "
_LOAD = "    (( $+functions[compdef] )) || { autoload -Uz compinit && compinit -i }\n"


@click.command(cls=Command, short_help="Print the script for shell completion.")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print the script by which SHELL completes our commands and options.

    In bash and zsh `source <(pillarbox completion bash)`, with its own name for zsh, turns it on; in fish
    `pillarbox completion fish | source`. Put the line into the shell's own start-up file to keep it.
    """
    from click.shell_completion import ShellComplete, get_completion_class

    kind = get_completion_class(shell)
    assert kind is not None
    script = ShellComplete.source(kind(context.find_root().command, {}, "pillarbox", _VARIABLE))
    if shell == "zsh":
        script = script.replace(_REGISTER, _LOAD + _REGISTER)
    options: Options = context.obj
    if options.json:
        return show_json({"script": script})
    click.echo(script)
