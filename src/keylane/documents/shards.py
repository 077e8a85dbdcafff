"""The documents of `keylane shards` and its demo: hash keys that are handed out, and plans of layouts.

Hash keys are decimal text, exact to 128 bits.
"""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from pydantic import ConfigDict, Field, StringConstraints

from keylane.documents.model import AtLeastOne, AtLeastZero, Count, Document, PathText, Share, Text, missing

HashKeyText: TypeAlias = Annotated[str, StringConstraints(pattern="^(0|[1-9][0-9]{0,38})$")]
HandingOut: TypeAlias = Literal["tree", "left-right", "halves", "golden"]
HashKeyOrigin: TypeAlias = Literal["tree", "left-right", "halves", "golden", "imported"]
ShardsTrialName: TypeAlias = Literal["md5", "as-they-come", "heaviest-first", "split", "moved-boundaries"]
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


class ReplacedWeight(Document):
    """A known account whose weight was replaced."""

    account: Text
    former_weight: AtLeastZero
    weight: AtLeastZero


class ShardKeysImportDocument(Document):
    """Accounts that were taken over from a list."""

    model_config = ConfigDict(title="keylane shards keys import -o json")

    schema_: Literal["keylane.shards-keys-import/1"] = "keylane.shards-keys-import/1"
    imported: Count = Field(description="Accounts that are new in the registry.")
    handed_out: Count = Field(description="Those of them that came without a key and got one.")
    known: Count = Field(description="Accounts of the list that had a key already.")
    reweighed: list[ReplacedWeight] = Field(description="Those of them whose weight was replaced.")
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


class ShardRow(Document):
    """A shard, both ends of its range included."""

    id: Text
    start: HashKeyText
    end: HashKeyText
    load: AtLeastZero | None = Field(description="Null where no load is known.")


class ShardSide(Document):
    """A layout and how evenly it is loaded."""

    shards: AtLeastOne
    total_load: AtLeastZero | None
    max_load: AtLeastZero | None
    mean_load: AtLeastZero | None
    max_over_mean: AtLeastZero | None = Field(description="Null where no load is known.")
    layout: list[ShardRow] = Field(min_length=1)


class ShardCall(Document):
    """One call, and the names that the service gives its arguments."""

    call: Literal["SplitShard", "MergeShards"]
    at: HashKeyText = Field(description="The boundary that is added or removed.")
    shards: list[Text] = Field(min_length=1, max_length=2, description="The shards that it closes, the lower first.")
    makes: list[Text] = Field(min_length=1, max_length=2, description="The ids that the shards it opens should get.")
    arguments: dict[str, str] = Field(
        description="The stream's name is not among them.", json_schema_extra={"propertyNames": {"minLength": 1}}
    )
    shards_after: AtLeastOne = Field(description="How many shards are open when it is done.")


class HotShard(Document):
    """A shard over the cap, and whether a split helps it."""

    shard: Text
    load: AtLeastZero
    kind: Literal["hot-key", "hot-shard", "unknown"] = Field(
        description="hot-key: one key is over the cap by itself, and no split helps. hot-shard: its keys together are. "
        "unknown: loads are known by shard only."
    )
    hash_key: HashKeyText | None = Field(description="Its heaviest hash key; null where loads are known by shard only.")
    key_load: AtLeastZero | None
    key: Text | None = Field(description="The key itself, with --show-keys and where it is known.")


class UniformScaling(Document):
    """What a change to equal shards would do instead."""

    shards: AtLeastOne
    calls: Count = Field(description="Splits and merges that it takes inside the service.")
    max_load: AtLeastZero
    max_over_mean: AtLeastZero
    within_cap: bool | None
    within_quota: bool = Field(description="From half to double the shards of today, and 10,000 at most.")


class ShardQuotas(Document):
    """What the service allows by default; an account may have other quotas."""

    calls_per_second: AtLeastOne = Field(description="For an account: so many splits, and as many merges.")
    least_seconds: AtLeastZero = Field(
        description="Splits and merges at that rate, side by side: each must also wait for the one before."
    )
    uniform_from: AtLeastOne = Field(description="The fewest shards that one uniform update may ask for.")
    uniform_to: AtLeastOne
    uniform_updates_per_day: AtLeastOne


class ShardsPlanDocument(Document):
    """The fewest calls from a layout of shards to another."""

    model_config = ConfigDict(title="keylane shards plan -o json")

    schema_: Literal["keylane.shards-plan/1"] = "keylane.shards-plan/1"
    source: PathText = Field(description="The file of the layout, or the address of the stream that it was asked of.")
    stream_id: Text | None = Field(
        None, exclude_if=missing, description="What the system knows the stream by, where it was asked for its shards."
    )
    load_from: Literal["layout", "profile", "keys", "registry", "stream", "service", "none"] = Field(
        description="Where loads come from: by shard from the layout or the service's metrics, or by hash key."
    )
    load_unit: Literal["records/s", "bytes/s"] | None = Field(
        None, exclude_if=missing, description="What loads count, where they were measured."
    )
    cap: AtLeastZero | None
    within_cap: bool | None = Field(description="Whether every shard is under the cap afterwards; null without a cap.")
    calls: list[ShardCall]
    splits: Count
    merges: Count
    proven_fewest: bool = Field(description="Whether no layout within the limits needs fewer calls.")
    peak_shards: AtLeastOne = Field(description="The most shards that are open at once on the way.")
    before: ShardSide
    after: ShardSide
    hot: list[HotShard]
    hot_keys: Count = Field(0, description="Hash keys that are over the cap by themselves: no split helps them.")
    uniform: list[UniformScaling]
    quotas: ShardQuotas
    ticks: list[Share] = Field(description="Where the heaviest hash keys lie along the key space, at most 500 of them.")
    notes: list[Text]


class AppliedCall(Document):
    """A call of a plan, and whether it is made."""

    step: AtLeastOne
    call: Literal["SplitShard", "MergeShards"]
    at: HashKeyText
    state: Literal["done", "left"]


class ShardsApplyDocument(Document):
    """A plan of splits and merges, and how far it is carried out."""

    model_config = ConfigDict(title="keylane shards apply -o json")

    schema_: Literal["keylane.shards-apply/1"] = "keylane.shards-apply/1"
    plan: PathText
    stream: Text
    record: PathText = Field(description="Where each call is recorded; the same command goes on from there.")
    applied: bool = Field(description="Whether calls were to be made: with --yes.")
    done: Count = Field(description="Calls of the plan that are done.")
    now: Count = Field(description="Those of them that this command made, or found made.")
    left: Count
    calls: list[AppliedCall]
    layout: list[ShardRow] = Field(description="The open shards of the stream afterwards.")


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
