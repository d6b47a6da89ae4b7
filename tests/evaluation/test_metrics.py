"""Scores are sacreBLEU's, on raw text, and nothing is scored that was not asked for."""

import json
import subprocess
import sys

import pytest

from nmt.evaluation import metrics
from nmt.evaluation.metrics import METRICS, bleu, bleu_tokenizer, check_metrics, score

REFERENCES = [
    "Der ﬁnale Plan  kostet ½ Euro – mehr nicht.",
    "Ein Mädchen läuft durch den Garten.",
    "Das Zeichen \u2603\u2028 steht hier, \x85und  hier\xa0auch.",
    " ".join(["Wort"] * 250 + ["und"] * 250),
    "Sie liest &quot;Faust&quot; im Zug.",
    "",
]
HYPOTHESES = [
    "Der finale Plan kostet 1/2 Euro - mehr nicht.",
    "Ein mädchen läuft in den Garten.",
    "Das Zeichen ? steht hier, und hier auch.",
    " ".join(["Wort"] * 230 + ["oder"] * 250),
    "",
    "Etwas.",
]


def command_line_scores(tmp_path, *options, references=("reference",)):
    for name, lines in (("reference", REFERENCES), ("hypothesis", HYPOTHESES)):
        text = "".join(line + "\n" for line in lines)
        (tmp_path / name).write_bytes(text.encode("utf-8"))
    command = [sys.executable, "-m", "sacrebleu", *references, "-i", "hypothesis", "-w", "2"]
    command += ["-m", "bleu", "chrf", "ter", *options]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, check=True)
    return {entry["name"]: entry for entry in json.loads(result.stdout)}


@pytest.mark.parametrize(
    ("target_lang", "options"),
    [("de", []), ("zh", ["-tok", "zh", "--ter-normalized", "--ter-asian-support"])],
)
def test_scores_and_signatures_equal_the_sacrebleu_command_line(tmp_path, target_lang, options):
    """Ligatures, fractions, double spaces, odd line separators, 500 tokens."""
    ours = score(HYPOTHESES, REFERENCES, target_lang=target_lang, metrics=METRICS)
    theirs = command_line_scores(tmp_path, *options)
    for name, value, signature in (
        ("BLEU", ours.bleu, ours.signature),
        ("chrF2", ours.chrf, ours.chrf_signature),
        ("TER", ours.ter, ours.ter_signature),
    ):
        assert (round(value, 2), signature) == (theirs[name]["score"], theirs[name]["signature"])


def test_several_references_score_as_on_the_command_line(tmp_path):
    second = ["Der letzte Plan kostet 1/2 Euro - mehr nicht.", *REFERENCES[1:4], "", "Etwas mehr."]
    (tmp_path / "second").write_bytes("".join(line + "\n" for line in second).encode())
    theirs = command_line_scores(tmp_path, references=("reference", "second"))
    ours = score(HYPOTHESES, REFERENCES, second, target_lang="de")
    assert round(ours.bleu, 2) == theirs["BLEU"]["score"]
    assert round(ours.chrf, 2) == theirs["chrF2"]["score"]
    assert ours.signature == theirs["BLEU"]["signature"]
    assert ours.bleu > score(HYPOTHESES, REFERENCES, target_lang="de").bleu


def test_ter_is_computed_on_request_only():
    assert score(HYPOTHESES, REFERENCES, target_lang="de").ter is None
    with pytest.raises(ValueError, match="metrics has 'comet'; choose from bleu, chrf, ter"):
        check_metrics("de", ["bleu", "comet"])


def test_case_counts_in_bleu_and_chrf():
    lower, upper = ["das haus ist sehr groß."], ["Das Haus ist sehr groß."]
    assert score(upper, upper, target_lang="de").bleu == pytest.approx(100)
    assert score(lower, upper, target_lang="de").bleu < 100
    assert score(lower, upper, target_lang="de").chrf < 100


@pytest.mark.parametrize(
    ("hypotheses", "references"), [(["a"] * 2, ["a"]), (["a"], ["a"] * 2), ([], []), (["a"], "a")]
)
@pytest.mark.parametrize("function", [score, bleu])
def test_unequal_counts_are_refused_naming_both(function, hypotheses, references):
    """sacreBLEU itself cuts to the shorter list."""
    message = f"{len(hypotheses)} hypotheses and {len(references)} references"
    with pytest.raises(ValueError, match=message):
        function(hypotheses, references, target_lang="de")


def test_short_hypotheses_pay_the_brevity_penalty_not_the_references():
    """Swapped arguments would show here: 3 tokens against 6, exp(1 - 6/3)."""
    result = score(["Der Hund bellt"], ["Der Hund bellt im Garten."], target_lang="de")
    assert result.brevity_penalty == pytest.approx(2.718281828**-1)
    assert result.length_ratio == pytest.approx(0.5)


def test_empty_hypotheses_and_references_are_scored_and_counted():
    full = "Der Hund bellt im Garten."
    result = score(["", " \t", full], [full, "", full], target_lang="de")
    assert (result.num_sentences, result.num_empty) == (3, 2)
    assert 0 < result.bleu < 100
    for references in ([full, full], ["", ""]):
        result = score(["", ""], references, target_lang="de")
        assert (result.bleu, result.chrf, result.num_empty) == (0.0, 0.0, 2)


@pytest.mark.parametrize("target_lang", ["de", "zh"])
def test_the_fast_path_is_the_same_bleu(target_lang):
    """Validation and test may not disagree, also when the metric is used again."""
    expected = score(HYPOTHESES, REFERENCES, target_lang=target_lang).bleu
    for _ in range(2):
        assert bleu(HYPOTHESES, REFERENCES, target_lang=target_lang) == expected
        bleu(["ein anderer Satz"], ["noch ein Satz"], target_lang=target_lang)


@pytest.mark.parametrize(
    ("target_lang", "tokenizer"),
    [
        ("de", "13a"),
        ("en", "13a"),
        ("zh", "zh"),
        ("zh-CN", "zh"),
        ("zho_Hans", "zh"),
        ("JA", "ja-mecab"),
        ("jpn_Jpan", "ja-mecab"),
        ("ko_KR", "ko-mecab"),
        ("kok", "13a"),
    ],
)
def test_the_tokenizer_follows_the_target_language(target_lang, tokenizer):
    assert bleu_tokenizer(target_lang) == tokenizer


def test_chinese_is_scored_by_character_and_says_so():
    """One sentence without spaces is 0.0 under 13a even when identical."""
    sentence = ["我今天很高兴"]
    result = score(sentence, sentence, target_lang="zh")
    assert result.bleu == pytest.approx(100)
    assert "tok:zh" in result.signature
    one_of_six_wrong = score(["我今天不高兴"], sentence, target_lang="zh", metrics=["ter"])
    assert one_of_six_wrong.ter == pytest.approx(100 / 6)


@pytest.mark.parametrize(("target_lang", "module"), [("ja", "ja_mecab"), ("ko", "ko_mecab")])
def test_a_missing_tokenizer_package_is_an_install_hint_at_start(monkeypatch, target_lang, module):
    monkeypatch.setattr(f"sacrebleu.tokenizers.tokenizer_{module}.MeCab", None)
    metrics._bleu_metric.cache_clear()
    with pytest.raises(ValueError, match=rf'pip install "sacrebleu\[{target_lang}\]"') as caught:
        check_metrics(target_lang)
    assert "\n" not in str(caught.value)
