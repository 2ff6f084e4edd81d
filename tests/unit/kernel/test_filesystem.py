"""Which file systems are refused."""

from __future__ import annotations

import pytest

from afl.kernel.filesystem import mounted_types, network_type, parse_mounts, type_of

MOUNTS = parse_mounts(
    "22 1 254:1 / / rw,relatime shared:1 - ext4 /dev/vda1 rw\n"
    "40 22 0:35 / /mnt/team rw - nfs4 server:/export rw\n"
    "41 40 254:2 / /mnt/team/local\\040disk rw - xfs /dev/vdb rw\n"
    "a line the kernel never wrote\n"
    "42 22 0:36 / /over rw - ext4 /dev/vdc rw\n"
    "43 42 0:37 / /over rw master:1 - cifs //host/share rw\n"
)


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/", "ext4"),
        ("/home/me/.afl", "ext4"),
        ("/mnt/team", "nfs4"),
        ("/mnt/team/deep/down", "nfs4"),
        ("/mnt/teams", "ext4"),
        ("/mnt/team/local disk/x", "xfs"),
        ("/over/x", "cifs"),
    ],
)
def test_the_deepest_and_latest_mount_counts(path: str, kind: str) -> None:
    assert type_of(path, MOUNTS) == kind


def test_only_network_types_are_named() -> None:
    assert network_type("/mnt/team/x", MOUNTS) == "nfs4"
    assert network_type("/var/lib", MOUNTS) is None


def test_an_unknown_system_is_not_refused() -> None:
    assert type_of("/anything", {}) is None


def test_this_system_tells_its_root() -> None:
    assert type_of("/", mounted_types()) is not None
