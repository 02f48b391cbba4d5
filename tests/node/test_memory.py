"""What is freed goes back to the system, or stays for the next batch, as a node asks for."""

import subprocess
import sys

import pytest

FAULTS = """
import resource, sys
import numpy as np
from lppa.node import memory

getattr(memory, sys.argv[1])()

def touch():
    np.ones(3 << 16)  # 1.5 MB: 384 pages where they are new, and too little for a huge one

def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

for _ in range(3):
    touch()
before = faults()
for _ in range(10):
    touch()
print(faults() - before)
"""


def faults_of(way: str) -> int:
    done = subprocess.run(
        [sys.executable, "-c", FAULTS, way], capture_output=True, text=True, check=True
    )
    return int(done.stdout)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="an option of glibc")
def test_freed_memory_is_kept_for_the_next_batch_or_given_back_at_once():
    assert faults_of("keep_for_later") < 500
    assert faults_of("keep_nothing") > 3000
