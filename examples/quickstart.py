"""Write, look, go wrong, go back: the whole idea in one page."""

import tempfile
from pathlib import Path

from hedgerow import PathEscapeError, Workspace

with tempfile.TemporaryDirectory() as temporary:
    project = Path(temporary, "project")
    with Workspace.open(project, store=Path(temporary, "store"), create=True) as ws:
        ws.write_text("src/app.py", "def greet():\n    print('hi')\n")
        first = ws.checkpoint("first draft", author="ada")

        # An edit is exact: text that is missing, or there twice, changes nothing.
        ws.edit("src/app.py", "'hi'", "'hello'")
        second = ws.checkpoint("friendlier", author="grace")
        print(ws.diff(first, second))
        for line in ws.blame("src/app.py"):
            print(f"{line.author:>6} | {line.text.rstrip()}")

        # Going back loses nothing: the later state is still there to go forward to.
        ws.rollback(first)
        print(project.joinpath("src/app.py").read_text())
        ws.rollback(second)
        print(project.joinpath("src/app.py").read_text())

        # No path leads out, whatever it looks like.
        try:
            ws.read_text("src/../../../etc/passwd")
        except PathEscapeError as error:
            print(f"{error.kind}: {error.hint}")
