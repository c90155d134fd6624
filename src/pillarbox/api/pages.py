"""Pages for strangers, each one document: escaped, without scripts, and closed to everything outside."""

from __future__ import annotations

import hashlib
from base64 import b64encode
from html import escape

from pillarbox.api.answers import HTML, Answer

STYLE = """
:root{color-scheme:light dark;--ink:#1c2430;--soft:#5d6b7c;--line:#dde3ea;--paper:#f7f8fa;--card:#fff;--red:#b3261e}
@media(prefers-color-scheme:dark){:root{--ink:#e6eaf0;--soft:#9aa7b8;--line:#303a48;--paper:#12161c;--card:#1b212a;--red:#ff8a80}}
*{box-sizing:border-box}
body{margin:0;background:var(--paper);color:var(--ink);font:16px/1.5 system-ui,sans-serif}
header,main{max-width:84rem;margin:0 auto;padding:1rem 1.25rem}
header{display:flex;gap:1rem;align-items:baseline;border-bottom:1px solid var(--line)}
h1{font-size:1.25rem;margin:0}h2{font-size:1.05rem;margin:2rem 0 .5rem}
a{color:inherit}.soft{color:var(--soft)}.bad{color:var(--red)}
table{width:100%;border-collapse:collapse;background:var(--card);border:1px solid var(--line)}
th,td{text-align:left;padding:.45rem .7rem;border-top:1px solid var(--line);vertical-align:top;overflow-wrap:break-word}
th{font-weight:600;color:var(--soft);border-top:0}
.scroll{overflow-x:auto}th{white-space:nowrap}
@media(max-width:46rem){thead{display:none}tr,td{display:block}td{border:0;padding:.1rem .7rem}
tr{border-top:1px solid var(--line);padding:.5rem 0}}
code{font:.9em ui-monospace,monospace}
input,button{font:inherit;padding:.5rem .75rem;border:1px solid var(--line);border-radius:.4rem}
"""
_DIGEST = b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()
_POLICY = (
    f"default-src 'none'; style-src 'sha256-{_DIGEST}'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
_HEADERS = (
    (b"content-security-policy", _POLICY.encode()),
    (b"referrer-policy", b"same-origin"),
    (b"x-frame-options", b"DENY"),
    (b"cross-origin-opener-policy", b"same-origin"),
)


def html_answer(title: str, body: str, *, status: int = 200) -> Answer:
    """A whole page; `body` is HTML whose content was escaped before."""
    page = (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>{escape(title)}</title><style>{STYLE}</style></head><body>"
        f"<header><h1>{escape(title)}</h1></header><main>{body}</main></body></html>"
    )
    return Answer(status, page.encode(), HTML, _HEADERS)


def shown(text: object) -> str:
    """Foreign text, escaped and kept from turning the text around it."""
    return f"<bdi>{escape(str(text))}</bdi>"


def table(columns: list[str], rows: list[list[str]], *, empty: str) -> str:
    """A table of cells that are HTML already."""
    if not rows:
        return f'<p class="soft">{escape(empty)}</p>'
    head = "".join(f"<th>{escape(column)}</th>" for column in columns)
    lines = "".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows)
    made = f"<table><thead><tr>{head}</tr></thead><tbody>{lines}</tbody></table>"
    return f'<div class="scroll" tabindex="0" role="region" aria-label="Table">{made}</div>'
