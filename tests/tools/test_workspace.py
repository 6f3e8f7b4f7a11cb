"""What every workspace promises, held by the local one and by that in memory."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import BinaryIO

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopwright.errors import ToolError
from loopwright.tools import LocalWorkspace, MemoryWorkspace, PathRefused, Workspace
from loopwright.tools.beneath import folder_beneath, open_regular
from loopwright.tools.file_locks import FileLocks, GiveUp
from loopwright.tools.replace_file import ChangedMeanwhile, replace_file

Make = Callable[..., Workspace]

SECRET = b"not for you"


@pytest.fixture(params=["local", "memory"])
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Make:
    """Makes a workspace `work` with files and links; beside it is `outside` with a secret."""

    def make(
        files: Mapping[str, str | bytes] | None = None,
        links: Mapping[str, str] | None = None,
        allow: list[str] | None = None,
        readable: list[str] | None = None,
    ) -> Workspace:
        top = str(tmp_path) if request.param == "local" else "/top"
        root = f"{top}/work"
        places = {"allow": allow or [], "readable": readable or []}
        further = {name: [f"{top}/{path}" for path in paths] for name, paths in places.items()}
        if request.param == "memory":
            return MemoryWorkspace(
                {**(files or {}), f"{top}/outside/secret.txt": SECRET},
                links=links,
                root=root,
                **further,
            )
        (tmp_path / "outside").mkdir()
        (tmp_path / "outside" / "secret.txt").write_bytes(SECRET)
        (tmp_path / "work").mkdir()
        for name, content in (files or {}).items():
            path = tmp_path / "work" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            if name.endswith("/"):
                path.mkdir(exist_ok=True)
            else:
                path.write_bytes(content.encode() if isinstance(content, str) else content)
        for name, target in (links or {}).items():
            path = tmp_path / "work" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.symlink_to(target)
        return LocalWorkspace(root, **further)

    return make


async def content(workspace: Workspace, path: str) -> bytes:
    return await workspace.read(await workspace.resolve(path), lambda file: file.read())


async def put(workspace: Workspace, path: str, data: bytes) -> bool:
    real = await workspace.resolve(path, must_exist=False, writing=True)
    return await workspace.write(real, data)


async def test_what_is_written_is_read(make: Make) -> None:
    workspace = make()

    new = await put(workspace, "a/b/c.txt", b"1\r\n\xff")
    again = await put(workspace, "a/b/c.txt", b"2")

    assert (new, again) == (True, False)
    assert await content(workspace, "./a//b/../b/c.txt") == b"2"
    assert await workspace.resolve("a/b/c.txt") == f"{workspace.root}/a/b/c.txt"


async def test_a_path_may_be_absolute(make: Make) -> None:
    workspace = make({"f": "1"})

    assert await content(workspace, f"{workspace.root}/f") == b"1"
    assert await workspace.resolve(".") == workspace.root


@pytest.mark.parametrize(
    "path",
    ["../outside/secret.txt", "..", "/", "/etc/passwd", "~/x", "a/../../outside/secret.txt",
     "@../outside/secret.txt", "out/secret.txt", "out/new.txt", "out", "hop/secret.txt",
     "dangling", "out/../outside/secret.txt", "secret"],
)  # fmt: skip
async def test_a_path_that_leads_out_is_refused_whatever_it_is_for(make: Make, path: str) -> None:
    links = {
        "out": "../outside",
        "hop": "out",
        "dangling": "../outside/new.md",
        "secret": "../outside/secret.txt",
    }
    workspace = make({"a/": ""}, links)

    for purpose in ({}, {"must_exist": False}, {"must_exist": False, "writing": True}):
        with pytest.raises(PathRefused, match="leads out of the workspace"):
            await workspace.resolve(path, **purpose)


async def test_every_method_checks_again(make: Make) -> None:
    workspace = make()
    secret = f"{os.path.dirname(workspace.root)}/outside/secret.txt"

    attempts: list[Callable[[], Awaitable[object]]] = [
        lambda: workspace.stat(secret),
        lambda: workspace.list(os.path.dirname(secret)),
        lambda: workspace.read(secret, lambda file: file.read()),
        lambda: workspace.write(secret, b""),
        lambda: workspace.mutate(secret, lambda old: (b"", None)),
    ]
    for attempt in attempts:
        with pytest.raises(PathRefused):
            await attempt()


async def test_links_that_stay_inside_work(make: Make) -> None:
    workspace = make(
        {"real/f.txt": "1", "x/y/": ""},
        {"folder": "real", "file": "real/f.txt", "x/y/up": "../../real", "fresh": "real/new.txt"},
    )

    await put(workspace, "file", b"2")
    await put(workspace, "fresh", b"new")

    assert await content(workspace, "folder/f.txt") == b"2"
    assert await content(workspace, "x/y/up/f.txt") == b"2"
    assert await content(workspace, "x/y/up/../real/f.txt") == b"2"
    assert await content(workspace, "real/new.txt") == b"new"
    assert await workspace.resolve("file") == f"{workspace.root}/real/f.txt"


async def test_a_circle_of_links_is_an_error_in_words(make: Make) -> None:
    workspace = make({}, {"a": "b", "b": "a"})

    with pytest.raises(ToolError, match="circle"):
        await content(workspace, "a")


async def test_further_places_may_be_allowed_for_all_or_for_reading(make: Make) -> None:
    workspace = make({}, {}, allow=["shared"], readable=["outside"])
    top = os.path.dirname(workspace.root)

    assert await put(workspace, f"{top}/shared/f", b"1")
    assert await content(workspace, f"{top}/outside/secret.txt") == SECRET
    with pytest.raises(PathRefused, match="may be read but not changed"):
        await put(workspace, f"{top}/outside/secret.txt", b"")
    with pytest.raises(PathRefused):
        await workspace.resolve(f"{top}/outsider")


async def test_a_name_that_is_there_is_never_taken_for_a_spelling(make: Make) -> None:
    workspace = make({"@f": "at", "f": "plain", "a\u00a0b": "odd", "a b": "even", "~/x": "tilde"})

    assert await content(workspace, "@f") == b"at"
    assert await content(workspace, "a\u00a0b") == b"odd"
    assert await content(workspace, "~/x") == b"tilde"


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ("@src/f.py", "src/f.py"),
        ("a\u00a0b.txt", "a b.txt"),
        ("Shot 9.41 PM.png", "Shot 9.41\u202fPM.png"),
        ("caf\u00e9.txt", "cafe\u0301.txt"),
        ("cafe\u0301.txt", "caf\u00e9.txt"),
        ("it's.txt", "it\u2019s.txt"),
        ("caf\u00e9's 1 am.txt", "cafe\u0301\u2019s 1\u202fam.txt"),
    ],
)
async def test_spellings_of_other_keyboards_find_the_file(
    make: Make, given: str, name: str
) -> None:
    workspace = make({name: "1"})

    assert await content(workspace, given) == b"1"


async def test_a_new_file_goes_where_its_name_says(make: Make) -> None:
    workspace = make({"@scope/old.ts": "1", "it\u2019s.txt": "curly"})

    assert await workspace.resolve("@scope/new.ts", must_exist=False) == (
        f"{workspace.root}/@scope/new.ts"
    )
    assert (
        await workspace.resolve("@lib/new.ts", must_exist=False) == f"{workspace.root}/lib/new.ts"
    )
    # Whoever writes names a file, and must not hit another one that looks alike.
    assert await workspace.resolve("it's.txt", must_exist=False) == f"{workspace.root}/it's.txt"


@pytest.mark.parametrize("path", ["", "a\0b"])
async def test_what_can_be_no_path_is_refused(make: Make, path: str) -> None:
    with pytest.raises(ToolError, match="path"):
        await make().resolve(path)


async def test_a_folder_is_listed_with_what_links_lead_to(make: Make) -> None:
    workspace = make(
        {"f": "1", ".hidden": "", "d/x/y": ""},
        {"to-d": "d", "to-f": "f", "out": "../outside", "gone": "nothing"},
    )

    found = {entry.name: entry[1:] for entry in await workspace.list(workspace.root)}

    assert found == {
        "f": ("file", False),
        ".hidden": ("file", False),
        "d": ("folder", False),
        "to-d": ("folder", True),
        "to-f": ("file", True),
        "out": ("other", True),
        "gone": ("other", True),
    }


async def test_stat_tells_kind_and_size(make: Make) -> None:
    workspace = make({"d/f": "123"})

    file = await workspace.stat(f"{workspace.root}/d/f")
    folder = await workspace.stat(f"{workspace.root}/d")

    assert file is not None
    assert folder is not None
    assert (file.kind, file.size, folder.kind, folder.size) == ("file", 3, "folder", 0)
    assert await workspace.stat(f"{workspace.root}/d/f/g") is None
    assert await workspace.stat(f"{workspace.root}/x") is None


async def test_faults_name_the_file_and_not_the_machine(make: Make) -> None:
    workspace = make({"d/f": "1"})
    real = workspace.root

    with pytest.raises(ToolError, match="'d' is a folder"):
        await workspace.write(f"{real}/d", b"")
    with pytest.raises(ToolError, match="'d' is a folder"):
        await workspace.read(f"{real}/d", lambda file: file.read())
    with pytest.raises(ToolError, match="no file 'd/x'"):
        await workspace.mutate(f"{real}/d/x", lambda old: (old, None))
    with pytest.raises(ToolError, match="'d/f/g'.*no folder"):
        await workspace.write(f"{real}/d/f/g", b"")
    with pytest.raises(ToolError, match="'d/f'.*no folder"):
        await workspace.list(f"{real}/d/f")


async def test_a_change_that_raises_leaves_the_file_and_the_lock(make: Make) -> None:
    workspace = make({"f": "1"})
    path = f"{workspace.root}/f"

    def fail(old: bytes) -> tuple[bytes, None]:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        await workspace.mutate(path, fail)
    assert await workspace.mutate(path, lambda old: (old + b"2", "told")) == "told"

    assert await content(workspace, "f") == b"12"


async def test_changes_of_one_file_happen_one_after_the_other(make: Make) -> None:
    workspace = make({"f": "0"}, {"link": "f"})

    def increase(old: bytes) -> tuple[bytes, None]:
        time.sleep(0.001)  # an invitation to whoever would come in between
        return str(int(old) + 1).encode(), None

    paths = [await workspace.resolve(path) for path in ("f", "link")]
    await asyncio.gather(*(workspace.mutate(paths[i % 2], increase) for i in range(40)))

    assert await content(workspace, "f") == b"40"


async def test_different_files_are_changed_side_by_side(make: Make) -> None:
    workspace = make({"a": "", "b": ""})
    both = threading.Barrier(2, timeout=10)

    def meet(old: bytes) -> tuple[bytes, int]:
        return b"met", both.wait()

    met = await asyncio.gather(
        workspace.mutate(f"{workspace.root}/a", meet), workspace.mutate(f"{workspace.root}/b", meet)
    )

    assert sorted(met) == [0, 1]


async def test_a_cancelled_change_is_not_made_and_holds_the_next_up_until_it_settled(
    make: Make,
) -> None:
    workspace = make({"f": "old"})
    path = f"{workspace.root}/f"
    begun, go_on = threading.Event(), threading.Event()
    seen: list[bytes] = []

    def slow(old: bytes) -> tuple[bytes, None]:
        begun.set()
        go_on.wait(10)
        return b"late", None

    def after(old: bytes) -> tuple[bytes, None]:
        seen.append(old)
        return b"next", None

    first = asyncio.create_task(workspace.mutate(path, slow))
    await asyncio.to_thread(begun.wait, 10)
    second = asyncio.create_task(workspace.mutate(path, after))
    first.cancel()
    await asyncio.sleep(0.05)
    held = not second.done() and not seen
    go_on.set()
    await second

    assert held
    assert seen == [b"old"]
    with pytest.raises(asyncio.CancelledError):
        await first
    assert await content(workspace, "f") == b"next"


async def test_who_is_cancelled_while_waiting_changes_nothing(make: Make) -> None:
    workspace = make({"f": "old"})
    path = f"{workspace.root}/f"
    begun, go_on = threading.Event(), threading.Event()

    def slow(old: bytes) -> tuple[bytes, None]:
        begun.set()
        go_on.wait(10)
        return b"first", None

    first = asyncio.create_task(workspace.mutate(path, slow))
    await asyncio.to_thread(begun.wait, 10)
    waiting = [asyncio.create_task(workspace.write(path, b"never")) for _ in range(3)]
    last = asyncio.create_task(workspace.mutate(path, lambda old: (old + b" last", None)))
    await asyncio.sleep(0)
    for task in waiting:
        task.cancel()
    go_on.set()
    await asyncio.gather(first, last)

    assert await content(workspace, "f") == b"first last"


async def test_a_reader_nobody_waits_for_ends(make: Make) -> None:
    workspace = make({"f": "x" * 1_000_000})  # more than a buffer holds
    begun, go_on, ended = threading.Event(), threading.Event(), threading.Event()

    def reader(file: BinaryIO) -> None:
        file.read(1)
        begun.set()
        go_on.wait(10)
        try:
            while file.read(8192) or file.seek(0) == 0:  # from its start to its end, for ever
                pass
        finally:
            ended.set()

    task = asyncio.create_task(workspace.read(f"{workspace.root}/f", reader))
    await asyncio.to_thread(begun.wait, 10)
    task.cancel()
    await asyncio.wait([task])
    go_on.set()

    assert await asyncio.to_thread(ended.wait, 10)


# -- locks -------------------------------------------------------------------------------------


async def test_locks_of_several_event_loops_are_the_same() -> None:
    locks = FileLocks()
    inside: list[int] = []
    most: list[int] = []

    def work(give_up: GiveUp) -> None:
        inside.append(1)
        most.append(len(inside))
        time.sleep(0.001)
        inside.pop()

    async def several() -> None:
        await asyncio.gather(*(locks.run("k", work) for _ in range(10)))

    await asyncio.gather(*(asyncio.to_thread(asyncio.run, several()) for _ in range(4)))

    assert max(most) == 1
    assert len(most) == 40
    assert locks._waiting == {}


@given(st.lists(st.sampled_from(["run", "cancel", "yield"]), max_size=40))
def test_a_lock_is_free_again_whoever_was_cancelled(steps: list[str]) -> None:
    async def scene() -> None:
        locks = FileLocks()
        tasks: list[asyncio.Task[int]] = []
        for step in steps:
            if step == "run":
                tasks.append(asyncio.create_task(locks.run("k", lambda give_up: 1)))
            elif step == "cancel" and tasks:
                tasks[len(tasks) // 2].cancel()
            else:
                await asyncio.sleep(0)
        await asyncio.gather(*tasks, return_exceptions=True)
        async with asyncio.timeout(10):
            assert await locks.run("k", lambda give_up: 2) == 2
        assert locks._waiting == {}

    asyncio.run(scene())


# -- only on disk ------------------------------------------------------------------------------


async def test_a_root_reached_through_a_link_is_no_way_out(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "f").write_text("1")
    (tmp_path / "root").symlink_to("real")

    workspace = LocalWorkspace(tmp_path / "root")

    assert await content(workspace, "f") == b"1"
    assert await content(workspace, str(tmp_path / "root" / "f")) == b"1"


def test_a_root_that_is_no_folder_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(NotADirectoryError):
        LocalWorkspace(tmp_path / "nothing")


async def test_a_single_file_may_be_allowed(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    notes = tmp_path / "notes.md"
    notes.write_text("1")
    workspace = LocalWorkspace(tmp_path / "work", allow=[notes])

    await put(workspace, str(notes), b"2")

    assert notes.read_text() == "2"
    with pytest.raises(PathRefused):
        await workspace.resolve(str(tmp_path / "other.md"))


async def test_the_whole_disk_may_be_allowed(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    workspace = LocalWorkspace(tmp_path / "work", allow=["/"])

    await put(workspace, str(tmp_path / "new" / "f"), b"1")

    assert (tmp_path / "new" / "f").read_bytes() == b"1"


async def test_a_link_put_in_place_after_the_check_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "work" / "d").mkdir(parents=True)
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "f").write_bytes(SECRET)
    workspace = LocalWorkspace(tmp_path / "work")
    (tmp_path / "work" / "d" / "f").write_text("1")
    path = await workspace.resolve("d/f")
    folder = await workspace.resolve("d")

    (tmp_path / "work" / "d").rename(tmp_path / "work" / "old")
    (tmp_path / "work" / "d").symlink_to("../outside")

    attempts: list[Callable[[], Awaitable[object]]] = [
        lambda: workspace.read(path, lambda file: file.read()),
        lambda: workspace.write(path, b"2"),
        lambda: workspace.write(path + "2", b"2"),
        lambda: workspace.mutate(path, lambda old: (b"2", None)),
        lambda: workspace.list(folder),
    ]
    for attempt in attempts:
        with pytest.raises(ToolError, match="link|no folder"):
            await attempt()
    assert os.listdir(tmp_path / "outside") == ["f"]
    assert (tmp_path / "outside" / "f").read_bytes() == SECRET


async def test_a_last_name_that_became_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "outside").write_bytes(SECRET)
    workspace = LocalWorkspace(tmp_path / "work")
    path = await workspace.resolve("f", must_exist=False)

    (tmp_path / "work" / "f").symlink_to("../outside")

    for attempt in (
        lambda: workspace.read(path, lambda file: file.read()),
        lambda: workspace.write(path, b"2"),
        lambda: workspace.mutate(path, lambda old: (b"2", None)),
    ):
        with pytest.raises(ToolError, match="link"):
            await attempt()
    assert (tmp_path / "outside").read_bytes() == SECRET


async def test_two_spellings_of_one_name_share_a_lock() -> None:
    from loopwright.tools.paths import lock_key

    assert lock_key("/w/Stra\u00dfe/CAFE\u0301") == lock_key("/w/strasse/caf\u00e9")


async def test_a_pipe_is_refused_without_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    workspace = LocalWorkspace(tmp_path)

    async with asyncio.timeout(5):
        with pytest.raises(ToolError, match="pipe"):
            await content(workspace, "pipe")
        with pytest.raises(ToolError, match="pipe"):
            await put(workspace, "pipe", b"")


async def test_whoever_waits_to_write_to_a_pipe_is_not_told_to_begin(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    begun = threading.Event()

    def write() -> None:
        with pipe.open("wb"):
            begun.set()

    writer = threading.Thread(target=write, daemon=True)
    writer.start()
    for _ in range(5):
        with pytest.raises(ToolError, match="pipe"):
            await content(LocalWorkspace(tmp_path), "pipe")
    told = begun.is_set()
    reading = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)  # now it may end
    writer.join(10)
    os.close(reading)

    assert not told
    assert begun.is_set()


async def test_mode_and_attributes_stay_and_nothing_is_left_beside(tmp_path: Path) -> None:
    file = tmp_path / "run.sh"
    file.write_text("1")
    file.chmod(0o751)
    workspace = LocalWorkspace(tmp_path)

    await put(workspace, "run.sh", b"2")
    await workspace.mutate(str(file.resolve()), lambda old: (old + b"3", None))

    assert file.read_bytes() == b"23"
    assert file.stat().st_mode & 0o7777 == 0o751
    assert os.listdir(tmp_path) == ["run.sh"]


async def test_a_new_file_has_the_mode_of_any_new_file(tmp_path: Path) -> None:
    workspace = LocalWorkspace(tmp_path)
    (tmp_path / "other").touch()

    await put(workspace, "f", b"")

    assert (tmp_path / "f").stat().st_mode == (tmp_path / "other").stat().st_mode


async def test_the_file_is_the_old_or_the_new_one_at_any_instant(tmp_path: Path) -> None:
    old, new = b"a" * 200_000, b"b" * 300_000
    (tmp_path / "f").write_bytes(old)
    workspace = LocalWorkspace(tmp_path)
    seen: set[bytes] = set()
    done = threading.Event()

    def watch() -> None:
        while not done.is_set():
            seen.add((tmp_path / "f").read_bytes())

    watcher = asyncio.create_task(asyncio.to_thread(watch))
    for index in range(20):
        await put(workspace, "f", (new, old)[index % 2])
    done.set()
    await watcher

    assert seen <= {old, new}


def test_a_change_by_another_program_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("theirs, longer")
    with folder_beneath(str(tmp_path.resolve()), str(tmp_path.resolve())) as folder:
        with open_regular(folder, "f") as file:
            before = os.fstat(file.fileno())
        (tmp_path / "f").write_text("and changed")

        with pytest.raises(ChangedMeanwhile):
            replace_file(folder, "f", b"ours", before_commit=lambda: None, expected=before)

    assert (tmp_path / "f").read_text() == "and changed"
    assert os.listdir(tmp_path) == ["f"]


async def test_a_change_by_another_program_is_told_to_the_model(tmp_path: Path) -> None:
    file = tmp_path / "f"
    file.write_text("1")
    workspace = LocalWorkspace(tmp_path)

    def change(old: bytes) -> tuple[bytes, None]:
        file.write_text("theirs")
        return b"ours", None

    with pytest.raises(ToolError, match="changed by another program"):
        await workspace.mutate(str(file.resolve()), change)
    assert file.read_text() == "theirs"


as_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs to become another user")


@as_root
def test_a_write_protected_file_is_not_replaced(tmp_path: Path) -> None:
    folder_path = str(tmp_path.resolve())
    (tmp_path / "f").write_text("1")
    (tmp_path / "f").chmod(0o444)
    tmp_path.chmod(0o777)
    with folder_beneath(folder_path, folder_path) as folder:
        os.seteuid(65534)
        try:
            with pytest.raises(PermissionError, match="write-protected"):
                replace_file(folder, "f", b"2", before_commit=lambda: None)
        finally:
            os.seteuid(0)

    assert (tmp_path / "f").read_text() == "1"


@as_root
@pytest.mark.parametrize("mode", [0o777, 0o755])
def test_a_file_of_somebody_else_is_written_in_place(tmp_path: Path, mode: int) -> None:
    folder_path = str(tmp_path.resolve())
    (tmp_path / "f").write_text("old and long")
    (tmp_path / "f").chmod(0o666)
    before = (tmp_path / "f").stat()
    tmp_path.chmod(mode)
    with folder_beneath(folder_path, folder_path) as folder:
        os.seteuid(65534)
        try:
            replace_file(folder, "f", b"new", before_commit=lambda: None)
        finally:
            os.seteuid(0)

    after = (tmp_path / "f").stat()
    assert (tmp_path / "f").read_text() == "new"
    assert (after.st_uid, after.st_ino) == (before.st_uid, before.st_ino)
    assert os.listdir(tmp_path) == ["f"]


@as_root
def test_owner_and_group_are_kept(tmp_path: Path) -> None:
    folder_path = str(tmp_path.resolve())
    (tmp_path / "f").write_text("1")
    os.chown(tmp_path / "f", 1234, 5678)

    with folder_beneath(folder_path, folder_path) as folder:
        replace_file(folder, "f", b"2", before_commit=lambda: None)

    after = (tmp_path / "f").stat()
    assert (after.st_uid, after.st_gid) == (1234, 5678)


async def test_a_workspace_that_is_gone_is_not_made_again(tmp_path: Path) -> None:
    root = tmp_path / "work"
    root.mkdir()
    workspace = LocalWorkspace(root, allow=[tmp_path / "beside"])
    root.rmdir()

    for path in ("a", "sub/a"):
        with pytest.raises(ToolError, match="the workspace .* is gone"):
            await put(workspace, path, b"a")
    await put(workspace, str(tmp_path / "beside" / "a"), b"a")

    assert not root.exists()
    assert (tmp_path / "beside" / "a").read_bytes() == b"a"
