"""The model of the service, instead of any server: `service`. Servers are in `tests/conftest.py`, for all tests."""

from __future__ import annotations

import pytest
from tests.kinesis.model import ModelService

from keylane.systems.kinesis import access


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> ModelService:
    """The model instead of any client, and its clock instead of the machine's."""
    model = ModelService(throttles=False)
    monkeypatch.setattr(access, "_client", lambda *_: model)
    monkeypatch.setattr(access, "TIMING", access.Timing(model.clock, model.sleep, lambda: model.now + 0.001))
    return model
