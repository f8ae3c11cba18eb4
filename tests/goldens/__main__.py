"""Compare results with the frozen ones, and name the first difference; or freeze them.

python -m tests.goldens [SECTION ...]           compare all sections, or those named: exit code 1 for a difference
python -m tests.goldens freeze [SECTION ...]    replace the frozen results, and name the first difference as well

A section is a file in `frozen`. If a section fails, the others still run. Each line states the processor time.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.goldens.sections import SECTIONS, Failed, Section, compute, first_difference, freeze, read


def main(words: Sequence[str]) -> int:
    """Compare or freeze sections, two at a time. Returns the exit code."""
    freezes = [*words[:1]] == ["freeze"]
    names = [*dict.fromkeys(words[freezes:] or SECTIONS)]
    if unknown := [name for name in names if name not in SECTIONS]:
        print(f"No section {', '.join(unknown)}. Sections: {', '.join(SECTIONS)}", file=sys.stderr)
        return 2
    failed, differ = [], []
    with TemporaryDirectory() as folder, ThreadPoolExecutor(2) as pool:
        running = {pool.submit(compute, name, Path(folder)): name for name in names}
        try:
            for done in as_completed(running):
                name = running[done]
                try:
                    section = done.result()
                except Failed as error:
                    failed.append(name)
                    print(f"{name} failed: {error}", flush=True)
                    continue
                if (difference := _difference(name, section)) is not None:
                    differ.append(name)
                print(f"{name} {difference or 'agrees'} ({section.seconds:.0f} s)", flush=True)
                if freezes:
                    freeze(name, section)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    for said, which in (("Failed", failed), ("Changed" if freezes else "Differ", differ)):
        if which:
            print(f"{said}: {', '.join(which)}")
    return int(bool(failed or (differ and not freezes)))


def _difference(name: str, section: Section) -> str | None:
    """Say where a section differs from the frozen one first; None where it agrees."""
    frozen = read(name)
    if frozen is None:
        return "has no frozen results"
    difference = first_difference(frozen.results, section.results)
    if difference is None:
        return None
    if section.arithmetic != frozen.arithmetic:
        difference += (
            "\n  This machine rounds otherwise than the one that froze it: another processor or other versions of "
            "libraries.\n  Freeze at the parent commit first."
        )
    return f"differs: {difference}\n "


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
