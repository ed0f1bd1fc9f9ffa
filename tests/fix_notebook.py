"""docs/notebook.ipynb: what its kept or fresh outputs must show, and what they must not."""

from __future__ import annotations

import base64
import re
from decimal import Decimal
from pathlib import Path

import nbformat

ROOT = Path(__file__).resolve().parents[1]
NOTEBOOK = ROOT / "docs/notebook.ipynb"
MOST_BYTES = 300_000  # a diff of pictures is for ever in the repository

SILENT = {"connect", "close"}
"""Code cells that say nothing."""

PICTURES = {"chart", "shares"}
TABLES = {"published", "budget", "repeat", "education", "compare", "sex", "explain", "own", "spent"}

SAID = {
    "repeat": r"NOTICE: dp: cache, .*, free, ±\d+ at 0\.95, ",
    "refused": r"^DP002 rows of adult are private",
    "price": r"charge, worst: epsilon 0\.2\n",
    "education": r"NOTICE: .* epsilon 0\.2 charged, epsilon 0\.8 left.*\n[^$]*Preschool",
    "compare": r"^Bachelors and HS-grad +yes ",
    "sex": r"epsilon 0\.1 charged",
    "sex-compare": r"^Male and Female +yes ",
    "explain": r"epsilon 0\.3 charged.*\n.*\n *explanation +share +share_low",
    "own": r"epsilon 0\.4 charged.*\n.*\n *explanation +share",
    "spent": r"^0 +people +1\.0 +0\.0$",
    "new": r"^DP001 your allotment in dataset people does not allow epsilon 0\.1 more",
    "again": r"free.*\n\nTrue$",
}
"""What a cell's output shows, whatever noise was drawn: regular expressions, by the cell's id."""

UNWANTED = {
    "a path of a machine": r"(?<![\w.:/])/(?:bin|etc|home|mnt|opt|root|srv|tmp|usr|var|work|Users)/|\b[A-Z]:\\",
    "an address in memory": r"\b0x[0-9a-f]{6,}",
    "an address of a machine": r"(?<![\d.])(?!127\.0\.0\.1\b)\d{1,3}(?:\.\d{1,3}){3}(?![\d.])",
    "a host": r"\w+://(?!(?:localhost|example\.\w+)\b)[\w.-]+|\bhost=\W?(?!localhost\b)\w",
    "a password": r"(?i)password\W{0,3}[=:]\W?(?!os\.environ)\w|\w:\w+@",
}


def read(file: Path = NOTEBOOK) -> nbformat.NotebookNode:
    return nbformat.read(file, as_version=nbformat.NO_CONVERT)


def said(cell: nbformat.NotebookNode) -> str:
    """The text of a cell's outputs, one after the other."""
    parts = []
    for output in cell.get("outputs", ()):
        parts.append(output.get("text", ""))
        parts.append(output.get("data", {}).get("text/plain", ""))
    return "\n".join(filter(None, parts))


def written(cell: nbformat.NotebookNode) -> str:
    """Its source, and all its outputs but pictures."""
    html = [output.get("data", {}).get("text/html", "") for output in cell.get("outputs", ())]
    return "\n".join([cell.source, said(cell), *html])


def has(cell: nbformat.NotebookNode, kind: str) -> bool:
    return any(kind in output.get("data", {}) for output in cell.get("outputs", ()))


def of_a_cell(cell: nbformat.NotebookNode) -> list[str]:
    """What is wrong with one cell."""
    wrong = [what for what, pattern in UNWANTED.items() if re.search(pattern, written(cell))]
    wrong += ["metadata"] * bool(cell.metadata)
    if cell.cell_type != "code":
        return wrong
    wrong += ["an error"] * any(output.output_type == "error" for output in cell.outputs)
    wrong += ["stderr"] * any(output.get("name") == "stderr" for output in cell.outputs)
    wrong += ["no output"] * (bool(cell.outputs) == (cell.id in SILENT))
    wrong += ["no table"] * (cell.id in TABLES and not has(cell, "text/html"))
    for output in cell.outputs:
        picture = output.get("data", {}).get("image/png")
        if picture is not None and not base64.b64decode(picture).startswith(b"\x89PNG\r\n"):
            wrong.append("no picture")
    wrong += ["no picture"] * (cell.id in PICTURES and not has(cell, "image/png"))
    return wrong


def faults(notebook: nbformat.NotebookNode) -> list[str]:
    """What is wrong with a notebook that is to be kept: its form, outputs, and what tells of a machine."""
    try:
        nbformat.validate(notebook)
    except nbformat.ValidationError as error:
        return [f"no valid notebook: {error.message}"]
    wrong = [] if (notebook.nbformat, notebook.nbformat_minor) == (4, 5) else ["not of version 4.5"]
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    if [cell.execution_count for cell in code] != list(range(1, len(code) + 1)):
        wrong.append("not executed from top to bottom")
    if set(notebook.metadata) != {"kernelspec", "language_info"} or set(notebook.metadata.language_info) != {"name"}:
        wrong.append("metadata of the notebook")
    return wrong + [f"{cell.id}: {what}" for cell in notebook.cells for what in of_a_cell(cell)]


def untold(notebook: nbformat.NotebookNode) -> list[str]:
    """Cells that do not show what SAID says of them."""
    cells = {cell.id: said(cell) for cell in notebook.cells}
    return [name for name, pattern in SAID.items() if not re.search(pattern, cells.get(name, ""), re.M)]


def charged(notebook: nbformat.NotebookNode) -> Decimal:
    """The sum of the prices that the notices name."""
    notices = "\n".join(said(cell) for cell in notebook.cells)
    return sum((Decimal(price) for price in re.findall(r"epsilon ([\d.]+) charged", notices)), Decimal(0))
