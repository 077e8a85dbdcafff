"""The documents of `keylane migrate`: how a stream gets from one contract to another."""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

from pydantic import ConfigDict, Field

from keylane.documents.model import (
    AtLeastOne,
    AtLeastZero,
    Count,
    Digest,
    Document,
    LaneId,
    PathText,
    Share,
    Text,
    missing,
)
from keylane.documents.shards import HashKeyText, ShardsPlanDocument
from keylane.migration.cutover import Phase

#: How a mirror copies into a system without transactions; others copy exactly once.
Delivery: TypeAlias = Literal["at-least-once"]
COPIES: Final = "By a mirror into a system without transactions: copies may be there again; verify counts them."


class MigrationSide(Document):
    """One of the two contracts, with the lanes that it has or was found to have."""

    file: PathText
    name: Text
    epoch: AtLeastOne
    fingerprint: Digest
    streams: list[Text] = Field(min_length=1)
    lanes: AtLeastOne = Field(description="The lane (partition) count; asked of the stream where the contract is live.")
    partitioner: Text
    address: Text | None = Field(description="The stream that was asked; null where the plan is from contracts alone.")


class MigrationStep(Document):
    """One step of a migration."""

    step: AtLeastOne
    who: Literal["producers", "readers", "operator"]
    action: Text
    why: Text = Field(description="Why it is needed, and why it stands where it does.")
    command: Text | None = Field(description="The command for it, where there is one.")


class MigrationChange(Document):
    """One consequence of the change for the contract's promises."""

    kind: Literal["safe", "moves-keys", "changes-order-scope", "breaks-co-partitioning", "impossible"]
    where: Text
    message: Text


class MigrationStream(Document):
    """A stream as it was found when the plan was made: a run is refused where it is another one by then."""

    address: Text
    id: str = Field(description="The id that the system gives it; empty where it gives none.")
    lanes: AtLeastOne
    starts: list[Count] = Field(description="The first offset of each lane; empty where lanes have no offsets.")
    ends: list[Count] = Field(description="The end offset of each lane; empty where lanes have no offsets.")
    records: Count | None = Field(
        description="Offsets between the two, some of which may be marks of transactions; null: they are not counted."
    )
    retention_seconds: AtLeastZero | None = Field(description="How long records are kept; null: for ever.")
    cleanup_policy: str


class MigrationFigure(Document):
    """A figure of a plan, and how it is known."""

    value: AtLeastZero | None = Field(description="Null where it is unknown; `basis` says why.")
    known: Literal["measured", "sampled", "computed", "unknown"] = Field(
        description="measured: asked of the system, or all records were read; sampled: from a part of the records; "
        "computed: from the contracts and the rules of a run."
    )
    basis: Text


class MigrationPausePart(Document):
    """A part of the time for which producers stand."""

    what: Text
    seconds: AtLeastZero | None = Field(description="About, at most; null: not known before.")
    basis: Text


class PlannedCost(Document):
    """What carrying out a plan needs, and what it moves."""

    records: MigrationFigure
    stored_bytes: MigrationFigure = Field(description="What the old stream holds, one replica.")
    keys: MigrationFigure
    moved_keys: MigrationFigure = Field(description="Keys whose lane becomes another.")
    moved_records: MigrationFigure = Field(description="Records of such keys; in place they stay where they are.")
    moved_bytes: MigrationFigure = Field(description="Bytes of these records, one replica.")
    copied_records: MigrationFigure
    copied_bytes: MigrationFigure
    disk_bytes: MigrationFigure = Field(description="What is needed beside the old stream, all replicas.")
    network_bytes: MigrationFigure = Field(description="Read, and written to every replica.")
    pause_seconds: MigrationFigure = Field(description="The parts of the pause that are known, together.")
    pause_parts: list[MigrationPausePart]
    records_read: Count = Field(description="Records that were read to find this out.")


class MigratePlanDocument(Document):
    """How a stream gets from one contract to another, and what waits for what."""

    model_config = ConfigDict(title="keylane migrate plan -o json")

    schema_: Literal["keylane.migrate-plan/1"] = "keylane.migrate-plan/1"
    mode: Literal["in-place", "mirror"]
    reason: Text = Field(description="Why this mode.")
    old: MigrationSide
    new: MigrationSide
    moved_share: Share | None = Field(
        description="The share of keys whose lane becomes another, of those that no rule of a contract names; null "
        "where it is not known, or the key does not decide the lane."
    )
    moved_basis: Text = Field("", description="What moved_share is of, or why it is null.")
    named_keys: Count = Field(description="Keys that a rule of either contract names.")
    named_keys_moved: Count = Field(description="Those of them whose lanes become others.")
    drain_rule: Literal["same", "gcd", "ranges", "every-lane", "none"] = Field(
        description="How the lanes of hashed keys correspond: gcd for hash modulo the lane count, ranges where they "
        "overlap, every-lane for another hash or key, none where no hashed key has a lane on both sides."
    )
    parents_at_most: Count = Field(description="The most old lanes that a new lane waits for.")
    drain: dict[str, list[LaneId | str]] = Field(
        description="For every new lane the old lanes that it waits for; lanes of tiers are named stream/lane. Empty "
        "where they are more than a million: then a gate waits for every old lane."
    )
    steps: list[MigrationStep] = Field(description="Empty where there is nothing to do.")
    breaks: list[Text] = Field(description="What does not survive the change by itself.")
    changes: list[MigrationChange]
    epoch_to_raise: AtLeastOne | None = Field(
        description="The epoch that the new contract has to carry; null: it does."
    )
    producers: list[Text] = Field(
        description="Producers that stop by themselves and acknowledge it; none: somebody says that all have stopped."
    )
    groups: list[Text] = Field(description="Reader groups whose committed offsets show which lanes are drained.")
    gated: bool = Field(description="Whether readers honour the gate; otherwise they drain before producers go on.")
    dual: bool = Field(description="By a mirror: whether producers write to both streams instead of stopping.")
    cost: PlannedCost | None = Field(
        description="Keys and bytes that move, the pause, disk and network; null where there is nothing to do."
    )
    observed: MigrationStream | None = Field(
        description="The stream as it is; null where the plan is from contracts alone, and cannot be carried out."
    )
    copies: Delivery | None = Field(None, exclude_if=missing, description=COPIES)
    shards: ShardsPlanDocument | None = Field(
        None,
        exclude_if=missing,
        description="The splits and merges, where lanes are shards and nothing but their ranges changes.",
    )


class MigrationEntry(Document):
    """One entry of the journal."""

    number: Count
    phase: Phase
    at: AtLeastZero = Field(description="When it was appended, in seconds since 1970, by the clock of its driver.")
    driver: AtLeastOne = Field(description="The claim of the driver that appended it: the term of its lease.")


class MigrationLane(Document):
    """An old lane, and how far it is drained."""

    lane: LaneId
    fence: Count
    applied: Count | None = Field(description="The lowest offset that all groups have committed; null: not asked.")
    left: Count | None = Field(description="Offsets up to the fence.")
    drained: bool | None


class MigrationWait(Document):
    """What a run waits for."""

    why: Literal["producers", "writes", "readers"]
    names: list[Text] = Field(description="Producers that did not acknowledge, or old lanes that are not drained.")


class MigrationTransaction(Document):
    """A transaction that is open in a lane: nobody can read committed records behind its beginning."""

    lane: LaneId
    offset: Count = Field(description="Where it began: the last stable offset of the lane.")
    end: Count = Field(description="Up to where records were to be read.")
    end_it: Text = Field(description="A command that ends it, where its producer is gone.")


class MigrationWriter(Document):
    """Who wrote records behind a fence that are not of the new epoch."""

    writer: Text
    epoch: AtLeastOne | None = Field(description="The epoch in the headers of its records; null: they have none.")
    header: Text | None = Field(
        None,
        exclude_if=missing,
        description="What stands in keylane.epoch where that is no epoch of a contract: a foreign header.",
    )
    records: AtLeastOne
    lane: LaneId = Field(description="Of the first of them.")
    offset: Count


class MigrationShard(Document):
    """A shard of a stream that is migrated by splits and merges. Sequence numbers are text: they have 56 digits."""

    id: Text
    start: HashKeyText
    end: HashKeyText
    parents: list[Text]
    side: Literal["old", "kept", "new"] = Field(
        description="Old: closed before the migration or by it; kept: as it was; new: made by it or since."
    )
    closed: bool
    begins_at: Text = Field(description="The sequence number that its records begin at: where readers begin in it.")
    ends_at: Text | None = Field(
        description="The sequence number at which it was closed: the fence. Null: it is open, or the service says none."
    )


class MigrationBegin(Document):
    """Where readers begin in a lane of the new stream."""

    shard: Text
    after: Text = Field(description="The sequence number that they begin behind; TRIM_HORIZON: at the first record.")


class MigrateStatusDocument(Document):
    """How far a migration is."""

    model_config = ConfigDict(title="keylane migrate status -o json")

    schema_: Literal["keylane.migrate-status/1"] = "keylane.migrate-status/1"
    plan: PathText
    journal: PathText
    stream: Text
    new_stream: Text = Field(description="The stream of the new contract: another one by a mirror.")
    mode: Literal["in-place", "mirror"]
    phase: Phase | None = Field(description="Null before it is begun.")
    over: bool
    appended: Count = Field(description="Entries that this run has appended.")
    looked_at: AtLeastZero = Field(description="When this was looked at, in seconds since 1970.")
    waits_for: MigrationWait | None
    pause_seconds: AtLeastZero | None = Field(
        description="From the entry that let producers stop to the one that let them go on; null: not yet."
    )
    lanes: list[MigrationLane] = Field(description="The old lanes; empty before there are fences.")
    lag: Count | None = Field(description="Offsets up to the fences of all old lanes; null: not asked, or no fence.")
    copy_lag: Count | None = Field(
        description="By a mirror, while it copies: offsets of the old stream that are not copied yet; null: not known."
    )
    starts: list[Count] = Field(
        description="Where each new lane begins to hold records of the new contract; by a mirror, the offsets that "
        "readers begin at. Empty before there are any."
    )
    seconds_left: AtLeastZero | None = Field(
        description="Until the old lanes are drained, at the speed of the last second; null: not known."
    )
    late_writers: list[MigrationWriter] = Field(description="Most records first.")
    open_transactions: list[MigrationTransaction] = Field(
        default_factory=list, description="Those that readers or the copy wait for; none once it is over."
    )
    entries: list[MigrationEntry]
    copies: Delivery | None = Field(None, exclude_if=missing, description=COPIES)
    begins: list[MigrationBegin] | None = Field(
        None, exclude_if=missing, description="By a mirror into shards: where readers begin, by lane."
    )
    shards: list[MigrationShard] | None = Field(
        None, exclude_if=missing, description="By splits and merges: the shards, each behind its parents."
    )
    calls_done: Count | None = Field(None, exclude_if=missing, description="Splits and merges that the stream shows.")
    calls_left: Count | None = Field(None, exclude_if=missing, description="Those that are left.")


class CertificateCount(Document):
    """A rule, how many records were looked at, and how many break it."""

    rule: Literal[
        "reordered",
        "split_keys",
        "misrouted",
        "duplicated",
        "stale_epochs",
        "wrong_epoch",
        "copied",
        "written_twice",
        "fenced",
    ]
    meaning: Text
    checked: Count
    broken: Count


class CertificateLane(Document):
    """A lane of the new contract: what was read of it, and how much of that is old and new."""

    lane: LaneId
    fence: Count | None = Field(description="Null for a lane that was added, and for those of a mirror.")
    start: Count = Field(description="The first offset of the new contract.")
    first: Count = Field(description="The first offset that was read.")
    end: Count
    old_records: Count
    new_records: Count


class CertificateShard(MigrationShard):
    """A shard, and what was read of it."""

    records: Count
    first: Text | None = Field(description="The sequence number of its first record; null where it has none.")
    last: Text | None


class MigrateCertificateDocument(Document):
    """Whether a migration kept the order of every key, by the records of the stream. Anybody can run it again."""

    model_config = ConfigDict(title="keylane migrate verify -o json")

    schema_: Literal["keylane.migrate-certificate/1"] = "keylane.migrate-certificate/1"
    ok: bool
    verdict: Literal["certified", "not proven", "broken"]
    plan: PathText
    journal: PathText
    stream: Text
    stream_id: str
    new_stream: Text = Field(description="The stream of the new contract: another one by a mirror.")
    fences: list[Count] = Field(
        description="The end of each old lane; of files, how many there were. Empty of shards, which have their own."
    )
    old: MigrationSide
    new: MigrationSide
    records: Count
    sample: Text | None = Field(description="Which part of the history was read; null: all that there is.")
    digest: Digest = Field(description="Of every record that was read, with its place, key, source and epoch.")
    violations: Count
    rules: list[CertificateCount]
    lanes: list[CertificateLane]
    groups: list[Text] = Field(description="The reader groups that were asked how far they are.")
    late_writers: list[MigrationWriter]
    examples: list[Text] = Field(description="The first violations of each rule.")
    unproven: list[Text] = Field(description="What could not be checked, and why.")
    remarks: list[Text] = Field(default_factory=list, description="What is no violation, and was seen beside it.")
    copies: Delivery | None = Field(None, exclude_if=missing, description=COPIES)
    begins: list[MigrationBegin] | None = Field(
        None, exclude_if=missing, description="By a mirror into shards: where the new contract begins, by lane."
    )
    repeats: Count | None = Field(
        None,
        exclude_if=missing,
        description="Where the system writes at least once: records that are there again, in the order of their key.",
    )
    shards: list[CertificateShard] | None = Field(
        None, exclude_if=missing, description="By splits and merges: the shards, in the order in which they were read."
    )
