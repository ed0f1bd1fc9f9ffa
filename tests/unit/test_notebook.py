"""docs/notebook.ipynb as it is kept: a valid notebook, executed, with nothing of a machine in it."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable
from decimal import Decimal

import nbformat
import pytest
from test_documents_true import untrue

from fix_notebook import MOST_BYTES, NOTEBOOK, ROOT, charged, faults, read, said, untold

Cell = nbformat.NotebookNode


def of(notebook: nbformat.NotebookNode, name: str) -> Cell:
    return next(cell for cell in notebook.cells if cell.id == name)


@pytest.fixture(scope="module")
def kept() -> nbformat.NotebookNode:
    return read()


def test_what_is_kept_is_whole(kept: nbformat.NotebookNode) -> None:
    assert faults(kept) == []
    assert untold(kept) == []
    assert re.search(r"^Doctorate and Prof-school +cannot tell ", said(of(kept, "compare")), re.M), "the text says so"
    assert NOTEBOOK.stat().st_size < MOST_BYTES


def test_the_budget_is_what_the_text_says(kept: nbformat.NotebookNode) -> None:
    text = "\n".join(cell.source for cell in kept.cells if cell.cell_type == "markdown")
    (told,) = re.findall(r"Carol has spent ([\d.+ ]+) = 1,", text)
    assert sum(map(Decimal, told.split(" + "))) == charged(kept) == 1
    assert "CALL dp.allot('carol', 'people', epsilon => 1);" in (ROOT / "demo/policy.sql").read_text()


def test_what_it_names_exists(kept: nbformat.NotebookNode) -> None:
    """Functions, settings, make targets, and the pages that it links to."""
    for cell in kept.cells:
        assert untrue(cell.source) == []
        links = re.findall(r"\]\(([^)]+)\)", cell.source) if cell.cell_type == "markdown" else []
        assert [link for link in links if not (NOTEBOOK.parent / link).is_file()] == []


def test_documents_lead_to_it() -> None:
    assert "](docs/notebook.ipynb)" in (ROOT / "README.md").read_text()
    assert "](notebook.ipynb)" in (ROOT / "docs/explain.md").read_text()


def says(text: str) -> Callable[[nbformat.NotebookNode], object]:
    """The cell `spent` with another line of output."""
    output = nbformat.v4.new_output("stream", text=text)
    return lambda notebook: of(notebook, "spent").outputs.append(output)


def failed() -> Cell:
    return nbformat.v4.new_output("error", ename="NameError", evalue="x", traceback=[])


@pytest.mark.parametrize(
    ("damage", "fault"),
    [
        (lambda notebook: of(notebook, "spent").outputs.append(failed()), "spent: an error"),
        (lambda notebook: of(notebook, "spent").update(outputs=[]), "spent: no output"),
        (lambda notebook: of(notebook, "spent").outputs[0].data.pop("text/html"), "spent: no table"),
        (lambda notebook: of(notebook, "chart").outputs[0].data.pop("image/png"), "chart: no picture"),
        (lambda notebook: of(notebook, "chart").outputs[0].data.update({"image/png": "AAAA"}), "chart: no picture"),
        (lambda notebook: of(notebook, "spent").update(execution_count=3), "not executed from top to bottom"),
        (lambda notebook: of(notebook, "spent").metadata.update(collapsed=True), "spent: metadata"),
        (lambda notebook: notebook.metadata.language_info.update(version="3.11"), "metadata of the notebook"),
        (lambda notebook: notebook.update(nbformat_minor=4), "no valid notebook"),
        (says("File /home/ann/x.py, line 1"), "spent: a path of a machine"),
        (says("<object at 0x7fce7e2ef8d0>"), "spent: an address in memory"),
        (says("connected to 10.1.2.3"), "spent: an address of a machine"),
        (says("see https://db.internal/x"), "spent: a host"),
        (says("host=db7 port=5432"), "spent: a host"),
        (says("password='x1'"), "spent: a password"),
        (says("PGPASSWORD=x1 psql"), "spent: a password"),
        (says("postgresql://carol:x1@localhost"), "spent: a password"),
    ],
)
def test_what_is_wrong_is_found(
    kept: nbformat.NotebookNode, damage: Callable[[nbformat.NotebookNode], object], fault: str
) -> None:
    notebook = copy.deepcopy(kept)
    damage(notebook)
    assert [found for found in faults(notebook) if found.startswith(fault)], faults(notebook)


def test_an_output_that_shows_something_else_is_found(kept: nbformat.NotebookNode) -> None:
    notebook = copy.deepcopy(kept)
    of(notebook, "refused").outputs = [nbformat.v4.new_output("stream", text="48842 rows\n")]
    assert untold(notebook) == ["refused"]
