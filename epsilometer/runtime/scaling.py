"""Run work over slices of trials: in this process, in several processes, or on a Ray cluster.

A worker builds its function once (a mechanism or attacks, with their models) and maps it over slices. Results come
back in the slices' order. The number of slices in progress is limited, so neither memory nor the queue grows with the
number of slices. A slice's result does not depend on the worker, since streams are named by trial.

On Ray a worker is an actor with one processor core and a share of a GPU. Results wait for their turn as bytes in Ray's
object store. A slice whose worker died runs again: at most once in processes of this machine, at most three times on
Ray. On Ray, a worker returns exceptions as results. So an error arrives as it was raised, and Ray's logs contain no
message that may quote a private text.
"""

from __future__ import annotations

import logging
import os
import pickle
import secrets
import signal
import socket
import tempfile
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass
from functools import cache, partial
from multiprocessing import active_children, get_context, parent_process
from multiprocessing.process import BaseProcess
from typing import TYPE_CHECKING, Any, TypeVar

from epsilometer.core.errors import UserError
from epsilometer.runtime.progress import note, track
from epsilometer.runtime.withholding import kind_of, traceback_of

if TYPE_CHECKING:  # loaded at first use: many processes of an audit only read settings
    import numpy as np
    from numpy.typing import NDArray

S = TypeVar("S")
R = TypeVar("R")

_AHEAD = 3  # slices in progress per worker: one runs, one is next, and one is done but waits for its turn
_SHARE = 4  # smallest number of slices per worker; with fewer, many workers would be idle at the end
_LEAST = 256  # smallest number of trials in a slice, even if a worker gets fewer than `_SHARE` slices
_TRIES = 4  # once this many workers have died on a slice, the slice counts as the cause
_LOCAL_RETRIES = 1  # number of reruns of a slice after the death of a process of this machine
_PATIENCE = 180.0  # seconds without any running worker, after which an error is raised
THREADS = "OMP_NUM_THREADS"
_WITHOUT = "run without Ray (runtime.ray: null, or no --ray)"
_START = "RAY_gcs_server_port_wait_time_s"  # Ray's variable: seconds to wait for a local cluster's first server
_CONNECT = 10.0  # seconds that a cluster's address may take to answer
_SETTINGS = bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])  # first frame of HTTP/2 on both sides: length, type 4, flags, stream
_GREETING = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + _SETTINGS  # RFC 9113, section 3.4; gRPC servers answer it


@dataclass(frozen=True)
class Engine:
    """The place where slices run. The place does not change results, as long as the kind of device is the same.

    workers: the number of parallel workers, each with its own models.
    ray: None for processes of this machine. `auto` is the cluster at RAY_ADDRESS. Without this variable, `auto` starts
    a cluster here for the duration of the work. HOST:PORT is a cluster that this machine has joined.
    gpus: the share of a GPU that a worker takes on Ray. Ray sets CUDA_VISIBLE_DEVICES accordingly.
    """

    workers: int = 1
    ray: str | None = None
    gpus: float = 0.0

    @property
    def here(self) -> bool:
        """True if slices run in this process."""
        return self.workers == 1 and self.ray is None

    @property
    def ahead(self) -> int:
        """The largest number of slices that are handed out, but whose results are not yet returned in order."""
        return _AHEAD * self.workers


HERE = Engine()


def slices(key: NDArray[np.integer], most: int, workers: int = 1, whole: bool = False) -> list[NDArray[np.int64]]:
    """Return row numbers sorted by key, in slices of about `most` rows, split where the key changes.

    key: [n], the key of each row. whole: True to never split the rows of one key, even if they are more than `most`.
    Slices are smaller if the workers would otherwise get too few of them.
    """
    import numpy as np

    if workers > 1:
        most = min(most, max(_LEAST, -(-len(key) // (_SHARE * workers))))
    order = np.argsort(key, kind="stable")
    ends = np.append(np.flatnonzero(np.diff(key[order])) + 1, len(order))
    if not whole:
        starts = np.append(0, ends[:-1])
        large = np.flatnonzero(ends - starts > most)
        ends = np.unique(np.concatenate([ends, *(np.arange(starts[i] + most, ends[i], most) for i in large)]))
    number = (ends - 1) // most
    return np.split(order, ends[:-1][np.diff(number) > 0])


def run(
    build: Callable[[], Callable[[S], R]], parts: Sequence[S], engine: Engine = HERE, label: str = "slices"
) -> Iterator[R]:
    """Yield the results of the function built by `build` for each part, in order.

    `build` is called here, or once in each worker. Unless slices run in this process, `build` and the parts must be
    picklable. Raises what the function raises, and UserError if workers die or cannot start.
    """
    mapped = _in_this if engine.here else _in_processes if engine.ray is None else _on_ray
    with closing(mapped(build, parts, engine)) as results:
        yield from track(results, len(parts), label)


def _in_this(build: Callable[[], Callable[[S], R]], parts: Sequence[S], engine: Engine) -> Generator[R, None, None]:
    work = build()
    for part in parts:
        yield work(part)


def _in_processes(
    build: Callable[[], Callable[[S], R]], parts: Sequence[S], engine: Engine
) -> Generator[R, None, None]:
    own = os.environ.get(THREADS)
    # Divide the cores among the workers. A worker's libraries read this variable before the worker's code could set it.
    os.environ[THREADS] = str(max(1, (os.cpu_count() or 1) // engine.workers))
    failures = Counter[int]()
    pool = _Pool(build, engine.workers)
    try:
        waiting: dict[int, Future[R]] = {}
        due = 0
        while due < len(parts):
            try:
                for number in range(due, min(len(parts), due + engine.ahead)):
                    if number not in waiting:
                        waiting[number] = pool.submit(parts[number])
                result = waiting[due].result()
            except BrokenProcessPool:  # when one worker dies, all slices in progress are lost
                ended = pool.close()
                lost = [number for number, future in waiting.items() if not _done(future)]
                failures.update(lost)
                if failures[due] > _LOCAL_RETRIES:
                    raise UserError(
                        f"{ended}, {failures[due]} times at the same slices; {pool.remedy}", "EPS-C105"
                    ) from None
                note(f"{ended}; slices in progress run again")
                for number in lost:
                    del waiting[number]
                pool = _Pool(build, engine.workers)
                continue
            del waiting[due]
            due += 1
            yield result
    finally:
        os.environ.pop(THREADS)
        if own is not None:
            os.environ[THREADS] = own
        pool.close()


def _done(future: Future[Any]) -> bool:
    return future.done() and not isinstance(future.exception(), BrokenProcessPool)


class _Pool:
    """Worker processes, and how they ended."""

    def __init__(self, build: Callable[[], Any], workers: int) -> None:
        self._pool = ProcessPoolExecutor(workers, get_context("spawn"), _begin, (build,))
        self._others, self._workers = set(active_children()), set[BaseProcess]()
        self._memory = _memory_kills()

    def submit(self, part: Any) -> Future[Any]:
        future = self._pool.submit(_work, part)
        self._workers |= set(active_children()) - self._others
        return future

    def close(self) -> str:
        """End the workers. Return a sentence on how the first worker ended, if one ended before this call."""
        self._pool.shutdown(cancel_futures=True)
        codes = [worker.exitcode for worker in self._workers if worker.exitcode]
        # When one worker dies, the pool ends the others with SIGTERM. Any other exit code is the first worker's.
        code = next((code for code in codes if code != -signal.SIGTERM), -signal.SIGTERM)
        return f"a worker process was ended by {_signal(-code)}" if code < 0 else f"a worker process ended with {code}"

    @property
    def remedy(self) -> str:
        if _memory_kills() > self._memory:
            return (
                "the kernel ended a process because memory ran out: set fewer runtime.workers or a smaller "
                "runtime.block, then run again"
            )
        return "look for the reason in the system's log (dmesg), then run again"


def _memory_kills() -> int:
    """Return how many processes the kernel has killed for lack of memory since boot; 0 if it does not count them."""
    try:
        with open("/proc/vmstat") as counts:
            return next((int(line.split()[1]) for line in counts if line.startswith("oom_kill ")), 0)
    except OSError:
        return 0


def _signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


_work_of_process: Callable[[Any], Any]


def _begin(build: Callable[[], Callable[[Any], Any]]) -> None:
    """Set up the function of a worker process."""
    global _work_of_process
    threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        _work_of_process = build()
    except Exception as error:  # raised here, the error would only be printed by the pool
        _work_of_process = partial(_fail, error)


def _fail(error: Exception, part: Any) -> Any:
    raise error


def _end_with_parent() -> None:
    """End this process with its parent. Otherwise it would wait forever after the parent was killed."""
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _work(part: Any) -> Any:
    return _work_of_process(part)


def _on_ray(build: Callable[[], Callable[[S], R]], parts: Sequence[S], engine: Engine) -> Generator[R, None, None]:
    with cluster(engine) as ray, closing(_Crew(ray, build, engine)) as crew:
        failures = Counter[int]()
        done: dict[int, NDArray[np.uint8]] = {}
        again = deque[int]()
        upcoming = due = 0
        while due < len(parts):
            while crew.idle() and (again or upcoming < min(len(parts), due + engine.ahead)):
                if again:
                    number = again.popleft()
                else:
                    number, upcoming = upcoming, upcoming + 1
                crew.give(number, parts[number])
            for number, result in crew.wait():
                if result is None:
                    failures[number] += 1
                    if failures[number] == _TRIES:
                        raise UserError(
                            f"slice {number} of {len(parts)} lost {_TRIES} workers in a row, most likely because it "
                            "exceeds a worker's memory; set a smaller runtime.block, or fewer workers per node",
                            "EPS-C106",
                        )
                    again.append(number)
                else:
                    done[number] = result
            while due in done:
                yield _opened(done.pop(due))
                due += 1


class _Crew:
    """The workers on a cluster, with their state: starting, ready, busy or dead."""

    def __init__(self, ray: Any, build: Callable[[], Any], engine: Engine) -> None:
        self._ray = ray
        self._actor = ray.remote(_Worker).options(num_cpus=1, num_gpus=engine.gpus)
        # A cluster's workers do not inherit this program's environment.
        own = {name: value for name, value in os.environ.items() if name.startswith("EPSILOMETER_")}
        self._arguments = ray.put(ray.cloudpickle.dumps(build)), os.getcwd(), own
        self._starting: dict[Any, Any] = {}  # actors, by the reference to their `ready` call
        self._load: dict[Any, int] = {}  # the number of slices of each ready actor
        self._busy: dict[Any, tuple[int, Any]] = {}  # slice number and actor, by the reference to the result
        self._failed_starts = 0
        self._alive = time.monotonic()
        self._needs = f"1 CPU and {engine.gpus:g} GPU"
        for _ in range(engine.workers):
            self._start()

    def _start(self) -> None:
        actor = self._actor.remote(*self._arguments)
        self._starting[actor.ready.remote()] = actor

    def idle(self) -> bool:
        """Return True if a ready worker can take a slice. Each takes one, or two once all have started."""
        return bool(self._load) and min(self._load.values()) < (1 if self._starting else 2)

    def give(self, number: int, part: Any) -> None:
        """Hand a slice to the least busy worker."""
        actor = min(self._load, key=self._load.__getitem__)
        self._load[actor] += 1
        self._busy[actor.work.remote(part)] = number, actor

    def wait(self) -> Iterator[tuple[int, NDArray[np.uint8] | None]]:
        """Wait up to 5 s, and yield slices with their results, or with None for lost slices. May yield nothing."""
        ready, _ = self._ray.wait([*self._busy, *self._starting], timeout=5.0)
        if self._load:
            self._alive = time.monotonic()
        elif time.monotonic() - self._alive > _PATIENCE:
            raise UserError(
                f"no worker started on the Ray cluster within {_PATIENCE:.0f} s: each needs {self._needs}, but nothing "
                "is free; wait, add nodes, or set fewer runtime.gpus",
                "EPS-C107",
            )
        for reference in ready:
            if reference in self._starting:
                self._started(reference)
            else:
                number, actor = self._busy.pop(reference)
                yield number, self._result(reference, actor)

    def _started(self, reference: Any) -> None:
        actor = self._starting.pop(reference)
        try:
            problem = self._ray.get(reference)
        except self._ray.exceptions.RayError as error:
            self._failed_starts += 1
            if self._failed_starts < _TRIES:
                return self._start()
            problem = f"{type(error).__name__}: {' '.join(str(error).split())[:500]}"
        if problem:
            raise UserError(
                f"a worker could not start on the Ray cluster: {problem}; give every node this project's folder at the "
                "same path, and the same versions of Python and packages",
                "EPS-C108",
            )
        self._load[actor] = 0

    def _result(self, reference: Any, actor: Any) -> NDArray[np.uint8] | None:
        try:
            result: NDArray[np.uint8] = self._ray.get(reference)
        except self._ray.exceptions.RayTaskError as error:  # an error outside of `work`: the arguments cannot be loaded
            raise UserError(
                f"a slice could not be handed to a worker ({type(error.cause).__name__})", "EPS-C109"
            ) from None
        except self._ray.exceptions.RayError:
            if actor in self._load:  # true only for the first lost slice of this worker
                del self._load[actor]
                self._ray.kill(actor)
                self._start()
            return None
        if actor in self._load:
            self._load[actor] -= 1
        return result

    def close(self) -> None:
        """End all workers."""
        for actor in [*self._load, *self._starting.values()]:
            self._ray.kill(actor)


class _Worker:
    """An actor that builds its function at the first slice."""

    def __init__(self, build: bytes, folder: str, variables: dict[str, str]) -> None:
        self._build, self._folder = build, folder
        os.environ.update(variables)
        self._work: Callable[[Any], Any] | None = None

    def ready(self) -> str:
        """Return a sentence on what is wrong with this node; empty if nothing is wrong."""
        try:
            os.chdir(self._folder)
        except OSError as error:
            return f"its node has no folder {self._folder} ({error.strerror})"
        return ""

    def work(self, part: Any) -> NDArray[np.uint8]:
        """Return a slice's result, or the exception that ended it, as bytes."""
        import numpy as np
        import ray.cloudpickle

        outcome: tuple[Any, Exception | None]
        try:
            if self._work is None:
                self._work = pickle.loads(self._build)()
            outcome = self._work(part), None
        except Exception as error:
            outcome = None, _portable(error)
        return np.frombuffer(ray.cloudpickle.dumps(outcome), np.uint8)


def _portable(error: Exception) -> Exception:
    """Return the error, or a RuntimeError if it cannot be pickled. A note states where it was raised, without texts."""
    trace = traceback_of(error)
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        error = RuntimeError(f"{kind_of(error)} in a worker")
    error.add_note(f"in a worker on Ray:\n{trace}")
    return error


def _opened(result: NDArray[np.uint8]) -> Any:
    value, error = pickle.loads(result.data)
    if error is not None:
        raise error
    return value


def _unusable(address: str | None, error: Exception) -> UserError:
    remedy = (
        f"a busy machine may need more than {os.environ[_START]} seconds: run again when it is less busy, raise "
        f"{_START}, or {_WITHOUT} (all parts of Ray were ended)"
        if address is None
        else "join the cluster on this machine first (ray start --address=HOST:PORT), with its token and the same "
        f"versions of Python and Ray, or {_WITHOUT}"
    )
    return UserError(
        f"Ray at {address or 'this machine'} cannot be used ({type(error).__name__}: "
        f"{' '.join(str(error).split())[:300]}); {remedy}",
        "EPS-C111",
    )


@contextmanager
def cluster(engine: Engine) -> Iterator[Any]:
    """Yield the module ray, connected for the duration of the context. A connection that existed before stays.

    Raises UserError if Ray is not installed, if no cluster answers, or if no node is large enough.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    address = os.environ.get("RAY_ADDRESS") or None if engine.ray == "auto" else engine.ray
    if address is None:
        # With 0, Ray assumes that this machine cannot share a cluster with others, and does not listen on all networks.
        os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")
    try:
        import ray
    except ImportError:
        raise UserError(
            f"Ray is asked for ({engine.ray}), but is not installed; run pip install 'epsilometer[ray]', or {_WITHOUT}",
            "EPS-C110",
        ) from None
    with ExitStack() as ending:
        if not ray.is_initialized():
            if address is None:
                # The folder is new, so that no other stage takes this cluster for a permanent one. Its parent has mode
                # 0700, because Ray makes its own folder writable by everybody.
                around = ending.enter_context(tempfile.TemporaryDirectory(prefix="ray-", ignore_cleanup_errors=True))
                cores = max(os.cpu_count() or 1, engine.workers)
                folder = os.path.join(around, "0")  # a short name, since the paths of sockets must be short
                options: dict[str, Any] = {"address": "local", "_temp_dir": folder, "num_cpus": cores}
                options["include_dashboard"] = False
                ending.callback(_end_all_of, folder)
                ending.enter_context(_local_environment())
            else:
                _reach(address)
                options = {"address": address}
            ending.callback(ray.shutdown)
            try:
                ray.init(**options, log_to_driver=False, logging_level=logging.ERROR)
            except Exception as error:  # Ray raises errors of many types
                raise _unusable(address, error) from error
            if address is None and os.environ.get("RAY_AUTH_MODE") != "token":
                raise UserError(
                    "this version of Ray starts clusters without a token; install a newer one: pip install "
                    "'epsilometer[ray]'",
                    "EPS-C112",
                )
            if address is None and any(node["NodeManagerAddress"] != "127.0.0.1" for node in ray.nodes()):
                raise UserError(
                    "Ray was imported before epsilometer could restrict it to this machine; set "
                    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER=0 in the environment",
                    "EPS-C113",
                )
        _check_room(ray.nodes(), engine.gpus)
        yield ray


@contextmanager
def _local_environment() -> Iterator[None]:
    """Set environment variables for a cluster on this machine: a token that only this user sees, and time to start."""
    # Without a token, Ray writes one to ~/.ray, where all users can read it. RAY_AUTH_MODE stays unset, so that Ray's
    # default applies. A mode that is set after Ray was loaded reaches only Ray's servers, which then refuse this
    # process.
    own = {"RAY_AUTH_MODE": None, "RAY_AUTH_TOKEN": _token(), _START: os.environ.get(_START, "120")}
    before = {name: os.environ.get(name) for name in own}
    _set(own)
    try:
        yield
    finally:
        _set(before)


def _set(variables: Mapping[str, str | None]) -> None:
    for name, value in variables.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


@cache
def _token() -> str:
    """Return the one token of this process's clusters. Ray remembers only the first token that it reads."""
    return secrets.token_hex(32)


def _end_all_of(folder: str) -> None:
    """Kill the remaining processes of a cluster in this folder. After a failed start, Ray's agents still run."""
    import psutil

    for process in psutil.process_iter(["cmdline"]):
        if process.pid != os.getpid() and any(folder in word for word in process.info["cmdline"] or ()):
            with suppress(psutil.Error):
                process.kill()


def _reach(address: str) -> None:
    """Raise UserError if no gRPC server listens at the address. Ray itself would try to connect for minutes."""
    host, _, port = address.rpartition(":")
    try:
        with socket.create_connection((host, int(port)), _CONNECT) as connection:
            connection.sendall(_GREETING)
            if connection.recv(len(_SETTINGS))[3:4] != _SETTINGS[3:4] and not os.environ.get("RAY_USE_TLS"):
                raise OSError("the program that listens there does not speak gRPC")
    except (OSError, ValueError) as error:
        raise UserError(
            f"no Ray cluster answers at {address} ({error}); give auto or the HOST:PORT of a cluster that was started "
            f"(ray start --head --port={port}), or {_WITHOUT}",
            "EPS-C114",
        ) from None


def _check_room(nodes: Sequence[dict[str, Any]], gpus: float) -> None:
    """Raise UserError for a share of a GPU that no node has, since Ray would wait forever."""
    rooms = [node["Resources"] for node in nodes if node["Alive"]]
    if not any(room.get("CPU", 0) >= 1 and room.get("GPU", 0) >= gpus for room in rooms):
        has = "; ".join(f"{room.get('CPU', 0):g} CPU, {room.get('GPU', 0):g} GPU" for room in rooms)
        raise UserError(
            f"a worker needs 1 CPU and {gpus:g} GPU (runtime.gpus), more than any node of the Ray cluster has ({has}); "
            "start larger nodes, or set fewer runtime.gpus",
            "EPS-C115",
        )
