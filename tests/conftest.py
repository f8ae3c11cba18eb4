"""Fixtures and settings that many tests share."""

from __future__ import annotations

import gc
import os
import shutil
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from itertools import takewhile
from pathlib import Path
from typing import Any

import psutil
import pytest
from hypothesis import settings

from tests.support.endpoint import KEY, Server
from tests.support.places import SHARED
from tests.support.warm import Warm

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # tests may share the cores
os.environ.setdefault("HF_HUB_OFFLINE", "1")  # no test may use the network

for name in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL", "PYTEST"):  # set by `make test`; tests start other makes
    os.environ.pop(name, None)

# Without bytecode each process under test compiles all that it imports: 20 s of processor time for torch alone.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

gc.disable()  # only during collection, which creates no garbage


def pytest_collection_finish() -> None:
    """Exclude the million objects of collected tests from later garbage collections."""
    gc.freeze()
    gc.enable()


# Examples are the same in every run; a first import must not count as a slow example.
settings.register_profile("epsilometer", derandomize=True, deadline=None, max_examples=50)
settings.load_profile("epsilometer")


def _forget_files_of_users() -> Iterator[None]:
    """Unload the user files and helpers that a test loaded, since another test may use the same names."""
    last, folders = next(reversed(sys.modules)), list(sys.path)
    yield
    beside = [folder for folder in sys.path if folder not in folders]
    sys.path[:] = folders
    for name in [*takewhile(lambda name: name != last, reversed(sys.modules))]:  # only modules loaded since then
        spec = getattr(sys.modules[name], "__spec__", None)
        places = [] if spec is None else [spec.origin or "", *(spec.submodule_search_locations or ())]
        if name.startswith("epsilometer_user_") or any(Path(p).is_relative_to(f) for p in places for f in beside):
            del sys.modules[name]


# Both scopes: a module-wide fixture may load files before the first test begins.
_forget_after_a_file = pytest.fixture(autouse=True, scope="module")(_forget_files_of_users)
_forget_after_a_test = pytest.fixture(autouse=True)(_forget_files_of_users)


@pytest.fixture
def interruptible() -> Iterator[None]:
    """For tests that send signals to processes: restore signal handlers before, and kill remaining processes after.

    A shell makes background processes ignore SIGINT, and nohup makes them ignore SIGHUP. Children inherit this.
    """
    me = psutil.Process()
    others = {*me.children(recursive=True)}
    heard = {signal.SIGINT: signal.default_int_handler, signal.SIGHUP: signal.SIG_DFL}
    before = {number: signal.signal(number, handler) for number, handler in heard.items()}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)
    for process in {*me.children(recursive=True)} - others:
        with suppress(psutil.NoSuchProcess):
            process.kill()


@pytest.fixture
def one_thread() -> Iterator[None]:
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of real data sets next to the project. Tests that use it are skipped without it."""
    if not SHARED.is_dir():
        pytest.skip("needs the real data sets in ../shared, which a clone does not have")
    return SHARED


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """A headless Chromium, driven by selenium, without network requests of its own."""
    webdriver = pytest.importorskip("selenium.webdriver", reason="needs selenium to drive a browser")
    chromium, driver = shutil.which("chromium") or shutil.which("google-chrome"), shutil.which("chromedriver")
    if not (chromium and driver):
        pytest.skip("needs chromium and chromedriver")
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for option in (
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--disable-background-networking",
        "--window-size=1400,4000",
    ):
        options.add_argument(option)
    chrome = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))
    yield chrome
    chrome.quit()


@pytest.fixture(scope="session")
def warm() -> Iterator[Warm]:
    """A process that runs commands of projects with their common packages already loaded."""
    process = Warm()
    yield process
    process.close()


@pytest.fixture(scope="module")
def _embedded_once() -> Iterator[None]:
    """For files whose tests embed the same texts many times: cache the vectors."""
    from tests.support import remembering

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("epsilometer.models.encoder._BertEncoder", remembering.remembering)
        yield


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    for name in [name for name in os.environ if name.lower().endswith("_proxy")]:
        monkeypatch.delenv(name)
    with Server() as running:
        threading.Thread(target=running.serve_forever, args=(0.01,), daemon=True).start()
        monkeypatch.setenv("OPENAI_BASE_URL", f"http://127.0.0.1:{running.server_address[1]}/v1")
        monkeypatch.setenv("OPENAI_API_KEY", KEY)
        monkeypatch.setattr("epsilometer.models.endpoint.PAUSE", 0.01)
        yield running
        running.shutdown()
