"""Token buckets: never more than the burst and what came back since, in bounded memory."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bursa.api import limits
from bursa.api.limits import Buckets, bucket_of


def test_a_burst_is_allowed_and_one_more_is_not() -> None:
    buckets = Buckets("key", rate=10, burst=5)
    verdicts = [buckets.take(1, 0.0) for _ in range(6)]
    assert [verdict.is_allowed for verdict in verdicts] == [True] * 5 + [False]
    assert [verdict.remaining for verdict in verdicts] == [4, 3, 2, 1, 0, 0]
    assert verdicts[5].retry_after_s == 1


def test_tokens_come_back_at_the_rate() -> None:
    buckets = Buckets("key", rate=10, burst=5)
    for _ in range(5):
        buckets.take(1, 0.0)
    assert not buckets.take(1, 0.05).is_allowed
    assert buckets.take(1, 0.1).is_allowed
    assert not buckets.take(1, 0.1).is_allowed


def test_a_refusal_takes_nothing() -> None:
    buckets = Buckets("key", rate=1, burst=10)
    assert not buckets.take(1, 0.0, cost=11).is_allowed
    assert buckets.take(1, 0.0, cost=10).is_allowed


def test_one_asker_does_not_spend_anothers_tokens() -> None:
    buckets = Buckets("key", rate=1, burst=1)
    assert buckets.take(1, 0.0).is_allowed
    assert buckets.take(2, 0.0).is_allowed


def test_what_was_spent_already_is_owed() -> None:
    buckets = Buckets("address", rate=1, burst=10)
    buckets.charge("a", 0.0, 15)
    assert not buckets.has_tokens("a", 0.0)
    assert not buckets.has_tokens("a", 5.9)
    assert buckets.has_tokens("a", 6.0)


def test_a_debt_is_bounded_by_a_burst() -> None:
    buckets = Buckets("address", rate=1, burst=10)
    for _ in range(100):
        buckets.charge("a", 0.0, 10)
    assert buckets.has_tokens("a", 11.0)


@given(
    steps=st.lists(st.tuples(st.floats(0, 2), st.integers(1, 8)), min_size=1, max_size=60),
    rate=st.integers(1, 50),
    burst=st.integers(1, 50),
)
def test_no_window_gives_more_than_burst_and_rate(steps: list[tuple[float, int]], rate: int, burst: int) -> None:
    buckets = Buckets("key", rate, burst)
    now = 0.0
    taken: list[tuple[float, int]] = []
    for pause, cost in steps:
        now += pause
        if buckets.take("k", now, cost).is_allowed:
            taken.append((now, cost))
    for start in range(len(taken)):
        for end in range(start, len(taken)):
            total = sum(cost for _, cost in taken[start : end + 1])
            assert total <= burst + rate * (taken[end][0] - taken[start][0]) + 1e-6


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "BUCKETS_MAX", 10)
    buckets = Buckets("address", rate=1, burst=100)
    for number in range(1_000):
        buckets.take(number, 0.0, 50)
    assert len(buckets) == 10
    assert not buckets.take(999, 0.0, 60).is_allowed, "the newest is remembered"


def test_full_buckets_are_forgotten() -> None:
    buckets = Buckets("address", rate=100, burst=100)
    for number in range(1_000):
        buckets.take(number, float(number))
    assert len(buckets) == 1


def test_the_headers_tell_quota_window_and_rest() -> None:
    buckets = Buckets("key", rate=10, burst=25)
    assert buckets.policy == b'"key";q=25;w=3'
    assert buckets.show(buckets.take(1, 0.0, cost=12)) == b'"key";r=13;t=2'


@pytest.mark.parametrize("cost", [1, 3, 7])
def test_waiting_as_told_is_enough(cost: int) -> None:
    buckets = Buckets("key", rate=2, burst=7)
    now = 0.0
    for _ in range(50):
        verdict = buckets.take(1, now, cost)
        if not verdict.is_allowed:
            now += verdict.retry_after_s
            assert buckets.take(1, now, cost).is_allowed
    assert math.isfinite(now)


@pytest.mark.parametrize(
    ("client", "bucket"),
    [
        (("192.0.2.7", 1234), "192.0.2.7"),
        (("2001:db8:1:2:3:4:5:6", 1), "2001:db8:1:2::/64"),
        (("2001:db8:1:2::9", 1), "2001:db8:1:2::/64"),
        (("2001:db8::9", 1), "2001:db8:0:0::/64"),
        (("::ffff:192.0.2.7", 1), "192.0.2.7"),
        (("::1", 1), "0:0:0:0::/64"),
        (None, "local"),
        (("", 0), "local"),
    ],
)
def test_an_address_is_counted_by_its_household(client: object, bucket: str) -> None:
    assert bucket_of(client) == bucket
