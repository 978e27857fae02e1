"""Figures in documents are those of runs that were kept: nobody typed one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench import figures

DRAIN, SINGLE = "drain of no-op jobs", "single submit, one caller"
MACHINE = {"postgresql": "15.18 (Debian 15.18-0+deb12u1)"}


def row(measure: str, side: str, value: float, unit: str = "jobs/s") -> dict[str, object]:
    return {"measure": measure, "side": side, "value": value, "unit": unit, "note": "", "samples": [value]}


@pytest.mark.parametrize("page", figures.PAGES)
def test_a_page_has_the_figures_of_the_runs_that_were_kept(page: str) -> None:
    text = (figures.ROOT / page).read_text()
    assert "<!-- figures: " in text and figures.filled(text) == text


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Results and kept runs of this test alone."""
    monkeypatch.setattr(figures, "RESULTS", tmp_path)
    monkeypatch.setattr(figures, "KEPT", tmp_path / "kept")
    return tmp_path


def measured(folder: Path, *rows: dict[str, object]) -> None:
    (folder / "peers.json").write_text(json.dumps({"machine": MACHINE, "rows": rows}))
    figures.keep()


def test_a_table_is_drawn_from_what_was_kept(folders: Path) -> None:
    measured(folders, row(DRAIN, "fairway", 99_012.6), row(DRAIN, "other", 42))
    drawn = figures.filled("before\n<!-- figures: debian-speed -->\nold\n<!-- end -->\nafter")
    assert "old" not in drawn and drawn.startswith("before\n<!--") and drawn.endswith("<!-- end -->\nafter")
    assert "| `fairway` | 99,013/s | – |" in drawn and "| `other` | 42.0/s | – |" in drawn
    assert figures.filled(drawn) == drawn


def test_a_later_run_of_a_part_leaves_the_rest_as_it_was(folders: Path) -> None:
    measured(folders, row(DRAIN, "fairway", 1), row(SINGLE, "fairway", 2))
    measured(folders, row(SINGLE, "fairway", 3))
    kept = figures.read("debian")
    assert kept[DRAIN, "fairway"]["value"] == 1
    assert kept[SINGLE, "fairway"]["value"] == 3
    assert "samples" not in kept[DRAIN, "fairway"]


def test_the_best_peer_is_a_durable_one_and_less_is_better_for_a_latency(folders: Path) -> None:
    name = "idle latency, submit to first line, p50"
    sides = (
        ("fairway", 2.0),
        ("fairway-direct", 1.5),
        ("other", 3.0),
        ("slow", 9.0),
        ("celery", 0.1),
        ("raw x", 0.1),
    )
    measured(folders, *(row(name, side, value, "ms") for side, value in sides))
    assert figures._against(figures.read("debian"), "latency", name) == [
        ["latency", "1.50 ms", "3.00 ms (other)", "2.00 ×"]
    ]
    assert figures._against(figures.read("debian"), "latency", "something else") == []
