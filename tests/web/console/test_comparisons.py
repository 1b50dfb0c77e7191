"""The page of comparisons: what another configuration would have done, what differs most first."""

from __future__ import annotations

from datetime import timedelta

import pytest

from mailagent.store.operations.comparisons import Comparison, Differs, Source
from mailagent.web.console import agent
from tests.cast import OLGA, TESS
from tests.databases import ONE_DATABASE
from tests.harness import Harness
from tests.web.console.comparisons import record_comparison
from tests.workflows.proposals import write

PATH = "/ops/comparisons"


def record(shop: Harness, differs: Differs, **changes: object) -> Comparison:
    """Record that a model that hands over was asked about a new mail."""
    batch = write(shop, subject=f"Wish {differs} {len(changes)}")
    about = {"mail_id": batch["mail_ids"][-1], "conversation_id": batch["conversation_id"]}
    return record_comparison(shop, differs=differs, **about, **changes)


def test_what_differs_most_is_first_and_what_is_alike_is_counted(shop: Harness) -> None:
    facts, same = record(shop, Differs.FACTS), record(shop, Differs.NOTHING)
    acts = record(shop, Differs.ACTS)
    edited = record(shop, Differs.ACTS, draft="edited", at=acts.at - timedelta(hours=1))
    shown = shop.log_in(OLGA).get(PATH).text
    assert "4 compared, $0.12" in shown
    assert "2 decide otherwise, 1 name other facts, 0 have no answer." in shown
    assert "People edited or discarded 1 of the old answers." in shown
    places = [shown.index(each.conversation_id) for each in (edited, acts, facts)]
    assert places == sorted(places)
    assert same.conversation_id not in shown
    assert "I am sorry to hear that something arrived damaged." in shown
    assert "1.5 s" in shown


@pytest.mark.parametrize(("query", "seen"), [("?source=shadow", True), ("", False)])
def test_each_source_has_its_own_list(shop: Harness, query: str, seen: bool) -> None:
    record(shop, Differs.UNKNOWN, source=Source.SHADOW, error="<b>no credit</b>")
    shown = shop.log_in(OLGA).get(PATH + query).text
    assert ("&lt;b&gt;no credit" in shown) is seen
    assert ("Nothing was compared" in shown) is not seen


@ONE_DATABASE
def test_only_who_sees_runs_sees_it(shop: Harness) -> None:
    assert shop.log_in(TESS).get(PATH).status_code == 403
    assert "Nothing was compared in the last 14 days." in shop.log_in(OLGA).get(PATH).text


def test_of_many_that_differ_the_first_are_listed_and_the_rest_counted(
    shop: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agent, "DIFFERENCES_SHOWN", 1)
    facts, acts = record(shop, Differs.FACTS), record(shop, Differs.ACTS)
    shown = shop.log_in(OLGA).get(PATH).text
    assert acts.conversation_id in shown
    assert facts.conversation_id not in shown
    assert "2 compared" in shown
    assert "1 more is not listed." in shown
