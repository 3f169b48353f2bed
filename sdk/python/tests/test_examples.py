"""The examples work, and the page shows them."""

from __future__ import annotations

import os
import sqlite3
import sys
import tempfile
import unittest
from typing import Any, List, Tuple

from support import PACKAGE, REPOSITORY, environment
import tremor
from tremor.errors import Error, ErrorKind
from tremor.message import Kind
from tremor.testing import Runtime

PAGE = REPOSITORY / "docs" / "plugins" / "python.md"


def start(program: str, connector: str, folder: str) -> Runtime:
    command = [sys.executable, "-W", "error", str(PACKAGE / "examples" / program)]
    return Runtime(command, connector, env=environment(), folder=folder)


def query(path: str, text: str) -> List[Tuple[Any, ...]]:
    database = sqlite3.connect(path)
    try:
        with database:
            return database.execute(text).fetchall()
    finally:
        database.close()


class Examples(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.database = os.path.join(folder.name, "a.db")

    def test_table_gets_events_and_rejects_others(self) -> None:
        with start("sqlite_table.py", "sqlite_table", self.folder) as runtime:
            with self.assertRaisesRegex(Error, "`table`: expected letters"):
                runtime.check({"path": "a.db", "table": "a; b"})
            runtime.new({"path": "a.db"})
            runtime.connect(source=False)
            rejected = runtime.deliver([{"host": "a", "n": 1}, {"n": 2}, 3, {"host": "b"}])
            self.assertEqual(sorted(rejected), [1, 2])
            self.assertEqual(rejected[1].kind, ErrorKind.BAD_DATA)
            self.assertEqual(
                query(self.database, "SELECT * FROM events"), [("a", '{"host":"a","n":1}'), ("b", '{"host":"b"}')]
            )
            query(self.database, "DROP TABLE events")
            with self.assertRaises(Error) as caught:
                runtime.deliver([{"host": "a"}])
            self.assertEqual((caught.exception.kind, caught.exception.delay), (ErrorKind.FULL, 1))
            runtime.close()

    def test_rows_are_read_again_after_failures_and_restarts(self) -> None:
        query(self.database, "CREATE TABLE outbox (message TEXT)")
        query(self.database, "INSERT INTO outbox VALUES ('a'), ('b'), ('c'), ('d'), ('e')")
        config = {"path": "a.db", "checkpoint": "position", "interval": "10ms", "max_in_flight": 7}
        with start("sqlite_rows.py", "sqlite_rows", self.folder) as runtime:
            runtime.new(config)
            self.assertEqual(runtime.connect(sink=False)["source"]["acks"]["events"], 7)
            self.assertEqual(self.messages(runtime.pull(2)), ["a", "b"])
            second = runtime.pull(2)
            self.assertEqual((self.messages(second), second.metadata), (["c", "d"], [{"row": 3}, {"row": 4}]))
            runtime.fail([(1, 1)])
            again = runtime.pull(3)
            self.assertEqual((self.messages(again), again.idle), (["d", "e"], 0.01))
            runtime.ack(1)
            runtime.ack(3)
            runtime.call(Kind.CLOSE_SOURCE)
            with start("sqlite_rows.py", "sqlite_rows", self.folder) as other:
                other.new(config)
                with self.assertRaisesRegex(Error, "another connector uses the checkpoint"):
                    other.connect(sink=False)
            runtime.close()
        query(self.database, "INSERT INTO outbox VALUES ('f')")
        with start("sqlite_rows.py", "sqlite_rows", self.folder) as runtime:
            runtime.new(config)
            runtime.connect(sink=False)
            self.assertEqual(self.messages(runtime.pull()), ["f"])
            runtime.send(Kind.DROP_SOURCE)
            runtime.connect(sink=False)
            # The row is in flight still, so a new connection reads it again.
            self.assertEqual(self.messages(runtime.pull()), ["f"])

    @staticmethod
    def messages(answer: Any) -> List[str]:
        return [value["message"] for value in answer.values]

    def test_checkpoint_is_durable_and_checked(self) -> None:
        path = os.path.join(self.folder, "position")
        checkpoint = tremor.Checkpoint(path, default=[0])
        self.assertEqual((checkpoint.value, os.path.exists(path)), ([0], False))
        checkpoint.store([7])
        checkpoint.close()
        again = tremor.Checkpoint(path)
        self.assertEqual(again.value, [7])
        again.close()
        with self.assertRaises(ValueError):
            again.store([8])
        with open(path, "w") as file:
            file.write("{")
        with self.assertRaisesRegex(Error, "is not JSON"):
            tremor.Checkpoint(path)

    def test_page_shows_the_examples(self) -> None:
        sources = "".join(it.read_text() for it in sorted((PACKAGE / "examples").glob("*.py")))
        blocks = PAGE.read_text().split("```python\n")[1:]
        self.assertGreater(len(blocks), 1)
        for block in blocks:
            code = block.partition("```")[0]
            self.assertIn(code, sources)


if __name__ == "__main__":
    unittest.main()
