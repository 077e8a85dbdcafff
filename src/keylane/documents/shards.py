"""The documents of `keylane shards`: hash keys that are handed out. Hash keys are decimal text, exact to 128 bits."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from pydantic import ConfigDict, Field, StringConstraints

from keylane.documents.model import AtLeastZero, Count, Document, PathText, Share, Text, missing

HashKeyText: TypeAlias = Annotated[str, StringConstraints(pattern="^(0|[1-9][0-9]{0,38})$")]
HandingOut: TypeAlias = Literal["tree", "left-right", "halves", "golden"]
HashKeyOrigin: TypeAlias = Literal["tree", "left-right", "halves", "golden", "imported"]
Weight: TypeAlias = Annotated[AtLeastZero, Field(ge=0.001)]


class KeyStep(Document):
    """A step of the walk to a key: its middle is in use, so the walk goes on in the lighter half."""

    middle: HashKeyText
    left: AtLeastZero = Field(description="What the keys before the middle weigh, of this range.")
    right: AtLeastZero = Field(description="What the keys from the middle on weigh, of this range.")
    went: Literal["left", "right"]


class AccountKey(Document):
    """An account and its hash key."""

    account: Text
    hash_key: HashKeyText
    weight: Weight
    origin: HashKeyOrigin = Field(description="The sequence that it was handed out by, or imported.")


class ShardKeyDocument(Document):
    """The hash key of an account."""

    model_config = ConfigDict(title="keylane shards keys add -o json")

    schema_: Literal["keylane.shards-key/1"] = "keylane.shards-key/1"
    account: Text
    hash_key: HashKeyText = Field(description="What to send as the explicit hash key of its records.")
    at: Share = Field(description="How far along the key space it lies.")
    weight: Weight
    former_weight: Weight | None = Field(description="The weight that was replaced; null where none was.")
    origin: HashKeyOrigin
    new: bool = Field(description="Whether it was handed out now; false: the account had it.")
    accounts: Count = Field(description="How many accounts have a key now.")
    registry: PathText
    steps: list[KeyStep] | None = Field(None, exclude_if=missing, description="Only with --explain.")


class ShardKeysDocument(Document):
    """All accounts with their hash keys."""

    model_config = ConfigDict(title="keylane shards keys list -o json")

    schema_: Literal["keylane.shards-keys/1"] = "keylane.shards-keys/1"
    registry: PathText
    sequence: HandingOut | None = Field(description="What the registry was begun with; null where it handed out none.")
    total_weight: AtLeastZero
    keys: list[AccountKey]
    warnings: list[Text]


class ShardKeyRemovedDocument(Document):
    """An account whose hash key is free again."""

    model_config = ConfigDict(title="keylane shards keys remove -o json")

    schema_: Literal["keylane.shards-key-removed/1"] = "keylane.shards-key-removed/1"
    account: Text
    hash_key: HashKeyText
    accounts: Count = Field(description="How many accounts have a key now.")
    registry: PathText


class ShardKeysImportDocument(Document):
    """Accounts that were taken over from a list."""

    model_config = ConfigDict(title="keylane shards keys import -o json")

    schema_: Literal["keylane.shards-keys-import/1"] = "keylane.shards-keys-import/1"
    imported: Count = Field(description="Accounts that are new in the registry.")
    handed_out: Count = Field(description="Those of them that came without a key and got one.")
    known: Count = Field(description="Rows that were in the registry as they are.")
    accounts: Count = Field(description="How many accounts have a key now.")
    registry: PathText
    keys: list[AccountKey] = Field(description="The new ones.")
    warnings: list[Text]


class KeyMove(Document):
    """An account whose key changes."""

    account: Text
    former_key: HashKeyText
    hash_key: HashKeyText


class ShardKeysMovedDocument(Document):
    """All keys handed out anew, and which change by it."""

    model_config = ConfigDict(title="keylane shards keys redistribute -o json")

    schema_: Literal["keylane.shards-keys-moved/1"] = "keylane.shards-keys-moved/1"
    dry_run: bool
    sequence: HandingOut
    accounts: Count
    moved: Count = Field(description="How many accounts get another key.")
    heaviest_eighth_before: Share = Field(description="Share of the weight in the heaviest eighth of the key space.")
    heaviest_eighth_after: Share
    registry: PathText
    moves: list[KeyMove]
    warnings: list[Text]
