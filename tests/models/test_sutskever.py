"""What is particular to the stacked LSTMs."""

import pytest
import torch
from models_for_tests import VOCAB_SIZE, tiny_model

LENGTHS = [11, 5, 2]
MASK = torch.arange(11) < torch.tensor(LENGTHS)[:, None]


@pytest.mark.parametrize("reverse", [True, False])
def test_the_target_starts_from_the_states_after_the_last_token_read(reverse):
    model = tiny_model("sutskever", reverse_source=reverse)
    source = torch.randint(4, VOCAB_SIZE, (3, 11))
    state = model.start(source, MASK)
    for row, length in enumerate(LENGTHS):
        alone = source[row : row + 1, :length]
        _, (hidden, cell) = model.encoder(model.embedding(alone.flip(1) if reverse else alone))
        torch.testing.assert_close(state.hidden[:, row], hidden[:, 0])
        torch.testing.assert_close(state.cell[:, row], cell[:, 0])


def test_nothing_but_the_state_is_carried_on():
    """Two sources with the same state would have the same translation."""
    model = tiny_model("sutskever")
    state = model.start(torch.randint(4, VOCAB_SIZE, (3, 11)), MASK)
    numbers = sum(tensor[:, 0].numel() for tensor in vars(state).values())
    assert numbers == 2 * 2 * 17  # h and c of two layers, whatever the length
