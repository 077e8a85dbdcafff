"""The documents of `keylane route` and `keylane compact`. Made by `pipelines.route` and `cli.compact`."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import ConfigDict, Field

from keylane.documents.model import AtLeastOne, Count, Digest, Document, Number, Text


class RecordCounts(Document):
    """Records by what became of them: in = out + dead + filtered."""

    in_: Count
    out: Count
    dead: Count
    filtered: Count


class RoutedLane(Document):
    """Records of this run in one lane."""

    stream: Text
    lane: Count
    records: Count


class RouteDocument(Document):
    """What a route came to. in = out + dead + filtered, of this run and in total; lanes add up to out."""

    model_config = ConfigDict(title="keylane route -o json")

    schema_: Literal["keylane.route/1"] = "keylane.route/1"
    contract: Text
    fingerprint: Digest
    source: str = Field(description="As an absolute path.")
    target: str = Field(description="As an absolute path.")
    in_: Count = Field(description="Records of this run.")
    out: Count = Field(description="Those that were put into lanes.")
    dead: Count = Field(description="Those that have no lane; they are in the target's _dead.")
    filtered: Count = Field(description="Blank lines.")
    lanes: list[RoutedLane] = Field(
        min_length=1, description="Every lane of every stream, also those that got nothing."
    )
    batches: Count
    stopped: bool = Field(description="Whether it was asked to end before it had taken everything.")
    seconds: Annotated[Number, Field(ge=0)] = Field(description="With the start of Spark.")
    total: RecordCounts = Field(description="Of all runs into this target.")
    state: str | None = Field(
        description="The folder that a route into Kafka keeps; null for folders, which hold their own."
    )
    dead_letters: str = Field(description="Where records without a lane are.")
    repeated: Count = Field(
        description="Records of this run that an earlier run had written already, and that were passed over."
    )


class DryRunDocument(Document):
    """What a route would do: nothing was written."""

    model_config = ConfigDict(title="keylane route --dry-run -o json")

    schema_: Literal["keylane.route-dry-run/1"] = "keylane.route-dry-run/1"
    contract: Text
    fingerprint: Digest
    source: str
    target: str
    sampled: Count = Field(description="Records whose lanes were decided.")
    sample: Text = Field(description="Which records they are.")
    lanes: list[RoutedLane] = Field(description="The lanes of the sample.")
    dead: dict[str, AtLeastOne] = Field(description="Records of the sample without a lane, by reason.")
    dead_letters: Text = Field(description="Where records without a lane would go.")
    creates: list[Text] = Field(description="What a route would create.")
    writes: list[Text] = Field(description="Where a route would write.")


class CompactedFolder(Document):
    """One lane's folder, or that of the dead letters."""

    folder: str = Field(json_schema_extra={"pattern": "^(stream=.+/lane=[0-9]+|_dead)$"})
    files_before: Annotated[int, Field(ge=2)]
    files_after: AtLeastOne
    records: Count


class CompactDocument(Document):
    """What became of the lanes that had something to merge."""

    model_config = ConfigDict(title="keylane compact -o json")

    schema_: Literal["keylane.compact/1"] = "keylane.compact/1"
    files_before: Count = Field(description="In these lanes.")
    files_after: Count = Field(description="In these lanes.")
    lanes: list[CompactedFolder]
