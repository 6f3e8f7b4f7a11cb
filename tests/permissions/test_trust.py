"""Which folders are believed, and attacks on the list of them."""

from __future__ import annotations

import json
import os
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from loopwright.errors import ConfigurationError
from loopwright.permissions import TrustFile, TrustFileUnsafe, what_needs_trust

pytestmark = pytest.mark.skipif(os.name != "posix", reason="owners and modes are POSIX's")
as_superuser = pytest.mark.skipif(
    os.name == "posix" and os.geteuid() != 0, reason="only the superuser can give files away"
)
as_anybody_else = pytest.mark.skipif(
    os.name == "posix" and os.geteuid() == 0, reason="no folder is closed to the superuser"
)
STRANGER = 54321


class World:
    def __init__(self, base: Path) -> None:
        self.base = base
        self.home = base / "home"
        self.file = self.home / ".config" / "loopwright" / "trust.json"
        self.project = self.home / "code" / "project"
        (self.project / "sub").mkdir(parents=True)
        self.trust = TrustFile(self.file, home=self.home)

    def write(self, text: str, mode: int = 0o600) -> None:
        self.file.parent.mkdir(parents=True, exist_ok=True)
        self.file.write_text(text)
        self.file.chmod(mode)

    def list_of(self, *folders: Path) -> str:
        return json.dumps({"version": 1, "folders": {str(f): os.geteuid() for f in folders}})


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path.resolve())


def test_trust_reaches_down_and_not_up(world: World) -> None:
    assert not world.trust.is_trusted(world.project)

    assert world.trust.trust(world.project) == world.project

    assert world.trust.is_trusted(world.project)
    assert world.trust.is_trusted(world.project / "sub")
    assert not world.trust.is_trusted(world.project.parent)
    assert not world.trust.is_trusted(world.home)
    sibling = world.project.with_name("project2")
    sibling.mkdir()
    assert not world.trust.is_trusted(sibling)


def test_the_file_is_the_users_alone(world: World) -> None:
    old = os.umask(0)
    try:
        world.trust.trust(world.project)
    finally:
        os.umask(old)

    assert stat.S_IMODE(world.file.stat().st_mode) == 0o600
    assert stat.S_IMODE(world.file.parent.stat().st_mode) == 0o700


def test_trust_goes_by_the_real_path(world: World) -> None:
    other = world.home / "other"
    other.mkdir()
    link = world.home / "link"
    link.symlink_to(world.project)
    world.trust.trust(link)
    assert world.trust.is_trusted(world.project)

    link.unlink()
    link.symlink_to(other)

    assert not world.trust.is_trusted(link)
    (world.project / "way-out").symlink_to(other)
    assert not world.trust.is_trusted(world.project / "way-out")
    assert not world.trust.is_trusted(world.project / ".." / ".." / "other")


def test_trust_can_be_taken_back(world: World) -> None:
    world.trust.trust(world.project)

    assert not world.trust.forget(world.project / "sub")
    assert world.trust.forget(world.project)

    assert not world.trust.is_trusted(world.project)
    assert not world.trust.forget(world.project)


def test_a_name_may_hold_anything(world: World) -> None:
    odd = world.home / 'a\n"b" ü'
    odd.mkdir()

    world.trust.trust(odd)

    assert TrustFile(world.file, home=world.home).is_trusted(odd)
    assert world.trust.folders() == {str(odd): os.geteuid()}


def test_many_at_once_lose_nothing(world: World) -> None:
    folders = [world.home / f"p{n}" for n in range(20)]
    for folder in folders:
        folder.mkdir()

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(world.trust.trust, folders))

    assert set(world.trust.folders()) == {str(folder) for folder in folders}


@pytest.mark.parametrize("path", ["/", "home", "above home", "a file", "nothing"])
def test_what_is_no_project_cannot_be_trusted(world: World, path: str) -> None:
    (world.home / "file").touch()
    paths = {"home": world.home, "above home": world.base, "a file": world.home / "file",
             "nothing": world.home / "nothing", "/": Path("/")}  # fmt: skip

    with pytest.raises(ConfigurationError) as caught:
        world.trust.trust(paths[path])

    assert caught.value.hint
    assert not world.file.exists()


def test_a_folder_that_everybody_may_write_to_cannot_be_trusted(world: World) -> None:
    world.project.chmod(0o777)

    with pytest.raises(ConfigurationError, match="everybody"):
        world.trust.trust(world.project)


def test_a_shared_folder_within_a_trusted_one_is_not_trusted(world: World) -> None:
    world.trust.trust(world.project)
    (world.project / "sub" / "deep").mkdir()

    (world.project / "sub").chmod(0o777)

    assert not world.trust.is_trusted(world.project / "sub")
    assert not world.trust.is_trusted(world.project / "sub" / "deep")


@as_superuser
def test_a_strangers_folder_within_a_trusted_one_is_not_trusted(world: World) -> None:
    world.trust.trust(world.project)
    (world.project / "sub" / "deep").mkdir()

    os.chown(world.project / "sub", STRANGER, STRANGER)

    assert not world.trust.is_trusted(world.project / "sub")
    assert not world.trust.is_trusted(world.project / "sub" / "deep")
    world.trust.trust(world.project / "sub")
    assert world.trust.is_trusted(world.project / "sub")


@as_superuser
def test_a_folder_that_somebody_else_put_in_its_place_is_not_trusted(world: World) -> None:
    world.trust.trust(world.project)
    world.project.rename(world.project.with_name("away"))
    world.project.mkdir()
    os.chown(world.project, STRANGER, STRANGER)

    assert not world.trust.is_trusted(world.project)


def test_a_trusted_folder_that_everybody_may_write_to_is_trusted_no_more(world: World) -> None:
    world.trust.trust(world.project)

    world.project.chmod(0o777)

    assert not world.trust.is_trusted(world.project)


@pytest.mark.parametrize("name", ["settings.toml", "extensions", "extensions/mine.py"])
def test_orders_that_others_can_write_are_not_trusted(world: World, name: str) -> None:
    shared = world.base / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    order = world.project / ".loopwright" / name
    order.parent.mkdir(parents=True)
    order.symlink_to(shared / "not-there-yet")

    with pytest.raises(ConfigurationError, match="somebody else's to write"):
        world.trust.trust(world.project)

    order.unlink()
    world.trust.trust(world.project)
    assert world.trust.is_trusted(world.project)
    order.symlink_to(shared / "not-there-yet")
    assert not world.trust.is_trusted(world.project)


def test_a_project_whose_orders_everybody_may_write_is_not_trusted(world: World) -> None:
    order = world.project / ".loopwright" / "settings.toml"
    order.parent.mkdir()
    order.touch()
    world.trust.trust(world.project)

    order.chmod(0o666)

    assert not world.trust.is_trusted(world.project)


def test_a_link_to_a_file_of_the_users_own_is_trusted(world: World) -> None:
    (world.home / "mine.toml").touch()
    (world.project / ".loopwright").mkdir()
    (world.project / ".loopwright" / "settings.toml").symlink_to(world.home / "mine.toml")

    world.trust.trust(world.project)

    assert world.trust.is_trusted(world.project)


def test_a_trusted_folder_that_is_gone_is_not_trusted(world: World) -> None:
    world.trust.trust(world.project / "sub")
    (world.project / "sub").rmdir()

    assert not world.trust.is_trusted(world.project / "sub")


def test_a_list_that_is_right_is_believed(world: World) -> None:
    """So that the attacks below fail for their own reason."""
    world.write(world.list_of(world.project))

    assert world.trust.is_trusted(world.project)


# -- attacks on the file -----------------------------------------------------------------------


def attack_link(world: World) -> None:
    real = world.base / "planted.json"
    real.write_text(world.list_of(world.project))
    real.chmod(0o600)
    world.file.parent.mkdir(parents=True)
    world.file.symlink_to(real)


def attack_dangling_link(world: World) -> None:
    world.file.parent.mkdir(parents=True)
    world.file.symlink_to(world.base / "nothing")


def attack_hard_link(world: World) -> None:
    world.write(world.list_of(world.project))
    os.link(world.file, world.base / "second")


def attack_group_writable(world: World) -> None:
    world.write(world.list_of(world.project), 0o660)


def attack_world_writable(world: World) -> None:
    world.write(world.list_of(world.project), 0o602)


def attack_folder_writable(world: World) -> None:
    world.write(world.list_of(world.project))
    world.file.parent.chmod(0o777)


def attack_pipe(world: World) -> None:
    world.file.parent.mkdir(parents=True)
    os.mkfifo(world.file, 0o600)


def attack_folder(world: World) -> None:
    world.file.mkdir(parents=True, mode=0o700)


def attack_nonsense(world: World) -> None:
    world.write("{")


def attack_deep(world: World) -> None:
    world.write("[" * 100_000)


def attack_relative(world: World) -> None:
    world.write('{"version": 1, "folders": {".": 0}}')


def attack_types(world: World) -> None:
    world.write('{"version": 1, "folders": {"/a": "x"}}')


def attack_text(world: World) -> None:
    world.write('{"version": 1, "folders": "/"}')


def attack_version(world: World) -> None:
    world.write('{"version": 2, "folders": {}}')


def attack_size(world: World) -> None:
    world.write(" " * (5 * 1024 * 1024))


def attack_not_text(world: World) -> None:
    world.write("")
    world.file.write_bytes(b"\xff\xfe\x00")


ATTACKS = [value for name, value in sorted(globals().items()) if name.startswith("attack_")]


@pytest.mark.parametrize("attack", ATTACKS)
def test_a_list_that_cannot_be_believed_trusts_nothing(world: World, attack: object) -> None:
    assert callable(attack)
    attack(world)

    with pytest.raises(TrustFileUnsafe, match="so no folder is trusted") as caught:
        world.trust.is_trusted(world.project)
    with pytest.raises(TrustFileUnsafe):
        world.trust.trust(world.project)

    assert str(world.file) in caught.value.message
    assert not (world.base / "nothing").exists()


@as_superuser
@pytest.mark.parametrize("whose", ["file", "folder"])
def test_a_list_of_somebody_else_trusts_nothing(world: World, whose: str) -> None:
    world.write(world.list_of(world.project))
    os.chown(world.file if whose == "file" else world.file.parent, STRANGER, STRANGER)

    with pytest.raises(TrustFileUnsafe, match="another user"):
        world.trust.is_trusted(world.project)


def test_a_lock_that_is_a_link_makes_no_file_elsewhere(world: World) -> None:
    world.file.parent.mkdir(parents=True, mode=0o700)
    world.file.with_name("trust.json.lock").symlink_to(world.base / "made")

    with pytest.raises(ConfigurationError):
        world.trust.trust(world.project)

    assert not (world.base / "made").exists()


@as_anybody_else
def test_a_link_into_a_folder_that_is_closed_is_not_trusted(world: World) -> None:
    """Whoever owns the folder may open it later."""
    closed = world.base / "closed"
    closed.mkdir(mode=0)
    order = world.project / ".loopwright" / "settings.toml"
    order.parent.mkdir()
    order.symlink_to(closed / "settings.toml")

    with pytest.raises(ConfigurationError, match="somebody else's to write"):
        world.trust.trust(world.project)
    world.write(world.list_of(world.project))
    assert not world.trust.is_trusted(world.project)


def test_what_gives_orders_needs_trust(world: World) -> None:
    assert what_needs_trust(world.project) == []
    folder = world.project / ".loopwright"
    (folder / "extensions").mkdir(parents=True)
    (folder / "skills").mkdir()
    (folder / "models.toml").touch()
    (folder / "settings.toml").symlink_to("nowhere")

    assert what_needs_trust(world.project) == [
        folder / "settings.toml", folder / "models.toml", folder / "extensions",
    ]  # fmt: skip


@pytest.mark.parametrize("name", ["SYSTEM.md", "APPEND_SYSTEM.md"])
def test_case_164_a_file_that_speaks_for_the_program_is_named_and_its_rights_are_checked(
    world: World, name: str
) -> None:
    path = world.project / ".loopwright" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    assert what_needs_trust(world.project) == [path]
    world.trust.trust(world.project)
    assert world.trust.is_trusted(world.project)

    path.chmod(0o666)

    assert not world.trust.is_trusted(world.project)
