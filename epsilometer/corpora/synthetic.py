"""The embedded data: texts drawn from seeded grammars of English queries, reviews and judged sentences.

Three corpora that need no download. `queries` are requests to a travel desk and a voice assistant, labelled with their
intent. `reviews` are short reviews of shops and services, labelled with their rating and with three attributes of the
author, which show in the choice of words: they make some alternatives likelier, and none certain. A tenth of the
reviews hold identifiers, which are listed beside the text with their kinds. `judgements` are sentences and their
ungrammatical twins, labelled `acceptable`: both of a pair in the training and validation splits, which are balanced,
and one of a pair in the test split, seven in ten of them acceptable, about as in CoLA. The words are in
`grammars/`, a file each.

The same (name, count, seed) gives the same frame on every machine, as long as the versions of numpy and Faker do not
change.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import polars as pl

from epsilometer.core.errors import UserError, unknown
from epsilometer.corpora.grammars.rules import Choice, Parts, Rule, Slot, compiled, grammar

if TYPE_CHECKING:
    from faker import Faker

LARGEST = 20_000  # texts of one corpus; the grammar has been tried up to here

_QUERY_WORDS = range(4, 17)
_REVIEW_WORDS = range(10, 26)
_JUDGED_WORDS = range(4, 17)
_SPLITS = ("train",) * 15 + ("validation",) * 2 + ("test",) * 3
_ACCEPTABLE = {1: 0.7, 0: 0.3}  # of the sentences in the test split

# The labels of the reviews: their values and the share of each.
_LABELS: dict[str, dict[Any, float]] = {
    "rating": {5: 0.45, 4: 0.17, 3: 0.12, 2: 0.10, 1: 0.16},
    "gender": {"F": 0.5, "M": 0.5},
    "age_group": {"under_35": 0.34, "35_54": 0.33, "over_54": 0.33},
    "country": {"united_kingdom": 0.28, "united_states": 0.27, "germany": 0.15, "denmark": 0.15, "france": 0.15},
}
_IDENTIFIED = {True: 0.1, False: 0.9}

# What the grammar calls the values, and where an author's names and numbers come from.
_TASTE = {"F": "F", "M": "M", "under_35": "young", "35_54": "middle", "over_54": "old"}
_TASTE |= dict(zip(_LABELS["country"], ("uk", "us", "de", "dk", "fr"), strict=True))
_LOCALE = dict(zip(_LABELS["country"], ("en_GB", "en_US", "de_DE", "da_DK", "fr_FR"), strict=True))

_WORD = re.compile(r"[a-z0-9]+(?:['’][a-z]+)*")
_RIGHT_WRONG = re.compile(r"\[([^|]*)\|([^]]*)\]")
_GAP = re.compile(r"^ +| +(?=[ .,!]|$)")
_BARE_ARTICLE = re.compile(r"\b([Aa]) (?=(?!one\b|once\b|uni|us[aeiou]|euro)[aeiou]|hour|honest|8|11|18)")
_LONG_WORD_TWICE = re.compile(r"\b(\w{5,}?)s?\b.*\b\1s?\b", re.IGNORECASE)
_SENTENCE_START = re.compile(r"(^|[.!?] )([a-z])")

_Row: TypeAlias = tuple[str, list[str], list[str]]  # text, identifiers, their kinds


def generate(name: str, count: int, seed: int) -> pl.DataFrame:
    """`count` distinct texts of the corpus `name`: "queries", "reviews" or "judgements".

    Returns the columns text, split (train, validation, test: 75, 10, 15 %, but for judgements alike in their labels),
    the labels (of queries: intent; of reviews: rating, gender, age_group, country; of judgements: acceptable) and
    identifiers (list[str]: the names, addresses and numbers that the text holds, verbatim). Raises UserError for an
    unknown name, a count outside 1 to LARGEST or a negative seed.
    """
    corpora: dict[str, Callable[[int, np.random.Generator], tuple[pl.DataFrame, list[_Row]]]]
    corpora = {"queries": _queries, "reviews": _reviews, "judgements": _judgements}
    if name not in corpora:
        raise unknown("synthetic corpus", name, corpora)
    if not 1 <= count <= LARGEST:
        raise UserError(
            f"count of synthetic {name} must be between 1 and {LARGEST}, got {count}; change the count", "EPS-D053"
        )
    if seed < 0:
        raise UserError(f"seed of synthetic {name} must be >= 0, got {seed}; choose another seed", "EPS-D054")
    rng = np.random.Generator(np.random.PCG64(np.random.SeedSequence([seed, *name.encode()])))
    labels, rows = corpora[name](count, rng)
    record = dict.fromkeys(("identifiers", "identifier_kinds"), pl.List(pl.String))
    texts = pl.DataFrame(rows, schema={"text": pl.String, **record}, orient="row")
    if "split" not in labels.columns:
        labels = labels.insert_column(0, _splits(labels, rng))
    return texts.hstack(labels).select("text", *labels.columns, *record)


def _queries(count: int, rng: np.random.Generator) -> tuple[pl.DataFrame, list[_Row]]:
    sections = grammar("queries")
    common, intents = compiled(sections["common"]), sections["intents"]
    scopes = {intent: (compiled(rules), common) for intent, rules in intents.items()}
    faker = _faker("en_US", rng)

    def query(intent: str) -> _Row:
        draft = _Draft(rng, scopes[intent], plant=lambda kind: _identifier(faker, kind).lower())
        return _tidied(draft.write("query")), draft.planted, draft.kinds

    labels = [str(intent) for intent in rng.permutation(np.resize(list(intents), count))]
    return pl.DataFrame({"intent": labels}), _distinct(query, [(intent,) for intent in labels], _QUERY_WORDS)


def _reviews(count: int, rng: np.random.Generator) -> tuple[pl.DataFrame, list[_Row]]:
    sections = grammar("reviews")
    common, shop, service = (compiled(sections[name]) for name in ("common", "shop", "service"))
    scopes = {trade: (compiled(rules), shop, common) for trade, rules in sections["shops"].items()}
    scopes |= {trade: (compiled(rules), service, common) for trade, rules in sections["services"].items()}
    trades = compiled({"trade": sections["trades"]})
    fakers = {country: _faker(locale, rng) for country, locale in _LOCALE.items()}

    def review(rating: int, gender: str, age_group: str, country: str, named: bool) -> _Row:
        author = frozenset(_TASTE[value] for value in (gender, age_group, country))
        trade = _Draft(rng, (trades,), author).write("trade")
        draft = _Draft(rng, scopes[trade], author, lambda kind: _identifier(fakers[country], kind, gender))
        text = _tidied(draft.write(f"{rating} named" if named else f"{rating}"))
        return _SENTENCE_START.sub(lambda start: start[1] + start[2].upper(), text), draft.planted, draft.kinds

    labels = pl.DataFrame({label: _quota(shares, count, rng) for label, shares in _LABELS.items()})
    wanted = [(*row, named) for row, named in zip(labels.rows(), _quota(_IDENTIFIED, count, rng), strict=True)]
    return labels, _distinct(review, wanted, _REVIEW_WORDS)


def _judgements(count: int, rng: np.random.Generator) -> tuple[pl.DataFrame, list[_Row]]:
    """Sentences, each with its twin but in the test split; the last pair of a split may lack the twin."""
    validation, test = round(0.1 * count), round(0.15 * count)
    sizes = {"train": count - validation - test, "validation": validation, "test": test}
    of_test = _quota(_ACCEPTABLE, test, rng)
    paired = {split: -(-size // 2) for split, size in sizes.items() if split != "test"}
    twins = _twins(sum(paired.values()) + test, rng)
    labels, rows = [], list[_Row]()
    for split, size in sizes.items():
        texts = [(1 - wrong, pair[wrong]) for pair in islice(twins, paired.get(split, 0)) for wrong in (0, 1)][:size]
        texts += [(value, next(twins)[1 - value]) for value in of_test] if split == "test" else []
        labels += [(split, value) for value, _ in texts]
        rows += [(text, [], []) for _, text in texts]
    order = rng.permutation(count)
    frame = pl.DataFrame([labels[i] for i in order], schema={"split": pl.String, "acceptable": pl.Int64}, orient="row")
    return frame, [rows[i] for i in order]


def _twins(count: int, rng: np.random.Generator) -> Iterator[tuple[str, str]]:
    """So many pairs (sentence, its ungrammatical twin), of which no two texts are alike, from each template as many."""
    templates, slots = _templates(), _words()
    seen = set[str]()
    for number in range(count):
        while True:
            values = {slot: words[int(rng.integers(len(words)))] for slot, words in slots.items()}
            pair = tuple(_judged(templates[number % len(templates)], values, wrong) for wrong in (0, 1))
            if not seen & {*pair} and all(len(text.split()) in _JUDGED_WORDS for text in pair):
                break
        seen.update(pair)
        yield pair[0], pair[1]


def _templates() -> list[str]:
    """The templates of judged sentences."""
    lines: list[str] = grammar("judgements")["templates"].splitlines()
    return [line for line in lines if not line.startswith("#")]


def _words() -> dict[str, Sequence[object]]:
    """The words of judged sentences by slot; those of several forms have each as an attribute."""
    forms, words = (grammar("judgements")[section] for section in ("forms", "words"))
    return {slot: [_forms(word, forms.get(slot, [])) for word in text.split(", ")] for slot, text in words.items()}


def _forms(word: str, names: list[str]) -> object:
    parts = word.split(":")
    if names == ["one", "many"] and len(parts) == 1:
        parts.append(f"{word}s")
    return SimpleNamespace(**dict(zip(names, parts, strict=True))) if names else word


def _judged(template: str, values: Mapping[str, object], wrong: int) -> str:
    """The sentence with the right or the wrong alternative in its brackets."""
    text = " ".join(_RIGHT_WRONG.sub(lambda match: match[1 + wrong], template).format(**values).split())
    text = text.replace(" ?", "?")
    return text[0].upper() + text[1:] + ("" if text.endswith("?") else ".")


def _distinct(write: Callable[..., _Row], arguments: list[tuple[Any, ...]], words: range) -> list[_Row]:
    """One row for each of the arguments, redrawn until its length fits, it repeats no long word and it is new."""
    rows: dict[str, _Row] = {}
    for argument in arguments:
        key = None
        while key is None or key in rows:
            text, planted, kinds = write(*argument)
            fits = len(_WORD.findall(text.lower())) in words and not _LONG_WORD_TWICE.search(text)
            key = text.lower() if fits else None
        rows[key] = text, planted, kinds
    return list(rows.values())


def _quota(shares: Mapping[Any, float], count: int, rng: np.random.Generator) -> list[Any]:
    """`count` values in random order, each as often as its share asks (rounded)."""
    ends = np.rint(np.cumsum([0.0, *shares.values()]) * count).astype(int)
    values = [value for value, times in zip(shares, np.diff(ends), strict=True) for _ in range(times)]
    return [values[i] for i in rng.permutation(count)]


def _splits(labels: pl.DataFrame, rng: np.random.Generator) -> pl.Series:
    """The split of each row. Rows sorted by label are dealt out twenty at a time, so that splits have alike labels."""
    order = labels.with_row_index("row").sort(labels.columns, maintain_order=True)["row"].to_numpy()
    rounds = [rng.permutation(_SPLITS) for _ in range(-(-len(order) // len(_SPLITS)))]
    splits = np.empty(len(order), dtype=object)
    splits[order] = np.concatenate(rounds)[: len(order)]
    return pl.Series("split", splits.tolist(), dtype=pl.String)


# A text


class _Draft:
    """A text being written. Each rule is looked up in the first scope that has it; no alternative is used twice."""

    def __init__(
        self,
        rng: np.random.Generator,
        scopes: tuple[dict[str, Rule], ...],
        author: frozenset[str] = frozenset(),
        plant: Callable[[str], str] = str,
    ) -> None:
        self.planted: list[str] = []
        self.kinds: list[str] = []
        self._rng, self._scopes, self._author, self._plant = rng, scopes, author, plant
        self._said: set[tuple[str, int]] = set()
        self._item: dict[str, str] = {}
        if any("items" in scope for scope in scopes):
            self._item = _item_forms(self.write("items"))

    def write(self, rule: str) -> str:
        if rule in _IDENTIFIERS:
            self.planted.append(self._plant(rule))
            self.kinds.append(_IDENTIFIERS[rule])
            return self.planted[-1]
        if rule in self._item:
            form = self._item[rule]
            if rule in ("an item", "it", "them"):  # named once, the thing is a pronoun from here on
                self._item |= {"it": self._item["they"], "them": self._item["those"]}
            return form
        alternatives = next(scope[rule] for scope in self._scopes if rule in scope)
        number = alternatives.draw(self._rng, self._author)
        for _ in range(20):
            if (rule, number) not in self._said:
                break
            number = alternatives.draw(self._rng, self._author)
        self._said.add((rule, number))
        return self._render(alternatives.phrases[number][0])

    def _render(self, parts: Parts) -> str:
        words = []
        for part in parts:
            if isinstance(part, Slot):
                words.append(self.write(part.rule))
            elif isinstance(part, Choice):
                words.append(self._render(part.options[int(self._rng.random() * len(part.options))]))
            else:
                words.append(part)
        return "".join(words)


def _item_forms(item: str) -> dict[str, str]:
    """The thing bought and the words that agree with it in number."""
    plural = item.startswith(("a pair of ", "a set of "))
    name = "the " + re.sub("^an? (pair of |set of )?", "", item)
    singular_or_plural = {
        "they": ("it", "they"),
        "those": ("it", "them"),
        "is": ("is", "are"),
        "was": ("was", "were"),
        "has": ("has", "have"),
        "does": ("does", "do"),
        "s": ("s", ""),
        "es": ("es", ""),
    }
    return {"an item": item, "it": name, "them": name} | {k: v[plural] for k, v in singular_or_plural.items()}


def _tidied(text: str) -> str:
    """The text without the gaps that empty options leave, and with "an" for "a" before a vowel."""
    return _BARE_ARTICLE.sub(r"\1n ", _GAP.sub("", text))


# Identifiers

_IDENTIFIERS = {  # rules that plant one, and what it is
    **dict.fromkeys(("person", "staffer", "signature"), "name"),
    "email": "e-mail address",
    "phone": "phone number",
    **dict.fromkeys(("order", "reference"), "order number"),
}


_PROVIDERS = (
    "company",
    "internet",
    "lorem",
    "person",
    "phone_number",
)  # all there are would take twice as long to load


def _faker(locale: str, rng: np.random.Generator) -> Faker:
    from faker import Faker

    faker = Faker(locale, providers=[f"faker.providers.{name}" for name in _PROVIDERS])
    faker.seed_instance(int(rng.integers(2**32)))
    return faker


def _identifier(faker: Faker, kind: str, gender: str = "") -> str:
    match kind:
        case "email":
            return faker.email()
        case "phone":
            return faker.phone_number()
        case "order":
            return faker.bothify(faker.random_element(("#######", "??-######", "###-#######")), letters="ABCDEFGHJKLMN")
        case "reference":
            return faker.bothify("?#??#?", letters="ABCDEFGHJKLMNPQRSTUVWXYZ")
        case "signature":
            first = faker.first_name_female() if gender == "F" else faker.first_name_male()
            return f"{first} {faker.last_name()}"
        case "staffer" if faker.random.random() < 0.6:
            return faker.first_name()
        case _:
            return f"{faker.first_name()} {faker.last_name()}"
