"""Pages for strangers, each one document: escaped, without scripts, and closed to everything outside."""

from __future__ import annotations

import hashlib
from base64 import b64encode
from html import escape

from pillarbox.api.answers import HTML, Answer

# The colours and sizes are the dashboard's.
STYLE = """
:root{color-scheme:light dark;--ink:#1b1d22;--soft:#5c6370;--line:#e4e4e0;--edge:#d2d2cc;
--paper:#f7f7f5;--card:#fff;--accent:#3451c6}
@media(prefers-color-scheme:dark){:root{--ink:#e8eaef;--soft:#9ca5b4;--line:#262b34;--edge:#39404c;
--paper:#0f1115;--card:#16191f;--accent:#93a9ff}}
*{box-sizing:border-box}
body{margin:0;background:var(--paper);color:var(--ink);font:.9375rem/1.5 system-ui,-apple-system,"Segoe UI",Roboto,sans-serif}
header,main{max-width:84rem;margin:0 auto;padding:1rem 1.25rem}
header{display:flex;gap:1rem;align-items:baseline;justify-content:space-between;border-bottom:1px solid var(--line)}
h1{font-size:1.3rem;font-weight:650;letter-spacing:-.012em;margin:0}
a{color:var(--accent)}header a{text-decoration:none}header a:hover{text-decoration:underline}.soft{color:var(--soft)}
table{width:100%;border-collapse:collapse;font-size:.875rem}
th,td{text-align:left;padding:.5rem .75rem;border-top:1px solid var(--line);vertical-align:top;overflow-wrap:break-word}
th{font-weight:550;font-size:.8125rem;color:var(--soft);border-top:0;white-space:nowrap}
.scroll{overflow-x:auto;background:var(--card);border:1px solid var(--line);border-radius:10px}
@media(max-width:46rem){thead{display:none}
table,tbody,tr,td{display:block}td{border:0;padding:.1rem .75rem;overflow-wrap:anywhere}
td:empty{display:none}
tr{border-top:1px solid var(--line);padding:.5rem 0}}
code{font:.86em ui-monospace,"SF Mono",Menlo,Consolas,monospace}
input,button{font:inherit;padding:.4rem .8rem;border:1px solid var(--edge);border-radius:7px}
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


def html_answer(title: str, body: str, *, status: int = 200, top: str = "") -> Answer:
    """A whole page; `body`, and what stands at the `top` beside the title, are HTML whose content was escaped before."""
    page = (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>{escape(title)}</title><style>{STYLE}</style></head><body>"
        f"<header><h1>{escape(title)}</h1>{top}</header><main>{body}</main></body></html>"
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
