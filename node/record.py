"""What a node keeps on its own disk: log, metrics, final model and final state.

Only its owner can read it. Written whether or not a coordinator listens; sending things is not done
here.
"""

from __future__ import annotations

import io
import json
import logging
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from lppa.protocol.errors import WrongUse
from lppa.protocol.files import make_private, open_privately, write_atomically


class Record:
    """The folder of one node in the run's directory."""

    def __init__(self, folder: Path) -> None:
        if (folder / "metrics.jsonl").exists():
            raise WrongUse(f"{folder} has the results of a run already; choose another --out")
        make_private(folder)
        self.folder = folder
        self.metrics_file = open_privately(folder / "metrics.jsonl", "w")
        self.log_file = open_privately(folder / "node.log", "w")
        self.handler = logging.StreamHandler(self.log_file)
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
        buffer = io.BytesIO()
        torch.save({key: tensor.cpu() for key, tensor in tensors.items()}, buffer)
        write_atomically(self.folder / name, buffer.getvalue(), private=True)

    def close(self) -> None:
        """Lets go of the files."""
        logging.getLogger("lppa").removeHandler(self.handler)
        self.handler.close()
        self.log_file.close()
        self.metrics_file.close()
