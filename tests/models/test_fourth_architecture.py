"""The README's promise: a new architecture is one file and one yaml, and all else works with it."""

from number_words import corpus_options, make_run, trainer_options
from omegaconf import OmegaConf

import nmt.models
from nmt.translator import Translator

FILE = '''
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from nmt.models.encoder_decoder import Attention, EncoderDecoder, State


@dataclass(frozen=True)
class BagState(State):
    """The mean of the source and the last hidden state, (N, D) and (1, N, D)."""

    source: Tensor
    hidden: Tensor

    def select(self, rows):
        return BagState(self.source[rows], self.hidden[:, rows])

    def reorder(self, rows):
        return replace(self, hidden=self.hidden[:, rows])


class BagOfWords(EncoderDecoder):
    """Reads the source as the mean of its embeddings; writes with a GRU."""

    def __init__(self, *, vocab_size, width):
        super().__init__()
        self.table = nn.Embedding(vocab_size, width)
        self.gru = nn.GRU(2 * width, width, batch_first=True)
        self.output = nn.Linear(width, vocab_size)

    def start(self, source, source_mask):
        mask = torch.ones_like(source) if source_mask is None else source_mask
        words = self.table(source) * mask.unsqueeze(-1)
        mean = words.sum(1) / mask.sum(1, keepdim=True)
        return BagState(mean, torch.tanh(mean).unsqueeze(0))

    def step(self, tokens, state):
        context = state.source.unsqueeze(1).expand(-1, tokens.shape[1], -1)
        inputs = torch.cat([self.table(tokens), context], -1)
        states, hidden = self.gru(inputs, state.hidden.contiguous())
        return self.output(states), replace(state, hidden=hidden)

    def attention(self, source, source_mask, target_in) -> Attention:
        raise ValueError("a bag of words has no attention; ask bahdanau or transformer")
'''
YAML = "_target_: nmt.models.bag.BagOfWords\nwidth: 13\n"


def test_one_file_and_one_yaml_train_search_and_translate(tmp_path, monkeypatch):
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "bag.py").write_text(FILE, encoding="utf-8")
    (tmp_path / "bag.yaml").write_text(YAML, encoding="utf-8")
    monkeypatch.setattr(nmt.models, "__path__", [*nmt.models.__path__, str(tmp_path / "models")])
    run = make_run(
        *corpus_options(tmp_path / "text"),
        *trainer_options(tmp_path / "run", max_steps=3),
        model=OmegaConf.load(tmp_path / "bag.yaml"),
    )
    translator = Translator.from_checkpoint(run.fit())
    translations = translator.translate(["one two three", "four"])
    assert [translation.source for translation in translations] == ["one two three", "four"]
    assert type(translator.model).__name__ == "BagOfWords"
