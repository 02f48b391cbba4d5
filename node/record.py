"""What a node keeps on its own disk: log, metrics, final model and final state.

Only its owner can read it. Written whether or not a coordinator listens; sending things is not done
here.
"""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from lppa.node.checkpoint import checkpoints_folder
from lppa.protocol.errors import WrongUse
from lppa.protocol.files import (
    forget_unfinished,
    keep_lines,
    make_private,
    open_privately,
    writing,
)


class Record:
    """The folder of one node in the run's directory.

    One that `goes_on` from a round and a number of gradient steps keeps what was written until
    then, and drops the rest: it will be written again.
    """

    def __init__(self, folder: Path, goes_on: tuple[int, int] | None = None) -> None:
        metrics = folder / "metrics.jsonl"
        if metrics.exists() and goes_on is None:
            raise WrongUse(
                f"{folder} has the results of a run already; choose another --out, "
                "or go on with it: --resume"
            )
        make_private(folder)
        self.folder = folder
        self.log_file = open_privately(folder / "node.log", "a")
        self.handler = logging.StreamHandler(self.log_file)
        if goes_on is not None:
            for written in (folder, checkpoints_folder(folder)):
                forget_unfinished(written)
            round, steps = goes_on
            keep_lines(metrics, lambda number, line: json.loads(line)["round"] <= round)
            keep_lines(folder / "batches.jsonl", lambda number, line: number < steps)
        self.metrics_file = open_privately(metrics, "a")
        self.handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
        logging.getLogger("lppa").addHandler(self.handler)

    def metrics(self, values: dict[str, Any]) -> None:
        """One line of figures, on disk at once."""
        self.metrics_file.write(json.dumps(values) + "\n")
        self.metrics_file.flush()

    def batch(self, rows: np.ndarray) -> None:
        """The rows of the training set that a gradient was taken on, one line for each gradient."""
        with open_privately(self.folder / "batches.jsonl", "a") as file:
            file.write(json.dumps(rows.tolist()) + "\n")

    def tensors(self, name: str, tensors: dict[str, Tensor]) -> None:
        """A file that `torch.load(..., weights_only=True)` reads."""
        # Not by way of memory: a state has three vectors of the model's size.
        with writing(self.folder / name, private=True) as file:
            torch.save({key: alone(tensor.cpu()) for key, tensor in tensors.items()}, file)

    def close(self) -> None:
        """Lets go of the files."""
        logging.getLogger("lppa").removeHandler(self.handler)
        self.handler.close()
        self.log_file.close()
        self.metrics_file.close()


def alone(tensor: Tensor) -> Tensor:
    """The tensor in memory of its own: with a part of something larger all of that is written."""
    return tensor if tensor.untyped_storage().nbytes() == tensor.nbytes else tensor.clone()
