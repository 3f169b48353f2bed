"""Reads the rows of a table of a SQLite database, in the order of their numbers."""

import sqlite3
from dataclasses import dataclass

import tremor


@dataclass
class Config:
    path: str = tremor.option(about="File of the database")
    checkpoint: str = tremor.option(about="File for the number of the last row that was delivered")
    interval: tremor.Duration = tremor.option(tremor.Duration(1), about="Time between two searches for new rows")
    max_in_flight: int = tremor.option(10_000, about="Maximum number of events in flight", minimum=1)


class SqliteRows(tremor.Source):
    """Reads the rows of the table `outbox`."""

    Config = Config

    def __init__(self, config, host):
        super().__init__(config, host)
        self.acks = tremor.Acks(max_events=config.max_in_flight, key="max_in_flight")

    def connect(self):
        self.database = sqlite3.connect(self.host.resolve(self.config.path))
        self.checkpoint = tremor.Checkpoint(self.host.resolve(self.config.checkpoint), default=0)
        self.marks = tremor.Watermark(self.checkpoint.value)
        self.position = self.marks.committed

    def pull(self, pull):
        self.checkpoint.store(self.marks.committed, interval=1)
        rewind = self.marks.rewind()
        if rewind is not None:
            self.position = rewind
        rows = self.database.execute(
            "SELECT rowid, message FROM outbox WHERE rowid > ? ORDER BY rowid LIMIT ?", (self.position, pull.max_events)
        )
        for number, message in rows:
            pull.push({"message": message}, metadata={"row": number})
            self.marks.add(pull, number)
            self.position = number
            if pull.is_full:
                return None
        return tremor.Idle(self.config.interval)

    def ack(self, pull):
        self.marks.ack(pull)

    def fail(self, pull, ranges):
        self.marks.fail(pull, ranges)

    def close(self):
        self.checkpoint.store(self.marks.committed)

    def disconnect(self):
        self.database.close()
        self.checkpoint.close()


if __name__ == "__main__":
    tremor.run(SqliteRows, version="0.1.0")
