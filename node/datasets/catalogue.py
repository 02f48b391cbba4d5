"""The data sets that are known by name: what each is, its files, and what prepares it.

A table to read and to add to; the work is done by the modules that it names.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial

from lppa.node.datasets.cache import Prepared
from lppa.node.datasets.files import FoundFile, RawFile
from lppa.node.datasets.images import TRAIN_BATCHES, prepare_cifar, prepare_digits, prepare_idx
from lppa.node.datasets.libsvm import RCV1_COLUMNS, prepare_rcv1
from lppa.node.datasets.tables import (
    COVTYPE_CLASSES,
    COVTYPE_COLUMNS,
    COVTYPE_POSITIVE,
    prepare_adult,
    prepare_adult_binary,
    prepare_covtype,
)


@dataclass(frozen=True)
class Form:
    """Another form of a data set, made of the same files: asked for as NAME:FORM."""

    task: str
    shape: tuple[int, ...]
    prepare: Callable[[Mapping[str, FoundFile]], Prepared]


@dataclass(frozen=True)
class Source:
    """A published data set: `rows` are (training, test), `shape` is one input's.

    Of two classes, `task` names the positive one; the other is the rest.
    """

    name: str
    task: str
    rows: tuple[int, int]
    shape: tuple[int, ...]
    classes: int
    prepare: Callable[[Mapping[str, FoundFile]], Prepared]
    files: tuple[RawFile, ...] = ()
    some_of: frozenset[str] = frozenset()
    """Names of files of which one is enough."""
    forms: Mapping[str, Form] = field(default_factory=dict)

    def usable(self, found: Mapping[str, FoundFile]) -> bool:
        """Whether the files that were found are enough to work with."""
        needed = {file.name for file in self.files} - self.some_of
        return needed <= found.keys() and (
            not self.some_of or not self.some_of.isdisjoint(found.keys())
        )


# torchvision publishes the md5 of the packed files. These are of what is in them, taken from
# files whose packed md5 is torchvision's.
MNIST_FILES = {
    "train-images-idx3-ubyte": "6bbc9ace898e44ae57da46a324031adb",
    "train-labels-idx1-ubyte": "a25bea736e30d166cdddb491f175f624",
    "t10k-images-idx3-ubyte": "2646ac647ad5339dbf082846283269ea",
    "t10k-labels-idx1-ubyte": "27ae3e4e09519cfbb04c329615203637",
}
FASHION_FILES = {
    "train-images-idx3-ubyte": "f4a8712d7a061bf5bd6d2ca38dc4d50a",
    "train-labels-idx1-ubyte": "9018921c3c673c538a1fc5bad174d6f9",
    "t10k-images-idx3-ubyte": "8181f5470baa50b63fa0f6fddb340f0a",
    "t10k-labels-idx1-ubyte": "15d484375f8d13e6eb1aabb0c3f46965",
}
CIFAR_FILES = {
    "data_batch_1": "c99cafc152244af753f735de768cd75f",
    "data_batch_2": "d4bba439e000b95fd0a9bffe97cbabec",
    "data_batch_3": "54ebc095f3ab1f0389bbae665268c751",
    "data_batch_4": "634d18415352ddfa80567beed471001a",
    "data_batch_5": "482c414d41f54cd18b22e5b47cb7c3cb",
    "test_batch": "40351d587109b95175f43aff81a1287e",
}
ADULT_FILES = {
    "adult.data": "5d7c39d7b8804f071cdd1f2a7c460872",
    "adult.test": "35238206dfdf7f1fe215bbb874adecdc",
}

# Over https alone, where others serve the same bytes too.
MNIST_URLS = (
    "https://ossci-datasets.s3.amazonaws.com/mnist",
    "https://storage.googleapis.com/cvdf-datasets/mnist",
)
FASHION_URLS = (
    "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion",
    "https://storage.googleapis.com/tensorflow/tf-keras-datasets",
)
CIFAR_URLS = ("https://www.cs.toronto.edu/~kriz/cifar-10-python.tar.gz",)
ADULT_URLS = ("https://archive.ics.uci.edu/ml/machine-learning-databases/adult",)
COVTYPE_URLS = (
    # The copy that scikit-learn keeps.
    "https://ndownloader.figshare.com/files/5976039",
    "https://archive.ics.uci.edu/ml/machine-learning-databases/covtype/covtype.data.gz",
)
RCV1_URLS = ("https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/binary",)


def _each(
    folder: str, sums: Mapping[str, str | None], packing: str, urls: tuple[str, ...]
) -> tuple[RawFile, ...]:
    """Files that are published one by one, all below the same addresses."""
    return tuple(
        RawFile(f"{folder}/{name}", packing, md5, tuple(f"{url}/{name}{packing}" for url in urls))
        for name, md5 in sums.items()
    )


CATALOGUE: dict[str, Source] = {
    source.name: source
    for source in (
        Source(
            "digits",
            "images: digits",
            (1_438, 359),
            (1, 8, 8),
            10,
            prepare_digits,
        ),
        Source(
            "mnist",
            "images: digits",
            (60_000, 10_000),
            (1, 28, 28),
            10,
            prepare_idx,
            _each("MNIST/raw", MNIST_FILES, ".gz", MNIST_URLS),
        ),
        Source(
            "fmnist",
            "images: clothing",
            (60_000, 10_000),
            (1, 28, 28),
            10,
            prepare_idx,
            _each("FashionMNIST/raw", FASHION_FILES, ".gz", FASHION_URLS),
        ),
        Source(
            "cifar10",
            "images: animals, vehicles",
            (50_000, 10_000),
            (3, 32, 32),
            10,
            prepare_cifar,
            tuple(
                RawFile(
                    f"cifar-10-batches-py/{name}",
                    md5=md5,
                    urls=CIFAR_URLS,
                    member=f"cifar-10-batches-py/{name}",
                )
                for name, md5 in CIFAR_FILES.items()
            ),
            some_of=frozenset(TRAIN_BATCHES),
        ),
        Source(
            "adult",
            "table: income above 50K",
            (32_561, 16_281),
            (108,),
            2,
            prepare_adult,
            _each("adult", ADULT_FILES, "", ADULT_URLS),
            forms={"binary": Form("table: income above 50K", (121,), prepare_adult_binary)},
        ),
        Source(
            "rcv1",
            "text: corporate, economic news",
            (20_242, 677_399),
            (RCV1_COLUMNS,),
            2,
            prepare_rcv1,
            # LIBSVM publishes no checksums: that of the first download is written down and kept to.
            _each("rcv1", {"rcv1_train.binary": None, "rcv1_test.binary": None}, ".bz2", RCV1_URLS),
        ),
        Source(
            "covtype",
            "table: lodgepole pine (class 2)",
            (435_762, 145_250),
            (COVTYPE_COLUMNS,),
            2,
            partial(prepare_covtype, positive=COVTYPE_POSITIVE),
            (
                RawFile(
                    "covtype/covtype.data",
                    ".gz",
                    "71df19898bd3e11db15ae0faf4159f2c",
                    COVTYPE_URLS,
                ),
            ),
            forms={
                str(k): Form(
                    f"table: class {k}", (COVTYPE_COLUMNS,), partial(prepare_covtype, positive=k)
                )
                for k in range(1, COVTYPE_CLASSES + 1)
            },
        ),
    )
}
