"""One HTML file with everything in it: styles, script and data; its policy forbids the browser every request.

The browser runs the one script and the one style whose hashes the policy names, and nothing else: what a key or a
file name might smuggle in would not run even if it were not escaped. Markup is made by `markup`.
"""

from __future__ import annotations

import base64
import hashlib
import json
import tomllib
from functools import cache
from importlib.resources import files
from string import Template
from typing import Any

from keylane.report.markup import Markup, tag

__all__ = ["page", "said"]


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
def said(assets: str) -> dict[str, Any]:
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
