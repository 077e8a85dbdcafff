"""What tests of Kinesis need: credentials that a server on loopback takes, or the model instead of any server."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.kinesis.model import ModelService
from tests.kinesis.servers import ACCESS

from keylane.systems.kinesis import access

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="session")
def aws_access() -> Iterator[None]:
    """Variables of the environment, for workers too: so this comes before a session of Spark is started."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {**ACCESS, "AWS_EC2_METADATA_DISABLED": "true", "AWS_CONFIG_FILE": "/dev/null"}.items():
            patch.setenv(name, value)
        yield


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> ModelService:
    """The model instead of any client, and its clock instead of the machine's."""
    model = ModelService(throttles=False)
    monkeypatch.setattr(access, "_client", lambda *_: model)
    monkeypatch.setattr(access, "TIMING", access.Timing(model.clock, model.sleep, lambda: model.now + 0.001))
    return model
