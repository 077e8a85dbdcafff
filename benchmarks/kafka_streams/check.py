"""Whether the peer finds what brute force finds, and what it takes: `python -m benchmarks.kafka_streams.check`.

Every request is made after the last ping, and answered by lanes that have read all pings, have every tombstone, and
were stopped and started again: then each pair must be found, once. The twin has a smaller radius in the peer than in
brute force, and must differ. The figures are of both topics as they come, a backlog; there a ghost may be seen, so the
pairs are only nearly those of brute force.
"""

from __future__ import annotations

import json
import sys
from collections import Counter

import numpy as np
import pyarrow as pa

from benchmarks.kafka_streams.run import BROKER, fan, match, new_name, peer, running_jvm
from benchmarks.match_traffic import (
    DRIVERS,
    RIDERS,
    fill_topic,
    fill_topics,
    hashed_lanes,
    make_topics,
    make_traffic,
    pairs_of,
)

LANES, RADIUS_M, SEED = 60, 1000.0, 7


def main(pings: int = 10_000, requests: int = 500) -> int:
    """Check, then measure; 1 when the peer differs from brute force."""
    from keylane.systems.broker import running

    with running(heap="1g", extra=BROKER) as broker:
        differ = _differences(broker.bootstrap, pings, requests, RADIUS_M)
        twin = _differences(broker.bootstrap, pings, requests, RADIUS_M * 0.9)
        print(f"requests with other drivers than by brute force: {differ}; with a radius too small: {twin}")
        drivers, riders = make_traffic(pings, requests, SEED)
        fill_topics(broker.bootstrap, drivers, riders, hashed_lanes(LANES).of, LANES)
        print(peer(broker.bootstrap, DRIVERS, RIDERS, LANES, RADIUS_M, pings, requests))
        print(f"by brute force, as of each request's time: {pairs_of(drivers, riders, RADIUS_M).sum()} pairs")
    return 1 if differ or not twin else 0


def _differences(bootstrap: str, pings: int, requests: int, radius_m: float) -> int:
    """How many requests have another number of drivers than by brute force at RADIUS_M, or a driver twice."""
    drivers, riders = make_traffic(pings, requests, SEED)
    after = pa.array(np.full(requests, drivers["ts"].to_numpy().max() + 1))
    riders = riders.set_column(1, "ts", after)
    topics, lane_of = [f"{topic}-{radius_m:g}" for topic in (DRIVERS, RIDERS)], hashed_lanes(LANES).of
    make_topics(bootstrap, dict.fromkeys(topics, LANES))
    fill_topic(bootstrap, topics[0], drivers, lane_of)
    with running_jvm(bootstrap, topics[0], topics[1], LANES, radius_m) as jvm:
        name = new_name(bootstrap, LANES)
        print(match(jvm, name, pings, answers=0))
        fill_topic(bootstrap, topics[1], riders, lane_of)
        print(answered := match(jvm, name, 0, requests + fan(jvm, name, requests).guests))
    found = _found(bootstrap, f"{name}-matches")
    assert found.total() == answered.pairs
    wanted = dict(zip(riders["id"].to_pylist(), pairs_of(drivers, riders, RADIUS_M).tolist(), strict=True))
    return sum(found[rider] != count for rider, count in wanted.items())


def _found(bootstrap: str, topic: str) -> Counter[str]:
    """Drivers of each rider in the topic that the peer wrote."""
    from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": topic, "enable.partition.eof": True})
    consumer.assign([TopicPartition(topic, lane, OFFSET_BEGINNING) for lane in range(LANES)])
    ended, pairs = 0, set()
    while ended < LANES:
        message = consumer.poll(10)
        assert message is not None
        if message.error():
            ended += 1
            continue
        answer = json.loads(message.value() or b"")
        for pair in answer["pairs"]:
            one = (answer["rider_id"], pair["driver_id"])
            assert one not in pairs, f"{one} is there twice"
            pairs.add(one)
    consumer.close()
    return Counter(rider for rider, _ in pairs)


if __name__ == "__main__":
    sys.exit(main(*(int(number) for number in sys.argv[1:])))
