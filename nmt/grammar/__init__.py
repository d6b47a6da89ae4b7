"""The embedded corpus: a synchronous English-German grammar that generates sentence pairs.

It is a measuring instrument. Both sides are grammatical, their length and information are known,
the word alignment is given, and one English sentence has exactly one German sentence and the other
way round, because each choice has one form in each language:

| English | German |
|---|---|
| simple present | Präsens |
| present perfect | Perfekt with `haben` or `sein` as the verb asks; no Präteritum |
| `can`, `must`, `should`, `may`, `want to` | `können`, `müssen`, `sollte`, `dürfen`, `wollen` |
| `cannot`, `may not`, `should not`, `do not want to`; never `must not` | the same with `nicht` |
| `not` and a definite object, or none | `nicht` after objects and time |
| `not a`, `not` and a bare plural or mass noun | `kein` |
| `the`, `a`, no article | definite, indefinite, no article, in the same number |
| `this`, `every`, `many`, `some`, `two` | `dies-`, `jed-`, `viel-`, `einig-`, `zwei` |
| `my`, `his`, `her`, `our`; never `their` (also `ihr`) | `mein`, `sein`, `ihr`, `unser` |
| third person and first person; never `you`, `it`, accusative `them` | no address, no `es` |
| `the house of the man` | genitive after its noun; never `von` |
| `who`, `that`, `whom`, `whose`, `in which` | relative pronoun by gender, number and case |
| subject before objects, always | also where a feminine or neuter subject and object look alike |
| fronted adverbial or clause | the same one in front, then the finite verb |
| adverbials in the order manner, place, cause, time | time and cause, manner, place |
| comma before `and`, `but` of main clauses | the same; none within a clause |
| `when`, `if`, `because`, `although`, `while` | `wenn`, `falls`, `weil`, `obwohl`, `während` |
| `before`, `until`, `as soon as`, `so that` | `bevor`, `bis`, `sobald`, `damit` |

Verbs whose English past looks like the present (`read`, `put`) are left out. Word links are
explained in `tokens`, the order of words in `clauses`, the lexicon in `data/grammar/core.yaml`.
"""

from __future__ import annotations

from nmt.grammar.lexicon import lexicon_path
from nmt.grammar.splits import Grammar, generate_splits
from nmt.grammar.tokens import GrammarPair, swapped

__all__ = ["VERSION", "Grammar", "GrammarPair", "generate_splits", "lexicon_path", "swapped"]

#: Raise it with every change of the generated text: cached corpora are then rebuilt.
VERSION = 1
