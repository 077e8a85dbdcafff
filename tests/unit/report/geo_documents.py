"""Documents of `geo table` and of `match` that are made up: cities on a grid, split where they are heavy."""

from __future__ import annotations

from collections import Counter
from math import cos, radians

import numpy as np

from keylane.documents.geo_table import GeoLeaf, GeoTableDocument
from keylane.documents.match import MatchDocument, MatchPicture, PictureCell, UnmatchedRequest
from keylane.geo.bits import ancestor, cell_name
from keylane.geo.cells import cells_of

__all__ = ["CITIES", "city_places", "geo_table_document", "leaves_of", "match_document", "match_picture_document"]

#: Latitude, longitude, millions of people.
CITIES = (
    *(
        (40.71, -74.0, 18.0),
        (34.05, -118.24, 12.0),
        (41.88, -87.63, 9.0),
        (19.43, -99.13, 21.0),
        (-23.55, -46.63, 22.0),
    ),
    *((51.51, -0.13, 9.0), (48.86, 2.35, 11.0), (52.52, 13.4, 4.0), (55.75, 37.62, 12.0), (30.04, 31.24, 20.0)),
    *((6.52, 3.38, 14.0), (-26.2, 28.05, 9.0), (28.61, 77.21, 28.0), (19.08, 72.88, 20.0), (23.81, 90.41, 20.0)),
    *((31.23, 121.47, 26.0), (39.9, 116.4, 20.0), (35.68, 139.69, 37.0), (-33.87, 151.21, 5.0), (-18.12, 178.45, 1.0)),
    *((66.5, -179.9, 0.2), (64.15, -21.94, 0.3), (-54.8, -68.3, 0.1), (1.35, 103.82, 6.0), (37.57, 126.98, 25.0)),
)


def city_places(records: int, seed: int = 7, cities: tuple[tuple[float, float, float], ...] = CITIES) -> np.ndarray:
    """Latitudes and longitudes of people: dense in the middle of a city, thinner out to a hundred kilometres."""
    rng = np.random.default_rng(seed)
    weights = np.array([people for _, _, people in cities])
    which = rng.choice(len(cities), records, p=weights / weights.sum())
    middle = np.array([(lat, lng) for lat, lng, _ in cities])[which]
    distance = np.where(rng.random(records) < 0.75, rng.exponential(0.09, records), rng.exponential(0.9, records))
    angle = rng.random(records) * 2 * np.pi
    lat = np.clip(middle[:, 0] + distance * np.sin(angle), -89, 89)
    lng = middle[:, 1] + distance * np.cos(angle) / np.cos(np.radians(lat))
    return np.stack([lat, (lng + 180) % 360 - 180], axis=1)


def leaves_of(places: np.ndarray, most: int) -> dict[int, int]:
    """Cells with their records: split from resolution 3 on, until none has more than `most`."""
    cells = Counter(cells_of(places[:, 0], places[:, 1]).tolist())
    leaves: dict[int, int] = {}
    heavy = dict(cells)
    for at in range(3, 10):
        sums: Counter[int] = Counter()
        for cell, records in heavy.items():
            sums[ancestor(cell, at)] += records
        leaves |= {cell: records for cell, records in sums.items() if records <= most or at == 9}
        heavy = {cell: records for cell, records in heavy.items() if ancestor(cell, at) not in leaves}
    return leaves


def packed(leaves: dict[int, int], lanes: int) -> dict[int, int]:
    """A lane for each leaf, the heaviest first, always the emptiest lane."""
    loads, found = [0] * lanes, {}
    for cell, records in sorted(leaves.items(), key=lambda item: (-item[1], item[0])):
        lane = loads.index(min(loads))
        loads[lane] += records
        found[cell] = lane
    return found


def geo_table_document(
    places: np.ndarray | None = None, *, lanes: int = 12, most: int = 120, source: str = "rides/", timed: bool = True
) -> GeoTableDocument:
    """A document of schema keylane.geo-table/1."""
    seen = city_places(6_000) if places is None else places
    leaves = leaves_of(seen, most)
    lane_of = packed(leaves, lanes)
    loads, hours = [0] * lanes, [[0] * 24 for _ in range(lanes)]
    for cell, records in leaves.items():
        loads[lane_of[cell]] += records
        for hour in range(24):
            day = 1 + 0.7 * cos(radians(15 * (hour - 18 + (cell >> 45) % 24)))
            hours[lane_of[cell]][hour] += round(records * day / 24) if timed else (records if hour == 0 else 0)
    mean = sum(loads) / lanes
    cv = float(np.std(loads) / mean)
    made = {
        "schema": "keylane.geo-table/1",
        "source": source,
        "records": sum(loads),
        "dead": {"null-place": 3, "place-zero": 2},
        "lanes": lanes,
        "strategy": "hours",
        "decided_by": "work",
        "radius_m": 1000.0,
        "limit": None,
        "tau": 0.3,
        "resolution": 3,
        "leaves": len(leaves),
        "epoch": 1,
        "checksum": "0f" * 32,
        "balance": {
            "cv": cv,
            "worst_hour_cv": 0.022 if timed else None,
            "max_over_mean": max(loads) / mean,
            "noise_floor": 0.004,
            "hour_noise_floor": 0.018 if timed else None,
            "copies": 1.06,
            "total_work": 1.09,
            "held_out": {
                "cv": cv + 0.004,
                "worst_hour_cv": 0.024 if timed else None,
                "max_over_mean": 1.01,
                "noise_floor": 0.004,
                "hour_noise_floor": 0.018 if timed else None,
                "copies": 1.07,
                "total_work": 1.12,
            },
            "least_cv": 0.0,
        },
        "beside": [
            {"strategy": "hash res 3", "copies": 1.06, "total_work": 2.4, "cv": 0.33, "worst_hour_cv": 0.41},
            {"strategy": "abs-long-hashcode", "copies": 2.05, "total_work": 9.1, "cv": 1.76, "worst_hour_cv": 1.9},
        ],
        "copies_per_rider": {"1000": 1.06, "2000": 1.11, "5000": 1.25},
        "round_copies": 1.02,
        "moved": None,
        "lane_loads": loads,
        "hours": hours,
        "cells": [
            {"cell": cell_name(cell), "lane": lane_of[cell], "records": records, "hour": 18 if timed else None}
            for cell, records in leaves.items()
        ],
        "notes": ["places without a time count as one hour"],
    }
    return GeoTableDocument.model_validate(made)


def match_document() -> MatchDocument:
    """A document of schema keylane.match/1."""
    made = geo_table_document()
    plain = {
        "schema": "keylane.match/1",
        "drivers": "drivers/",
        "riders_source": "riders/",
        "target": "matches/",
        "contract": "rides",
        "fingerprint": "ab" * 32,
        "lanes": made.lanes,
        "radius_m": 1000.0,
        "nearest": None,
        "expire_s": 60.0,
        "riders": 2_000,
        "pings": made.records,
        "pairs": 9_120,
        "riders_with_a_match": 1_874,
        "recall": 1.0,
        "verified": {"pairs": 9_120, "missing": 0, "extra": 0},
        "copies_per_rider": 1.08,
        "dead": {"drivers": {"place-zero": 4}, "riders": {}},
        "offers": {"granted": 1_700, "refused": 12, "mean_distance_m": 412.0},
        "metrics": {
            "match_latency_ms": {"p50": 212.0, "p99": 890.0},
            "lag": [{"lane": lane, "records": lane % 5} for lane in range(made.lanes)],
            "border_share": 0.08,
            "ghosts_dropped": 7,
            "tombstones": 120,
            "late_pings": 31,
            "pending": 0,
            "lane_cv": 0.011,
            "noise_floor": 0.009,
        },
        "lane_loads": made.lane_loads,
        "seconds": 12.5,
        "notes": [],
    }
    return MatchDocument.model_validate(plain)


def match_picture_document() -> MatchPicture:
    """What the page of a match shows beside its document."""
    made = geo_table_document()
    hours = [[round(records) for records in lane] for lane in made.hours or []]
    alone = [
        UnmatchedRequest(lat=40.7 + i / 90, lng=-74.0, nearest_m=1_100.0 + 90 * i, wait_s=20.0 * i) for i in range(60)
    ]
    alone += [UnmatchedRequest(lat=51.5, lng=0.1, nearest_m=None)]
    return MatchPicture(cells=[_met(one) for one in made.cells], hours=hours, resolution=5, unmatched=alone)


def _met(one: GeoLeaf) -> PictureCell:
    requests = one.records // 4
    return PictureCell(
        cell=one.cell,
        lane=one.lane,
        pings=one.records,
        requests=requests,
        copies=requests // 12,
        hour=None,
        records=one.records + requests,
    )
