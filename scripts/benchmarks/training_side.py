"""One side of the training benchmark, in a process of its own, so that its memory is its own."""

from __future__ import annotations

import logging
import multiprocessing
import traceback
import warnings
from multiprocessing.connection import Connection
from typing import Any

import torch

from benchmarks.training_rounds import RoundOptions, Training


class Side:
    """A process that trains for a round whenever it is asked to."""

    def __init__(self, options: RoundOptions) -> None:
        """Starts the process.

        Raises:
            ValueError: It failed.
        """
        context = multiprocessing.get_context("spawn")
        self._connection, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs, options))
        self._process.start()
        theirs.close()
        self.facts: dict[str, Any] = self._answer()

    def measure(self, *, waits: bool) -> dict[str, Any]:
        """Trains for a round; the keys are those of `Training.round`."""
        self._connection.send(waits)
        return self._answer()

    def close(self) -> None:
        """Ends the process."""
        self._connection.close()
        self._process.join()

    def _answer(self) -> dict[str, Any]:
        try:
            answer: dict[str, Any] | str = self._connection.recv()
        except EOFError:
            answer = "the process that trains was ended by the system: is there enough memory?"
        if isinstance(answer, str):
            raise ValueError(answer)
        return answer


def _serve(connection: Connection, options: RoundOptions) -> None:
    logging.getLogger("pytorch_lightning").setLevel(logging.ERROR)
    logging.getLogger("lightning_fabric").setLevel(logging.ERROR)
    warnings.filterwarnings("ignore")
    torch.set_num_threads(options.threads)
    try:
        training = Training(options)
        connection.send(training.facts)
        while True:
            connection.send(training.round(waits=connection.recv()))
    except EOFError:  # the end of the benchmark
        pass
    except Exception:
        connection.send(traceback.format_exc())
