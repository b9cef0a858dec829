"""The same verbs with `await`: many readers and one writer on an event loop."""

import asyncio

from hedgerow import AsyncWorkspace


async def main() -> None:
    """Write a hundred notes at once, read them back at once, and undo it all."""
    async with AsyncWorkspace.memory() as ws:
        empty = await ws.checkpoint("empty")
        async with asyncio.TaskGroup() as group:
            for number in range(100):
                group.create_task(ws.write_text(f"notes/{number:03}.txt", f"note {number}\n"))
        texts = await asyncio.gather(*(ws.read_text(f"notes/{number:03}.txt") for number in range(100)))
        print(f"{len(texts)} notes, {sum(map(len, texts))} characters")

        found = await ws.search("note 4", "notes")
        print("first match:", found.matches[0].path)

        await ws.rollback(empty)
        print("after the rollback:", (await ws.summary()).files, "files")


asyncio.run(main())
