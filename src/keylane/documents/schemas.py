"""The published JSON Schemas of the documents: which model is whose, and how the files are written.

`python -m keylane.documents.schemas` writes them; a test holds that they are current. The contract's schemas:
`contract.schema`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import ConfigDict, Field

from keylane.documents.aggregate import (
    AggregateDocument,
    AggregateExplainDocument,
    AggregatePlanDocument,
    AggregateVerifyDocument,
    QueriesDocument,
)
from keylane.documents.apply import ApplyDocument, SavedPlan
from keylane.documents.assign import AssignDocument
from keylane.documents.brokers import BrokersDocument, BrokersStatusDocument
from keylane.documents.check import CheckDocument
from keylane.documents.demo import DemoDocument
from keylane.documents.demo_migrate import DemoMigrateDocument
from keylane.documents.dev import DevJarsDocument, DevKafkaDocument, DevLoadDocument, DoctorDocument
from keylane.documents.explain import Explained, ExplainedKeys
from keylane.documents.fence import FenceDocument
from keylane.documents.find import FindDocument
from keylane.documents.geo_table import GeoTableDocument
from keylane.documents.identify import IdentifyDocument, InitDocument
from keylane.documents.lesson import LessonDocument
from keylane.documents.match import MatchDocument
from keylane.documents.migrate import MigrateCertificateDocument, MigratePlanDocument, MigrateStatusDocument
from keylane.documents.model import Document, Text, json_schema
from keylane.documents.plan import PlanDocument
from keylane.documents.profile import ProfileDocument
from keylane.documents.route import CompactDocument, DryRunDocument, RouteDocument
from keylane.documents.shards import (
    ShardKeyDocument,
    ShardKeyRemovedDocument,
    ShardKeysDocument,
    ShardKeysImportDocument,
    ShardKeysMovedDocument,
    ShardsApplyDocument,
    ShardsDemoDocument,
    ShardsPlanDocument,
)
from keylane.documents.verify import VerifyDocument


class ErrorDocument(Document):
    """Why a command ended without a result, on stderr. Made by `cli.failures`, which knows no pydantic."""

    model_config = ConfigDict(title="keylane error")

    schema_: Literal["keylane.error/1"] = "keylane.error/1"
    error: Text = Field(description="Its class, such as UsageError or DataError; Bug: a fault of keylane's own.")
    message: Text = Field(description="What is wrong, what was given, what is allowed, and what to do.")
    hint: Text | None = Field(description="What to do, where it is known: the last part of the message.")
    exit_code: Literal[1, 2, 4]


HERE: Final = Path(__file__).parent.parent / "schemas"
#: The name of the file, and the document that it describes.
DOCUMENTS: Final[dict[str, Any]] = {
    "aggregate": AggregateDocument,
    "aggregate-explain": AggregateExplainDocument,
    "aggregate-plan": AggregatePlanDocument,
    "aggregate-queries": QueriesDocument,
    "aggregate-verify": AggregateVerifyDocument,
    "apply": ApplyDocument,
    "assign": AssignDocument,
    "brokers": BrokersDocument,
    "brokers-status": BrokersStatusDocument,
    "check": CheckDocument,
    "compact": CompactDocument,
    "demo": DemoDocument,
    "demo-fence": FenceDocument,
    "demo-migrate": DemoMigrateDocument,
    "demo-shards": ShardsDemoDocument,
    "demo-lesson": LessonDocument,
    "dev-jars": DevJarsDocument,
    "dev-kafka": DevKafkaDocument,
    "dev-kafka-load": DevLoadDocument,
    "doctor": DoctorDocument,
    "error": ErrorDocument,
    "explain": Annotated[
        Explained,
        Field(
            title="keylane explain -o json",
            description="Where one key goes, under every client that might write it.",
        ),
    ],
    "explain-keys": Annotated[
        ExplainedKeys,
        Field(title="keylane explain KEY KEY ... -o json", description="Where several keys go, each as if alone."),
    ],
    "find": FindDocument,
    "geo-table": GeoTableDocument,
    "identify": IdentifyDocument,
    "init": InitDocument,
    "match": MatchDocument,
    "migrate-certificate": MigrateCertificateDocument,
    "migrate-plan": MigratePlanDocument,
    "migrate-status": MigrateStatusDocument,
    "plan": PlanDocument,
    "profile": ProfileDocument,
    "route": RouteDocument,
    "route-dry-run": DryRunDocument,
    "saved-plan": SavedPlan,
    "shards-key": ShardKeyDocument,
    "shards-key-removed": ShardKeyRemovedDocument,
    "shards-keys": ShardKeysDocument,
    "shards-keys-import": ShardKeysImportDocument,
    "shards-keys-moved": ShardKeysMovedDocument,
    "shards-apply": ShardsApplyDocument,
    "shards-plan": ShardsPlanDocument,
    "verify": VerifyDocument,
}


def text(model: Any) -> str:
    """What the file of a model holds."""
    return json.dumps(json_schema(model), indent=2, ensure_ascii=False) + "\n"


def write(to: Path = HERE) -> None:
    """Write every file."""
    for name, model in DOCUMENTS.items():
        (to / f"{name}.json").write_text(text(model), encoding="utf-8")


if __name__ == "__main__":
    write()
