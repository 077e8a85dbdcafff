"""The pages of plan and profile as text: in order, well-formed, escaped, whole. In a browser: tests/browser."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
from typing import TYPE_CHECKING, Any

import pytest
from tests.unit.report.html_reader import read
from tests.unit.report.plan_documents import changed, plan_document, profile_document

from keylane.cli.plan import as_result
from keylane.documents.plan import PlanDocument
from keylane.numbers import share, times
from keylane.report.html import Markup, page
from keylane.report.plan_page import FIRST_SHOWN, plan_page, profile_page

if TYPE_CHECKING:
    from collections.abc import Callable

    from keylane.documents.profile import ProfileDocument

HOSTILE = '</script><img src=x onerror="window.harm=1">\'&\u2028\u202e<!--'
SECTIONS = [
    "lanes",
    "ranks",
    "strategies",
    "before-after",
    "hot",
    "keys",
    "change",
    "sizing",
    "folds",
    "how",
    "contract",
]


@pytest.fixture(scope="module")
def plan() -> PlanDocument:
    return plan_document()


def sections(text: str) -> list[str]:
    return [str(found["id"]) for tag, found in read(text).elements if tag == "section"]


def without(document: PlanDocument, *path: str) -> PlanDocument:
    """The document with null at a place."""

    def drop(plain: dict[str, Any]) -> None:
        for name in path[:-1]:
            plain = plain[name]
        plain[path[-1]] = None

    return changed(document, drop)


#: What is from a closed list, a number or a digest: nobody can put another text there.
CLOSED = {
    "who",
    "bytes_of",
    *("schema", "kind", "edges", "encoding", "fitted_until", "scored_until", "order_scope", "keep_order"),
    *("strategy", "cause", "held_by", "fingerprint", "answer", "leave", "against_today", "bytes_of"),
}


def everywhere(value: Any, text: str) -> Any:
    """The document with a text at every place where a person, a key or a file might have put one."""
    if isinstance(value, dict):
        kept = CLOSED - ({"cause"} if "lane" in value else set())
        return {name: inner if name in kept else everywhere(inner, text) for name, inner in value.items()}
    if isinstance(value, list):
        return [everywhere(inner, text) for inner in value]
    return text if isinstance(value, str) else value


def test_the_verdict_comes_first_and_every_section_in_its_order(plan: PlanDocument) -> None:
    text = plan_page(plan)
    assert sections(text) == SECTIONS
    first = re.sub(r"<[^>]+>", "", re.findall(r"<h1>(.*?)</h1>", text)[0])
    assert plan.today is not None
    assert first.startswith("Worth it: 12 lanes (partitions) do the work of")
    assert f"of {plan.today.work:.1f} today" in first
    assert f"do the work of {plan.chosen.work:.1f}." in first
    assert text.index("<h1>") < text.index("<section")
    assert re.findall(r'<a href="#([a-z-]+)">', text) == SECTIONS


def unsaid(document: PlanDocument, page: str) -> list[str]:
    """What the terminal says of a plan and the top or the table of the page does not."""
    blocks = re.sub(r"</(h1|p|td|th|dd)>", " ", page)
    plain = html.unescape(re.sub(r"\s+", " ", re.sub(r"<[^>]+>", "", blocks)))
    printed = as_result(document, explain=False, files={})
    said = [line.strip().replace("`", "") for line in printed.answer]
    said += [one.says for one in (document.holding,) if one]
    for row in (document.today, document.chosen) if document.today else (document.chosen,):
        said += [f"{share(row.fullest_share)} {row.work:.1f} {row.score:.2f}", f"{times(row.max_over_mean)}"]
    if document.change and document.changes:
        said.append(f"{share(document.change.moved_traffic or 0)} moves")
    return [part for part in said if part not in plain]


@pytest.mark.parametrize("today", [12, None, 6])
def test_the_page_says_what_the_terminal_says(today: int | None) -> None:
    document = plan_document(today=today)
    assert unsaid(document, plan_page(document)) == []


def test_twin_a_page_with_another_verdict_or_figure_is_noticed(plan: PlanDocument) -> None:
    worth = plan_page(plan)
    assert plan.today is not None
    for was, now in (
        (f"the work of {plan.chosen.work:.1f}", "the work of 99.9"),
        (plan.basis.says, "Figures: all records."),
        (f">{share(plan.today.fullest_share)}<", ">1.1%<"),
    ):
        assert was in worth
        assert unsaid(plan, worth.replace(was, now))


def test_the_page_is_well_formed_and_every_link_has_its_target(plan: PlanDocument) -> None:
    for text in (plan_page(plan), profile_page(plan.profile)):
        found = read(text)
        assert (found.problems, found.open) == ([], [])
        assert len(found.ids) == len(set(found.ids))
        assert all(target[1:] in found.ids for target in found.targets)


def test_a_page_that_is_not_well_formed_is_noticed(plan: PlanDocument) -> None:
    assert read(plan_page(plan).replace("</table>", "", 1)).problems


def test_it_is_a_pure_function_of_its_document(plan: PlanDocument) -> None:
    kept = plan.model_copy(deep=True)
    assert plan_page(plan) == plan_page(plan)
    assert plan == kept


def test_the_policy_allows_its_own_script_and_styles_and_nothing_else(plan: PlanDocument) -> None:
    text = plan_page(plan)
    policy = next(found["content"] for _, found in read(text).elements if found.get("http-equiv"))
    parts = [
        *re.findall(r"<style>(.*?)</style>", text, re.DOTALL),
        *re.findall(r"<script>(.*?)</script>", text, re.DOTALL),
    ]
    style, script = (base64.b64encode(hashlib.sha256(part.encode()).digest()).decode() for part in parts)
    assert policy == (
        f"default-src 'none'; style-src 'sha256-{style}'; script-src 'sha256-{script}'; "
        "base-uri 'none'; form-action 'none'"
    )
    assert not [found for _, found in read(text).elements if "style" in found or any(key[:2] == "on" for key in found)]
    assert set(re.findall(r"[a-z]+://[^\s\"'<)]+", text)) == {"http://www.w3.org/2000/svg"}


def test_hostile_text_anywhere_does_no_harm(plan: PlanDocument) -> None:
    quiet, hostile = plan_page(plan), plan_page(PlanDocument.model_validate(everywhere(plan.as_json(), HOSTILE)))
    assert read(hostile).problems == []
    for name in ("script", "img"):
        tags = [[tag for tag, _ in read(text).elements].count(name) for text in (quiet, hostile)]
        assert tags[0] == tags[1], name
    assert not [found for _, found in read(hostile).elements if any(key[:2] == "on" for key in found)]
    data = hostile.partition('id="figures">')[2].partition("</script>")[0]
    assert json.loads(data)["maps"]["before"]["title"] == HOSTILE


def test_without_escaping_it_would() -> None:
    raw = page("t", Markup(HOSTILE), {}, "plan")
    assert [tag for tag, _ in read(raw).elements].count("img") == 1


def test_a_key_that_would_turn_the_text_around_is_shown_as_an_escape() -> None:
    text = profile_page(profile_document(key="abc\u202exyz\u0000"))
    assert r"abc\u202exyz\x00" in text
    assert "\u202e" not in text


@pytest.mark.parametrize(
    ("path", "gone"),
    [
        (("change",), "change"),
        (("sizing",), "sizing"),
        (("contract",), "contract"),
        (("profile", "hot"), "hot"),
        (("profile", "lanes"), None),
        (("profile", "bytes"), None),
        (("today",), None),
        (("over_time", "before"), None),
        (("constraints", "max_over_mean"), None),
    ],
)
def test_what_is_null_is_left_out_and_nothing_odd_remains(
    plan: PlanDocument, path: tuple[str, ...], gone: str | None
) -> None:
    text = plan_page(without(plan, *path))
    assert sections(text) == [name for name in SECTIONS if name != gone]
    assert (read(text).problems, read(text).open) == ([], [])
    body = text.partition("<body>")[2].partition('<script type="application/json"')[0]
    assert not re.search(r"\bNone\b(?!:)|\bnull\b(?! key)|\bnan\b|undefined|\{\}|>\[", body.replace("Null key", ""))


@pytest.mark.parametrize(("name", "gone"), [("folds", "folds"), ("candidates", "strategies")])
def test_what_is_empty_is_left_out(plan: PlanDocument, name: str, gone: str) -> None:
    assert sections(plan_page(plan.model_copy(update={name: []}))) == [one for one in SECTIONS if one != gone]


def test_without_a_contract_of_today_there_is_one_side() -> None:
    text = plan_page(plan_document(today=None, kind="position"))
    assert "goes from" not in text
    assert "clearly better than today" not in text
    assert "The fullest lane has" in text
    assert text.count("<canvas") == 1
    assert '<b class="chosen">chosen</b>' in text
    assert "not compared" in text


def test_lanes_above_the_mean_state_whose_they_are(plan: PlanDocument) -> None:
    """Beside the lanes that are planned: those of today's contract; without one, of the hash; or as they were found."""
    of = plan.profile.hot and plan.profile.hot.basis
    assert f"Of {of}: lane " in plan_page(plan)
    hashed = plan.model_copy(update={"today": None})
    assert f"Of {of}, by the hash alone: lane " in plan_page(hashed)
    found = changed(plan, lambda plain: plain["profile"]["hot"].update(as_seen=True))
    assert f"Of {of}, as they were found: lane " in plan_page(found)


def test_a_plan_that_changes_nothing_states_it(plan: PlanDocument) -> None:
    def left(plain: dict[str, Any]) -> None:
        advice = {"answer": "leave-it", "leave": "nothing-hot", "headline": "Leave it: nothing is hot. 12 lanes."}
        plain.update(changes=False, contract=None, advice=advice, holding=None)

    text = plan_page(changed(plan, left))
    assert '<h1><em class="same">Leave it</em>: nothing is hot.</h1>' in text
    assert text.count("<canvas") == 1
    assert not {"change", "before-after"} & set(sections(text))


@pytest.mark.parametrize("against", ["better", "same", "worse"])
def test_colours_follow_the_figures(plan: PlanDocument, against: str) -> None:
    text = plan_page(changed(plan, lambda plain: plain["chosen"].update(against_today=against)))
    assert f'class="answer {against}"' in text
    assert f'<em class="{against}">' in text


def test_what_only_helps_for_throughput_is_neither_good_nor_bad_news(plan: PlanDocument) -> None:
    advice = {"answer": "only-for-throughput", "leave": None, "headline": "Only if you need more: 1,024 lanes."}
    text = plan_page(
        changed(plan, lambda plain: (plain["chosen"].update(against_today="better"), plain.update(advice=advice)))
    )
    assert 'class="answer same"' in text


def test_four_candidates_are_shown_and_the_others_on_request(plan: PlanDocument) -> None:
    text = plan_page(plan)
    assert 'value="best" checked' in text
    rows = re.findall(r"<tr[^>]*>", text.partition('class="candidates')[2].partition("</table>")[0])[1:]
    assert sum("data-lanes" not in row or "data-best" in row for row in rows) == 4
    assert f"all {len(plan.candidates)}" in text


def test_only_what_the_plan_has_is_explained(plan: PlanDocument) -> None:
    text = plan_page(plan).partition('id="how"')[2]
    assert "<dt>Score</dt>" in text
    assert "<dt>Geo table</dt>" not in text
    allowed = {one.strategy for one in plan.candidates if one.allowed}
    assert ("<dt>Tiers</dt>" in text) == bool(allowed & {"tier", "tier-spread"})


def test_a_promise_that_misses_the_constraints_is_stated(plan: PlanDocument) -> None:
    strict = changed(plan, lambda plain: plain["constraints"].update(max_over_mean=1.01))
    assert "1.01×" in plan_page(strict)
    assert "misses" not in plan_page(plan)


def test_a_page_warns_that_its_contract_names_keys(plan: PlanDocument) -> None:
    warning = f"It names {plan.chosen.overrides} keys"
    assert warning in plan_page(plan)
    assert warning not in plan_page(changed(plan, lambda plain: plain["chosen"].update(overrides=0)))


def test_the_contract_is_there_to_the_letter(plan: PlanDocument) -> None:
    found = re.findall(r'<code id="contract-text">(.*?)</code>', plan_page(plan), re.DOTALL)[0]
    assert found.replace("&quot;", '"').replace("&lt;", "<").replace("&amp;", "&") == plan.contract


def test_every_candidate_is_in_the_table_and_the_chosen_one_is_marked(plan: PlanDocument) -> None:
    table = plan_page(plan).partition('class="candidates')[2].partition("</table>")[0]
    assert table.count("<tr") == 1 + len(plan.candidates)
    assert table.count('class="chosen"') == table.count(">chosen</span>") == 1
    refused = sum(not one.allowed for one in plan.candidates)
    assert table.count("refused: ") == refused > 0


def test_a_thousand_lanes_stay_below_a_megabyte_and_a_half() -> None:
    text = plan_page(plan_document(counts=(500, 1_000), today=1_000, keys=20_000, flat=600))
    assert len(text.encode()) < 1_500_000
    assert sections(text) == SECTIONS


def test_the_profile_has_the_sections_that_need_no_plan(plan: PlanDocument) -> None:
    assert sections(profile_page(plan.profile)) == ["lanes", "ranks", "hot", "keys", "how"]
    alone = profile_document(lanes=None)
    assert sections(profile_page(alone)) == ["ranks", "keys", "how"]
    most = int(1 / alone.heavy[0].share)
    assert f"<h1>On more than {most} lanes (partitions) the heaviest key alone is a hot spot" in profile_page(alone)
    assert "Records over time" in profile_page(alone)


@pytest.mark.parametrize(
    "make", [lambda: profile_document(keys=1, lanes=1, windows=1), lambda: profile_document(windows=1)]
)
def test_the_smallest_streams_are_drawn(make: Callable[[], ProfileDocument]) -> None:
    assert read(profile_page(make())).problems == []


def test_a_profile_opens_with_its_hottest_lane_or_the_sentence_instead() -> None:
    made = profile_document()
    assert made.hot is not None
    first = made.hot.lanes[0]
    said = f"<h1>Lane (partition) {first.lane} {{}} {first.over_mean:.2f}× the mean: "
    for alarm, what in ((False, "holds"), (True, "is hot, with")):
        loud = made.model_copy(deep=True)
        assert loud.hot is not None
        lanes = [one.model_copy(update={"alarm": alarm}) for one in loud.hot.lanes]
        loud = loud.model_copy(update={"hot": loud.hot.model_copy(update={"lanes": lanes})})
        assert said.format(what) in profile_page(loud)
    calm = changed(made, lambda plain: plain["hot"].update(lanes=[], verdict="No lane is hot"))
    assert "<h1>No lane is hot" in profile_page(calm)


def test_a_profile_with_two_writers_opens_with_them() -> None:
    found = [{"partitioner": "kafka-java", "share": 0.87, "lanes": None}]
    found.append({"partitioner": "librdkafka-consistent-random", "share": 0.13, "lanes": None})
    writers = {"verdict": "mixed", "found": found, "records": 10}
    text = profile_page(changed(profile_document(), lambda plain: plain.update(writers=writers)))
    assert '<h1><em class="before">2 rules</em> place keys differently: kafka-java 87' in text
    one = {**writers, "verdict": "one-writer"}
    assert "place keys differently" not in profile_page(
        changed(profile_document(), lambda plain: plain.update(writers=one))
    )


def test_sketches_are_marked_as_approximate() -> None:
    off = {"most_over": 12, "distinct_keys": 9, "distinct_error": 0.02, "untracked": 4, "most_under": 0}

    def sketch(plain: dict[str, Any]) -> None:
        plain["approximate"] = off
        plain["heavy"][0]["error"] = 12

    text = profile_page(changed(profile_document(), sketch))
    assert "by a sketch, ± 2.0" in text
    assert "Off by at most" in text
    assert "Off by at most" not in profile_page(profile_document())


def test_no_switch_hides_a_single_candidate(plan: PlanDocument) -> None:
    def few(number: int) -> PlanDocument:
        return plan.model_copy(update={"candidates": plan.candidates[:number]})

    def shown(document: PlanDocument) -> int:
        return plan_page(document).count("<legend>Candidates</legend>")

    assert shown(few(FIRST_SHOWN + 1)) == 0
    assert shown(few(FIRST_SHOWN + 3)) > 0


def test_score_and_steps_are_on_the_page(plan: PlanDocument) -> None:
    page = plan_page(plan)
    head = next(one for one in page.split("<th ") if ">Score<" in one)
    assert "more" not in head.split(">")[0]
    steps = page.partition('class="steps"')[2].partition("</ol>")[0]
    assert steps.count("<li>") == len(plan.by_hand) >= 1
    assert 'class="steps"' not in plan_page(plan.model_copy(update={"by_hand": []}))


def test_a_picture_that_stands_alone_is_named_once(plan: PlanDocument) -> None:
    alone = plan.model_copy(update={"over_time": plan.over_time.model_copy(update={"before": None})})
    assert "chosen</b>chosen" not in plan_page(alone)
    assert "chosen</b>" in plan_page(alone)
