"""Hand-written pairs: each construction of the grammar gives this German for this English."""

import random

import pytest

from nmt.grammar import german
from nmt.grammar.determiners import AN, MANY_, MY, NONE, OUR, THE, THIS
from nmt.grammar.lexicon import load_lexicon
from nmt.grammar.noun_phrases import noun_group
from nmt.grammar.sentences import sentence
from nmt.grammar.tokens import Draw, Table, text
from nmt.grammar.verbs import Tense

PAIRS = [
    # agreement, pronouns, articles
    ("The man sees the dog.", "Der Mann sieht den Hund."),
    ("I see two dogs.", "Ich sehe zwei Hunde."),
    ("Every student knows an answer.", "Jeder Student kennt eine Antwort."),
    ("They love a child.", "Sie lieben ein Kind."),
    # strong, weak and mixed adjectives
    ("The young child sleeps.", "Das junge Kind schläft."),
    ("A young child sleeps.", "Ein junges Kind schläft."),
    ("He drinks cold milk.", "Er trinkt kalte Milch."),
    ("He drinks cold coffee.", "Er trinkt kalten Kaffee."),
    ("She buys an expensive car.", "Sie kauft ein teures Auto."),
    ("An extremely old man laughs.", "Ein äußerst alter Mann lacht."),
    ("My old dog sleeps.", "Mein alter Hund schläft."),
    ("Many young doctors work.", "Viele junge Ärzte arbeiten."),
    # dative, two objects, genitive, weak nouns
    ("She helps the children.", "Sie hilft den Kindern."),
    ("I give the old man a book.", "Ich gebe dem alten Mann ein Buch."),
    ("She gives him the key today.", "Sie gibt ihm heute den Schlüssel."),
    ("The dog of the neighbor sleeps.", "Der Hund des Nachbarn schläft."),
    ("The cat of our sister sleeps.", "Die Katze unserer Schwester schläft."),
    # prepositions
    ("He thinks of her.", "Er denkt an sie."),
    ("They often play with the dog.", "Sie spielen oft mit dem Hund."),
    ("He goes through the forest.", "Er geht durch den Wald."),
    ("She sits in the garden.", "Sie sitzt im Garten."),
    ("She goes into the house.", "Sie geht ins Haus."),
    ("We have gone to the station.", "Wir sind zum Bahnhof gegangen."),
    # separable verbs, perfect, modals
    ("She calls the doctor.", "Sie ruft den Arzt an."),
    ("She has called the doctor.", "Sie hat den Arzt angerufen."),
    ("He has fallen asleep.", "Er ist eingeschlafen."),
    ("The man can open the window.", "Der Mann kann das Fenster aufmachen."),
    ("He wants to wake up.", "Er will aufwachen."),
    # negation
    ("The woman does not see the dog.", "Die Frau sieht den Hund nicht."),
    ("The woman does not see a dog.", "Die Frau sieht keinen Hund."),
    ("They do not buy books.", "Sie kaufen keine Bücher."),
    ("He does not drink milk.", "Er trinkt keine Milch."),
    ("I do not call him.", "Ich rufe ihn nicht an."),
    ("She cannot go into the house.", "Sie kann nicht ins Haus gehen."),
    ("He does not want to sleep.", "Er will nicht schlafen."),
    ("I am not tired.", "Ich bin nicht müde."),
    # inversion, questions
    ("Today the doctor works.", "Heute arbeitet der Arzt."),
    ("Unfortunately, they sleep.", "Leider schlafen sie."),
    ("Because of the rain, she sits in the house.", "Wegen des Regens sitzt sie im Haus."),
    ("Does he see me?", "Sieht er mich?"),
    ("Has she called him?", "Hat sie ihn angerufen?"),
    # relative clauses
    ("The woman who helps him laughs.", "Die Frau, die ihm hilft, lacht."),
    ("The man whom I know laughs.", "Der Mann, den ich kenne, lacht."),
    ("The children whom he helps laugh.", "Die Kinder, denen er hilft, lachen."),
    ("The teacher whose dog sleeps laughs.", "Der Lehrer, dessen Hund schläft, lacht."),
    ("She visits the house in which he works.", "Sie besucht das Haus, in dem er arbeitet."),
    ("She knows the man for whom he waits.", "Sie kennt den Mann, auf den er wartet."),
    ("He buys the book that she needs.", "Er kauft das Buch, das sie braucht."),
    # subordinate clauses, coordination
    (
        "Because he arrives, she opens the door.",
        "Weil er ankommt, macht sie die Tür auf.",
        "before",
    ),
    ("She says that he has opened the door.", "Sie sagt, dass er die Tür aufgemacht hat.", "that"),
    ("He sleeps because she must work.", "Er schläft, weil sie arbeiten muss.", "after"),
    ("I sleep, but he works.", "Ich schlafe, aber er arbeitet.", "joined"),
    ("He opens the door and calls her.", "Er macht die Tür auf und ruft sie an.", "shared"),
    ("The man and the woman dance.", "Der Mann und die Frau tanzen."),
]


class Steered(Draw):
    """A stream of choices that mostly prefers what one English sentence needs next."""

    def __init__(self, english: str, *, shape: str, seed: int, loyalty: float = 0.85) -> None:
        self._generator = random.Random(seed)
        super().__init__(self._generator, load_lexicon("core"))
        self._all = english.lower().replace(",", "").rstrip(".?").split()
        self._hints = {shape, "pronoun"}
        self._loyalty = loyalty
        self.restart()

    def restart(self) -> None:
        super().restart()
        self._left = list(self._all)

    def pick(self, table: Table):
        fitting = [item for item in table.items if self._fits(item)]
        if not fitting or self._generator.random() > self._loyalty:
            return super().pick(table)
        item = self._generator.choice(fitting)
        for word in self._forms(item) & set(self._left):
            self._left.remove(word)
        return item

    def _fits(self, item: object) -> bool:
        if isinstance(item, Tense):
            return self._fits_tense(item)
        return item in self._hints or bool(self._forms(item) & set(self._left))

    def _fits_tense(self, tense: Tense) -> bool:
        words = set(self._all)
        modal = set(tense.modal.english if tense.modal else ())
        return (
            tense.negated == bool(words & {"not", "cannot"})
            and (tense.name == "perfect") == bool(words & {"has", "have"})
            and (not modal or bool(words & (modal | {"cannot"})))
        )

    @staticmethod
    def _forms(item: object) -> set[str]:
        forms = getattr(item, "english", ())
        forms = {forms} if isinstance(forms, str) else {form for form in forms if form}
        forms |= {getattr(item, "base", None), getattr(item, "participle", None)} - {None}
        return {form.lower() for form in forms} | ({"an"} if item is AN else set())


@pytest.mark.parametrize(
    ("english", "expected", "shape"),
    [(*pair, "alone")[:3] for pair in PAIRS],
    ids=[pair[0] for pair in PAIRS],
)
def test_construction(english, expected, shape):
    draw = Steered(english, shape=shape, seed=1)
    length = len(english.split())
    for _ in range(4_000):
        draw.restart()
        source, target = sentence(draw, length)
        if text(source) == english:
            assert text(target) == expected
            return
    pytest.fail("the grammar did not make the sentence")


GROUPS = [
    ("man", 0, THE, "der alte Mann|den alten Mann|dem alten Mann|des alten Mannes"),
    ("man", 0, AN, "ein alter Mann|einen alten Mann|einem alten Mann|eines alten Mannes"),
    ("man", 1, THE, "die alten Männer|die alten Männer|den alten Männern|der alten Männer"),
    ("man", 1, NONE, "alte Männer|alte Männer|alten Männern|alter Männer"),
    ("woman", 0, MY, "meine alte Frau|meine alte Frau|meiner alten Frau|meiner alten Frau"),
    ("child", 0, OUR, "unser altes Kind|unser altes Kind|unserem alten Kind|unseres alten Kindes"),
    (
        "student",
        0,
        THIS,
        "dieser alte Student|diesen alten Studenten|diesem alten Studenten|dieses alten Studenten",
    ),
    (
        "girl",
        1,
        MANY_,
        "viele alte Mädchen|viele alte Mädchen|vielen alten Mädchen|vieler alter Mädchen",
    ),
]


@pytest.mark.parametrize(("word", "many", "determiner", "expected"), GROUPS)
def test_noun_group_in_four_cases(word, many, determiner, expected):
    nouns = load_lexicon("core").nouns["person"]
    noun = next(noun for noun in nouns if noun.english[0] == word)
    forms = []
    for case in (german.NOMINATIVE, german.ACCUSATIVE, german.DATIVE, german.GENITIVE):
        draw = Steered("old", shape="alone", seed=2, loyalty=1.0)
        group = noun_group(draw, noun, many=many, determiner=determiner, modifiers=1, case=case)
        forms.append(text(group.german))
    assert "|".join(forms) == expected


@pytest.mark.parametrize(
    ("infinitive", "first", "third", "participle"),
    [
        ("kaufen", "kaufe", "kauft", "gekauft"),
        ("arbeiten", "arbeite", "arbeitet", "gearbeitet"),
        ("besuchen", "besuche", "besucht", "besucht"),
        ("reparieren", "repariere", "repariert", "repariert"),
        ("lächeln", "lächle", "lächelt", "gelächelt"),
        ("bewundern", "bewundere", "bewundert", "bewundert"),
    ],
)
def test_regular_german_verbs(infinitive, first, third, participle):
    assert german.present_forms(infinitive, third=None, first=None) == (first, third, infinitive)
    assert german.participle_of(infinitive) == participle
