"""Drives a headless Chromium through its DevTools protocol, over a pipe, with nothing installed."""

from __future__ import annotations

import itertools
import json
import os
import selectors
import shutil
import subprocess
import time
from pathlib import Path

PROGRAM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)


class Page:
    """One tab.

    Attributes:
        requests: The addresses that the tab has asked for.
    """

    def __init__(self, folder: Path, *, seconds: float = 120.0) -> None:
        self.requests: list[str] = []
        self._seconds = seconds
        self._numbers = itertools.count(1)
        self._buffer = b""
        reader, self._write = os.pipe()  # Chromium reads commands from 3 and writes answers to 4
        self._read, writer = os.pipe()
        options = ["--headless=new", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe"]
        options += [f"--user-data-dir={folder}", "--disable-dev-shm-usage", "--no-first-run"]
        # The shell moves the ends of the pipes to the numbers that Chromium expects.
        self._process = subprocess.Popen(
            ["bash", "-c", f'exec "$0" "$@" 3<&{reader} 4>&{writer}', PROGRAM, *options],
            pass_fds=(reader, writer),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(reader)
        os.close(writer)
        self._session = None
        target = self.call("Target.createTarget", url="about:blank")
        attached = self.call("Target.attachToTarget", targetId=target["targetId"], flatten=True)
        self._session = attached["sessionId"]
        self.call("Network.enable")
        self.call("Page.enable")

    def close(self) -> None:
        """Ends the browser."""
        self._process.terminate()
        self._process.wait(30)
        os.close(self._write)
        os.close(self._read)

    def call(self, method: str, **parameters):
        """Sends a command and returns its result."""
        number = next(self._numbers)
        command = {"id": number, "method": method, "params": parameters}
        if self._session:
            command["sessionId"] = self._session
        os.write(self._write, json.dumps(command).encode() + b"\0")
        while (answer := self._receive()).get("id") != number:
            if answer.get("method") == "Network.requestWillBeSent":
                self.requests.append(answer["params"]["request"]["url"])
        if "error" in answer:
            raise RuntimeError(f"{method}: {answer['error']}")
        return answer["result"]

    def value(self, expression: str):
        """Returns what a JavaScript expression is worth."""
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        if "exceptionDetails" in result:
            raise RuntimeError(f"{expression}: {result['exceptionDetails']}")
        return result["result"].get("value")

    def wait_for(self, expression: str):
        """Waits until an expression is true and returns its value."""
        end = time.monotonic() + self._seconds
        while time.monotonic() < end:
            if found := self.value(expression):
                return found
            time.sleep(0.1)
        raise TimeoutError(f"never true: {expression}")

    def point_at(self, selector: str) -> None:
        """Moves the mouse over the first element that matches."""
        box = self.value(
            f"(r => [r.x + r.width / 2, r.y + r.height / 2])"
            f"(document.querySelector({json.dumps(selector)}).getBoundingClientRect())"
        )
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=box[0], y=box[1])

    def _receive(self) -> dict:
        with selectors.DefaultSelector() as selector:
            selector.register(self._read, selectors.EVENT_READ)
            while b"\0" not in self._buffer:
                if not selector.select(self._seconds):
                    raise TimeoutError("Chromium is silent.")
                data = os.read(self._read, 1 << 16)
                if not data:
                    raise RuntimeError("Chromium has ended.")
                self._buffer += data
        message, _, self._buffer = self._buffer.partition(b"\0")
        return json.loads(message)
