"""The elbow, K-Means that hangs on nothing but the points, and the draw within a cluster."""

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.stages.rewriting.cluster import cluster_profiles, draw_profiles, elbow, features_of, find_clusters
from pipelines.stages.rewriting.records import Profile
from ser_toolkit.errors import DataError
from tests.unit.stages.rewriting.making import profile

SCORES = st.tuples(*[st.integers(0, 10)] * 4)


@pytest.mark.parametrize(
    ("curve", "low", "k"),
    [
        ([(1, 100.0), (2, 40.0), (3, 5.0), (4, 4.0), (5, 0.0)], 2, 3),  # depths 0, .35, .45, .21, 0
        ([(1, 100.0), (2, 3.0), (3, 2.0), (4, 1.0)], 2, 2),
        ([(1, 100.0), (2, 50.0), (3, 0.0)], 2, 2),  # a straight line: no elbow
        ([(1, 9.0), (2, 4.0), (3, 2.0), (4, 0.0)], 2, 2),  # depths .222 and .111
        ([(1, 12.0), (2, 4.0), (3, 0.0), (4, 0.0)], 2, 2),  # both .333: the smaller
        ([(1, 0.0)], 1, 1),
        ([(2, 7.0), (3, 7.0)], 3, 3),  # flat
        ([(1, 10.0), (2, 9.0), (3, 0.0)], 2, 2),  # bulges upward: no elbow
        ([(3, 10.0), (4, 1.0), (5, 0.0)], 4, 4),
    ],
)
def test_the_elbow_lies_farthest_below_the_chord(curve, low, k):
    assert elbow(curve, low) == k


@given(
    st.lists(st.floats(0.001, 1e6), min_size=2, max_size=12).map(lambda x: sorted(x, reverse=True)),
    st.floats(0.01, 100),
    st.integers(1, 3),
)
def test_the_elbow_is_a_candidate_and_does_not_hang_on_the_unit(falls, factor, first):
    curve = list(enumerate(falls, first))
    low = min(first + 1, curve[-1][0])
    k = elbow(curve, low)
    assert low <= k <= curve[-1][0]
    scaled = elbow([(k, sse * factor) for k, sse in curve], low)
    depth = {k: 1 - (k - first) / (len(falls) - 1) - (s - falls[-1]) / ((falls[0] - falls[-1]) or 1) for k, s in curve}
    assert scaled == k or abs(depth[scaled] - depth[k]) < 1e-6


@pytest.mark.parametrize("groups", [2, 3, 4])
def test_groups_that_stand_apart_are_found(groups):
    corners = [(0, 0, 9, 9), (9, 9, 0, 0), (0, 9, 9, 0), (9, 0, 0, 9)][:groups]
    draw = random.Random(groups)
    points = [tuple(x + draw.choice((0, 1)) for x in corner) for corner in corners for _ in range(12)]
    found = find_clusters(points, (2, 10), seed=5)
    assert found.k == groups
    assert len(found.curve) == 10 and found.curve[0][0] == 1, "the curve begins before the least k"
    assert all(len(set(found.labels[n * 12 : n * 12 + 12])) == 1 for n in range(groups))


def test_three_different_points_can_be_three_clusters():
    found = find_clusters([(0, 0), (0, 9), (9, 0)] * 2, (2, 10), seed=0)
    assert (found.k, [sse for _, sse in found.curve[2:]]) == (3, [0.0] * 8)


def test_sse_and_centres_by_hand():
    found = find_clusters([(0, 0), (0, 2), (10, 0), (10, 2)], (2, 3), seed=0)
    assert found.curve[:2] == ((1, 104.0), (2, 4.0))
    assert (found.k, found.centres, found.labels) == (2, ((0.0, 1.0), (10.0, 1.0)), (0, 0, 1, 1))


@pytest.mark.parametrize(
    ("points", "k"), [([(1, 1)], 1), ([(1, 1)] * 5, 1), ([(1, 1), (2, 2)], 2), ([(1, 1), (2, 2)] * 3, 2)]
)
def test_there_are_never_more_clusters_than_different_points(points, k):
    assert find_clusters(points, (2, 10), seed=0).k == k
    assert find_clusters(points, (4, 6), seed=0).k == k


@given(st.lists(SCORES, min_size=1, max_size=14), st.randoms(use_true_random=False))
def test_clusters_hang_on_the_points_alone(points, shuffle):
    found = find_clusters(points, (2, 4), seed=3)
    order = list(range(len(points)))
    shuffle.shuffle(order)
    again = find_clusters([points[i] for i in order], (2, 4), seed=3)
    assert (again.k, again.curve, again.centres) == (found.k, found.curve, found.centres)
    assert [again.labels[order.index(i)] for i in range(len(points))] == list(found.labels)
    assert set(found.labels) == set(range(found.k))
    assert len({(tuple(p), c) for p, c in zip(points, found.labels, strict=True)}) == len(set(map(tuple, points)))


@given(st.lists(st.integers(0, 3), min_size=1, max_size=30), st.integers(0, 2**31 - 1))
def test_another_profile_of_the_same_cluster_is_drawn(labels, seed):
    members = sorted((profile(f"d{n}") for n in range(len(labels))), key=lambda p: p.id)
    draws = draw_profiles(members, labels, seed)
    cluster = {p.id: c for p, c in zip(members, labels, strict=True)}
    for member, draw in zip(members, draws, strict=True):
        assert (draw.profile_id, draw.cluster) == (member.id, cluster[member.id])
        if labels.count(draw.cluster) == 1:
            assert draw.drawn is None
        else:
            assert draw.drawn != member.id and cluster[draw.drawn] == draw.cluster


def embedded(scores: tuple[int, ...], vector: tuple[float, ...], n: int) -> Profile:
    return profile(f"d{n:02}", *scores).model_copy(update={"embedding": vector})


def test_without_embeddings_the_scores_are_clustered_as_they_are():
    assert features_of([profile("a", 1, 2, 3, 4), profile("b", 0, 0, 10, 9)]).tolist() == [[1, 2, 3, 4], [0, 0, 10, 9]]


def test_scores_and_embeddings_weigh_the_same():
    """Two points a side, at distance 2 from their mean 1: each block is scaled to (-1, 1), whatever its unit."""
    members = [embedded((0, 5, 5, 5), (1.0, 0.0), 0), embedded((8, 5, 5, 5), (0.0, 1.0), 1)]
    rows = features_of(members)
    assert np.square(rows[:, :4]).sum() == pytest.approx(2) and np.square(rows[:, 4:]).sum() == pytest.approx(2)
    assert rows[:, :4].tolist() == [[-1, 0, 0, 0], [1, 0, 0, 0]]


def test_people_of_equal_scores_are_told_apart_by_what_is_said_of_them():
    members = [embedded((5, 5, 5, 5), ((1.0, 0.0), (0.0, 1.0))[n % 2], n) for n in range(8)]
    (clustering,), draws = cluster_profiles(members, (2, 4), seed=0)
    assert clustering.k == 2 and [c.size for c in clustering.centres] == [4, 4]
    assert {c.dominance for c in clustering.centres} == {5.0}, "the centres are told in scores"
    assert all(int(d.profile_id[1:3]) % 2 == int(d.drawn[1:3]) % 2 for d in draws)


def test_embeddings_of_two_models_are_no_features():
    with pytest.raises(DataError, match="different sizes: 2, 3"):
        cluster_profiles([embedded((1,) * 4, (1.0, 0.0), 0), embedded((2,) * 4, (1.0, 0.0, 0.0), 1)], (2, 3), seed=0)


def test_draws_reach_every_other_profile():
    members = sorted((profile(f"d{n}") for n in range(5)), key=lambda p: p.id)
    drawn = {draw_profiles(members, [0] * 5, seed)[2].drawn for seed in range(60)}
    assert drawn == {f"d{n}-seeker" for n in (0, 1, 3, 4)}


@given(
    st.lists(st.tuples(SCORES, st.sampled_from(["seeker", "supporter"]), st.sampled_from(["en", "zh"])), max_size=12)
)
def test_roles_and_languages_are_apart_and_order_changes_nothing(rows):
    profiles = [profile(f"d{n}", *s, role=role, lang=lang) for n, (s, role, lang) in enumerate(rows)]
    clusterings, draws = cluster_profiles(profiles, (2, 4), seed=1)
    assert (clusterings, draws) == cluster_profiles(reversed(profiles), (2, 4), seed=1)
    by_id = {p.id: p for p in profiles}
    for draw in draws:
        assert draw.drawn is None or (by_id[draw.drawn].role, by_id[draw.drawn].lang) == (draw.role, draw.lang)
    assert sum(c.profiles for c in clusterings) == len(draws) == len(profiles)
    assert all(sum(x.size for x in c.centres) == c.profiles and len(c.centres) == c.k for c in clusterings)
