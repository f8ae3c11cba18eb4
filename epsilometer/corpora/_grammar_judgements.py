"""Sentences and their ungrammatical twins: words, and templates in which [right|wrong] is what tells the two apart.

A slot {v.past} is the past tense of whatever is drawn for v, and has one value in both sentences of a pair.
"""

from __future__ import annotations

from typing import NamedTuple


class Noun(NamedTuple):
    """Singular and plural."""

    one: str
    many: str


class Verb(NamedTuple):
    """write, writes, wrote, written, writing."""

    base: str
    s: str
    past: str
    done: str
    ing: str


class Adjective(NamedTuple):
    """tall, taller."""

    plain: str
    more: str


class Person(NamedTuple):
    """A singular noun with the pronouns that go with it, and those that do not: subject, object, reflexive."""

    one: str
    they: str
    them: str
    own: str
    other: str


def _words(words: str) -> tuple[str, ...]:
    return tuple(words.split())


def _nouns(words: str) -> tuple[Noun, ...]:
    pairs = (word.partition(":") for word in words.split())
    return tuple(Noun(one, many or f"{one}s") for one, _, many in pairs)


def _verbs(words: str) -> tuple[Verb, ...]:
    return tuple(Verb(*word.split(":")) for word in words.split())


_HE, _SHE = ("he", "him", "himself", "herself"), ("she", "her", "herself", "himself")

WORDS: dict[str, tuple[object, ...]] = {
    "n": _nouns(  # people
        "teacher pilot nurse driver painter baker farmer lawyer neighbour student doctor waiter tourist singer guard "
        "sailor gardener judge engineer dentist plumber librarian tailor grocer clerk visitor cousin sculptor"
    ),
    "m": _nouns(
        "boy girl child:children dog cat horse friend guest stranger colleague customer soldier poet thief:thieves"
    ),
    "t": _nouns(  # things
        "door box:boxes letter car bicycle watch:watches window basket chair lamp bag suitcase clock bottle drawer "
        "ladder piano camera table mirror key ticket picture blanket kettle coat knife:knives map"
    ),
    "u": _nouns("book apple parcel plate candle shirt shoe hammer carpet violin tent boat wallet pencil"),
    "v": _verbs(
        "hide:hides:hid:hidden:hiding steal:steals:stole:stolen:stealing "
        "break:breaks:broke:broken:breaking forget:forgets:forgot:forgotten:forgetting "
        "draw:draws:drew:drawn:drawing choose:chooses:chose:chosen:choosing take:takes:took:taken:taking "
        "see:sees:saw:seen:seeing throw:throws:threw:thrown:throwing shake:shakes:shook:shaken:shaking"
    ),
    "w": _verbs(
        "carry:carries:carried:carried:carrying clean:cleans:cleaned:cleaned:cleaning "
        "repair:repairs:repaired:repaired:repairing paint:paints:painted:painted:painting "
        "move:moves:moved:moved:moving wash:washes:washed:washed:washing watch:watches:watched:watched:watching "
        "describe:describes:described:described:describing admire:admires:admired:admired:admiring "
        "borrow:borrows:borrowed:borrowed:borrowing measure:measures:measured:measured:measuring"
    ),
    "i": _verbs(  # without an object
        "sleep:sleeps:slept:slept:sleeping arrive:arrives:arrived:arrived:arriving "
        "laugh:laughs:laughed:laughed:laughing sneeze:sneezes:sneezed:sneezed:sneezing "
        "smile:smiles:smiled:smiled:smiling wait:waits:waited:waited:waiting faint:faints:fainted:fainted:fainting "
        "vanish:vanishes:vanished:vanished:vanishing"
    ),
    "r": _verbs(
        "blame:blames:blamed:blamed:blaming praise:praises:praised:praised:praising "
        "defend:defends:defended:defended:defending amuse:amuses:amused:amused:amusing "
        "introduce:introduces:introduced:introduced:introducing hurt:hurts:hurt:hurt:hurting"
    ),
    "p": tuple(
        Person(name, *_HE) for name in ("the king", "my uncle", "her brother", "the monk", "Peter", "your father")
    )
    + tuple(Person(name, *_SHE) for name in ("the queen", "my aunt", "his sister", "the nun", "Maria", "your mother")),
    "a": tuple(
        Adjective(plain, more)
        for plain, _, more in (
            word.partition(":")
            for word in _words(
                "tall:taller old:older young:younger kind:kinder quiet:quieter rude:ruder strong:stronger slow:slower "
                "clever:cleverer proud:prouder busy:busier happy:happier"
            )
        )
    ),
    "b": _words("heavy small red green broken expensive dusty wooden strange useful empty dirty"),
    "wants": _words("wants hopes plans promises decides refuses agrees"),
    "enjoys": _words("enjoys avoids finishes dislikes keeps denies"),
    "place": (
        *("in the kitchen", "at the station", "in the garden", "behind the house", "near the river", "in the library"),
        *("at the market", "on the train", "under the bridge", "beside the church", "in the cellar", "on the roof"),
    ),
    "when": (
        *("yesterday", "this morning", "last week", "on Monday", "before lunch", "after the storm", "in the evening"),
        *("again", "in the end", "at noon", "without a word", "for the first time"),
    ),
    "number": _words("two three four five several many"),
}

TEMPLATES: tuple[str, ...] = (
    # agreement of subject and verb, across what stands between them
    "the {n.one} near the {m.many} [{w.s}|{w.base}] the {b} {t.one} {place}",
    "the {n.many} behind the {m.one} [{w.base}|{w.s}] the {t.many} {when}",
    "every {n.one} [{w.s}|{w.base}] a {b} {t.one} {when}",
    "there [are|is] {number} {b} {t.many} {place}",
    "the {n.one} who knows the {m.many} [was|were] {a.plain} {when}",
    # determiner and noun
    "[these|this] {t.many} and the {u.one} are {b}",
    "the {n.one} {w.past} {number} {b} [{t.many}|{t.one}] {when}",
    "the {n.one} {v.past} [that|those] {t.one} {place}",
    # forms after auxiliaries
    "the {n.one} has [{v.done}|{v.past}] the {b} {t.one} {when}",
    "the {n.many} have never [{v.done}|{v.base}] a {t.one} {place}",
    "did the {n.one} [{v.base}|{v.past}] the {t.one} {place}?",
    "the {t.one} was [{v.done}|{v.ing}] by the {a.plain} {n.one} {when}",
    "the {n.one} must [{w.base}|{w.s}] the {t.many} {when}",
    # reflexives and case
    "{p.one} [{r.past} {p.own}|{r.past} {p.other}] {place}",
    "the {a.plain} {n.many} {r.past} [themselves|itself] {when}",
    "[{p.they}|{p.them}] {w.past} the {t.one} {when}",
    "the {n.one} and the {m.one} {r.past} [{p.them}|{p.they}] {place}",
    # what a verb takes
    "the {n.one} {i.past} [{place}|the {t.one}] {when}",
    "{p.one} put the {t.one} [{place}|] {when}",
    "the {n.one} gave the {m.one} [a|to a] {b} {t.one}",
    "the {n.one} {wants} [to {w.base}|{w.ing}] the {b} {t.one}",
    "{p.one} {enjoys} [{w.ing}|to {w.s}] the {t.many} {place}",
    # questions
    "what did the {n.one} {v.base} [|the {t.one}] {place}?",
    "which {t.one} did the {n.one} {w.base} [{when}|it {when}]?",
    # comparison
    "the {n.one} is [{a.more}|{a.plain}] than the {m.one} {place}",
    "the {n.one} is [|more ]{a.more} than {p.one}",
    # order of words
    "[the {b} {t.one}|the {t.one} {b}] {place} belongs to {p.one}",
    "the {n.one} [{v.past} the {t.one}|the {t.one} {v.past}] {when}",
    "the [{n.one} has|has {n.one}] {w.done} the {t.one} {place}",
    # a word too few
    "the {n.one} is waiting [for|] the {m.one} {place}",
    "{p.one} [is|] {w.ing} the {b} {t.one} {when}",
)
