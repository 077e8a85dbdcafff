"""What every test of Kinesis needs: credentials that a server on loopback takes, and none of whoever runs the tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.kinesis.servers import ACCESS

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="session")
def aws_access() -> Iterator[None]:
    """Variables of the environment, for workers too: so this comes before a session of Spark is started."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {**ACCESS, "AWS_EC2_METADATA_DISABLED": "true", "AWS_CONFIG_FILE": "/dev/null"}.items():
            patch.setenv(name, value)
        yield
