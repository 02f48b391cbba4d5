"""The commands `lppa datasets` and `lppa partition`: what data is there, and who would get what."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import click
import numpy as np

from lppa.completion import complete_named
from lppa.node.datasets.cache import open_prepared
from lppa.node.datasets.catalogue import CATALOGUE, Source
from lppa.node.datasets.files import data_folder
from lppa.node.datasets.load import (
    cache_entry,
    fetch_files,
    find_files,
    is_own,
    load_dataset,
    source_of,
)
from lppa.node.datasets.partition import label_counts, parse_partition, split
from lppa.node.datasets.samples import Dataset
from lppa.options import data_dir_option, json_option
from lppa.running.display import print_whole
from lppa.shell import Command, show_errors, verbosity

log = logging.getLogger("lppa.datasets")


def common_options(command: Command) -> Command:
    """The options that every command here takes."""
    data_dir = data_dir_option(
        "Folder of the raw data.  [default: $LPPA_DATA, else a folder of this user]"
    )
    return data_dir(json_option()(verbosity(show_errors(command))))


@click.group(invoke_without_command=True)
@common_options
@click.pass_context
def datasets(context: click.Context, data_dir: Path | None, as_json: bool) -> None:
    """List the data sets, and what of them was found where.

    \b
    Example:
      lppa datasets
      lppa datasets fetch mnist --data-dir data
    """
    if context.invoked_subcommand is not None:
        # Options may stand before the subcommand as well as after it.
        context.obj = {"data_dir": data_dir, "as_json": as_json}
        return
    folder = data_folder(data_dir)
    listing = [_status(source, folder) for source in CATALOGUE.values()]
    if as_json:
        _print_json({"data_dir": str(folder), "datasets": listing})
    else:
        _print_listing(folder, listing)


@datasets.command("fetch")
@click.argument("name", shell_complete=complete_named("dataset"))
@common_options
@click.pass_context
def fetch_command(context: click.Context, name: str, data_dir: Path | None, as_json: bool) -> None:
    """Download what is missing of the data set NAME, and prepare it for use.

    \b
    Example:
      lppa datasets fetch covtype
    """
    before = context.obj or {}
    source = source_of(name)
    folder = data_folder(data_dir or before.get("data_dir"))
    new = fetch_files(source, folder)
    dataset = load_dataset(name, folder)
    if as_json or before.get("as_json"):
        _print_json({**_status(source, folder), "fetched": [str(path) for path in new]})
        return
    files = f"{len(new)} new file(s)" if new else "nothing was missing"
    click.echo(
        f"{name}: {files} in {folder}; {len(dataset.train):,} training and "
        f"{len(dataset.test):,} test rows are ready"
    )


@click.command()
@click.argument("dataset", shell_complete=complete_named("dataset"))
@click.argument("partition", metavar="PARTITION", shell_complete=complete_named("partition"))
@click.option(
    "-n",
    "--nodes",
    type=click.IntRange(min=1),
    default=5,
    show_default=True,
    help="Number of clients.",
)
@click.option(
    "--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Seed of the split."
)
@click.option(
    "--plot",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write a bubble chart to this file (.png, .pdf, .svg).",
)
@click.option("--target", help="Column of a .csv file that is to be predicted.")
@common_options
def partition(
    dataset: str,
    partition: str,
    nodes: int,
    seed: int,
    target: str | None,
    plot: Path | None,
    data_dir: Path | None,
    as_json: bool,
) -> None:
    """Show how DATASET would be split over clients: samples of each label that each one gets.

    DATASET is a name (see lppa datasets) or the path of a .npz or a .csv file. PARTITION is iid,
    quantity:ALPHA, dirichlet:ALPHA, benchmark:ALPHA or classes:K.

    \b
    Example:
      lppa partition mnist dirichlet:0.1 -n 5 --plot part.png
      lppa partition table.csv dirichlet:0.3 --target kind
    """
    parse_partition(partition)  # before any data is read or fetched
    data = load_dataset(dataset, data_dir, target=target)
    labels, counts = _counts(data, split(partition, data.train.y, nodes, seed))
    title = f"{Path(dataset).name if is_own(dataset) else dataset}, {partition}, seed {seed}"
    if plot is not None:
        from lppa.commands.partition_chart import draw_partition

        draw_partition(plot, title, labels, counts)
    if as_json:
        _print_json(
            {
                "dataset": dataset,
                "partition": partition,
                "nodes": nodes,
                "seed": seed,
                "labels": labels,
                "counts": counts.tolist(),
                "sizes": counts.sum(1).tolist(),
                "plot": str(plot) if plot else None,
            }
        )
        return
    rows = [
        [str(client), *(f"{count:,}" if count else "·" for count in row), f"{row.sum():,}"]
        for client, row in enumerate(counts)
    ]
    rows.append(["all", *(f"{count:,}" for count in counts.sum(0)), f"{counts.sum():,}"])
    _print_table(title, ["client \\ label", *map(str, labels), "all"], rows, last_is_sum=True)
    if plot is not None:
        log.info("chart written to %s", plot)


def _counts(data: Dataset, parts: list[np.ndarray]) -> tuple[list[int | str], np.ndarray]:
    """What there is to count, and how much of it every client has."""
    if not data.classes:
        return ["rows"], np.array([[len(part)] for part in parts])
    labels, counts = label_counts(parts, data.train.y)
    return [data.names[k] if data.names else k for k in labels.tolist()], counts


def _status(source: Source, folder: Path) -> dict[str, Any]:
    """What is known of a data set without reading its files."""
    found = find_files(source, folder)
    usable = source.usable(found)
    prepared = open_prepared(cache_entry(source, folder, found)) if usable else None
    rows: tuple[int, ...] = source.rows
    if prepared is not None:
        rows = tuple(len(prepared.arrays[f"y_{part}"]) for part in ("train", "test"))
    return {
        "name": source.name,
        "task": source.task,
        "rows": dict(zip(("train", "test"), rows, strict=True)),
        "shape": list(source.shape),
        "classes": source.classes,
        "forms": list(source.forms),
        "usable": usable,
        "prepared": prepared is not None,
        "found": [str(file.path) for file in found.values()],
        "missing": [
            str(folder / (file.path + file.packing))
            for file in source.files
            if file.name not in found
        ],
        "urls": sorted({url for file in source.files for url in file.urls}),
    }


def _print_listing(folder: Path, listing: list[dict[str, Any]]) -> None:
    rows = [
        [
            entry["name"],
            entry["task"],
            " / ".join(f"{count:,}" for count in entry["rows"].values()),
            str(entry["classes"]),
            " x ".join(map(str, entry["shape"])),
            _where(entry, folder),
        ]
        for entry in listing
    ]
    header = ["name", "task", "rows: train / test", "classes", "input", "found"]
    _print_table(f"data folder: {folder}", header, rows, text_columns=(0, 1, 5))
    for entry in listing:
        if entry["forms"]:
            forms = ", ".join(f"{entry['name']}:{form}" for form in entry["forms"])
            click.echo(f"{entry['name']} has other forms: {forms}")


def _where(entry: dict[str, Any], folder: Path) -> str:
    if not entry["found"] and not entry["missing"]:
        return "embedded"
    if not entry["found"]:
        return f"missing: lppa datasets fetch {entry['name']}"
    place = Path(entry["found"][0]).parent.relative_to(folder)
    if not entry["missing"]:
        return f"in {place}"
    there, all_files = len(entry["found"]), len(entry["found"]) + len(entry["missing"])
    return f"in {place}, {there} of {all_files} files{'' if entry['usable'] else ': not enough'}"


def _print_table(
    title: str,
    header: list[str],
    rows: list[list[str]],
    text_columns: tuple[int, ...] = (0,),
    last_is_sum: bool = False,
) -> None:
    from rich import box
    from rich.table import Table

    table = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD)
    for number, name in enumerate(header):
        table.add_column(name, justify="left" if number in text_columns else "right", no_wrap=True)
    for number, row in enumerate(rows, start=1):
        table.add_row(*row, end_section=last_is_sum and number == len(rows) - 1)
    print_whole(table)


def _print_json(document: dict[str, Any]) -> None:
    click.echo(json.dumps(document, indent=2))
