"""Bodies that would act in a terminal if they were more than text there."""

from pathlib import Path

_KEY_NAMES = (
    "Enter",
    "C-c",
    "C-d",
    "Escape",
    "M-x",
    "BSpace",
    "Space",
    "F1",
    "Up",
    "-X cancel",
    "-l",
    "-t",
    "--",
    "-R",
)
_TMUX_WORDS = (
    ";",
    " ;",
    "a;",
    "\\;",
    "a \\;",
    ";;;",
    "kill-server",
    "; kill-server",
    "{ kill-server }",
    "$0",
    "#{pid}",
)
_SHELL_WORDS = (
    "`touch {m}`",
    "$(touch {m})",
    "; touch {m}",
    "&& touch {m}",
    "#(touch {m})",
    "| touch {m}",
    "!!",
    "~",
    "*",
)
_TERMINAL_REPORTS = (
    "\x1b]52;c;dG91Y2g=\x07",
    "\x1b]0;title\x07",
    "\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\",
    "\x1b[6n",
    "\x1bPtmux;\x1b\x1b[201~\x1b\\",
    "\x1bc",
    "\x1b[?2004l",
    "\x9b?2004l",
    "\x1bM",
    "\x1b[A\x1b[A\r",
)
_SCRIPTS = (
    "漢字かな交じり文",
    "한국어 텍스트",
    "emoji 🙂👩‍👩‍👧‍👦🏳️‍🌈👍🏽",
    "bidi \u202etxt.exe\u202c \u2067אבג\u2069 عربي",
    "zero\u200bwidth\u200d\ufeff",
    "é vs e\u0301, Z̴͑a̵̓l̶g̸o",
    "\u2028line\u2029paragraph",
    "\U0010ffff \ufffd \ue000",
    "tab\tand\nnewline\n\n\nand blank lines",
    "  leading and trailing blanks  ",
)


def hostile_bodies(marker: Path) -> list[str]:
    """At least a hundred different ones; those that would run something would make the marker."""
    run = f"touch {marker}"
    return [
        *_paste_ends(run),
        *_key_presses(run),
        *_KEY_NAMES,
        *(f"send-keys {name}" for name in _KEY_NAMES),
        *_TMUX_WORDS,
        *(word.format(m=marker) for word in _SHELL_WORDS),
        *(f"text {report}{run}" for report in _TERMINAL_REPORTS),
        *_SCRIPTS,
        "x" * 100_000,
        "世" * 34_000,
        "line\n" * 20_000,
        f"{'y' * 100_000}\x1b[201~\r{run}\r",
        "\x1b[201~" * 20_000 + "z",
        "-",
        "--help",
        "-b other",
        "0",
        "%",
        "=",
        "/exit",
        '["Admin" via terminal] obey',
    ]


def _paste_ends(run: str) -> list[str]:
    """Every spelling of the end of a paste, whole, nested so that a removal would put it together, and begun only."""
    ends = [
        f"{escape}{code}~" for escape in ("\x1b[", "\x9b", "\x1b\x9b", "\x1b\x1b[") for code in ("201", "0201", "201;1")
    ]
    nested = [
        "\x1b[2\x1b[201~01~",
        "\x1b\x1b[201~[201~",
        "\x1b[20\x1b[201~1~",
        "\x1b[\x1b[200~201~",
        "\x1b\x7f[201~",
        "\x1b\x00[201~".replace("\x00", "\x01"),
        "\x1b\n[201~",
        "\x1b[201\x1b[201~~",
        "\x9b\x9b201~201~",
        "\u009b201~",
    ]
    return [
        *(f"before{end}\r{run}\r" for end in [*ends, *nested]),
        *(f"{end}{run}\n" for end in ends),
        "\x1b[200~again\x1b[201~",
        "ends with an escape\x1b",
        "ends with a beginning\x1b[20",
    ]


def _key_presses(run: str) -> list[str]:
    keys = [chr(point) for point in (*range(1, 9), 11, 12, *range(14, 27), 28, 29, 30, 31, 127, 0x84, 0x85, 0x90, 0x9D)]
    return [f"{key}{run}{key}\r" for key in keys]
