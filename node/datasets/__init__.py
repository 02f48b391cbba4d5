"""The private data of a client: loaders, and the ways to split a data set over clients."""

from lppa.node.datasets.load import Description, chosen_dataset, describe, is_prepared, load_dataset
from lppa.node.datasets.partition import Partition, label_counts, parse_partition, split
from lppa.node.datasets.samples import Dataset, Samples, SparseSamples

__all__ = [
    "Dataset",
    "Description",
    "Partition",
    "Samples",
    "SparseSamples",
    "chosen_dataset",
    "describe",
    "is_prepared",
    "label_counts",
    "load_dataset",
    "parse_partition",
    "split",
]
