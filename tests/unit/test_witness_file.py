"""The proxy's witness file: the highest head of each dataset, shared by processes (composition.md §12)."""

from __future__ import annotations

import asyncio
import json
import logging
import multiprocessing
from pathlib import Path
from typing import Any

import pytest

from pg_epsilon_proxy.witness import FILE, Witness, WitnessError


def head(number: int, epoch: int = 1, name: str = "a") -> dict[str, Any]:
    totals = {"epsilon": str(number), "delta": "0", "rdp": []}
    return {"id": name, "epoch": epoch, "number": number, "hash": f"{epoch}-{number}", "totals": totals}


def numbers(directory: Path) -> dict[str, tuple[int, int]]:
    heads = json.loads((directory / FILE).read_text())["heads"]
    return {name: (one["epoch"], one["number"]) for name, one in heads.items()}


async def test_the_highest_head_is_kept_whatever_overtakes(tmp_path: Path) -> None:
    witness = Witness(str(tmp_path / "made"))
    await asyncio.gather(*(witness.keep(head(number)) for number in (3, 9, 1, 7, 8)))
    assert numbers(tmp_path / "made") == {"a": (1, 9)}
    await witness.keep(head(2, epoch=2))
    await witness.keep(head(30))
    await witness.keep(head(4, name="b"))
    assert numbers(tmp_path / "made") == {"a": (2, 2), "b": (1, 4)}
    assert [one["id"] for one in json.loads(witness.text())] == ["a", "b"]


async def test_a_head_is_on_disk_when_it_was_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int] = []
    monkeypatch.setattr("os.fsync", synced.append)
    witness = Witness(str(tmp_path))
    await witness.keep(head(1))
    assert len(synced) == 2, "the file, then its folder"
    await witness.keep(head(1))
    await witness.keep(head(0))
    assert len(synced) == 2, "nothing new, nothing written"


def _many(directory: str, first: int) -> None:
    async def keep() -> None:
        witness = Witness(directory)
        for number in range(first, 200, 2):
            await witness.keep(head(number, name=f"{number % 5}"))

    asyncio.run(keep())


async def test_processes_share_the_file(tmp_path: Path) -> None:
    spawn = multiprocessing.get_context("spawn")
    workers = [spawn.Process(target=_many, args=(str(tmp_path), first)) for first in (0, 1)]
    reader = Witness(str(tmp_path))
    for worker in workers:
        worker.start()
    while any(worker.is_alive() for worker in workers):
        reader.heads()
        await asyncio.sleep(0)
    for worker in workers:
        worker.join()
        assert worker.exitcode == 0
    assert numbers(tmp_path) == {str(rest): (1, 195 + rest) for rest in range(5)}
    assert {name: one["number"] for name, one in reader.heads().items()} == {str(r): 195 + r for r in range(5)}


async def test_a_lost_file_is_told_and_the_next_head_is_taken(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    witness = Witness(str(tmp_path))
    witness.open()
    assert "the first head is taken" in caplog.text
    await witness.keep(head(5))
    assert len(witness.heads()) == 1
    caplog.clear()
    (tmp_path / FILE).unlink()
    assert witness.text() == "[]"
    assert "is gone" in caplog.text
    await witness.keep(head(3))
    assert numbers(tmp_path) == {"a": (1, 3)}


@pytest.mark.parametrize(
    "content", ["", "nothing", "[]", '{"version": 2, "heads": {}}', '{"version": 1, "heads": {"a": {"epoch": 1}}}']
)
async def test_a_file_that_is_none_stops_answers(tmp_path: Path, content: str) -> None:
    (tmp_path / FILE).write_text(content)
    witness = Witness(str(tmp_path))
    with pytest.raises(WitnessError, match=FILE):
        witness.open()
    with pytest.raises(WitnessError, match=FILE):
        await witness.keep(head(1))


async def test_a_file_that_cannot_be_written_stops_answers(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(WitnessError):
        await Witness(str(tmp_path / "file" / "below")).keep(head(1))
