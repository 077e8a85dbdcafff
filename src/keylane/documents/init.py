"""The document of `keylane init`. Made by `cli.init`."""

from __future__ import annotations

from typing import Literal

from pydantic import ConfigDict, Field

from keylane.documents.identify import IdentifyDocument
from keylane.documents.model import AtLeastOne, Document, PartitionerName, PathText, Text


class InitDocument(Document):
    """The first contract of a stream: what is in it, where it is, and what comes next."""

    model_config = ConfigDict(title="keylane init -o json")

    schema_: Literal["keylane.init/1"] = "keylane.init/1"
    contract: PathText = Field(description="The file that was written.")
    stream: Text
    key: Text
    encoding: Text
    lanes: AtLeastOne
    partitioner: PartitionerName
    partitioner_from: Literal["identified", "given", "assumed"] = Field(
        description="What the data shows, what --partitioner says, or the default of Java's client."
    )
    identified: IdentifyDocument | None = Field(description="Null where the data has no lanes.")
    next: list[Text] = Field(description="Commands to go on with.")
