"""The embedded corpus: a synchronous English-German grammar that generates sentence pairs."""

from nmt.data.grammar.grammar import Grammar
from nmt.data.grammar.splits import generate_splits
from nmt.data.grammar.tokens import GrammarPair, swapped

__all__ = ["Grammar", "GrammarPair", "generate_splits", "swapped"]
