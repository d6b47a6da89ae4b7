from collections import Counter

import numpy as np
import pytest

from nmt.data.batch import collate
from nmt.data.loader import TrainLoader
from nmt.data.sampler import Share, TokenBatchSampler, WeightedPairs

# All pairs twice; a half (of 101: 50); one and a half (of 53: 80 in all); all once.
SHARES = [Share(17, 2.0), Share(101, 0.5), Share(53, 1.5), Share(7, 1)]
CORPORA = [range(17), range(17, 118), range(118, 171), range(171, 178)]
ROWS = [34, 50, 80, 7]


@pytest.fixture
def lengths():
    random = np.random.default_rng(1)
    return random.integers(2, 13, size=178), random.integers(2, 13, size=178)


def make_sampler(lengths, *, shares=SHARES, seed=3):
    return TokenBatchSampler(*lengths, token_budget=40, seed=seed, shares=shares)


def epoch_of(sampler, epoch):
    sampler.set_epoch(epoch)
    return list(sampler)


def counts(batches):
    return Counter(pair for batch in batches for pair in batch)


@pytest.mark.parametrize("epoch", [0, 5])
def test_each_pair_is_seen_as_often_as_its_weight_says(lengths, epoch):
    seen = counts(epoch_of(make_sampler(lengths), epoch))
    assert [sum(seen[pair] for pair in corpus) for corpus in CORPORA] == ROWS
    assert {seen[pair] for pair in CORPORA[0]} == {2}
    assert {seen[pair] for pair in CORPORA[1]} == {0, 1}
    assert {seen[pair] for pair in CORPORA[2]} == {1, 2}
    assert {seen[pair] for pair in CORPORA[3]} == {1}


def test_the_part_changes_with_the_epoch_and_the_seed_only(lengths):
    first = [counts(epoch_of(make_sampler(lengths), epoch)) for epoch in range(3)]
    same = [counts(epoch_of(make_sampler(lengths), epoch)) for epoch in range(3)]
    other = counts(epoch_of(make_sampler(lengths, seed=4), 0))
    assert first == same
    assert len({frozenset(seen.items()) for seen in [*first, other]}) == 4


def test_a_corpus_of_the_smallest_weight_is_still_in_every_epoch():
    shares = [Share(5, 1.0), Share(5, 1e-9)]
    weighted = WeightedPairs(np.full(10, 3), shares, seed=1)
    assert [sum(weighted.rows(epoch) >= 5) for epoch in range(3)] == [1, 1, 1]


def test_every_pair_of_a_part_has_the_same_chance():
    weighted = WeightedPairs(np.array([2, 3, 3, 3, 5, 5, 7, 11, 13, 40]), [Share(10, 0.3)], seed=1)
    seen = Counter(row for epoch in range(2000) for row in weighted.rows(epoch).tolist())
    # 600 each are expected; the standard deviation is about 20
    assert all(abs(seen[row] - 600) < 90 for row in range(10))


def test_no_epoch_is_longer_than_the_bound(lengths):
    longer = np.maximum(*lengths)
    weighted = WeightedPairs(longer, SHARES, seed=1)
    for epoch in range(50):
        assert (np.sort(longer[weighted.rows(epoch)]) <= weighted.longest).all()


def test_every_epoch_has_as_many_batches(lengths):
    sampler = make_sampler(lengths)
    assert {len(epoch_of(sampler, epoch)) for epoch in range(30)} == {len(sampler)}
    assert len(sampler) % 8 == 0
    longer = np.maximum(*lengths)
    batches = epoch_of(sampler, 1)
    assert all(len(batch) == 1 or len(batch) * longer[batch].max() <= 40 for batch in batches)


def test_a_weight_of_one_is_an_ordinary_epoch(lengths):
    sampler = make_sampler(lengths, shares=[Share(100, 1.0), Share(78, 1)])
    assert set(counts(epoch_of(sampler, 0)).values()) == {1}
    assert len(sampler) == len(make_sampler(lengths, shares=None))


class Pairs:
    def __getitem__(self, rows):
        return collate([{"index": r, "source_ids": [5], "target_ids": [5]} for r in rows])


def indices(loader):
    return [tuple(batch.index.tolist()) for batch in loader]


@pytest.mark.parametrize("workers", [0, 2])
def test_a_resumed_epoch_goes_on_with_the_same_part(lengths, workers):
    stopped, resumed, whole = (
        TrainLoader(Pairs(), make_sampler(lengths), num_workers=workers) for _ in range(3)
    )
    stopped.sampler.set_epoch(2)
    iterator = iter(stopped)
    for _ in range(5):
        next(iterator)
    resumed.load_state_dict(stopped.state_dict())
    whole.sampler.set_epoch(2)
    assert indices(resumed) == indices(whole)[5:]
    other = TrainLoader(Pairs(), make_sampler(lengths, shares=[*SHARES[:-1], Share(7, 2)]))
    with pytest.raises(ValueError, match="of other batches than these"):
        other.load_state_dict(stopped.state_dict())
