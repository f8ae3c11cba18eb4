"""The counts of verdicts on a page are those of its tables."""

from __future__ import annotations

from epsilometer.report.tally import Claim, claims, tallied
from tests.support.refusals import refused

PAGE = """# Claims

<!-- tally -->
what stood here before
<!-- end -->

## Texts

| claim | printed | here | verdict |
|---|---|---|---|
| It leaks | so | 1 \\| 2 | <!-- verdict: results/mine.md; Losses; tem, 5; loss ABOVE 1 -->agrees<!-- end --> |
| It leaks more | so | 1 | not testable here: another model |
| It falls | so | 1 | by construction: <!-- verdict: results/mine.md; L; tem; loss BELOW 1 -->disagrees<!-- end --> |
| So it does at 10 (ours to show) | .5 | 1 | agrees |
| Nor does it at 1 | not tested | 1 | undecided here |

### Words

| table | here |
|---|---|
| agrees | disagrees |

| claim | printed | here | verdict |
|---|---|---|---|
| It rises | so | 1 | disagrees |
| It learns | so | 1 | <!-- verdict: results/mine.md; What heads score; tem; mcc ABOVE 1 -->agrees<!-- end --> |
| It claims | so | 1 | <!-- verdict: results/mine.md; Losses; tem, 5; loss EXACT ABOVE 1 -->agrees<!-- end --> |
"""
COUNTS = """<!-- tally -->
| section | of the paper | {verdicts} | ours | ours that agree |
| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |
| Texts | 3 | 1 | 0 | 0.01 | 0 | 1 | 1 | 2 | 1 |
| Words | 3 | 2 | 1 | 0.05 | 0 | 0 | 0 | 0 | 0 |
| all | 6 | 3 | 1 | 0.06 | 0 | 1 | 1 | 2 | 1 |
<!-- end -->""".format(verdicts="agrees | disagrees | by chance | undecided here | not testable here | by construction")


def test_claims_of_a_paper_and_ours_are_counted_apart_by_section() -> None:
    page = tallied(PAGE)
    assert page == PAGE.replace("<!-- tally -->\nwhat stood here before\n<!-- end -->", COUNTS)
    assert tallied(page) == page, "the counts are no claims"


def test_a_page_without_the_two_comments_stays() -> None:
    assert tallied("# Mine\n") == "# Mine\n"


def test_tables_without_verdicts_have_no_claims() -> None:
    assert list(claims(PAGE))[-1] == Claim("Words", ours=False, verdict="agrees", error=0)


def test_a_word_that_is_no_verdict_is_refused() -> None:
    with refused("EPS-R021", "It rises", "perhaps"):
        tallied(PAGE.replace("| 1 | disagrees |", "| 1 | perhaps |"))
