"""The templates of new plugins work."""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys
import tempfile
import unittest
from typing import List

from support import PACKAGE, environment
from tremor.testing import Runtime

TEMPLATE = PACKAGE / "template"
VALUES = {"name": "my-plugin", "module": "my_plugin", "type": "MyPlugin", "description": "Does nothing."}


class Templates(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def render(self, kind: str) -> None:
        """Writes the files of a plugin to the folder."""
        names = {
            "plugin.py": "my_plugin.py",
            "plugin.json": "my-plugin.plugin.json",
            "gitignore": ".gitignore",
        }
        for template in [*TEMPLATE.glob("*.j2"), *(TEMPLATE / kind).glob("*.j2")]:
            text = template.read_text()
            for key, value in {**VALUES, "kind": kind}.items():
                text = text.replace("{{ %s }}" % key, value)
            self.assertNotIn("{{", text)
            path = self.folder / names.get(template.stem, template.stem)
            path.write_text(text)

    def run_python(self, *arguments: str) -> str:
        command: List[str] = [sys.executable, "-W", "error", *arguments]
        done = subprocess.run(
            command,
            cwd=self.folder,
            env=environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def check(self, kind: str) -> Runtime:
        """Checks the manifest and the tests of a plugin, and starts the plugin."""
        self.render(kind)
        manifest = (self.folder / "my-plugin.plugin.json").read_text()
        self.assertEqual(self.run_python("my_plugin.py", "--describe"), manifest)
        self.run_python("-m", "unittest")
        command = [sys.executable, *json.loads(manifest)["command"][1:]]
        return Runtime(command, "my-plugin", cwd=str(self.folder), env=environment())

    def test_source_of_the_template_counts_down(self) -> None:
        with self.check("source") as runtime:
            runtime.new({"from": 3})
            runtime.connect(sink=False)
            self.assertEqual(runtime.pull(2).values, [3, 2])
            last = runtime.pull()
            self.assertEqual((last.values, last.is_finished), ([1], True))

    def test_sink_of_the_template_logs(self) -> None:
        with self.check("sink") as runtime:
            runtime.new({"prefix": "got "})
            runtime.connect(source=False)
            self.assertEqual(runtime.deliver([{"a": 1}]), {})
            self.assertEqual(runtime.logs, [(3, 'got {"a":1}')])


if __name__ == "__main__":
    unittest.main()
