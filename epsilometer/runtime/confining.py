"""System limits on a process that runs audited code, and on all processes that it starts."""

from __future__ import annotations

import os
import resource
import threading
from contextlib import suppress

from epsilometer.core import resource_limits


def confine() -> None:
    """Disable core dumps of this process, since they could contain texts, and limit the number of processes.

    The limit is the user's present number of threads plus `resource_limits.PROCESSES`. The kernel does not enforce
    this limit for root. The kernel also counts processes in other containers, which `/proc` does not show. If these
    processes leave no room for another thread, no limit is set.
    """
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    soft, hard = resource.getrlimit(resource.RLIMIT_NPROC)
    if (there := _threads(os.getuid())) is None:
        return
    most = min(n for n in (there + resource_limits.PROCESSES.value, soft, hard) if n != resource.RLIM_INFINITY)
    resource.setrlimit(resource.RLIMIT_NPROC, (most, hard))
    try:
        threading.Thread(target=int).start()
    except RuntimeError:
        resource.setrlimit(resource.RLIMIT_NPROC, (soft, hard))
    else:
        resource.setrlimit(resource.RLIMIT_NPROC, (most, most))


def _threads(user: int) -> int | None:
    """Return the number of threads in all processes of the user; None without Linux's /proc."""
    count = 0
    with suppress(FileNotFoundError), os.scandir("/proc") as processes:
        for process in processes:
            with suppress(OSError):  # the process has ended
                if process.name.isdigit() and process.stat().st_uid == user:
                    count += len(os.listdir(f"/proc/{process.name}/task"))
    return count or None
