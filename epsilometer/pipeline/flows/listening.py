"""Ports of 127.0.0.1, which any user of the machine may take.

So a process reserves a port, or checks the port's owner, before data is sent to the port.
"""

from __future__ import annotations

import getpass
import os
import socket
from pathlib import Path

import psutil

from epsilometer.core.errors import UserError

HOST = "127.0.0.1"
_LISTENS = "0A"  # the listening state in the kernel's tables


def held(port: int) -> socket.socket:
    """Return a socket that listens at a port from now on, for the process that will serve it.

    No other process can take the port while a process holds the socket. Connections wait until they are served. Raises
    UserError if the port is taken.
    """
    listening = socket.socket()
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # allows a port that was just closed
    try:
        listening.bind(("127.0.0.1", port))
        listening.listen()
    except OSError as error:
        listening.close()
        raise UserError(
            f"port {port} is taken, and not by this project ({error.strerror}); try `make ui PORT={port + 10}`",
            "EPS-P026",
        ) from None
    return listening


def is_own(port: int) -> bool:
    """Return True if processes listen at a port of this machine, and all of them belong to this user or root."""
    tables = [file for file in (Path("/proc/net/tcp"), Path("/proc/net/tcp6")) if file.is_file()]
    if not tables:  # not Linux: psutil shows a user only the sockets of their own processes
        own = (process for process in psutil.process_iter() if process.username() == getpass.getuser())
        sockets = (connection for process in own for connection in process.net_connections("tcp"))
        return any(socket.status == psutil.CONN_LISTEN and socket.laddr.port == port for socket in sockets)
    rows = [line.split() for file in tables for line in file.read_text().splitlines()[1:]]
    owners = {int(row[7]) for row in rows if row[3] == _LISTENS and int(row[1].rpartition(":")[2], 16) == port}
    return bool(owners) and owners <= {os.geteuid(), 0}
