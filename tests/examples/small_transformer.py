"""A small transformer that learns to write on, from the standard library's own texts.

lppa run --problem small_transformer.py:problem -n 4 --topology ring
"""

import calendar
import statistics
import textwrap
from pathlib import Path

import torch
from torch import nn
from torch.nn.functional import cross_entropy

import lppa

LENGTH, WIDTH, LETTERS = 24, 32, 96  # letters that are looked at, width of the network, ASCII


class Writer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.letters, self.places = nn.Embedding(LETTERS, WIDTH), nn.Embedding(LENGTH, WIDTH)
        layer = nn.TransformerEncoderLayer(WIDTH, 4, 2 * WIDTH, dropout=0.1, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.out = nn.Linear(WIDTH, LETTERS)

    def forward(self, text: torch.Tensor) -> torch.Tensor:
        x = self.letters(text) + self.places(torch.arange(text.shape[1]))
        ahead = torch.triu(torch.full((LENGTH, LENGTH), float("-inf"), dtype=x.dtype), 1)
        return self.out(self.layers(x, mask=ahead))


def texts() -> tuple[torch.Tensor, torch.Tensor]:
    files = (calendar.__file__, statistics.__file__, textwrap.__file__)
    text = "".join(Path(file).read_text() for file in files)
    codes = torch.tensor([min(max(ord(letter) - 32, 0), LETTERS - 1) for letter in text])
    pieces = codes[: len(codes) // (LENGTH + 1) * (LENGTH + 1)].view(-1, LENGTH + 1)
    return pieces[:, :-1], pieces[:, 1:]


def loss(out: torch.Tensor, wanted: torch.Tensor) -> torch.Tensor:
    return cross_entropy(out.flatten(0, 1), wanted.flatten())


def problem() -> lppa.Problem:
    x, y = texts()
    some = torch.randperm(len(x), generator=torch.Generator().manual_seed(1))
    train, test = some[:-200], some[-200:]
    held = (x[test], y[test])
    return lppa.Problem(
        Writer, (x[train], y[train]), held, loss, {"perplexity": lambda *pair: loss(*pair).exp()}
    )


if __name__ == "__main__":
    run = lppa.run(problem, nodes=4, topology="ring", rounds=20, lr=0.3, momentum=0.9, quiet=False)
    print(run.history["perplexity"])
