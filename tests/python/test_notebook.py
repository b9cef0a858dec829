"""What a notebook shows; most of it is about names and contents that try to be markup."""

from __future__ import annotations

import re
import sys
from html.parser import HTMLParser
from typing import Any

import pytest

from hedgerow import Workspace

HOSTILE = "<img src=x onerror=alert(1)>\"'&\u202e\n"


class Tags(HTMLParser):
    """Collects tags and checks that each is closed."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: set[str] = set()
        self.attributes: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.open.append(tag)
        self.seen.add(tag)
        self.attributes |= {name for name, _ in attrs}

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def check(html: str) -> Tags:
    """Parse markup that must be well-formed and hold nothing active."""
    tags = Tags()
    tags.feed(html)
    tags.close()
    assert tags.open == []
    assert tags.seen <= {"div", "b", "span", "details", "summary", "table", "thead", "tbody", "tr", "th", "td"}
    assert tags.attributes <= {"style", "open"}
    assert "\u202e" not in html
    return tags


def shown(html: str) -> str:
    """Return the text of markup."""
    return re.sub(r"<[^>]*>", " ", html)


def hostile() -> Workspace:
    """Return a workspace whose names, labels and contents are hostile."""
    ws = Workspace.memory(id="nb")
    name = HOSTILE.replace("/", "")
    ws.write_text(f"dir{name}/{name}", HOSTILE * 3)
    ws.symlink("link", HOSTILE.strip())
    ws.checkpoint(HOSTILE.strip(), author=HOSTILE.strip())
    ws.write_text("later.txt", HOSTILE)
    return ws


def test_workspace_is_a_collapsible_tree() -> None:
    with hostile() as ws:
        html = ws._repr_html_()
        assert "details" in check(html).seen
        assert "later.txt" in html
        assert "Workspace(memory" in shown(html)
        assert ws._repr_mimebundle_() == {"text/plain": repr(ws), "text/html": html}
        assert ws.aio._repr_mimebundle_()["text/plain"] == repr(ws.aio)


def test_large_tree_is_cut() -> None:
    with Workspace.memory() as ws:
        ws.write_many({f"d{number % 20}/{number}.txt": "" for number in range(1_000)})
        html = ws._repr_html_()
        check(html)
        assert "only the first" in html
        assert len(html) < 200_000


def test_closed_workspace_can_still_be_shown() -> None:
    ws = Workspace.memory()
    ws.close()
    assert "closed" in check_text(ws._repr_html_())


def check_text(html: str) -> str:
    """Check markup and return its text."""
    check(html)
    return shown(html)


def test_diff_shows_its_lines_in_colour() -> None:
    with hostile() as ws:
        html = ws.diff()._repr_html_()
        check(html)
        assert "rgba" in html
        assert "later.txt" in html
        assert "&lt;img" in html
        check(ws.diff("baseline" if ws.checkpoints()[0].label == "baseline" else ws.checkpoints()[0])._repr_html_())


def test_checkpoints_are_a_table() -> None:
    with hostile() as ws:
        made = ws.checkpoints()
        html = made._repr_html_()
        assert "table" in check(html).seen
        assert made[-1].id[:12] in html
        assert repr(made).count("\n") == len(made) - 1


def test_nothing_shows_a_host_path(disk: Workspace) -> None:
    disk.write_text("a", "x")
    for text in (disk._repr_html_(), repr(disk), disk.diff()._repr_html_(), disk.checkpoints()._repr_html_()):
        assert "secret-host-name" not in text


def test_ipython_takes_our_display() -> None:
    pytest.importorskip("IPython")
    from IPython.core.formatters import DisplayFormatter

    formatter: Any = DisplayFormatter()
    formatter.active_types = ["text/plain", "text/html"]
    with hostile() as ws:
        for value in (ws, ws.aio, ws.diff(), ws.checkpoints()):
            data, _ = formatter.format(value)
            assert {"text/plain", "text/html"} <= set(data)


def test_progress_bar_is_tqdms_if_there_is_one(monkeypatch: pytest.MonkeyPatch, ws: Workspace) -> None:
    calls: list[str] = []

    class Bar:
        def __init__(self, **_: Any) -> None:
            calls.append("made")

        def __getattr__(self, name: str) -> Any:
            return lambda *_, **__: calls.append(name)

    module = type(sys)("tqdm.auto")
    module.tqdm = Bar  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "tqdm", type(sys)("tqdm"))
    monkeypatch.setitem(sys.modules, "tqdm.auto", module)
    ws.write_text("a", "x")
    ws.checkpoint(progress=True)
    assert calls[0] == "made"
    assert calls[-1] == "close"


def test_progress_without_tqdm_is_one_line_on_a_terminal(monkeypatch: pytest.MonkeyPatch, ws: Workspace) -> None:
    from hedgerow._progress import Reporter

    monkeypatch.setitem(sys.modules, "tqdm.auto", None)
    written: list[str] = []

    class Terminal:
        def isatty(self) -> bool:
            return True

        def write(self, text: str) -> None:
            written.append(text)

        def flush(self) -> None:
            pass

    monkeypatch.setattr(sys, "stderr", Terminal())
    with Reporter(True, "work") as report:
        assert report is not None
        report(1, 2, 3_000_000)
    assert "1 of 2 entries, 3 MB" in written[0]
    assert written[-1].endswith("\r")
    monkeypatch.setattr(sys, "stderr", None)
    with Reporter(True, "work") as report:
        assert report is None
