"""The document of `keylane demo shards`: how full shards are by MD5, by handed-out keys, and after splits."""

from __future__ import annotations

from typing import Literal, TypeAlias

from pydantic import ConfigDict, Field

from keylane.documents.model import AtLeastOne, AtLeastZero, Count, Document
from keylane.documents.shards import ShardsPlanDocument

ShardsTrialName: TypeAlias = Literal["md5", "as-they-come", "heaviest-first", "split", "moved-boundaries"]


class ShardsTrial(Document):
    """One way to place the same accounts."""

    name: ShardsTrialName
    shards: AtLeastOne
    max_over_mean: AtLeastZero = Field(description="The fullest shard, over the mean of the shards of today.")
    min_over_mean: AtLeastZero
    calls: Count = Field(description="Splits and merges from the equal shards of today.")
    keyed_accounts: Count = Field(
        description="Accounts that need an explicit hash key, and a fence where they had none."
    )


class ShardsDemoDocument(Document):
    """Accounts of unequal volume on equal shards, and two ways to make these even."""

    model_config = ConfigDict(title="keylane demo shards -o json")

    schema_: Literal["keylane.demo-shards/1"] = "keylane.demo-shards/1"
    version: str
    seed: Count
    accounts: AtLeastOne
    shards: AtLeastOne
    skew: AtLeastZero = Field(description="The exponent of the volumes: account n has 1/n**skew of the first.")
    least: AtLeastZero = Field(description="The heaviest account over the mean shard: no placement is more even.")
    trials: list[ShardsTrial] = Field(min_length=1)
    plan: ShardsPlanDocument = Field(description="The splits of the hot shards, as `keylane shards plan` makes them.")
