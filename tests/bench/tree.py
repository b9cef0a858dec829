"""The trees that are measured: the same bytes under the same names each time they are made.

Files look like source text. Their sizes are log-normal, 0.5 to 60 KB, about 6 KB in the mean; 52 directories for each
1,000 files, nested up to eight deep, most of them near the root. Every 500th file holds the word `needle` once.

No date, no path and no hash of Python's own enters a tree, so figures of two machines are about the same work.
"""

from __future__ import annotations

import random
import shutil
from pathlib import Path

NEEDLE = "needle"
SUFFIXES = (".rs", ".py", ".txt", ".md", ".json", ".js", ".c", ".toml")

_SYLLABLES = "ta ko re mi lun da sel vor qui pa ner os ith al en bri cha do fe gu".split()
_KEYWORDS = "fn let return if else for import class def self = ( ) { } == -> 0 1 self.x".split()
_TEXT_BYTES = 4_000_000
_LARGEST = 60_000
_VERSION = "1"
"""Changes whenever the tree does, so that no cached one of another kind is measured."""


def cached(cache: Path, files: int) -> Path:
    """Return a tree of `files` files below `cache`, made if it is not there. It must not be changed."""
    tree = cache / f"tree-{files}"
    mark = cache / f"tree-{files}.made"  # beside the tree: nothing but the tree is measured
    if not (mark.is_file() and mark.read_text() == _VERSION):
        shutil.rmtree(tree, ignore_errors=True)
        make(tree, files)
        mark.write_text(_VERSION)
    return tree


def make(root: Path, files: int, seed: int = 1) -> int:
    """Make a tree in `root`, which must not exist, and return the number of its bytes."""
    chance = random.Random(seed)
    words = ["".join(chance.choices(_SYLLABLES, k=chance.randint(1, 4))) for _ in range(4_000)]
    text = _text(chance, words)
    directories = _directories(chance, words, max(1, files * 52 // 1_000))
    for directory in directories:
        (root / directory).mkdir(parents=True)
    total = 0
    for number in range(files):
        size = int(min(_LARGEST, max(500, chance.lognormvariate(8.22, 0.95))))
        start = chance.randrange(len(text) - _LARGEST)
        end = f" {NEEDLE}\n" if number % 500 == 0 else "\n"
        body = f"// file {number}\n{text[start : start + size - 12]}{end}"
        name = f"f{number}_{chance.choice(words)}{chance.choice(SUFFIXES)}"
        total += (root / chance.choice(directories) / name).write_bytes(body.encode())
    return total


def _text(chance: random.Random, words: list[str]) -> str:
    """Return lines of code-like words, common ones often: they compress about as source does."""
    lines: list[str] = []
    size = 0
    while size < _TEXT_BYTES:
        line = " ".join(
            chance.choice(_KEYWORDS)
            if chance.random() < 0.35
            else words[min(len(words) - 1, int(chance.paretovariate(0.6)))]
            for _ in range(chance.randint(2, 11))
        )
        lines.append("    " * chance.randint(0, 3) + line + "\n")
        size += len(lines[-1])
    return "".join(lines)


def _directories(chance: random.Random, words: list[str], count: int) -> list[str]:
    """Return the root and `count` directories below it, each after its parent."""
    directories = [""]
    while len(directories) <= count:
        parent = directories[int(len(directories) * chance.random() ** 1.5)]
        if parent.count("/") < 7:
            directories.append(f"{parent}d{len(directories)}_{chance.choice(words)}/")
    return directories
