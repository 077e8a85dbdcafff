"""Balances of accounts, kept through deploys: an example of a service whose state is too dear to drop.

Reads payments, {"account": "a-1", "amount": 250}, keyed by account; writes the new balance of the account behind each,
{"account": "a-1", "balance": 750, "payments": 3}. The state of a lane is the balance of every account in it.

    keylane dev kafka up
    python examples/balances/service.py --brokers localhost:9092 --leases leases.db --instances 3

Start as many as there are instances, and one more as a spare: README.md, beside this file.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from keylane import KeylaneError
from keylane.groups.ownership import Terms
from keylane.systems.kafka import InputRecord, JsonStep, LaneOwner, OutputRecord, OwnerPlan, kafka_access
from keylane.systems.leases import open_leases

if TYPE_CHECKING:
    from collections.abc import Iterable


class Balances(JsonStep):
    """The balance of every account of a lane, and how many payments it is made of."""

    def apply(self, state: dict[str, Any], record: InputRecord) -> Iterable[OutputRecord]:
        """Add a payment. What is no payment changes nothing and is passed on to nobody."""
        try:
            payment = json.loads(record.value or b"")
            account, amount = str(payment["account"]), int(payment["amount"])
        except (ValueError, KeyError, TypeError):
            return []
        balance, payments = state.get(account, (0, 0))
        state[account] = balance, payments = balance + amount, payments + 1
        shown = {"account": account, "balance": balance, "payments": payments}
        return [OutputRecord(record.key, json.dumps(shown).encode())]


def main() -> None:
    """Read the options, and serve until SIGTERM or Ctrl-C."""
    parser = argparse.ArgumentParser(description="Balances of accounts, kept through deploys.")
    parser.add_argument("--brokers", default="localhost:9092")
    parser.add_argument("--payments", default="payments", metavar="TOPIC")
    parser.add_argument("--balances", default="balances", metavar="TOPIC")
    parser.add_argument("--leases", default="leases.db", help="a file, or zookeeper://HOST:PORT,.../PATH")
    parser.add_argument("--instances", type=int, default=3, help="how many ids the group has")
    parser.add_argument("--instance", type=int, help="the id to wait for; default: whichever is free")
    parser.add_argument("--snapshots", type=Path, default=Path("snapshots"), metavar="FOLDER")
    parser.add_argument("--snapshot-seconds", type=float, default=30.0)
    parser.add_argument("--ttl", type=float, default=10.0, help="seconds until an owner that is silent is replaced")
    parser.add_argument("--health-port", type=int, default=0)
    given = parser.parse_args()
    plan = OwnerPlan(
        kafka_access(given.brokers),
        group="balances",
        topic=given.payments,
        output=given.balances,
        folder=given.snapshots,
        terms=Terms(given.ttl),
        instance=given.instance,
        snapshot_seconds=given.snapshot_seconds,
    )
    with open_leases(given.leases, plan.group, given.instances, given.ttl) as store:
        LaneOwner(plan, Balances(), store, tell=log).run_until_signalled(given.health_port)


def log(what: str, about: dict[str, Any]) -> None:
    """One line of JSON for each event."""
    print(json.dumps({"event": what, **about}), file=sys.stderr, flush=True)


if __name__ == "__main__":
    try:
        main()
    except KeylaneError as error:
        sys.exit(f"error: {error}")
