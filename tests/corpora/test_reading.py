"""Sources of texts: the real reader reads every format, and every mistake has its own message."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from epsilometer.auditing.text_audit import distinct
from epsilometer.core.errors import UserError
from epsilometer.corpora import files
from epsilometer.corpora.reading import PREPARED, GeneratorRequest, prepare, read
from tests.support.places import ROOT, SHARED
from tests.support.refusals import refused
from tests.support.waiting import LAST_RESORT

REVISION = "0" * 40

ROWS = pl.DataFrame(
    {
        "text": ["Flights to Boston, please", 'She said "no"', "naïve café 東京"],
        "intent": ["flight", "talk", "place"],
        "split": ["train", "validation", "test"],
    }
)

WRITERS = {
    ".parquet": ROWS.write_parquet,
    ".csv": ROWS.write_csv,
    ".tsv": lambda path: ROWS.write_csv(path, separator="\t"),
    ".jsonl": ROWS.write_ndjson,
    ".ndjson": ROWS.write_ndjson,
}


def file(folder: Path, name: str, content: str | bytes) -> Path:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


@pytest.mark.parametrize("suffix", WRITERS)
def test_every_format_gives_the_same_table(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"texts{suffix}"
    WRITERS[suffix](path)
    assert read(path, labels=["intent"]).equals(ROWS.select("text", "split", "intent"))


def test_plain_text_is_a_text_a_line(tmp_path: Path) -> None:
    path = file(tmp_path, "texts.txt", "\ufeffone text\r\n\r\nanother\x0cpage\n")
    table = read(path)
    assert table["text"].to_list() == ["one text", "", "another\x0cpage"]
    assert set(table["split"]) == {"train"}


def test_quoted_fields_hold_delimiters_quotes_and_line_breaks(tmp_path: Path) -> None:
    path = file(tmp_path, "texts.csv", '\ufefftext,label\n"a, ""b""\nc",01\n\nd,02\n')
    table = read(path, labels=["label"])
    assert table["text"].to_list() == ['a, "b"\nc', "d"]
    assert table["label"].to_list() == ["01", "02"]


def test_other_columns_are_taken_on_request(tmp_path: Path) -> None:
    path = file(tmp_path, "texts.csv", "review,part,split\na,dev,x\nb,fit,y\n")
    assert read(path, text="review", split="part")["split"].to_list() == ["dev", "fit"]
    assert read(path, text="review", split=None)["split"].to_list() == ["train", "train"]


THREADS = (
    '{"who": "nora_q", "talk": [{"by": "nora_q", "says": "a b"}, {"by": "ines", "says": "c"}], "tags": ["t"]}\n'
    '{"who": "ines", "talk": [{"by": "ines", "says": "d"}], "tags": ["u"]}\n'
)


def test_a_path_leads_into_objects(tmp_path: Path) -> None:
    """Each object of a list is a text, beside which the row's other columns stand again."""
    table = read(file(tmp_path, "a.jsonl", THREADS), text="talk[].says", labels=["talk[].by", "who"])
    assert table.select("text", "talk[].by", "who").rows() == [
        ("a b", "nora_q", "nora_q"), ("c", "ines", "nora_q"), ("d", "ines", "ines"),
    ]  # fmt: skip
    assert read(file(tmp_path, "a.jsonl", THREADS), text="tags[]")["text"].to_list() == ["t", "u"]


def test_no_remedy_points_to_a_column_of_names(tmp_path: Path) -> None:
    with pytest.raises(UserError) as error:
        read(file(tmp_path, "a.jsonl", THREADS), text="talk")
    assert "who" not in str(error.value)
    assert "by," not in str(error.value)


def test_json_lines_may_be_called_json(tmp_path: Path) -> None:
    assert read(file(tmp_path, "a.json", '{"text": "a"}\n\n{"text": "b"}\n'))["text"].to_list() == ["a", "b"]


def test_columns_without_a_name_are_left_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = read(file(tmp_path, "a.csv", "class,message,,,\nx,a b,,,\ny,c,1,2,3\n"), text="message", labels=["class"])
    assert table.select("class", "text").rows() == [("x", "a b"), ("y", "c")]
    assert capsys.readouterr().err.count("note: ") == 1


def test_texts_that_differ_in_composition_alone_are_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    texts = ["caf\u00e9 one", "cafe\u0301 one", "cafe\u0301 two", "caf\u00e9  one"]
    corpus = prepare(pl.DataFrame({"text": texts, "split": ["train"] * 4}))
    assert corpus.table["text"].to_list() == [texts[0], texts[2]]
    assert corpus.counts["duplicates_merged"] == 2
    assert "note: 1 texts differ from another one only in Unicode composition" in capsys.readouterr().err
    assert distinct(texts) == [texts[0], texts[2], texts[3]]
    assert "note: 1 texts differ from another one only in Unicode composition" in capsys.readouterr().err


def test_a_nul_in_parquet_is_refused(tmp_path: Path) -> None:
    pl.DataFrame({"text": ["a", "b\0"]}).write_parquet(tmp_path / "a.parquet")
    with refused("EPS-D039", "2"):
        read(tmp_path / "a.parquet")


@pytest.mark.parametrize(
    ("name", "content", "settings", "message"),
    [
        ("a.csv", "text\nhi\n", {"text": "txet"}, "has column 'text': unknown text column 'txet'; did you mean 'te"),
        ("a.csv", "text,intent\nhi,x\n", {"labels": ["intend"]}, "unknown label column 'intend'; did you mean 'inten"),
        ("a.csv", "text,part\nhi,x\n", {"split": "prat"}, "unknown split column 'prat'; did you mean 'part'"),
        ("a.csv", "text,words\nhi,1\n", {"labels": ["words"]}, "the label name 'words' is reserved"),
        ("a.csv", "text\nhi\n", {"request": GeneratorRequest(part="queries")}, "part and count apply to a generator"),
        ("a.csv", "", {}, "is empty"),
        ("a.csv", "\n", {}, "has no columns: unknown text column 'text'"),
        ("a.csv", "text,x\na,b\nc\n", {}, "line 3: the row has 1 fields, the first line has 2"),
        ("a.csv", 'text,x\na,b\n"c,d\ne,f\n', {}, "line 4: unexpected end of data"),
        ("a.csv", 'text,x\n"a"b,c\n', {}, "line 2: ',' expected after '\"'"),
        ("a.csv", "text,text\na,b\n", {}, "the header repeats column 'text'; rename the duplicates"),
        (
            "a.csv",
            b"text\ncaf\xe9\n",
            {},
            "not UTF-8: byte 0xe9 at position 8 (line 2); it looks like cp1252 (encoding, --layout encoding=cp1252)",
        ),
        ("a.txt", b"\xff\xfea\x00", {}, "not UTF-8: byte 0xff at position 0"),
        ("a.jsonl", '{"text": "a"}\n\n{"text": "b"\n', {}, "line 3: not JSON"),
        ("a.jsonl", '{"text": "a"}\n["b"]\n', {}, "line 2: expected an object, got list"),
        ("a.jsonl", '{"text": "a", "x": [1]}\n{"text": "b", "x": {"y": 1}}\n', {}, "mixes values of different types"),
        (
            "a.jsonl",
            '{"text": 1, "t": "a"}\n',
            {},
            "must contain strings, got Int64; name the column of the texts (--text)",
        ),
        ("a.jsonl", '{"text": "a"}\n{"text": "b \\ud83d c"}\n', {}, "line 2 contains half a character"),
        ("a.jsonl", '{"text": "a"}\n{"text": "b \\u0000 c"}\n', {}, "line 2 contains a NUL"),
        (
            "a.json",
            '[{"full_text": "a", "spans": []}, {"full_text": "b \\udE00", "spans": []}]',
            {},
            "document 2 contains half a",
        ),
        ("a.txt", "a\nb\0c\n", {}, "contains a NUL at position 3 (line 2)"),
        (
            "a.jsonl",
            THREADS,
            {"text": "talk"},
            "got List of objects; name the text field by its path, talk",
        ),
        ("a.jsonl", THREADS, {"text": "talk[].said"}, "unknown field 'said'"),
        ("a.jsonl", THREADS, {"text": "talk.says"}, "'talk' is a list; write the path as talk[].says"),
        ("a.jsonl", THREADS, {"text": "who[]"}, "'who' contains single values"),
        ("a.jsonl", THREADS, {"text": "tags[]", "labels": ["talk[].by"]}, "lead into two lists"),
        (
            "a.jsonl",
            '{"text": "a", "split": "x"}\n{"text": "b"}\n',
            {},
            "the split column 'split' has no value in row 2 of 2",
        ),
        ("a.parquet", b"PAR1 and then something else", {}, "cannot be read as a Parquet file"),
        ("a.xlsx", "x", {}, "unknown suffix '.xlsx'; known: .parquet, .csv"),
        ("a.json", "{", {}, "is not JSON"),
        ("a.json", '{"dataset": "a/b", "revision": "main"}', {}, "must be a commit hash of 40 hexadecimal digits"),
        ("a.json", '{"dataset": "a/b"}', {}, "revision: missing; add it"),
        ("a.json", f'{{"dataset": "a/b", "revison": "{REVISION}"}}', {}, "other key 'revison'"),
        ("a.py", "x = 1", {"request": GeneratorRequest(count=1, part="p")}, "does not define a function generate"),
        (
            "a.py",
            "def generate(name, count, seed):\n    return []",
            {"request": GeneratorRequest(count=1, part="p")},
            "got list",
        ),
        ("a.py", "x = 1", {}, "needs a part"),
        (
            "a.py",
            "import nothing_of_that_name",
            {"request": GeneratorRequest(count=1, part="p")},
            "ModuleNotFoundError",
        ),
    ],
)
def test_bad_input_is_named(tmp_path: Path, name: str, content: str | bytes, settings: dict, message: str) -> None:
    with pytest.raises(UserError) as error:
        read(file(tmp_path, name, content), **settings)
    assert message in str(error.value)
    assert "hi" not in str(error.value).split()  # no text of the data


@pytest.mark.parametrize(
    ("text", "encoding", "named"),
    [
        ("今天我们去北京。昨天晚上老师在图书馆里看书。\n", "gb18030", "gb18030"),
        ("今日は東京へ行きます。\n", "shift_jis", "cp932"),
        ("오늘은 서울에 갑니다.\n", "euc-kr", "cp949"),
        ("Сегодня мы едем в Москву, завтра в Казань.\n", "cp1251", "cp1251"),
        ("Der Zug fährt über München.\n", "latin-1", "cp1252"),
        ("hello there\n", "utf-16", "utf_16"),
        ("hello there\n", "utf-16-le", "utf-16-le"),  # valid UTF-8, with NULs
    ],
)
@pytest.mark.parametrize("before", ["", "plain English\n" * 6000])  # also beyond the part that is inspected first
def test_an_encoding_is_named_by_its_bytes(tmp_path: Path, text: str, encoding: str, named: str, before: str) -> None:
    if before and encoding.startswith("utf"):
        text, before = before, ""
    raw = (before + 3 * text).encode(encoding)
    with refused("EPS-D021" if encoding == "utf-16-le" else "EPS-D019", f"--layout encoding={named}"):
        read(file(tmp_path, "a.txt", raw))
    assert read(file(tmp_path, "a.txt", raw), layout=files.Layout(encoding=named))["text"].item(-1)


def test_a_nul_is_no_text(tmp_path: Path) -> None:
    with refused("EPS-D021", "2", "1"):
        read(file(tmp_path, "a.txt", "he\0llo there\n"))


@pytest.mark.parametrize(
    "rows", ["id;text\n1;hello, there\n", "id;text;x\n1;hello;2\n2;a, b, c;3\n", "id|text\n1|a,b\n"]
)
def test_another_separator_is_named(tmp_path: Path, rows: str) -> None:
    with refused("EPS-D022", f"'{rows[2]}'", "--layout separator=..."):
        read(file(tmp_path, "a.csv", rows))


@pytest.mark.parametrize(
    ("name", "code"),
    [("a.csv", "EPS-D013"), ("a.json", "EPS-D029"), ("a.py", "EPS-D049"), ("no/such/file.txt", "EPS-D013")],
)
def test_missing_file_is_named(name: str, code: str) -> None:
    settings = {"request": GeneratorRequest(count=1, part="p")} if name == "a.py" else {}
    with refused(code, f"'{name}'"):
        read(name, **settings)


def test_own_generator(tmp_path: Path) -> None:
    code = """
import polars as pl

def generate(name, count, seed):
    return pl.DataFrame({"text": [f"{name} {seed} {i}" for i in range(count)], "kind": list(range(count))})
"""
    table = read(file(tmp_path, "mine.py", code), labels=["kind"], request=GeneratorRequest(7, 2, "talk"))
    assert table["text"].to_list() == ["talk 7 0", "talk 7 1"]
    assert table.columns == ["text", "split", "kind"]


def offline(tmp_path: Path, source: str | Path) -> subprocess.CompletedProcess[str]:
    """Read in a process of its own, since the hub's client looks at its environment when it is imported."""
    code = """
import sys
from epsilometer.corpora import files
from epsilometer.corpora.reading import read
from epsilometer.core.errors import UserError
try:
    print(read(sys.argv[1], labels=sys.argv[2:]).write_json())
except UserError as error:
    sys.exit(f"UserError: {error}")
"""
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path / "hub")}
    environment["PYTHONPATH"] = str(ROOT)
    command = [sys.executable, "-c", code, str(source), "label"]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=LAST_RESORT)


def test_hub_data_set_by_pin(tmp_path: Path) -> None:
    """`datasets` itself loads the data set, here from a folder: the hub's splits arrive as the column split."""
    folder = tmp_path / "data"
    folder.mkdir()
    file(folder, "train.csv", "text,label\ngood day,1\nbad day,0\n")
    file(folder, "test.csv", "text,label\nno day,0\n")
    pin = file(tmp_path, "pin.json", json.dumps({"dataset": str(folder), "revision": REVISION}))
    done = offline(tmp_path, pin)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [
        {"text": "good day", "split": "train", "label": 1},
        {"text": "bad day", "split": "train", "label": 0},
        {"text": "no day", "split": "test", "label": 0},
    ]


def test_hub_out_of_reach_is_a_users_error(tmp_path: Path) -> None:
    done = offline(tmp_path, f"owner/nothing@{REVISION}")
    assert f"UserError: data set 'owner/nothing@{REVISION}' cannot be downloaded" in done.stderr
    assert f"hf download --repo-type dataset owner/nothing --revision {REVISION}" in done.stderr


def raw(**columns: list) -> pl.DataFrame:
    return pl.DataFrame(columns)


def test_prepare_drops_merges_and_counts() -> None:
    table = raw(
        text=["A  b", "... !", "c", " a b", "A b\n", None, "c"],
        split=["test", "train", "validation", "train", "train", "train", "train"],
        stars=[1, 2, 3, 4, 5, 6, None],
    )
    corpus = prepare(table, ["stars"])
    assert corpus.counts == {"rows": 7, "empty_dropped": 2, "duplicates_merged": 2, "texts": 3}
    # For "A b", the row in train stays instead of the first row. Case distinguishes texts, and texts keep their layout.
    assert corpus.table["text"].to_list() == [" a b", "A b\n", "c"]
    assert corpus.table["split"].to_list() == ["train", "train", "train"]
    assert corpus.table["stars"].to_list() == ["4", "5", None]
    assert corpus.table["words"].to_list() == [2, 2, 1]
    assert dict(corpus.table.schema.items() & dict(PREPARED).items()) == dict(PREPARED)


def test_ids_are_stable_and_belong_to_the_text() -> None:
    # Ids must not change between releases; otherwise every stored trial would refer to another text.
    table = prepare(raw(text=["hello there", "bye"], split=["train", "train"])).table
    other = prepare(raw(text=["bye", "hello there"], split=["test", "train"])).table
    assert table["id"].to_list() == ["aba33ef6e337ac29", "416d90fdfef12f9f"]
    assert other["id"].to_list() == table["id"].to_list()[::-1]


def test_empty_corpus_is_refused() -> None:
    with refused("EPS-D048", "2"):
        prepare(raw(text=["", "--"], split=["train", "train"]))


@pytest.mark.skipif(not SHARED.is_dir(), reason="../shared/data, the real data sets, is not there")
@pytest.mark.parametrize(
    ("name", "labels", "train", "rows"),
    [("atis", ["intent"], 4478, 5871), ("snips", ["intent"], 13084, 14484), ("sst2", ["sentiment"], 6920, 9613)],
)
def test_real_data(name: str, labels: list[str], train: int, rows: int) -> None:
    table = read(SHARED / "data" / f"{name}.parquet", labels=labels)
    assert len(table.filter(pl.col("split") == "train")) == train
    corpus = prepare(table, labels)
    assert corpus.counts["rows"] == rows
    assert corpus.counts["texts"] == len(corpus.table) == corpus.table["id"].n_unique()
    assert sum(corpus.counts[key] for key in ("empty_dropped", "duplicates_merged", "texts")) == rows


@pytest.mark.skipif(not SHARED.is_dir(), reason="../shared/data, the real data sets, is not there")
def test_real_data_without_a_column_text() -> None:
    with refused("EPS-C025", "text_a", "text_b", "score", "genre", "split", "text"):
        read(SHARED / "data" / "stsb.parquet")
    with refused("EPS-D045"):
        read(SHARED / "data" / "stsb.parquet", text="score")


TALK = 'pair\t"Well\tyes\nother\tno" she\tso\n'  # as in GLUE's files, quotes are text and need not be paired


def test_layouts(tmp_path: Path) -> None:
    """Of other separators, encodings, without quotes and without a header."""
    glue = file(tmp_path, "glue.tsv", TALK)
    plain = files.Layout(quotes=False, header=False)
    assert read(glue, text="2", layout=plain)["text"].to_list() == ['"Well', 'no" she']
    assert read(glue, text=["2", "3"], layout=plain)["text"].to_list() == ['"Well\nyes', 'no" she\nso']
    files.write(files.read(glue, plain), tmp_path / "again.tsv", ".tsv", plain)
    assert (tmp_path / "again.tsv").read_text() == TALK
    with refused("EPS-D023"):
        read(glue, text="2", layout=files.Layout(header=False))
    semicolons = file(tmp_path, "euro.csv", "text;label\ncafé au lait;1\n".encode("latin-1"))
    layout = files.Layout(separator=";", encoding="latin-1")
    assert read(semicolons, labels=["label"], layout=layout).row(0) == ("café au lait", "train", "1")
    with refused("EPS-C025", ";"):
        read(semicolons, layout=files.Layout(encoding="latin-1", header=True))
    with refused("EPS-D011", "1", "latin-x"):
        files.Layout(encoding="latin-x")
    with refused("EPS-D010"):
        files.Layout(separator="||")
    assert files.Layout(separator="\\t").separator == "\t"


@pytest.mark.parametrize("suffix", [".gz", ".zst"])
def test_compressed_files(tmp_path: Path, suffix: str) -> None:
    for kind in (".csv", ".tsv", ".jsonl"):
        files.write(ROWS, tmp_path / f"texts{kind}{suffix}", kind)
        assert read(tmp_path / f"texts{kind}{suffix}", labels=["intent"]).equals(ROWS.select("text", "split", "intent"))
    damaged = file(tmp_path, f"damaged.csv{suffix}", (tmp_path / f"texts.csv{suffix}").read_bytes()[:-9])
    with refused("EPS-D018"):
        read(damaged)
    with refused("EPS-D012"):
        read(file(tmp_path, f"texts.parquet{suffix}", b"x"))


def test_a_folder_of_texts(tmp_path: Path) -> None:
    (tmp_path / "notes/old").mkdir(parents=True)
    file(tmp_path, "notes/b.txt", "two\nlines\n")
    file(tmp_path, "notes/old/a.txt", "one")
    file(tmp_path, "notes/c.md", "no text")
    assert read(tmp_path / "notes")["text"].to_list() == ["two\nlines\n", "one"]
    (tmp_path / "empty").mkdir()
    with refused("EPS-D015"):
        read(tmp_path / "empty")


def test_the_first_rows(tmp_path: Path) -> None:
    assert len(read(file(tmp_path, "texts.txt", "a\nb\nc\n"), rows=2)) == 2


def bombs(folder: Path) -> dict[str, Path]:
    """Files of some kB that become 64 MiB: by gzip, by zstd, and as Parquet in four ways."""
    plain = b"text\n" + b"x" * (64 << 20)
    texts = {
        "a text that repeats": pa.table({"text": pa.array(["x" * (1 << 20)]).dictionary_encode().take([0] * 64)}),
        "one long text": pa.table({"text": ["x" * (64 << 20)]}),
        "many numbers": pa.table({"text": ["a"] * (8 << 20), "number": np.zeros(8 << 20)}),
        "many gaps": pa.table({"text": pa.nulls(8 << 20, pa.string())}),
    }
    paths = {kind: folder / f"{kind}.parquet" for kind in texts}
    for kind, table in texts.items():
        pq.write_table(table, paths[kind], compression="zstd", store_schema=False)
    for suffix, packed in ((".gz", gzip.compress(plain)), (".zst", pa.compress(plain, "zstd", asbytes=True))):
        paths[suffix] = folder / f"texts.csv{suffix}"
        paths[suffix].write_bytes(packed)
    return paths


def test_what_becomes_large_when_it_is_unpacked_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By default from 1 GiB on; here from 16 MiB, in less memory than the whole would take."""
    paths = bombs(tmp_path)
    assert max(path.stat().st_size for path in paths.values()) < 1 << 20
    monkeypatch.setenv("EPSILOMETER_UNPACKED_BYTES", str(16 << 20))
    for path in paths.values():
        with refused("EPS-C047", "16777216", "10"):
            read(path)
    monkeypatch.setenv("EPSILOMETER_UNPACKED_BYTES", str(512 << 20))
    assert read(paths[".zst"])["text"].str.len_bytes().to_list() == [64 << 20]


def test_what_is_ten_times_its_size_is_no_bomb(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EPSILOMETER_UNPACKED_BYTES", "1")
    path = tmp_path / "texts.txt.gz"
    path.write_bytes(gzip.compress("\n".join(f"text {i * 7919 % 10007}" for i in range(2000)).encode()))
    assert read(path).height == 2000
