"""Progress for people.

`progress=` takes a function of three numbers (entries done, entries known so far, bytes done), or `True` for a bar:
tqdm's where it is installed (in notebooks too), one line of text where standard error is a terminal, else nothing.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False  # `typing` is expensive to import
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType
    from typing import Any

    Report = Callable[[int, int, int], object]


class Reporter:
    """Holds the function to call while the `with` block runs, and takes the bar away at its end."""

    __slots__ = ("_bar", "report")

    def __init__(self, progress: Report | bool | None, title: str) -> None:
        """Choose what `progress` asks for."""
        self._bar: _Line | _Tqdm | None = None
        self.report: Report | None = None
        if progress is True:
            self._bar = _bar(title)
            self.report = None if self._bar is None else self._bar.show
        elif callable(progress):
            self.report = progress
        elif progress is not None and progress is not False:
            raise TypeError("progress must be a function of three numbers, or True")

    def __enter__(self) -> Report | None:
        """Return the function to call, or `None`."""
        return self.report

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Take the bar away."""
        if self._bar is not None:
            self._bar.close()


def _bar(title: str) -> _Line | _Tqdm | None:
    try:
        from tqdm.auto import tqdm
    except ImportError:
        return _Line(title) if sys.stderr is not None and sys.stderr.isatty() else None
    return _Tqdm(tqdm(desc=title, unit=" entries", leave=False))


class _Tqdm:
    def __init__(self, bar: Any) -> None:
        self._bar = bar

    def show(self, done: int, total: int, size: int) -> None:
        self._bar.total = max(total, done)
        self._bar.n = done
        self._bar.set_postfix_str(f"{size / 1e6:.0f} MB", refresh=False)
        self._bar.refresh()

    def close(self) -> None:
        self._bar.close()


class _Line:
    def __init__(self, title: str) -> None:
        self._title = title
        self._width = 0

    def show(self, done: int, total: int, size: int) -> None:
        text = f"{self._title}: {done} of {max(total, done)} entries, {size / 1e6:.0f} MB"
        sys.stderr.write(f"\r{text:<{self._width}}")
        sys.stderr.flush()
        self._width = len(text)

    def close(self) -> None:
        sys.stderr.write(f"\r{'':<{self._width}}\r")
        sys.stderr.flush()
