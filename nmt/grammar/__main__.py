"""Prints samples of the embedded corpus: `python -m nmt.grammar --count 100 --words 30`."""

from __future__ import annotations

import argparse
import random
import signal

from nmt.grammar import Grammar


def main() -> None:
    """Reads the options and prints pairs, a blank line between them."""
    parser = argparse.ArgumentParser(prog="python -m nmt.grammar", description=__doc__)
    parser.add_argument("--count", type=int, default=20, help="number of pairs")
    parser.add_argument("--words", type=int, choices=range(3, 81), metavar="N",
        help="English words, 3 to 80 (default: 3 to 30)")  # fmt: skip
    parser.add_argument("--lexicon", default="core", help="core or full")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--links", action="store_true", help="print the word alignment, too")
    options = parser.parse_args()
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # `| head` ends it without a complaint
    generator = random.Random(options.seed)
    grammar = Grammar(lexicon=options.lexicon)
    for _ in range(options.count):
        words = options.words or generator.randint(3, 30)
        pair = grammar.pair(words, generator)
        print(pair.source, pair.target, f"({pair.bits:.1f} bits)", sep="\n")
        if options.links:
            print(" ".join(f"{source}-{target}" for source, target in pair.sure), end=" | ")
            print(" ".join(f"{source}-{target}" for source, target in pair.possible))
        print()


if __name__ == "__main__":
    main()
