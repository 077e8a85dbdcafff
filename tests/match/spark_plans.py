"""Physical plans of Spark as trees: what stands above a node."""

from __future__ import annotations

import re


def _final(plan: str) -> list[str]:
    """The lines of the plan that ran: under adaptive execution the first of the two that are written."""
    head, _, rest = plan.partition("== Final Plan ==")
    return (rest.partition("== Initial Plan ==")[0] if rest else head).splitlines()


def exchanges_above(plan: str, leaf: str) -> list[list[str]]:
    """For every node of this name the shuffles above it, from the root on."""
    above: list[tuple[int, str]] = []
    found = []
    for line in _final(plan):
        node = re.sub(r"^[\s:+|*()\d-]*", "", line)
        depth = len(line) - len(node)
        above = [one for one in above if one[0] < depth]
        if node.startswith(leaf):
            found.append([name for _, name in above if re.match(r"(Exchange|ShuffleExchange|ShuffleQueryStage)", name)])
        above.append((depth, node))
    return found
