"""Inputs that no command can use give exit code 2 and one message with the value or file, the rule and the remedy."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from epsilometer.cli import main
from tests.support.commands import call

DEEP = "[" * 100_000
DIGITS = "9" * 5000
FILES = {
    "texts.txt": "".join(f"please call number {i} of {i * 7}\n" for i in range(20)),
    "texts.csv": "text,label\n" + "".join(f"please call number {i},{i % 2}\n" for i in range(20)),
    "deep.jsonl": '{"text": ' + DEEP + "\n",
    "keys.jsonl": '{"a":' * 5000 + "1" + "}" * 5000 + "\n",
    "digits.jsonl": f'{{"text": {DIGITS}}}\n',
    "deep.json": DEEP,
    "digits.json": f'{{"a": {DIGITS}}}',
    "list.json": "[1, 2]",
    "garbage.json": "\x00garbage",
    "deep.yaml": DEEP,
    "itself.yaml": "a: &a [*a]\n",
    "within.yaml": "audit: &a {x: *a}\n",
    "digits.yaml": f"audit: {{seed: {DIGITS}}}\n",
    "date.yaml": "audit: 2026-99-99\n",
    "host.txt": f"xn--{'a' * 100}\n",
    "endless.py": "def rewrite(text, epsilon, rng):\n    return rewrite(text, epsilon, rng)\n",
    "memory.py": "def rewrite(text, epsilon, rng):\n    raise MemoryError\n",
    "blocked": "a file where a folder is due",
}
AUDIT = "audit texts.txt --mechanism constant"
EXACT = "exact texts.txt --mechanism randomized_response"
CASES = {  # the command: what its message must hold
    "audit deep.jsonl --mechanism constant": ["deep.jsonl, line 1", "nested too deeply", "one object per line"],
    "audit keys.jsonl --mechanism constant": ["keys.jsonl, line 1", "nested too deeply"],
    "audit digits.jsonl --mechanism constant": ["digits.jsonl, line 1", "thousands of digits"],
    "init project --texts deep.jsonl": ["deep.jsonl, line 1", "nested too deeply"],
    "check deep.yaml": ["deep.yaml", "nested more than 100 levels deep", "write them flatter"],
    "check itself.yaml": ["itself.yaml", "alias of itself", "the value"],
    "check within.yaml": ["within.yaml", "alias of itself"],
    "check digits.yaml": ["digits.yaml", "invalid number or date", "correct it"],
    "check date.yaml": ["date.yaml", "invalid number or date", "quote it"],
    f"{AUDIT} --set 'x=[[['": ["--set x", "readable YAML", "quotes"],
    f"{AUDIT} --set 'x={DEEP}'": ["--set x", "nested more than 100 levels deep", "flatter"],
    f"{AUDIT} --set 'x=&a [*a]'": ["--set x", "alias of itself"],
    f"{AUDIT} --set x={DIGITS}": ["--set x", "invalid number or date"],
    f"{AUDIT} --attacks lexical --attack-set 'lexical.x=[[['": ["--attack-set", "readable YAML"],
    f"{AUDIT} --set x=010": ["--set x", "plain digits", "quote it"],
    f"{AUDIT} --set x=1:30": ["--set x", "plain digits"],
    "audit texts.txt --mechanism tem --epsilons \uff11\uff10": ["--epsilons", "\uff11\uff10"],
    "audit texts.txt --mechanism tem --epsilons 1,\u0663": ["--epsilons", "\u0663"],
    "audit texts.txt --mechanism tem --epsilons 1_000": ["--epsilons", "1_000"],
    "audit texts.txt --mechanism tem --epsilons 010": ["--epsilons", "010"],
    "gate texts.txt --mechanism tem --max-loss 1 --epsilon \uff11\uff10": ["--epsilon", "plain digits"],
    "gate texts.txt --mechanism tem --max-loss 1_0 --epsilon 1": ["--limit", "plain digits", "1_0"],
    "claims tem --epsilon 1_0": ["--epsilon", "plain digits", "1_0"],
    f"{AUDIT} --seed {DIGITS}": ["--seed"],
    f"{AUDIT} --rows 1e30": ["--rows", "integer"],
    f"{AUDIT} --rows {10**30}": ["--rows", str(1 << 31)],
    f"{AUDIT} --trials 1e15": ["--trials", "integer"],
    f"{AUDIT} --trials {10**15}": ["trials", "at most 1,000,000,000", "1,000,000,000,000,000"],
    f"{AUDIT} --trials {10**30}": ["trials", "at most"],
    f"{AUDIT} --units --trials {10**15}": ["trials", "at most"],
    f"{AUDIT} --worst --trials {10**15}": ["trials", "at most"],
    f"compare randomized_response=1 randomized_response=2 texts.txt --trials {10**15}": ["trials", "at most"],
    f"gate texts.txt --mechanism constant --max-loss 1 --budget {10**21}": ["budget", "at most"],
    f"{AUDIT} --temperature nan": ["temperature", "finite", "nan"],
    f"{AUDIT} --temperature inf": ["temperature", "finite", "inf"],
    f"{EXACT} --epsilons 1 --temperature nan": ["temperature", "finite"],
    f"{EXACT} --epsilons 1 --trials {10**15}": ["trials", "at most"],
    f"{AUDIT} --prior nan,1": ["prior", "sum to 1", "nan"],
    f"{AUDIT} --layout encoding=undefined": ["encoding", "undefined", "latin-1"],
    "audit host.txt --mechanism constant --layout encoding=idna": ["host.txt", "not idna", "--layout encoding"],
    "rewrite texts.txt --mechanism constant --layout separator=';'": [
        "--layout separator is for .csv and .tsv files",
        "leave it out",
    ],
    "rewrite --mechanism constant --layout header=false": [
        "--layout header is for .csv and .tsv files",
        "leave it out",
    ],
    "anonymize texts.txt --attribute label --labelled texts.csv --layout separator=';'": [
        "--layout separator is for .csv and .tsv"
    ],
    "rewrite texts.txt --mechanism constant --out blocked/x.txt": [
        "blocked/x.txt",
        "cannot be written",
        "another path",
    ],
    "rewrite texts.txt --mechanism constant --out .": ["is a folder", "give the file"],
    "gate texts.txt --mechanism constant --max-loss 1 --json blocked/x.json": ["blocked/x.json", "cannot be written"],
    "anonymize texts.csv --attribute label --labelled texts.csv --out blocked/x.csv": ["cannot be written"],
    "anonymize texts.csv --attribute label --labelled texts.csv --auxiliaries blocked": ["--auxiliaries", "blocked"],
    "gate texts.txt --mechanism constant --baseline deep.json": ["deep.json", "nested too deeply", "--accept"],
    "gate texts.txt --mechanism constant --baseline digits.json": ["digits.json", "thousands of digits", "--accept"],
    "gate texts.txt --mechanism constant --baseline list.json": ["list.json", "dictionary", "--accept"],
    "gate texts.txt --mechanism constant --baseline garbage.json": ["garbage.json", "not readable JSON", "--accept"],
    "gate texts.txt --mechanism constant --baseline .": [".", "directory", "--accept"],
    "audit texts.txt --mechanism endless.py --epsilons 1": ["endless.py, line 2", "without end", "correct the code"],
    "audit texts.txt --mechanism memory.py --epsilons 1": ["memory.py, line 2", "memory ran out", "fewer"],
    "gate texts.txt --mechanism endless.py --epsilon 1 --max-loss 1": ["endless.py, line 2", "without end"],
    f"account --texts 100 --batch 10 --epochs {10**18} --sigma 1": ["epochs", "at most 1,000,000,000"],
}


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, content in FILES.items():
        (tmp_path / name).write_text(content)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("command", CASES, ids=lambda command: command[:60])
def test_it_ends_with_one_message_and_code_2(command: str, place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    temperature = [] if "--temperature" in command or not command.startswith("audit") else ["--temperature", "0"]
    with pytest.raises(SystemExit) as ended:
        main([*shlex.split(command), *temperature])
    out, said = capsys.readouterr()
    assert ended.value.code == 2
    assert out == ""
    message = " ".join(said.split())
    assert all(part in message for part in CASES[command]), message[:500]
    assert len(message) < 1500
    assert not any(word in message for word in ("Traceback", "withheld", "please call"))


def test_what_is_read_is_not_written_over(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = tmp_path / "texts.txt"
    table.write_text("play a song\nbook a flight\n")
    before = table.read_bytes()
    other = tmp_path / "folder" / ".." / "texts.txt"
    (tmp_path / "folder").mkdir()
    for words in (
        ["rewrite", table, "--mechanism", "identity", "--out", other],
        ["audit", table, "--mechanism", "identity", "--trials", 20, "--out", other],
        ["gate", table, "--mechanism", "identity", "--max-loss", 1, "--json", table],
    ):
        code, _, err = call(capsys, *words)
        assert code == 2
        assert "would overwrite the input 'texts.txt'" in err
        assert table.read_bytes() == before


def test_lines_that_cannot_all_be_rewritten_leave_the_old_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "fails.py").write_text("def rewrite(text, rng):\n    raise ValueError(text)\n")
    (tmp_path / "texts.txt").write_text("play a song\n")
    (tmp_path / "out.txt").write_text("of yesterday\n")
    words = ["rewrite", tmp_path / "texts.txt", "--mechanism", tmp_path / "fails.py", "--out", tmp_path / "out.txt"]
    assert call(capsys, *words)[0] == 2
    assert (tmp_path / "out.txt").read_text() == "of yesterday\n"
    assert not list(tmp_path.glob(".*partial"))


def test_an_epsilon_is_never_a_generator(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "two.py").write_text("def rewrite(text, epsilon):\n    return text\n")
    (tmp_path / "texts.txt").write_text("play a song\nbook a flight\n")
    code, _, err = call(capsys, "rewrite", tmp_path / "texts.txt", "--mechanism", tmp_path / "two.py", "--epsilon", 1)
    assert code == 2
    assert "must be rewrite(text, epsilon, rng), got rewrite(text, epsilon)" in err
