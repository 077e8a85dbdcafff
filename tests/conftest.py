"""What every test may use: a contract from a few words, and how hard hypothesis tries.

pytest                                  the same examples every time
pytest --hypothesis-profile=explore     new examples every time, and many
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from hypothesis import settings

from keylane.contract.parse import parse_contract

if TYPE_CHECKING:
    from collections.abc import Callable

    from keylane.contract.model import Contract

settings.register_profile("steady", deadline=None, max_examples=40, derandomize=True)
settings.register_profile("explore", deadline=None, max_examples=1000)
settings.load_profile("steady")


@pytest.fixture(scope="session")
def contract() -> Callable[..., Contract]:
    """A contract from the fields of its `spec`; what is left out is one text key over 16 lanes, as Java does it."""
    parse = cache(parse_contract)

    def make(**spec: Any) -> Contract:
        usual = {"streams": ["t"], "lanes": 16, "key": {"fields": ["k"]}, "partitioner": "kafka-java"}
        document = {
            "apiVersion": "keylane/v1",
            "kind": "RoutingContract",
            "metadata": {"name": "test"},
            "spec": {**usual, **spec},
        }
        return parse(yaml.safe_dump(document, allow_unicode=True))

    return make
