from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from scipy.special import log_softmax

import epsilometer
import epsilometer.auditing.text_audit
from epsilometer.attacks.identification.lexical import LexicalAttack
from epsilometer.auditing.claims.judging import worst_cases
from epsilometer.auditing.claims.verdicts import (
    NOT_REFUTED,
    NOT_TESTABLE,
    VIOLATED,
    expected_successes,
    p_value,
    trial_claims,
    verdict,
)
from epsilometer.auditing.estimation.successes import success_bound
from epsilometer.auditing.schemas import ESTIMATES
from epsilometer.auditing.subject import subject
from epsilometer.auditing.text_audit import Pool
from epsilometer.auditing.trials.design import Design
from epsilometer.auditing.trials.sampling import Trials, sample
from epsilometer.core.attack import Attack, Context
from epsilometer.core.component import IDENTIFICATION, names
from epsilometer.core.guarantees import Granularity, Guarantee, Neighbours
from epsilometer.core.mechanism import Rewrites
from epsilometer.core.randomness import Noise
from epsilometer.mechanisms.controls.identity import Identity
from epsilometer.mechanisms.controls.randomized_response import RandomizedResponse
from epsilometer.questions.which_unit import audit_units
from epsilometer.questions.worst_pair import audit_worst
from tests.support.broken.halved import Halved
from tests.support.broken.noise_reused import NoiseReused
from tests.support.broken.rare_words_pass import RareWordsPass
from tests.support.refusals import refused
from tests.support.spelled import Spelled

TEXTS = [f"please book table {i} for {n} people" for i, n in zip(range(30), "abcdefghij" * 3, strict=True)]


@pytest.fixture
def public(tmp_path: Path) -> Path:
    pl.DataFrame({"text": TEXTS}).write_parquet(tmp_path / "texts.parquet")
    return tmp_path / "texts.parquet"


def test_identity_reaches_the_ceiling() -> None:
    table = epsilometer.audit(TEXTS, Identity(), None, ["lexical"], trials=500, design=Design(temperature=0))
    assert table["loss"].item() == table["ceiling"].item()
    assert table["successes"].item() == 500


def test_a_constant_gives_nothing_away() -> None:
    """Two-sided Clopper-Pearson at 0.01 for each of 2 attacks: false alarm at most 0.01; fixed seed."""

    def constant(text: str, epsilon: float, rng: np.random.Generator) -> str:
        return "no comment"

    table = epsilometer.audit(TEXTS, constant, [0.5], ["lexical", "length"], trials=2000, design=Design(temperature=0))
    assert table["attack"].to_list() == ["lexical", "length", "strongest"]
    assert table["loss"].to_list() == [0, 0, 0]
    assert table["success_rate"].is_between(0.45, 0.55).all()


def test_columns_and_their_order() -> None:
    table = epsilometer.audit(
        TEXTS,
        lambda text, epsilon, rng: text,
        [1, 2],
        ["lexical", "length", "likelihood"],
        trials=50,
        design=Design(temperature=0),
    )
    beside = ["unknown_words", "cut_texts", "distinct", "five_commonest"]
    beside += ["withheld", "truncated", "empty", "reasoning", "apart", "constant", "memory", "loss_of_law"]
    beside += ["overall", "overall_by"]
    assert table.columns == [*list(ESTIMATES)[2:], *beside]
    names = ("lexical", "length", "strongest")
    assert table.select("epsilon", "attack").rows() == [(e, name) for e in (1, 2) for name in names]


@pytest.mark.parametrize("law", [[0.0, -1.0], [0.0, -25.0]])
@pytest.mark.parametrize("audit", [epsilometer.audit, audit_units])
def test_a_claim_that_guesses_cannot_test_is_judged_by_its_worst_case(
    audit: Callable[..., pl.DataFrame], law: list[float], capsys: pytest.CaptureFixture[str]
) -> None:
    """10 nats a word are claimed, beyond any 40 guesses: one law keeps that, the other loses 25 between two words."""
    broken = law[1] < -10
    mechanism = Spelled(np.asarray(log_softmax([law, law[::-1]], axis=1)), claimed=10.0)
    texts = [" ".join(letters) for letters in product("ab", repeat=3)]
    table = audit(texts, mechanism, [1.0], ["lexical"], trials=40, design=Design(temperature=0))
    assert set(table["verdict"]) == {NOT_TESTABLE}  # because guesses alone cannot refute the claim
    assert set(table["overall"]) == {VIOLATED if broken else NOT_REFUTED}
    assert set(table["overall_by"]) == {"exact check by its stated law"}
    said = "the loss between two of 2 inputs is 25 nats, more than the claimed 10"
    assert (said in capsys.readouterr().err) == broken


def test_how_many_inputs_a_claim_was_compared_on_is_said_where_not_all(capsys: pytest.CaptureFixture[str]) -> None:
    def of(letters: int) -> Spelled:
        mechanism = Spelled(np.asarray(log_softmax(np.eye(letters), axis=1)), claimed=10.0)
        mechanism.inputs = mechanism.output_texts = "".join(map(chr, range(0x4E00, 0x4E00 + letters)))
        return mechanism

    worst_cases(of(400), [1.0, 2.0])
    assert "compared" not in capsys.readouterr().err
    worst_cases(of(600), [1.0, 2.0])
    assert capsys.readouterr().err.count("all pairs of 200 of 600 inputs") == 1


def test_an_audit_draws_nothing_to_judge_a_claim() -> None:
    """Draws may err, and no test of an audit pays for them: a claim with a delta is judged by the law, too."""

    class WithDelta(Spelled):
        def guarantee(self, epsilon: float) -> Guarantee:
            return Guarantee(10 * epsilon, Granularity.WORD, Neighbours.SAME_LENGTH, delta=0.1)

    mechanism = WithDelta(np.asarray(log_softmax([[0.0, -1.0], [-1.0, 0.0]], axis=1)), claimed=10.0)
    assert worst_cases(mechanism, [1.0, 2.0])["verdict"].to_list() == [NOT_REFUTED] * 2
    mechanism.laws = None
    assert worst_cases(mechanism, [1.0, 2.0]).is_empty()


def test_embeddings_choose_candidates_and_attack() -> None:
    queries = ["play some jazz", "will it rain", "wake me at six", "flights to boston", "a table for two", "read it"]
    table = epsilometer.audit(queries, Identity(), trials=100, design=Design(candidates=3))
    assert table.select("attack", "candidates", "success_rate").row(0) == ("embedding", 3, 1.0)


def test_a_mechanism_is_named_in_one_way(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text("def rewrite(text, rng):\n    return text\n")
    options = {"attacks": ["lexical"], "trials": 50, "design": Design(temperature=0)}
    losses = [epsilometer.audit(TEXTS, m, **options)["loss"].item() for m in ("identity", str(file), file, Identity())]
    assert losses == [losses[0]] * 4
    assert losses[0] > 2


def test_settings_reach_mechanism_attacks_and_metrics() -> None:
    """Of a mechanism given by name, and of attacks and metrics in a mapping."""
    lists = epsilometer.auditing.text_audit.mechanism("privrewrite", {"k": 3})
    assert lists.k == 3
    attacks = epsilometer.auditing.text_audit.chosen_attacks({"judge": {"model": "some/model"}, "lexical": {}})
    assert (attacks["judge"].model, list(attacks)) == ("some/model", ["judge", "lexical"])
    assert epsilometer.similarity(TEXTS, TEXTS, {"levenshtein": {}}).columns == ["levenshtein"]


def test_all_attacks_that_need_no_large_model_run_by_default(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked_attacks: dict[str, Attack] = {}
    attacked = epsilometer.auditing.text_audit.attacked

    def recorded(pool: Pool, trials: Trials, rewrites: Any, attacks: Any, **more: Any) -> pl.DataFrame:
        asked_attacks.update(attacks)
        return attacked(pool, trials, rewrites, {"length": attacks["length"]}, **more)

    monkeypatch.setattr(epsilometer.auditing.text_audit, "attacked", recorded)
    epsilometer.audit(TEXTS, "randomized_response", [1.0], trials=20, design=Design(temperature=0))
    assert set(asked_attacks) == {*names(IDENTIFICATION)} - {"channel", "judge", "paraphrase"}
    idle, slow = capsys.readouterr().err.splitlines()[:2]
    assert "skipped: internal" in idle
    assert "channel, judge, paraphrase" in slow


def test_randomized_response_chooses_among_the_audited_texts(tmp_path: Path) -> None:
    """Its loss is its epsilon: above it with probability 0.005 (alpha / 2), below 0.8 of it under 1e-6."""
    table = epsilometer.audit(
        TEXTS[:2], "randomized_response", [2.0], ["lexical"], trials=20_000, design=Design(temperature=0)
    )
    assert 0.8 * 2 < table["loss"].item() <= 2
    (tmp_path / "list.txt").write_text("one\ntwo\n")
    with refused("EPS-M031", "text"):
        epsilometer.audit(TEXTS, "randomized_response", [2.0], settings={"resource": tmp_path / "list.txt"}, trials=20)


def test_dir_shows_what_there_is() -> None:
    assert {"audit", "similarity"} <= set(dir(epsilometer))


class ReturnsAList:
    """A mechanism whose rewrite forgets to say that it returns rewrites."""

    def rewrite(self, texts: list[str], epsilon: float, noise: object) -> list[str]:
        return texts

    def guarantee(self, epsilon: float) -> None:
        return None


class ClaimsANumber(Identity):
    """A mechanism whose guarantee forgets to say what its epsilon belongs to."""

    def guarantee(self, epsilon: float) -> float:  # type: ignore[override]
        return epsilon

    def rewrite(self, texts: Sequence[str], epsilon: float, noise: Noise) -> Rewrites:
        raise AssertionError("the claim is looked at before anything is rewritten")


class ClaimsNothing:
    """A mechanism that forgets to say that it claims nothing."""

    def rewrite(self, texts: list[str], epsilon: float, noise: object) -> None:
        raise AssertionError("the claim is looked at before anything is rewritten")


@pytest.mark.parametrize(
    ("change", "refusal"),
    [
        ({"epsilons": [0]}, ("EPS-C033", "epsilon", "0")),
        ({"epsilons": []}, ("EPS-C032", "epsilons")),
        ({"epsilons": ["5"]}, ("EPS-C033", "'5'", "epsilons[0]")),
        ({"trials": 0}, ("EPS-A178", "trials", "1")),
        ({"trials": 10.5}, ("EPS-A177", "trials", "10.5")),
        ({"trials": "10"}, ("EPS-A177", "trials", "'10'")),
        ({"mechanism": ClaimsNothing()}, ("EPS-C050", "ClaimsNothing", "guarantee")),
        ({"candidates": 1}, ("EPS-A170", "candidates")),
        ({"candidates": 31}, ("EPS-A189", "(30)", "31")),
        ({"alpha": 1}, ("EPS-A174", "alpha")),
        ({"attacks": ["embeding"]}, ("EPS-C022", "embeding", "embedding")),
        ({"attacks": ["lexical", "lexical"]}, ("EPS-C019", "attacks", "lexical")),
        ({"attacks": [LexicalAttack(), LexicalAttack()]}, ("EPS-C019", "attacks", "LexicalAttack")),
        ({"texts": []}, ("EPS-A159",)),
        ({"texts": "one string"}, ("EPS-A156",)),
        ({"texts": 5}, ("EPS-A157", "texts", "5")),
        ({"texts": (text for text in ("a", 5))}, ("EPS-A158", "text 2 of 2", "int")),
        ({"texts": ["a", None]}, ("EPS-A158", "text 2 of 2", "NoneType")),
        ({"mechanism": 3}, ("EPS-A161", "mechanism", "3")),
        ({"mechanism": Identity}, ("EPS-A161", "Identity")),
        ({"mechanism": "temm"}, ("EPS-C022", "temm", "'tem'")),
        ({"settings": {"depth": 2}}, ("EPS-A160", "settings")),
        ({"mechanism": "identity", "settings": {"depth": 2}}, ("EPS-C022", "settings", "identity", "depth")),
        ({"epsilons": 5}, ("EPS-C068", "epsilons", "[5]")),
        ({"epsilons": "5"}, ("EPS-C068", "epsilons", "'5'")),
        ({"attacks": []}, ("EPS-C017", "attacks")),
        ({"attacks": "lexical"}, ("EPS-C016", "attacks")),
        ({"attacks": {"lexical": {"depth": 2}}}, ("EPS-C022", "attacks.lexical", "depth")),
        ({"attacks": [dict]}, ("EPS-C018", "guess", "dict")),
        ({"attacks": ["lexical", 5]}, ("EPS-C018", "guess", "5")),
        ({"attacks": ["likelihood"]}, ("EPS-A166", "likelihood")),
        ({"mechanism": lambda text, rng: [text], "temperature": 0}, ("EPS-A183", "list", "text 1")),
        (
            {"mechanism": ReturnsAList(), "epsilons": [1.0], "temperature": 0},
            ("EPS-A181", "epsilometer.core.mechanism.Rewrites", "list"),
        ),
    ],
)
def test_bad_input_is_refused_before_a_model_loads(
    change: dict, refusal: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("epsilometer.models.encoder.Encoder", None)
    design = {name: value for name, value in change.items() if name in ("candidates", "temperature", "alpha")}
    arguments = {"texts": TEXTS, "mechanism": Identity(), **change}
    with refused(*refusal):
        epsilometer.audit(**{k: v for k, v in arguments.items() if k not in design}, design=Design(**design))


def test_a_claim_that_is_none_is_refused_before_anything_is_rewritten() -> None:
    """By whatever would read it: `Identity` has no budget, so a claim of it is a NaN."""
    for measure in (
        epsilometer.audit, audit_units, audit_worst, subject, partial(epsilometer.compare, second="constant"),
    ):  # fmt: skip
        with refused("EPS-C051"):
            measure(TEXTS, ClaimsANumber(), design=Design(temperature=0))


def test_a_design_is_a_design_and_texts_may_come_one_by_one() -> None:
    for measure in (epsilometer.audit, audit_units, audit_worst, subject, epsilometer.surviving_identifiers):
        with refused("EPS-A180"):
            measure(TEXTS, Identity(), design={"temperature": 0})
    table = epsilometer.audit(
        (text for text in TEXTS), Identity(), attacks=["lexical"], trials=np.int64(50), design=Design(temperature=0)
    )
    assert table["trials"].to_list() == [50]


def test_a_users_file(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text("def rewrite(text, epsilon, rng):\n    return text.upper() if rng.random() < 0.5 else ''\n")
    mine = epsilometer.auditing.text_audit.mechanism(str(file))
    table = epsilometer.audit(TEXTS, mine, [1.0], ["lexical"], trials=400, design=Design(temperature=0))
    assert 0.6 < table["success_rate"].item() < 0.9
    file.write_text("def rewrite(text, epsilon, rng):\n    return None\n")
    with refused("EPS-A183", "9", "30"):
        epsilometer.audit(
            TEXTS,
            epsilometer.auditing.text_audit.mechanism(str(file)),
            [1.0],
            ["lexical"],
            trials=4,
            design=Design(temperature=0),
        )
    file.write_text("1 +")
    with refused("EPS-C037", "1"):
        epsilometer.auditing.text_audit.mechanism(str(file))


def judged(mechanism: RandomizedResponse, attack: str) -> str:
    """The verdict on a mechanism's claim of epsilon = 1, as the estimate stage finds it."""
    trials, seed = 20_000, 3
    table = epsilometer.audit(
        TEXTS, mechanism, [1.0], [attack], trials, design=Design(temperature=0, alpha=0.01, seed=seed)
    )
    sets = sample(np.zeros((len(TEXTS), 1), np.float32), trials, 2, 0, seed)
    expected = expected_successes(trial_claims(mechanism, 1.0, TEXTS, sets.candidates), 2, 0.0)
    return verdict(p_value(table["successes"].item(), trials, expected), 0.01)


def test_the_correct_mechanism_is_not_refuted(public: Path) -> None:
    """A tight claim is rejected with probability at most 0.01 by design; fixed seed."""
    pl.DataFrame({"text": TEXTS[:2]}).write_parquet(public)
    assert judged(RandomizedResponse(resource=public), "lexical") == NOT_REFUTED


@pytest.mark.parametrize("broken", [Halved, RareWordsPass])
def test_mechanisms_broken_on_purpose_are_caught(broken: type[RandomizedResponse], public: Path) -> None:
    """Power: with 20,000 trials on two texts each is caught with probability above 0.999; fixed seed."""
    texts, trials = TEXTS[:2], 20_000
    pl.DataFrame({"text": texts}).write_parquet(public)
    table = epsilometer.audit(
        texts, broken(resource=public), [1.0], ["lexical"], trials, design=Design(temperature=0, seed=3)
    )
    expected = trials * np.e / (np.e + 1)
    assert verdict(p_value(table["successes"].item(), trials, expected), 0.01) == VIOLATED


class Agreement:
    """Names the candidate whose two words agree as the rewrite's do."""

    def guess(self, rewrites: Rewrites, candidates: np.ndarray, context: Context) -> np.ndarray:
        alike = np.array([len(set(text.split())) for text in context.texts])
        seen = np.array([len(set(text.split())) for text in rewrites.texts])
        return (alike[candidates] == seen[:, None]).argmax(axis=1).astype(np.int16)


def test_reused_noise_is_caught() -> None:
    """Every guess is right, where the claim of 2 words * 0.1 allows 55 %: certain."""
    table = epsilometer.audit(
        ["yes yes", "yes no"], NoiseReused(), [0.1], [Agreement()], 1000, design=Design(temperature=0)
    )
    bound = 1000 * success_bound(2 * 0.1, 2)
    assert verdict(p_value(table["successes"].item(), 1000, bound), 0.01) == VIOLATED


def test_all_texts_as_candidates_raise_the_ceiling() -> None:
    """ln(k - 1) + ln T - ln ln(2 / alpha) nats, to a thousandth; claims are those of the worst pair."""
    texts = [f"text number {i} of {i * i}" for i in range(300)]
    few, many = (
        epsilometer.audit(texts, Identity(), attacks=["lexical", "length"], trials=500, design=Design(k, 0))
        for k in (2, "all")
    )
    ceiling = np.log(299) + np.log(500) - np.log(np.log(2 / 0.01))
    row = many.filter(attack="lexical").row(0, named=True)
    assert row["candidates"] == 300
    assert row["ceiling"] == pytest.approx(ceiling, abs=0.01)
    assert row["loss"] > few.filter(attack="lexical")["ceiling"].item() + 4


def test_all_texts_as_candidates_of_randomised_response_prove_its_epsilon() -> None:
    """Loss above epsilon with probability .005; no pair may lose more than is claimed for it."""
    table = epsilometer.audit(TEXTS, "randomized_response", [3.0], ["likelihood"], trials=3000, design=Design("all"))
    assert 2.7 < table["loss"].item() <= 3
    assert table["verdict"].item() == NOT_REFUTED


def test_what_needs_a_number_of_candidates_says_so() -> None:
    table = epsilometer.calibrate(TEXTS, "randomized_response", target=1.0, design=Design("all"))
    assert "set a number" in table["reason"].item()
    with refused("EPS-A169", "all", "every"):
        Design("every")  # type: ignore[arg-type]


def test_a_prior_is_known_to_the_adversary_and_proves_no_more_than_epsilon() -> None:
    """The loss lies above epsilon with probability .005; slot 0 is off by 5 standard deviations with 6e-7."""
    design = Design(3, 0, prior=(0.5, 0.3, 0.2))
    table = epsilometer.audit(TEXTS[:3], "randomized_response", [2.0], ["likelihood"], trials=6000, design=design)
    row = table.row(0, named=True)
    assert 1.8 < row["loss"] <= 2
    assert row["verdict"] == NOT_REFUTED
    assert row["worst_output"] is None
    trials, _ = epsilometer.auditing.text_audit.draw(TEXTS[:3], 6000, design)
    assert abs((trials.target == 0).mean() - 0.5) < 5 * 0.5 / 6000**0.5
    blind = epsilometer.audit(TEXTS[:3], lambda t, e, r: "", [2.0], ["length"], trials=600, design=design)
    assert blind["loss"].item() == 0


@pytest.mark.parametrize(
    ("change", "refusal"),
    [
        ({"candidates": 2.5}, ("EPS-C067", "candidates", "k", "2.5")),
        ({"candidates": None}, ("EPS-C067", "candidates", "k", "None")),
        ({"seed": 1.5}, ("EPS-C067", "seed", "1.5")),
        ({"alpha": "0.01"}, ("EPS-C066", "alpha", "0.01")),
        ({"fpr": None}, ("EPS-C066", "fpr", "None")),
        ({"temperature": "0"}, ("EPS-C066", "temperature", "'0'")),
        ({"prior": 0.5}, ("EPS-C068", "prior", "[0.5]")),
    ],
)
def test_a_design_of_other_than_numbers_is_refused(change: dict[str, Any], refusal: tuple[str, ...]) -> None:
    with refused(*refusal):
        Design(**change)


@pytest.mark.parametrize("prior", [(0.5, 0.5, 0.0), (0.5, 0.5), (0.5, 0.4, 0.2)])
def test_a_bad_prior_is_named(prior: tuple[float, ...]) -> None:
    with refused("EPS-A172", "3"):
        Design(3, prior=prior)


@pytest.mark.parametrize("function", [lambda text: text, lambda text, epsilon, rng, more: text])
def test_a_function_of_other_arguments_is_named(function: object) -> None:
    with refused("EPS-C052"):
        epsilometer.audit(TEXTS, function, [1.0], ["lexical"])  # type: ignore[arg-type]


PEOPLE, PLACES = ("我", "我们", "小王", "她的妹妹", "隔壁的老医生"), ("在家", "在北京", "在图书馆里", "在上海的朋友家")
DEEDS = ("看书", "写信给母亲", "学习英语和法语", "买了三本关于历史的书")
CHINESE = [
    who + place + deed + end
    for who in PEOPLE
    for place in PLACES
    for deed in DEEDS
    for end in ("。", "，“真的”！", "……")
]


def hanzi(text: str, epsilon: float, rng: np.random.Generator) -> str:
    """As many characters, and nothing else of the text."""
    return "某" * sum(map(str.isalnum, text))


def marks(text: str, epsilon: float, rng: np.random.Generator) -> str:
    """As many characters, and the punctuation."""
    return "".join("某" if sign.isalnum() else sign for sign in text)


def test_equal_length_is_equally_many_characters_in_chinese(capsys: pytest.CaptureFixture[str]) -> None:
    """By words between spaces all trials were of equal length, at which length proved it all. False alarm .005."""
    quick = Design(temperature=0)
    (row,) = epsilometer.audit(CHINESE, hanzi, [1.0], ["length"], 4000, design=quick).to_dicts()
    assert row["loss"] > 1.5
    assert 200 < row["equal_trials"] < 2000
    assert row["equal_loss"] == 0
    assert "length alone" not in capsys.readouterr().err
    (row,) = epsilometer.audit(CHINESE, marks, [1.0], ["length"], 4000, design=quick).to_dicts()
    assert row["equal_loss"] > 0.4  # two of three texts have different punctuation
    assert f"length alone proves up to {row['equal_loss']:.2g} nats even between texts of equally many words" in (
        capsys.readouterr().err
    )


def test_an_attack_that_names_another_than_the_source_is_noted(capsys: pytest.CaptureFixture[str]) -> None:
    """Every text becomes the other of the two."""
    texts = ["first words alone", "second thing here"]
    swapped = dict(zip(texts, texts[::-1], strict=True))
    epsilometer.audit(texts, lambda text, rng: swapped[text], attacks=["lexical"], trials=100)
    assert "lexical is right in 0 of 100 trials, less often than by chance" in capsys.readouterr().err
    epsilometer.audit(texts, lambda text, rng: "a", attacks=["lexical"], trials=100)
    assert "less often" not in capsys.readouterr().err
