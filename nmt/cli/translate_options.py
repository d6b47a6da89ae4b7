"""The options of the translate program, and the search that they ask for."""

from __future__ import annotations

import argparse
from dataclasses import asdict, fields, replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nmt.decoding.hypothesis import Search

PROGRAM = "nmt-translate"


def parser() -> argparse.ArgumentParser:
    """Returns the parser of the program."""
    made = argparse.ArgumentParser(
        prog=PROGRAM,
        description="Translates lines of text: one line in, one line out, in order, UTF-8.",
    )
    made.add_argument("checkpoint", metavar="CHECKPOINT", help="a .ckpt file written by training")
    _add_files(made.add_argument_group("text"))
    _add_search(made.add_argument_group("search (default: as the checkpoint was tested)"))
    _add_sampling(made.add_argument_group("sampling (any of these draws instead of searching)"))
    _add_machine(made.add_argument_group("machine"))
    made.set_defaults(first_line=1)  # of the input, where several processes share it
    return made


def _add_files(group: Any) -> None:
    add = group.add_argument
    add("--input", metavar="FILE", help="text to translate, .gz too (default: standard input)")
    add("--output", metavar="FILE", help="where translations go (default: standard output)")
    add("--prefix", metavar="FILE", help="what each translation begins with, line by line")
    add(
        "--alignment",
        choices=("word", "subword"),
        help="adds TAB and links of units, source-target from 0, such as 0-0 2-1",
    )
    add(
        "--check-language",
        metavar="MODEL",
        help="says on standard error which translations are clearly in the source language; "
        "a file of scripts/language_id.py",
    )
    add(
        "--score",
        metavar="FILE",
        help="translates nothing: log-probability TAB perplexity of these translations",
    )


def _add_search(group: Any) -> None:
    add = group.add_argument
    add("--beam-size", type=int, metavar="N", help="1 is greedy search")
    add("--length-penalty", type=float, metavar="X", help="score = log p / length^X")
    add("--num-hypotheses", type=int, metavar="N", help="alternatives for every line")
    add("--max-length", type=int, metavar="N", help="most target tokens of a line")
    add("--max-length-ratio", type=float, metavar="X", help="the same for each source token (+10)")
    add("--min-length", type=int, metavar="N", help="fewest target tokens of a line")


def _add_sampling(group: Any) -> None:
    add = group.add_argument
    add("--temperature", type=float, metavar="X", help="below 1 more certain, above 1 more varied")
    add("--top-k", type=int, metavar="N", help="draw from the N most probable tokens")
    add("--top-p", type=float, metavar="X", help="draw from the fewest tokens of probability X")
    add("--seed", type=int, metavar="N", help="another seed gives other translations")


def _add_machine(group: Any) -> None:
    add = group.add_argument
    add("--max-source-length", type=int, default=1024, metavar="N", help="cut longer lines")
    add("--batch-tokens", type=int, default=4096, metavar="N", help="source tokens in a batch")
    add(
        "--chunk-size", type=int, default=2048, metavar="N", help="lines read ahead (default: 2048)"
    )
    add(
        "--engine",
        choices=("torch", "ctranslate2"),
        default="torch",
        help="ctranslate2: CHECKPOINT is a folder that scripts/export_ctranslate2.py wrote",
    )
    add("--device", default="auto", help="cpu, cuda, cuda:1, ... or auto (default)")
    add("--precision", default="fp32", help="fp32 (default), bf16 or fp16")
    add("--threads", type=int, metavar="N", help="CPU threads")


def search_for(search: Any, options: argparse.Namespace) -> Search:
    """Returns the search of a checkpoint, changed as the options say.

    What the old and the new kind of search have in common is kept.

    Raises:
        ValueError: An option is out of range, or two do not go together.
    """
    from nmt.decoding.beam import BeamSearch
    from nmt.decoding.sampling import Sampling

    given = given_search_options(options)
    if given.keys() <= _names(search):
        changed: Search = replace(search, **given)
        return changed
    kind = next((kind for kind in (BeamSearch, Sampling) if given.keys() <= _names(kind)), None)
    if kind is None:
        only_beam = min(given.keys() - _names(Sampling))
        only_sampling = min(given.keys() - _names(BeamSearch))
        raise ValueError(
            f"{option_name(only_sampling)} samples and {option_name(only_beam)} searches: "
            "give one of the two."
        )
    kept = {name: value for name, value in asdict(search).items() if name in _names(kind)}
    return kind(**{**kept, **given})


def given_search_options(options: argparse.Namespace) -> dict[str, Any]:
    """Returns the options of the search that were given, by attribute."""
    from nmt.decoding.beam import BeamSearch
    from nmt.decoding.sampling import Sampling

    names = _names(BeamSearch) | _names(Sampling)
    values = {name: getattr(options, name) for name in sorted(names)}
    return {name: value for name, value in values.items() if value is not None}


def refuse_with_score(options: argparse.Namespace) -> None:
    """Raises ValueError where an option is given that has no meaning with --score."""
    names = ("prefix", "alignment", "check_language")
    of_text = [name for name in names if getattr(options, name) is not None]
    unused = [*given_search_options(options), *of_text]
    if options.max_source_length != parser().get_default("max_source_length"):
        unused.append("max_source_length")
    if unused:
        raise ValueError(
            f"{option_name(unused[0])} has no meaning with --score, which searches nothing: "
            "leave it out."
        )


def option_name(attribute: str) -> str:
    """Returns an option as it is typed."""
    return f"--{attribute.replace('_', '-')}"


def _names(search: Any) -> set[str]:
    return {field.name for field in fields(search)}
