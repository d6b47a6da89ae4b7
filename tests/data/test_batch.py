import dataclasses

import pytest
import torch

from nmt import BOS, EOS, PAD
from nmt.data.batch import Batch, collate, collate_source


def example(index, source, target):
    return {"index": index, "source_ids": source, "target_ids": target}


def test_target_is_shifted_by_one_and_padded_on_the_right():
    batch = collate([example(7, [11, 12], [21, 22, 23]), example(5, [13, 14, 15], [24])])
    assert batch.index.tolist() == [7, 5]
    assert batch.source.tolist() == [[11, 12, EOS, PAD], [13, 14, 15, EOS]]
    assert batch.source_mask.tolist() == [[True, True, True, False], [True] * 4]
    assert batch.target_in.tolist() == [[BOS, 21, 22, 23], [BOS, 24, PAD, PAD]]
    assert batch.target_out.tolist() == [[21, 22, 23, EOS], [24, EOS, PAD, PAD]]
    assert (batch.num_target_tokens, len(batch)) == (6, 2)


def test_mask_is_none_when_no_source_is_padded():
    batch = collate([example(0, [11, 12], [21, 22, 23]), example(1, [13, 14], [24])])
    assert batch.source_mask is None


def test_empty_sides_become_just_the_end_of_sentence():
    batch = collate([example(0, [], [21]), example(1, [11], [])])
    assert batch.source.tolist() == [[EOS, PAD], [11, EOS]]
    assert batch.source_mask.tolist() == [[True, False], [True, True]]
    assert batch.target_in.tolist() == [[BOS, 21], [BOS, PAD]]
    assert batch.target_out.tolist() == [[21, EOS], [EOS, PAD]]
    assert batch.num_target_tokens == 3


def test_no_row_is_masked_entirely():
    _, mask = collate_source([[], [11] * 13, [12] * 5])
    assert mask.any(dim=1).all()
    assert mask.sum(dim=1).tolist() == [1, 14, 6]


@pytest.mark.parametrize("sources", [([11], [12, 13]), ([11], [12])])
def test_moving_a_batch_moves_every_tensor_and_keeps_the_counts(sources):
    batch = collate([example(i, source, [21]) for i, source in enumerate(sources)])
    moved = batch.to("meta")
    assert isinstance(moved, Batch)
    for field in dataclasses.fields(Batch):
        value = getattr(moved, field.name)
        if isinstance(value, torch.Tensor):
            assert value.device.type == "meta"
        else:
            assert value == getattr(batch, field.name)
    assert batch.source.device.type == "cpu"
