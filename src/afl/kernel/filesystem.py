"""Whether a path lies on a file system whose locks can be believed."""

from __future__ import annotations

import os
import re
from pathlib import Path

# fmt: off
NETWORK_TYPES = frozenset({
    "nfs", "nfs4", "cifs", "smb3", "smbfs", "ncpfs", "9p", "ceph",
    "glusterfs", "lustre", "afs", "beegfs", "gpfs", "ocfs2", "gfs2", "davfs",
    "fuse.sshfs", "fuse.glusterfs", "fuse.ceph", "fuse.davfs2",
    "fuse.rclone", "fuse.s3fs", "fuse.gcsfuse",
})
# fmt: on
_MOUNTS = Path("/proc/self/mountinfo")


def mounted_types() -> dict[str, str]:
    """Mount point -> file system type; empty where the system does not tell."""
    return parse_mounts(_MOUNTS.read_text("utf-8", "replace")) if _MOUNTS.exists() else {}


def parse_mounts(text: str) -> dict[str, str]:
    """The lines of Linux' mountinfo; a later mount on the same point covers the earlier."""
    types: dict[str, str] = {}
    for line in text.splitlines():
        left, separator, right = line.partition(" - ")
        if separator:
            point = re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), left.split()[4])
            types[point] = right.split()[0]
    return types


def type_of(path: str, mounts: dict[str, str]) -> str | None:
    """The file system type of an absolute path without symbolic links."""
    while path not in mounts:
        parent = os.path.dirname(path)
        if parent == path:
            return None
        path = parent
    return mounts[path]


def network_type(path: str, mounts: dict[str, str] | None = None) -> str | None:
    """The type's name when the path is on a network file system, else None."""
    found = type_of(os.path.realpath(path), mounted_types() if mounts is None else mounts)
    return found if found in NETWORK_TYPES else None
