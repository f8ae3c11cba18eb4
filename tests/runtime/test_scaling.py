"""Slices in this process, in several processes and on Ray: equal results in order, and a bounded number under way."""

from __future__ import annotations

import importlib.util
import math
import os
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import polars as pl
import psutil
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from epsilometer.auditing.schemas import TRIALS
from epsilometer.core import tables
from epsilometer.core.errors import UserError
from epsilometer.core.randomness import Noise
from epsilometer.corpora.reading import PREPARED
from epsilometer.mechanisms.corpora.shared.public_cells import ByEncoder, PublicTexts
from epsilometer.models.locate import ENCODER
from epsilometer.project.sections import Runtime
from epsilometer.runtime import scaling
from epsilometer.runtime.scaling import HERE, Engine, run, slices
from tests.support.places import ROOT
from tests.support.refusals import refused
from tests.support.slice_work import deadly, failing, no_builder, odd_builder, threads
from tests.support.waiting import LAST_RESORT, finished

TEXTS = [f"please play song {i} by artist {chr(97 + i)}" for i in range(20)]
TWO = Engine(workers=2)
RAY = Engine(workers=2, ray="auto")


@pytest.fixture(scope="module")
def ray() -> Iterator[Any]:
    """A local cluster for all tests of this file, whose workers find its functions."""
    if not importlib.util.find_spec("ray"):
        pytest.skip("needs ray")
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = str(ROOT)
    with scaling.cluster(RAY) as connected:
        yield connected
    os.environ.pop("PYTHONPATH") if before is None else os.environ.update(PYTHONPATH=before)


# -- slices


@given(st.lists(st.integers(0, 9), min_size=1, max_size=200), st.integers(1, 60), st.integers(1, 3), st.booleans())
def test_slices_hold_every_row_once_in_the_order_of_keys(keys: list[int], most: int, workers: int, whole: bool) -> None:
    key = np.array(keys)
    parts = slices(key, most, workers, whole)
    np.testing.assert_array_equal(np.concatenate(parts), np.argsort(key, kind="stable"))
    assert all(len(part) for part in parts)
    if whole:
        assert sum(len(set(key[part])) for part in parts) == len(set(keys))
    else:
        assert max(map(len, parts)) < 2 * most


def test_several_workers_get_several_slices_each() -> None:
    assert len(slices(np.arange(100_000), 1 << 16)) == 2
    assert len(slices(np.arange(100_000), 1 << 16, workers=8)) == 32
    assert len(slices(np.arange(200), 1 << 16, workers=8)) == 1  # no slice is smaller than is worth sending to a worker


# -- results


class Watched(Sequence[int]):
    """Numbers that remember which were asked for."""

    def __init__(self, count: int) -> None:
        self.numbers, self.handed = range(count), 0

    def __len__(self) -> int:
        return len(self.numbers)

    def __getitem__(self, at: Any) -> Any:
        number = self.numbers[at]
        self.handed = max(self.handed, number + 1)
        return number


def in_order_and_bounded(engine: Engine, folder: Path, deaths: int) -> None:
    parts = Watched(40)
    most = 0
    for number, (square, process) in enumerate(run(partial(deadly, folder, deaths, 1.0), parts, engine)):
        assert square == number * number
        assert (process == os.getpid()) == engine.here
        most = max(most, parts.handed - number)
    assert engine.workers < most <= engine.ahead
    assert len(list(folder.iterdir())) == deaths


def test_processes_give_results_in_order_and_never_too_many_are_under_way(tmp_path: Path) -> None:
    assert [square for square, _ in run(partial(deadly, tmp_path, 0), range(5))] == [0, 1, 4, 9, 16]
    in_order_and_bounded(TWO, tmp_path, 0)


@pytest.mark.slow
def test_ray_does_so_too_and_runs_the_slices_of_a_killed_worker_again(ray: Any, tmp_path: Path) -> None:
    in_order_and_bounded(RAY, tmp_path, 1)


@pytest.mark.slow
def test_a_user_error_comes_as_it_was_raised(ray: Any, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(UserError) as caught:
        list(run(partial(failing, UserError("epsilon must be > 0, got -1")), range(9), RAY))
    assert type(caught.value) is UserError
    assert str(caught.value) == "epsilon must be > 0, got -1"
    shown = capfd.readouterr()
    assert "ray" not in (shown.out + shown.err).lower()


@pytest.mark.slow
def test_other_errors_tell_where_they_happened_and_reach_no_log(ray: Any) -> None:
    with pytest.raises(KeyError, match="secret-words") as caught:
        list(run(partial(failing, KeyError("secret-words")), range(9), RAY))
    assert "in fail" in caught.value.__notes__[0]
    assert "secret-words" not in caught.value.__notes__[0]
    with refused("OWN-1"):
        list(run(no_builder, range(2), RAY))
    with pytest.raises(RuntimeError, match=r"^Odd "):
        list(run(odd_builder, range(2), RAY))
    logs = Path(ray._private.worker._global_node.get_logs_dir_path())
    files = [path for path in logs.rglob("*") if path.is_file()]
    assert files
    assert not [path for path in files if b"secret-words" in path.read_bytes()]


@pytest.mark.slow
def test_a_slice_that_kills_every_worker_is_an_error(ray: Any, tmp_path: Path) -> None:
    with refused("EPS-C106", "4"):
        list(run(partial(deadly, tmp_path, 99), range(30), RAY))


def test_slices_of_a_killed_process_run_again_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    in_order_and_bounded(TWO, tmp_path, 1)
    assert "note: a worker process was ended by SIGKILL" in capsys.readouterr().err


@pytest.mark.parametrize("short", [False, True])
def test_a_slice_that_kills_two_processes_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, short: bool
) -> None:
    """Memory is named where the kernel counted a process that it ended for that."""
    kills = iter([3, 3, 4] if short else [3] * 3)
    monkeypatch.setattr(scaling, "_memory_kills", lambda: next(kills))
    with refused("EPS-C105", "2") as caught:
        list(run(partial(deadly, tmp_path, 99), range(30), TWO))
    assert ("memory" in str(caught.value)) == short


def test_an_error_of_the_builder_comes_from_processes_as_it_was_raised() -> None:
    with refused("OWN-1"):
        list(run(no_builder, range(2), TWO))


def test_processes_share_the_processor() -> None:
    """Each loads its libraries with its part of the cores, whose threads would else be in each other's way."""
    share = str(max(1, (os.cpu_count() or 1) // 2))
    own = os.environ.get("OMP_NUM_THREADS")
    assert set(run(threads, range(4), TWO)) == {share}
    assert os.environ.get("OMP_NUM_THREADS") == own


@pytest.mark.slow
def test_what_no_node_can_give_is_refused(ray: Any) -> None:
    with refused("EPS-C115", "1", "0.5", "runtime.gpus"):
        list(run(partial(failing, ValueError()), range(3), Engine(ray="auto", gpus=0.5)))


@pytest.mark.slow
def test_a_node_without_the_folder_is_named(ray: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getcwd", lambda: str(tmp_path / "elsewhere"))
    with refused("EPS-C108", "elsewhere"):
        list(run(partial(failing, ValueError()), range(3), RAY))


@pytest.mark.slow
def test_a_local_cluster_listens_on_this_machine_alone_and_has_no_dashboard(ray: Any) -> None:
    if not Path("/proc/net/tcp").exists():
        pytest.skip("needs /proc")
    listening = {}
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in Path(table).read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A":  # LISTEN
                listening[f"socket:[{fields[9]}]"] = fields[1].rpartition(":")[0]
    sockets = []
    for process in _descendants(os.getpid()):
        for link in Path(f"/proc/{process}/fd").glob("*"):
            try:
                sockets.append(listening.get(os.readlink(link)))
            except OSError:
                continue
    addresses = {address for address in sockets if address}
    assert addresses
    loopback = {"0100007F", "0000000000000000FFFF00000100007F", "00000000000000000000000001000000"}
    assert addresses <= loopback
    assert os.environ["RAY_USAGE_STATS_ENABLED"] == "0"
    assert ray.nodes()[0]["NodeManagerAddress"] == "127.0.0.1"


@pytest.mark.slow
def test_nobody_else_enters_the_folder_of_a_local_cluster(ray: Any) -> None:
    """In which are its sockets, and logs with what workers write. Ray itself gives it the mode 0777."""
    folder = Path(ray._private.worker._global_node.get_temp_dir_path())
    assert folder.is_dir()
    assert folder.parent.stat().st_mode & 0o777 == 0o700


@pytest.mark.slow
def test_a_local_cluster_leaves_neither_token_nor_process(tmp_path: Path) -> None:
    pytest.importorskip("ray")
    code = (
        "from epsilometer.runtime.scaling import Engine, cluster\n"
        "with cluster(Engine(workers=2, ray='auto')) as ray:\n"
        "    print(ray._private.worker._global_node.get_temp_dir_path())\n"
        "    assert ray.get(ray.remote(lambda: 7).remote()) == 7\n"
    )
    ours = {"HOME": str(tmp_path), "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, env=os.environ | ours, capture_output=True, text=True, timeout=LAST_RESORT)
    assert done.returncode == 0, done.stderr
    folder = done.stdout.strip()
    assert not Path(folder).parent.exists()
    assert not (tmp_path / ".ray").exists()
    assert not [p for p in psutil.process_iter(["cmdline"]) if folder in " ".join(p.info["cmdline"] or ())]


def _descendants(parent: int) -> list[int]:
    children = []
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = status.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == parent:
            children.append(int(status.parent.name))
    return [process for child in children for process in (child, *_descendants(child))]


# -- without a cluster


def test_a_start_that_fails_leaves_nothing_and_its_token_is_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a Ray that starts an agent and gives up."""
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setenv("RAY_AUTH_TOKEN", "the user's")
    seen = dict[str, Any]()

    def init(**options: Any) -> None:
        code = f"import time; time.sleep({LAST_RESORT})"
        Path(options["_temp_dir"]).mkdir()
        seen["agent"] = subprocess.Popen([sys.executable, "-c", code, f"--temp-dir={options['_temp_dir']}"])
        seen["environment"], seen["around"] = dict(os.environ), Path(options["_temp_dir"]).parent
        seen["mode"] = seen["around"].stat().st_mode & 0o777
        raise TimeoutError("no server")

    fake = SimpleNamespace(is_initialized=lambda: False, init=init, shutdown=lambda: None)
    monkeypatch.setitem(sys.modules, "ray", fake)
    with refused("EPS-C111", "120"), scaling.cluster(RAY):
        pass
    assert seen["agent"].wait(LAST_RESORT) == -signal.SIGKILL
    assert seen["mode"] == 0o700
    assert not seen["around"].exists()
    assert "RAY_AUTH_MODE" not in seen["environment"]  # Ray then sets it to "token"
    assert len(seen["environment"]["RAY_AUTH_TOKEN"]) == 64
    assert os.environ["RAY_AUTH_TOKEN"] == "the user's"


def test_without_ray_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with refused("EPS-C110", "epsilometer[ray]"):
        list(run(partial(failing, ValueError()), range(3), RAY))


@pytest.fixture
def unconnected(monkeypatch: pytest.MonkeyPatch) -> None:
    ray = pytest.importorskip("ray")
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setattr(ray, "init", lambda *_, **__: pytest.fail("Ray itself would wait there for minutes"))


def test_an_address_where_nothing_listens(unconnected: None) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    with refused("EPS-C114", address):
        list(run(partial(failing, ValueError()), range(3), Engine(ray=address)))


def test_ray_address_names_the_cluster_of_auto(unconnected: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:1")
    with refused("EPS-C114", "127.0", "1"):
        list(run(partial(failing, ValueError()), range(3), RAY))


def test_an_address_that_is_silent(unconnected: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scaling, "_CONNECT", 0.5)
    with socket.socket() as full, socket.socket() as waiting, socket.socket() as another:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        for client in (waiting, another):  # the queue is full, so a third client gets no answer
            client.setblocking(False)
            client.connect_ex(full.getsockname())
        with refused("EPS-C114"):
            list(run(partial(failing, ValueError()), range(3), Engine(ray=f"127.0.0.1:{full.getsockname()[1]}")))


@pytest.mark.parametrize("answer", [b"", b"HTTP/1.1 400 Bad Request\r\n\r\n"], ids=["silent", "HTTP"])
def test_an_address_of_something_else(answer: bytes, unconnected: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scaling, "_CONNECT", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as other:
        address = f"127.0.0.1:{other.getsockname()[1]}"
        threading.Thread(target=_accept, args=(other, answer), daemon=True).start()
        with refused("EPS-C114", address):
            list(run(partial(failing, ValueError()), range(3), Engine(ray=address)))


def _accept(server: socket.socket, answer: bytes) -> None:
    connection, _ = server.accept()
    connection.sendall(answer)
    while connection.recv(1 << 10):  # until the other end hangs up
        pass


@pytest.mark.parametrize(
    ("settings", "place", "kind", "named"),
    [
        ({"ray": "somewhere"}, ("ray",), "value_error", "HOST:PORT"),
        ({"ray": "ray://head:10001"}, ("ray",), "value_error", "HOST:PORT"),
        ({"ray": "auto", "gpus": 1.5}, (), "value_error", "got 1.5"),
        ({"ray": "auto", "gpus": -1}, ("gpus",), "greater_than_equal", "0"),
        ({"gpus": 0.5}, (), "value_error", "gpus (0.5)"),
    ],
)
def test_wrong_settings(settings: dict[str, Any], place: tuple[str, ...], kind: str, named: str) -> None:
    with pytest.raises(ValidationError) as caught:
        Runtime(**settings)
    (error,) = caught.value.errors()
    assert (error["loc"], error["type"]) == (place, kind)
    assert named in error["msg"]
    assert Runtime(ray="head-1.cluster:6379", gpus=0.25).engine == Engine(1, "head-1.cluster:6379", 0.25)


# -- the stages


LATENT = """
import numpy as np
from epsilometer.core.mechanism import Latents, Rewrites

class Lengths:
    def rewrite(self, texts, epsilon, noise):
        before = self.encode(texts)
        after = before + (noise.uniforms(3) / epsilon).astype(np.float32)
        return Rewrites([f"{x:.3f}" for x in after[:, 0]], latents=Latents(before, after))

    def encode(self, texts):
        return np.array([[len(text), ord(text[-1]), text.count("1")] for text in texts], np.float32)

    def guarantee(self, epsilon):
        return None
"""
COUNTING = """
from collections import Counter, defaultdict
from epsilometer.core.attack import choose
import numpy as np

class Counting:
    '''Guesses at random, and counts the distinct questions: as a judge does.'''

    def __init__(self):
        self.counts = defaultdict(Counter)

    def guess(self, rewrites, candidates, context):
        asked = {(text, *row) for text, row in zip(rewrites.texts, candidates.tolist())}
        self.counts[context.epsilon]["asked"] += len(asked)
        return choose(np.zeros(candidates.shape), context.noise)

    def tally(self, epsilon):
        return {**self.counts[epsilon], "cost": self.counts[epsilon]["asked"] / 1e6}
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What the stages rewrite and attack read, for 20 texts and 3,000 trials."""
    monkeypatch.chdir(tmp_path)
    texts = {"id": [str(i) for i in range(20)], "text": TEXTS, "split": ["train"] * 20}
    tables.write(
        pl.DataFrame({**texts, "words": pl.Series([7] * 20, dtype=pl.Int32)}),
        "data/prepared/songs.parquet",
        PREPARED,
    )
    vectors = Noise.named(20, "vectors").uniforms(8).astype(np.float32)
    tables.write_array(vectors / np.linalg.norm(vectors, axis=1, keepdims=True), "data/embeddings/songs.npy")
    uniforms = Noise.named(3000, "trials").uniforms(3)
    first = (uniforms[:, 0] * 20).astype(int)
    second = (first + 1 + (uniforms[:, 1] * 19).astype(int)) % 20
    trials = {
        "trial": np.arange(3000),
        "candidates": pl.Series(np.stack([first, second], 1).tolist(), dtype=pl.List(pl.Int32)),
        "target": (uniforms[:, 2] * 2).astype(np.int16),
    }
    tables.write(pl.DataFrame(trials), "data/trials/songs.parquet", TRIALS)
    (tmp_path / "latent.py").write_text(LATENT)
    (tmp_path / "counting.py").write_text(COUNTING)
    rr = str(ROOT / "epsilometer/mechanisms/controls/randomized_response.py")
    here = {"resource": "data/prepared/songs.parquet", "dataset": "songs"}
    params = {
        "audit": {"seed": 0},
        "datasets": {"songs": {"source": "songs.txt", "public": True}},
        "trials": {"count": 3000},
        "words": {"sources": {"own": "vectors.txt"}},
        "mechanisms": {},
        "cells": {
            "songs-rr": {"mechanism": "rr", "file": rr, "epsilons": [1, 5], **here},
            "songs-latent": {"mechanism": "latent", "file": "latent.py", "epsilons": [0.5], **here},
        },
        "attacks": {"likelihood": {}, "internal": {}, "length": {}, "counting.py": {}},
    }
    (tmp_path / "params.yaml").write_text(yaml.safe_dump(params))
    return tmp_path


def stages(runtime: dict[str, Any], *cells: str) -> dict[str, bytes]:
    """The bytes that the two stages write for these cells."""
    from epsilometer.pipeline.stages import attack, rewrite

    params = yaml.safe_load(Path("params.yaml").read_text())
    Path("params.yaml").write_text(yaml.safe_dump({**params, "runtime": runtime}))
    for cell in cells:
        rewrite.main(cell)
        attack.main(cell)
    files = [path for cell in cells for path in Path("data").glob(f"*/{cell}*/*")]
    files += [path for cell in cells for path in Path("data/guesses").glob(f"{cell}.*")]
    return {str(path): path.read_bytes() for path in files}


def test_stages_write_the_same_bytes_whatever_the_slices(project: Path) -> None:
    whole = stages({}, "songs-rr", "songs-latent")
    assert len(whole) == (2 + 1) + (3 + 1) + 4
    assert stages({"block": 64}, "songs-rr", "songs-latent") == whole
    guesses = pl.read_parquet("data/guesses/songs-rr.parquet").filter(epsilon=5)
    stays = round(1 / (1 + math.exp(-5)), 9)  # the output is the guess, another candidate, or neither
    assert set(guesses["posterior"]) == {stays, round(1 - stays, 9), 0.5}
    counted = pl.read_json("data/guesses/songs-rr.json").filter(epsilon=5)
    assert 20 * 19 < counted["asked"].item() < 3000  # distinct questions are fewer than trials


@pytest.mark.slow
def test_stages_write_the_same_bytes_on_ray(project: Path, ray: Any) -> None:
    assert stages({"block": 64, "workers": 2, "ray": "auto"}, "songs-rr") == stages({}, "songs-rr")


@pytest.mark.slow
@pytest.mark.parametrize("runtime", [{"workers": 2, "ray": "auto"}, {"workers": 2}], ids=["ray", "processes"])
def test_stages_with_latents_write_the_same_bytes(project: Path, ray: Any, runtime: dict[str, Any]) -> None:
    assert stages({"block": 64, **runtime}, "songs-latent") == stages({}, "songs-latent")


def votes(engine: Engine) -> list[int]:
    """The votes of 6,000 texts for 24 exemplars, by the real encoder."""
    public = PublicTexts([f"public text {number} of a list" for number in range(24)], ByEncoder(ENCODER), engine=engine)
    texts = [f"private message number {number}" for number in range(6000)]
    return np.bincount(public.nearest(texts, 24), minlength=24).tolist()


@pytest.mark.slow
def test_votes_on_ray_are_the_same(ray: Any) -> None:
    assert votes(RAY) == votes(HERE)


# -- across two machines, as two network namespaces that share this one's disk

HEAD, OTHER = "10.77.61.1", "10.77.61.2"


def ip(*command: str) -> str:
    return subprocess.run(["ip", *command], capture_output=True, text=True, check=True, timeout=LAST_RESORT).stdout


@pytest.fixture
def two_machines(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, list[str]]]:
    """A Ray cluster of two nodes with a processor core each; how to run a command on either."""
    if not importlib.util.find_spec("ray"):
        pytest.skip("needs ray")
    names = [f"eps{os.getpid()}{end}" for end in "ab"]
    try:
        for name in names:
            ip("netns", "add", name)
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"needs the right to make network namespaces ({error})")
    on = {host: ["ip", "netns", "exec", name] for host, name in zip((HEAD, OTHER), names, strict=True)}
    # A head requires a token if it finds one; a joining node sends it only if configured to. So the test sets a token.
    settings = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
    for name, value in {**settings, "PYTHONPATH": f"{ROOT}:{ROOT / 'tests'}"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", raising=False)
    start = [str(Path(sys.executable).with_name("ray")), "start", "--num-cpus=1", "--object-store-memory=100000000"]
    try:
        ip("link", "add", "veth", "netns", names[0], "type", "veth", "peer", "name", "veth", "netns", names[1])
        for host, name in zip((HEAD, OTHER), names, strict=True):
            ip("-n", name, "addr", "add", f"{host}/24", "dev", "veth")
            for device in ("lo", "veth"):
                ip("-n", name, "link", "set", device, "up")
        with tempfile.TemporaryDirectory(prefix="ray-", ignore_cleanup_errors=True) as folder:
            head = ["--head", "--port=6379", "--include-dashboard=false", f"--temp-dir={folder}"]
            for host, more in ((HEAD, head), (OTHER, [f"--address={HEAD}:6379"])):
                command = [*on[host], *start, f"--node-ip-address={host}", *more]
                started = subprocess.run(command, capture_output=True, text=True, timeout=LAST_RESORT)
                if "timed out during startup" in started.stderr:
                    pytest.skip("Ray gives a node 30 seconds to start, in which this machine did not manage it")
                assert started.returncode == 0, started.stdout + started.stderr
            yield on
    finally:
        for name in names:
            for process in ip("netns", "pids", name).split():
                os.kill(int(process), signal.SIGKILL)
            ip("netns", "del", name)


def on_head(on: dict[str, list[str]], code: str, folder: Path) -> subprocess.Popen[str]:
    """A Python program on the head node."""
    return subprocess.Popen(
        [*on[HEAD], sys.executable, "-c", code],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


@pytest.mark.slow
def test_two_machines_write_the_same_bytes(project: Path, two_machines: dict[str, list[str]]) -> None:
    whole = stages({}, "songs-rr", "songs-latent")
    code = (
        "from tests.runtime.test_scaling import stages\n"
        f"runtime = {{'block': 64, 'workers': 2, 'ray': '{HEAD}:6379'}}\n"
        "made = stages(runtime, 'songs-rr', 'songs-latent')\n"
        "import ray\n"
        f"ray.init('{HEAD}:6379', log_to_driver=False)\n"
        "print(sorted(node['NodeManagerAddress'] for node in ray.nodes()))\n"
    )
    process = on_head(two_machines, code, project)
    said, _ = finished(process)
    assert process.returncode == 0, said
    assert str([HEAD, OTHER]) in said
    files = {str(path): path.read_bytes() for path in map(Path, whole)}
    assert files == whole


@pytest.mark.slow
def test_a_machine_that_dies_takes_no_slice_with_it(tmp_path: Path, two_machines: dict[str, list[str]]) -> None:
    code = (
        "from functools import partial\n"
        "from epsilometer.runtime.scaling import Engine, run\n"
        "from tests.support.slice_work import addresses\n"
        f"engine = Engine(2, '{HEAD}:6379')\n"
        "for number, (square, address) in enumerate(run(addresses, range(200), engine)):\n"
        "    assert square == number * number\n"
        "    print('from', address, flush=True)\n"
        "print('all there')\n"
    )
    process = on_head(two_machines, code, tmp_path)
    assert process.stdout is not None
    said = []
    for line in process.stdout:
        said.append(line.strip())
        if line.startswith(f"from {OTHER}") and said.count(line.strip()) == 3:
            for victim in ip("netns", "pids", two_machines[OTHER][3]).split():
                os.kill(int(victim), signal.SIGKILL)
    assert process.wait() == 0, said[-20:]
    assert said[-1] == "all there"
    assert {f"from {HEAD}", f"from {OTHER}"} <= set(said)
    assert len([line for line in said if line.startswith("from")]) == 200
