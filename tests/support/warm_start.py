"""A program that stands for a process of a warm parent, for those who start programs by themselves, as a shell does.

It hands its own standard files over, passes signals on, and ends as the process does. When it is killed, its connection
closes, and with that the process is killed. It imports next to nothing, so as to start at once.
"""

import _signal as signal  # the module `signal` takes a third of the time of such a program
import _socket as socket
import json
import os
import sys
from struct import pack


def main() -> None:
    address, *argv = sys.argv[1:]
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.connect(address)
    order = {"argv": argv, "cwd": os.getcwd(), "env": dict(os.environ)}
    connection.sendmsg([b"{"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, pack("3i", 0, 1, 2))])
    connection.sendall(json.dumps(order)[1:].encode() + b"\n")
    pid = int(line(connection))

    def pass_on(number: int, frame: object) -> None:
        os.kill(pid, number)

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, pass_on)
    code = os.waitstatus_to_exitcode(int(line(connection) or signal.SIGKILL))
    if code < 0:
        signal.signal(-code, signal.SIG_DFL) if code != -signal.SIGKILL else None
        os.kill(os.getpid(), -code)
    os._exit(code)


def line(connection: socket.socket) -> str:
    data = b""
    while not data.endswith(b"\n") and (part := connection.recv(1)):  # the next line may be there already
        data += part
    return data.decode()


main()
