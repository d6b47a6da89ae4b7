import numpy as np
import pytest

from nmt.data import sampler as sampler_module
from nmt.data.sampler import TokenBatchSampler, cut, split_largest


@pytest.fixture
def caption_lengths():
    """29,009 pairs as long as those of Multi30k: most of 10 to 20 tokens, targets close by."""
    random = np.random.default_rng(3)
    source = np.clip(np.exp(random.normal(2.7, 0.35, 29_009)), 5, 40).astype(int)
    target = np.clip(source + random.integers(-3, 5, len(source)), 4, 47)
    return source, target


@pytest.fixture
def as_rank(monkeypatch):
    def become(rank, world):
        monkeypatch.setattr(sampler_module, "rank_and_world", lambda: (rank, world))

    return become


def epoch_of(sampler, epoch):
    sampler.set_epoch(epoch)
    return list(sampler)


def flat(batches):
    return [pair for batch in batches for pair in batch]


def test_every_pair_appears_exactly_once_in_an_epoch(caption_lengths):
    sampler = TokenBatchSampler(*caption_lengths, token_budget=1024)
    for epoch in range(2):
        assert sorted(flat(epoch_of(sampler, epoch))) == list(range(29_009))


def test_no_batch_of_several_pairs_costs_more_than_the_budget(caption_lengths):
    longer = np.maximum(*caption_lengths)
    for batch in TokenBatchSampler(*caption_lengths, token_budget=300):
        assert len(batch) * longer[batch].max() <= 300


def test_a_pair_over_the_budget_is_a_batch_of_its_own():
    sampler = TokenBatchSampler([5] * 20 + [80], [7] * 21, token_budget=50)
    batches = list(sampler)
    assert [20] in batches
    assert sorted(flat(batches)) == list(range(21))


def test_cut_agrees_with_adding_one_pair_at_a_time():
    random = np.random.default_rng(5)
    for _ in range(200):
        lengths = np.sort(random.integers(1, random.integers(2, 43), random.integers(1, 61)))
        budget = int(random.integers(1, 97))
        expected, start = [], 0
        for i, length in enumerate(lengths):
            if i > start and (i - start + 1) * length > budget:
                expected.append(i)
                start = i
        assert cut(lengths, budget).tolist() == [*expected, len(lengths)]


def test_the_costliest_batch_is_halved_until_the_count_is_right():
    lengths = np.array([1, 1, 1, 2, 2, 2, 2, 90])
    # batches of 3 x 1, 4 x 2 and 1 x 90: the last is costly but cannot be split
    assert split_largest(np.array([3, 7, 8]), lengths, 4).tolist() == [3, 5, 7, 8]
    assert split_largest(np.array([3, 7, 8]), lengths, 8).tolist() == list(range(1, 9))


@pytest.mark.parametrize("budget", [1024, 2048, 4096])
def test_padding_is_at_most_six_percent(caption_lengths, budget):
    source, target = caption_lengths
    tokens = source.sum() + target.sum()
    padded = sum(
        len(batch) * (source[batch].max() + target[batch].max())
        for batch in TokenBatchSampler(source, target, token_budget=budget)
    )
    assert 1 - tokens / padded <= 0.06


def test_orders_differ_between_epochs_and_are_equal_for_equal_seeds(caption_lengths):
    one, same = (TokenBatchSampler(*caption_lengths, token_budget=512, seed=7) for _ in range(2))
    other = TokenBatchSampler(*caption_lengths, token_budget=512, seed=8)
    epochs = [epoch_of(one, epoch) for epoch in range(3)]
    assert epochs == [epoch_of(same, epoch) for epoch in range(3)]
    assert len({tuple(flat(batches)) for batches in epochs}) == 3
    assert epoch_of(other, 0) != epochs[0]
    # not only the order of the batches: pairs of one shape are mixed anew
    assert {frozenset(batch) for batch in epochs[0]} != {frozenset(batch) for batch in epochs[1]}


def test_number_of_batches_depends_on_lengths_only(caption_lengths):
    shuffled = np.random.default_rng(0).permutation(29_009)
    counts = {
        len(epoch_of(TokenBatchSampler(source, target, token_budget=700, seed=seed), epoch))
        for seed, epoch in [(1, 0), (2, 0), (1, 9)]
        for source, target in [caption_lengths, [lengths[shuffled] for lengths in caption_lengths]]
    }
    assert len(counts) == 1
    assert counts.pop() % 8 == 0


@pytest.mark.parametrize("world", [2, 4, 8])
def test_ranks_share_the_batches_that_one_rank_would_see(caption_lengths, as_rank, world):
    sampler = TokenBatchSampler(*caption_lengths, token_budget=1024)
    alone = epoch_of(sampler, 3)
    ranks = []
    for rank in range(world):
        as_rank(rank, world)
        ranks.append(list(sampler))
        assert len(ranks[-1]) == len(sampler) == len(alone) // world
    together = [batch for step in zip(*ranks, strict=True) for batch in step]
    assert together == alone


@pytest.mark.parametrize("world", [3, 5, 6])
def test_other_numbers_of_ranks_get_equal_shares_without_repetition(
    caption_lengths, as_rank, world
):
    sampler = TokenBatchSampler(*caption_lengths, token_budget=1024)
    ranks = []
    for rank in range(world):
        as_rank(rank, world)
        ranks.append(list(sampler))
        assert len(ranks[-1]) == len(sampler)
    assert len({len(batches) for batches in ranks}) == 1
    assert sorted(flat(flat(ranks))) == list(range(29_009))


@pytest.mark.parametrize(("world", "accumulate"), [(1, 3), (1, 16), (2, 5)])
def test_an_epoch_ends_with_an_update(caption_lengths, as_rank, world, accumulate):
    sampler = TokenBatchSampler(*caption_lengths, token_budget=1024, accumulate=accumulate)
    as_rank(0, world)
    assert len(sampler) % accumulate == 0
    assert len(list(sampler)) == len(sampler)


def test_accumulated_batches_are_those_of_as_many_ranks(caption_lengths, as_rank):
    one = list(TokenBatchSampler(*caption_lengths, token_budget=1024, accumulate=3))
    sampler = TokenBatchSampler(*caption_lengths, token_budget=1024)
    ranks = []
    for rank in range(3):
        as_rank(rank, 3)
        ranks.append(list(sampler))
    assert one == flat(zip(*ranks, strict=True))


def test_too_few_pairs_for_the_ranks_are_repeated_and_counted(as_rank):
    sampler = TokenBatchSampler([3, 4, 5], [3, 4, 5], token_budget=5)
    ranks = []
    for rank in range(2):
        as_rank(rank, 2)
        with pytest.warns(UserWarning, match="3 training batches .* 1 of the 4 batches"):
            ranks.append(list(sampler))
        assert len(sampler) == len(ranks[-1]) == 2
    assert set(flat(flat(ranks))) == {0, 1, 2}


def test_evaluation_goes_from_long_to_short_and_loses_nothing(caption_lengths):
    sampler = TokenBatchSampler(*caption_lengths, token_budget=1000, shuffle=False)
    longest = [np.maximum(*caption_lengths)[batch].max() for batch in sampler]
    assert longest == sorted(longest, reverse=True)
    assert sorted(flat(sampler)) == list(range(29_009))
    assert len(sampler) == len(longest)
    assert epoch_of(sampler, 0) == epoch_of(sampler, 1)


def test_evaluation_shards_may_be_uneven_but_keep_the_tail(as_rank):
    sampler = TokenBatchSampler([2] * 11, [2] * 11, token_budget=8, shuffle=False)
    ranks = []
    for rank in range(2):
        as_rank(rank, 2)
        ranks.append(list(sampler))
        assert len(sampler) == len(ranks[-1])
    assert [len(batches) for batches in ranks] == [2, 1]
    assert sorted(flat(flat(ranks))) == list(range(11))


def test_a_rank_without_an_evaluation_batch_repeats_the_first(as_rank):
    sampler = TokenBatchSampler([2], [3], token_budget=8, shuffle=False)
    for rank in range(3):
        as_rank(rank, 3)
        assert list(sampler) == [[0]]
        assert len(sampler) == 1


def test_start_leaves_out_the_first_batches_of_the_same_order(caption_lengths):
    sampler = TokenBatchSampler(*caption_lengths, token_budget=1024)
    whole = list(sampler)
    sampler.start = 11
    assert list(sampler) == whole[11:]
    assert len(sampler) == len(whole)


@pytest.mark.parametrize("count", [1, 3, 5, 40])
def test_the_first_batches_of_a_spread_evaluation_are_of_all_lengths(count):
    lengths = list(range(2, 122))
    batches = [*TokenBatchSampler(lengths, lengths, token_budget=1, shuffle=False, spread=True)]
    assert sorted(row for batch in batches for row in batch) == list(range(120))
    first = [lengths[row] for (row,) in batches[:count]]
    assert abs(sum(first) / count - 61.5) < 15
