"""Inserts events into a table of a SQLite database."""

import sqlite3
from dataclasses import dataclass

import tremor


@dataclass
class Config:
    path: str = tremor.option(about="File of the database")
    table: str = tremor.option("events", about="Table, which is created if it does not exist")


class SqliteTable(tremor.Sink):
    """Inserts events into a table of a SQLite database."""

    Config = Config

    @classmethod
    def check(cls, config):
        if not config.table.isidentifier():
            raise tremor.Error.configuration("`table`: expected letters, digits and `_`")

    def connect(self):
        self.database = sqlite3.connect(self.host.resolve(self.config.path))
        self.database.execute(f"CREATE TABLE IF NOT EXISTS {self.config.table} (host TEXT NOT NULL, event TEXT)")

    def deliver(self, batch):
        rows = []
        for event in batch:
            value = event.value
            if isinstance(value, dict) and "host" in value:
                rows.append((value["host"], event.text))
            else:
                event.reject("the event has no field `host`")
        try:
            with self.database:
                self.database.executemany(f"INSERT INTO {self.config.table} VALUES (?, ?)", rows)
        except sqlite3.OperationalError as error:
            raise tremor.Error.full("cannot insert the events", delay=1) from error

    def disconnect(self):
        self.database.close()


if __name__ == "__main__":
    tremor.run(SqliteTable, version="0.1.0")
