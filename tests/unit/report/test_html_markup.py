from __future__ import annotations

from keylane.report.html import Markup, join, tag


def test_text_is_escaped_and_markup_is_not() -> None:
    assert tag("p", "<b>", tag("b", "&")) == "<p>&lt;b&gt;<b>&amp;</b></p>"
    assert join("a<", Markup("<i>"), 3, None) == "a&lt;<i>3"


def test_attributes_are_escaped_renamed_and_left_out() -> None:
    made = tag("td", class_='a"b', data_case=0, hidden=True, checked=False, title=None)
    assert made == '<td class="a&quot;b" data-case="0" hidden></td>'


def test_what_cannot_have_children_closes_itself() -> None:
    assert tag("rect", width="1") == '<rect width="1"/>'


def test_an_attribute_may_be_called_name() -> None:
    assert tag("input", name="after") == '<input name="after"/>'
