"""Event files for TensorBoard, so that people who live there see the same curves live.

Uses TensorBoard's own messages and record format, but neither its writer, which needs a thread and
takes TensorFlow where that is installed, nor PyTorch's: importing either costs seconds.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lppa.coordinator.figures import Row, Summary
from lppa.protocol.errors import WrongUse
from lppa.protocol.messages import Metrics
from lppa.report.record import PHASES
from lppa.report.values import mapping, number
from lppa.running.listener import Listener

log = logging.getLogger("lppa.coordinator")


class EventWriter(Listener):
    """Writes a run's scalars by round. A disk that fails costs the events, never the run."""

    def __init__(self, folder: Path) -> None:
        try:
            from tensorboard.compat.proto.event_pb2 import Event
            from tensorboard.summary.writer.record_writer import RecordWriter
        except ImportError:
            raise WrongUse(
                "--tensorboard needs TensorBoard: pip install 'lppa[tensorboard]'"
            ) from None
        self.seconds: dict[int, dict[int, Mapping[str, Any]]] = {}
        self.records: RecordWriter | None = None
        name = f"events.out.tfevents.{int(time.time()):010d}.lppa.{os.getpid()}"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self.records = RecordWriter((folder / name).open("xb"))
        except OSError as error:
            log.warning("no events for TensorBoard: %s", error)
        self._write(Event(wall_time=time.time(), file_version="brain.Event:2"))

    def metrics(self, node: int, metrics: Metrics) -> None:
        """One client's report: only its seconds are kept, until the round is complete."""
        spent = mapping(metrics.values.get("seconds"))
        self.seconds.setdefault(metrics.round, {})[node] = spent

    def row(self, row: Row) -> None:
        """An evaluation that all clients have reported; it is on disk when this returns."""
        from tensorboard.compat.proto import summary_pb2
        from tensorboard.compat.proto.event_pb2 import Event

        values = [
            summary_pb2.Summary.Value(tag=tag, simple_value=value)
            for tag, value in scalars(row, self.seconds.pop(row.round, {})).items()
        ]
        content = summary_pb2.Summary(value=values)
        self._write(Event(wall_time=time.time(), step=row.round, summary=content))

    def close(self, summary: Summary) -> None:
        """Ends the file."""
        if self.records is not None:
            self._guarded(self.records.close)
            self.records = None

    def _write(self, event: Any) -> None:
        if self.records is not None:
            self._guarded(lambda: self.records.write(event.SerializeToString()))
        if self.records is not None:
            self._guarded(self.records.flush)

    def _guarded(self, action: Any) -> None:
        try:
            action()
        except OSError as error:
            log.warning("no more events for TensorBoard: %s", error)
            self.records = None


def scalars(row: Row, seconds: Mapping[int, Mapping[str, Any]]) -> dict[str, float]:
    """All figures of an evaluation by name; what was not measured is left out."""
    found = {name: number(value) for name, value in row.plain.items()}
    for metric, spread in row.spreads.items():
        found |= {f"{metric}/{end}": number(value) for end, value in (spread or {}).items()}
    for phase in PHASES if seconds else ():
        spent = [number(of.get(phase)) or 0.0 for of in seconds.values()]
        found[f"seconds/{phase}"] = sum(spent) / len(spent)
    return {name: value for name, value in found.items() if value is not None}
