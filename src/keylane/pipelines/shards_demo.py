"""`demo shards`: accounts of unequal volume on equal shards, by MD5 and by handed-out keys, and hot shards split. Pure.

Volumes are Zipf's: account n has 1/n**skew of the first; which name is which account, and in which order they come, is
drawn from the seed. What keys are handed out: `keyspace.key_tree`. What is split where: `plan.shards`.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Final

from keylane.contract.shards import SPACE
from keylane.documents.shards import ShardsDemoDocument, ShardsTrial
from keylane.errors import UsageError
from keylane.keyspace.cuts import at_most
from keylane.keyspace.hash_keys import hash_key_of
from keylane.keyspace.key_tree import KeyTree, handed_out_anew
from keylane.keyspace.layout import new_layout
from keylane.keyspace.load import from_points
from keylane.keyspace.reshard import difference
from keylane.plan.shards import ShardGoal, ShardLoad, shards_plan

if TYPE_CHECKING:
    from collections.abc import Sequence

    from keylane.documents.shards import ShardsTrialName
    from keylane.keyspace.load import LoadCurve

#: What a shard may carry, over the mean of the equal shards.
CAP: Final = 1.2
#: Records a second that a shard takes: the volumes are such that this is the cap.
LIMIT: Final = 1_000.0
#: The volume of the first account, so that small ones are still whole numbers.
_FIRST: Final = 10**9


def shards_demo(accounts: int, shards: int, skew: float, seed: int, version: str) -> ShardsDemoDocument:
    """Place the accounts in five ways, and plan the splits."""
    rng = Random(seed)  # noqa: S311  the same seed gives the same accounts
    weights = [max(1, int(_FIRST / n**skew)) for n in range(1, accounts + 1)]
    named = {f"account-{n}": weight for n, weight in zip(rng.sample(range(accounts), accounts), weights, strict=True)}
    coming, tree = sorted(named), KeyTree()
    rng.shuffle(coming)
    md5 = from_points((hash_key_of(name), weight) for name, weight in named.items())
    come = from_points([(tree.take(named[name]), named[name]) for name in coming])
    given = handed_out_anew((name, 0, weight) for name, weight in named.items())
    even = from_points((given[name], weight) for name, weight in named.items())
    today, mean = new_layout(shards), sum(weights) / shards
    cap = CAP * mean
    names = {hash_key_of(name): name for name in named}
    rates = from_points((hash_key_of(name), weight * LIMIT / cap) for name, weight in named.items())
    plan = shards_plan("demo", today, ShardLoad(rates, "keys", names, "records"), ShardGoal(LIMIT))
    split = [int(row.start) for row in plan.after.layout]
    trials = [
        _trial("md5", md5, today.starts, mean),
        _trial("as-they-come", come, today.starts, mean, keyed=accounts),
        _trial("heaviest-first", even, today.starts, mean, keyed=accounts),
        _trial("split", md5, split, mean, calls=len(plan.calls)),
    ]
    try:
        cut = at_most(today, md5, max(cap, max(weights) * 1.001), shards).starts
        trials.append(_trial("moved-boundaries", md5, cut, mean, calls=difference(today, cut)))
    except UsageError:
        pass  # so few shards cannot keep to the cap: one row less
    return ShardsDemoDocument(
        version=version,
        seed=seed,
        accounts=accounts,
        shards=shards,
        skew=skew,
        least=max(weights) / mean,
        trials=trials,
        plan=plan,
    )


def _trial(
    name: ShardsTrialName, curve: LoadCurve, starts: Sequence[int], mean: float, *, calls: int = 0, keyed: int = 0
) -> ShardsTrial:
    loads = [curve.between(*ends) / mean for ends in zip(starts, [*starts[1:], SPACE], strict=True)]
    return ShardsTrial(
        name=name,
        shards=len(starts),
        max_over_mean=max(loads),
        min_over_mean=min(loads),
        calls=calls,
        keyed_accounts=keyed,
    )
