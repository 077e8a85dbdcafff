"""HTML from values, with text escaped, and the shell of a page: styles, script and data in one file, no requests."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import tomllib
from functools import cache
from importlib.resources import files
from string import Template
from typing import Any, TypeAlias

_VOID = frozenset({"br", "circle", "hr", "img", "input", "line", "meta", "path", "rect", "stop"})


class Markup(str):
    """Text that is HTML already."""

    __slots__ = ()


Child: TypeAlias = str | int | None


def tag(name: str, /, *children: Child, **attributes: Child | bool) -> Markup:
    """An element. A child that is not Markup is escaped; `class_` is class, `data_case` is data-case, None is left out.

    >>> tag("td", "a < b", class_="n")
    '<td class="n">a &lt; b</td>'
    """
    opened = f"<{name}{''.join(_attribute(key, value) for key, value in attributes.items())}"
    return Markup(f"{opened}/>" if name in _VOID else f"{opened}>{join(*children)}</{name}>")


def join(*children: Child) -> Markup:
    """Children in a row, escaped where they must be."""
    return Markup("".join(_escaped(child) for child in children if child is not None))


def _escaped(child: str | int) -> str:
    return child if isinstance(child, Markup) else html.escape(str(child))


def _attribute(key: str, value: Child | bool) -> str:
    if value is None or value is False:
        return ""
    name = key.rstrip("_").replace("_", "-")
    return f" {name}" if value is True else f' {name}="{html.escape(str(value))}"'


# One HTML file with everything in it: styles, script and data; its policy forbids the browser every request.


def page(
    title: str,
    body: Markup,
    data: Any,
    assets: str,
    styles: tuple[str, ...] = (),
    scripts: tuple[str, ...] = (),
) -> str:
    """The file's text. `assets` names its style and script; `data` is what the script finds in `#figures`.

    `styles` and `scripts` name them where it takes more than the one that is called so.
    """
    style = "".join(asset(f"{name}.css") for name in styles or (assets,))
    script = "".join(asset(f"{name}.js") for name in ("heat", *(scripts or (assets,))))
    allowed = ("default-src 'none'", f"style-src {_hash(style)}", f"script-src {_hash(script)}")
    return Template(asset("page.html")).substitute(
        policy="; ".join((*allowed, "base-uri 'none'", "form-action 'none'")),
        title=tag("title", title),
        style=style,
        body=body,
        data=_json(data),
        script=script,
    )


@cache
def texts(assets: str) -> dict[str, Any]:
    """The words of a page, by part."""
    return tomllib.loads(asset(f"{assets}.toml"))


def asset(name: str) -> str:
    """The text of a file that is shipped with the page."""
    return (files("keylane.report") / "assets" / name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
    return f"'sha256-{digest}'"


def _json(data: Any) -> str:
    """JSON that cannot end its script element early, whatever it holds."""
    text = json.dumps(data, separators=(",", ":"), ensure_ascii=False)
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")
