"""Encrypted links use the fast libsodium that is brought along."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

TALK = """
from lppa.protocol.zeromq import zmq
public, secret = zmq.curve_keypair()
with zmq.Context() as context, context.socket(zmq.PULL) as ear, context.socket(zmq.PUSH) as mouth:
    ear.curve_server, ear.curve_secretkey, ear.curve_publickey = True, secret, public
    mouth.curve_serverkey, mouth.curve_secretkey, mouth.curve_publickey = public, secret, public
    mouth.linger = 0
    port = ear.bind_to_random_port("tcp://127.0.0.1")
    mouth.connect(f"tcp://127.0.0.1:{port}")
    mouth.send(b"hello")
    assert ear.poll(60_000) and ear.recv() == b"hello"
"""
BOUND = re.compile(r"file \S*libzmq\S* \[0\] to (\S+) \[0\]: normal symbol `(crypto_box\w+)'")


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere calls go where they were linked to")
def test_messages_are_encrypted_by_the_library_that_is_brought_along():
    environment = {**os.environ, "LD_DEBUG": "bindings"}
    told = subprocess.run(
        [sys.executable, "-c", TALK], env=environment, capture_output=True, text=True, timeout=120
    )
    assert told.returncode == 0, told.stderr[-2000:]
    bound = dict((what, where) for where, what in BOUND.findall(told.stderr))
    assert "crypto_box_easy_afternm" in bound or "crypto_box_afternm" in bound, bound
    assert all("nacl" in where for where in bound.values()), bound
