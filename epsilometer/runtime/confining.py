"""Limits of the system on a process that runs what is audited, and on all that it starts."""

from __future__ import annotations

import os
import resource
import threading
from contextlib import suppress

from epsilometer.core import limits


def confine() -> None:
    """Let this process write no dump of its memory, which would hold texts, and bound what it starts.

    The bound counts all processes and threads of the user: those that there are, and `limits.PROCESSES` more. The
    kernel asks nobody with the rights of root. It counts those of other containers, too, which `/proc` does not show;
    where they leave too little room, the bound is left out.
    """
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    soft, hard = resource.getrlimit(resource.RLIMIT_NPROC)
    if (there := _threads(os.getuid())) is None:
        return
    most = min(n for n in (there + limits.PROCESSES.value, soft, hard) if n != resource.RLIM_INFINITY)
    resource.setrlimit(resource.RLIMIT_NPROC, (most, hard))
    try:
        threading.Thread(target=int).start()
    except RuntimeError:
        resource.setrlimit(resource.RLIMIT_NPROC, (soft, hard))
    else:
        resource.setrlimit(resource.RLIMIT_NPROC, (most, most))


def _threads(user: int) -> int | None:
    """The user's threads, one at least for each process; None without Linux's /proc."""
    count = 0
    with suppress(FileNotFoundError), os.scandir("/proc") as processes:
        for process in processes:
            with suppress(OSError):  # it ended meanwhile
                if process.name.isdigit() and process.stat().st_uid == user:
                    count += len(os.listdir(f"/proc/{process.name}/task"))
    return count or None
