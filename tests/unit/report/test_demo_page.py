"""The demo's page as text: well-formed, in one file, escaped. What a browser makes of it: tests/browser."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from typing import TYPE_CHECKING, Any

import pytest
from tests.unit.report.html_reader import read
from tests.unit.report.plan_documents import changed

from keylane.report.demo_page import demo_page
from keylane.report.html import Markup, page

if TYPE_CHECKING:
    from collections.abc import Callable

    from keylane.documents.demo import DemoFigures

    Document = Callable[..., DemoFigures]

HOSTILE = "<script>alert(1)</script>\"'&\u2028</script>"


def test_the_page_is_well_formed(document: Document) -> None:
    found = read(demo_page(document()))
    assert (found.problems, found.open) == ([], [])
    assert len(found.ids) == len(set(found.ids))


def test_a_page_that_is_not_well_formed_is_noticed(document: Document) -> None:
    assert read(demo_page(document()).replace("</section>", "", 1)).problems


def test_nothing_in_it_points_outside(document: Document) -> None:
    text = demo_page(document())
    found = read(text)
    assert found.targets
    assert all(target.startswith("#") and target[1:] in found.ids for target in found.targets)
    assert set(re.findall(r"[a-z]+://[^\s\"'<)]+", text)) == {"http://www.w3.org/2000/svg"}


def test_the_policy_allows_the_one_script_and_the_one_style_and_nothing_else(document: Document) -> None:
    text = demo_page(document())
    policy = next(found["content"] for tag, found in read(text).elements if found.get("http-equiv"))
    script = re.findall(r"<script>(.*?)</script>", text, re.DOTALL)
    style = re.findall(r"<style>(.*?)</style>", text, re.DOTALL)
    hashed = [base64.b64encode(hashlib.sha256(one.encode()).digest()).decode() for one in (*style, *script)]
    assert policy == (
        f"default-src 'none'; style-src 'sha256-{hashed[0]}'; script-src 'sha256-{hashed[1]}'; "
        "base-uri 'none'; form-action 'none'"
    )
    assert not [found for _, found in read(text).elements if "style" in found or any(key[:2] == "on" for key in found)]


def test_a_merchant_named_like_a_script_does_no_harm(document: Document) -> None:
    def plant(plain: dict[str, Any]) -> None:
        for case in plain["cases"]:
            case["private"] = False
            for trial in case["trials"]:
                trial["title"] = HOSTILE

    text = demo_page(changed(document(HOSTILE), plant))
    assert read(text).problems == []
    assert [tag for tag, _ in read(text).elements].count("script") == 2
    assert "&lt;script&gt;alert(1)" in text
    data = text.partition('id="figures">')[2].partition("</script>")[0]
    assert json.loads(data)["cases"][0]["trials"][0]["title"] == HOSTILE


def test_without_escaping_it_would(document: Document) -> None:
    raw = page("t", Markup(HOSTILE), {}, "demo")
    assert [tag for tag, _ in read(raw).elements].count("script") == 3


def test_private_keys_are_not_on_the_page_and_public_ones_are(document: Document) -> None:
    text = demo_page(document("merchant_000042"))
    payments, _, rest = text.partition('<section id="rides">')
    rides = rest.partition('<section id="queries">')[0]
    assert "merchant_000042" not in payments
    assert "merc…" in payments
    assert "merchant_000042" in rides


def test_hashes_of_keys_differ_from_page_to_page(document: Document) -> None:
    assert demo_page(document()) != demo_page(document())
    assert demo_page(document(), b"salt") == demo_page(document(), b"salt")


def test_the_verdict_comes_first_and_every_part_is_there(document: Document) -> None:
    text = demo_page(document())
    headings = re.findall(r"<h[12]>(.*?)</h[12]>", text)
    assert "The same lanes (partitions) carry" in headings[0]
    assert [found["id"] for tag, found in read(text).elements if tag == "section"] == [
        "payments",
        "rides",
        "queries",
        "standing",
        "drift",
        "how",
    ]
    assert text.count("<canvas") == 9


def test_the_scale_of_standing_maps_says_events_minute_and_hour(document: Document) -> None:
    scale = r"1× = [\d,]+ (\w+) in one lane and ([\w ]+), the mean. Bars beside a map: each lane\S+ whole (\w+)"
    said = re.findall(scale, demo_page(document()))
    assert said == [("records", "half hour", "day")] * 3 + [("events", "minute", "hour")]


@pytest.mark.parametrize(("wrong", "said"), [(0, "all in order, none missing, none twice."), (2, "2 out of order")])
def test_results_out_of_order_are_said_to_be(document: Document, wrong: int, said: str) -> None:
    assert said in demo_page(changed(document(), lambda plain: plain["standing"].update(out_of_order=wrong)))


def test_what_was_learned_is_marked_as_in_or_out_of_sample(document: Document) -> None:
    text = demo_page(document())
    assert text.count("<small>in sample</small>") == text.count("<small>out of sample</small>") == 3


@pytest.mark.parametrize(("unplaced", "said"), [(0, "got a lane"), (3, "3 placements found no lane.")])
def test_records_without_a_lane_are_counted_on_the_page(document: Document, unplaced: int, said: str) -> None:
    one = changed(document(), lambda plain: plain["cases"][1]["trials"][2].update(unplaced=unplaced))
    assert said in demo_page(one)
