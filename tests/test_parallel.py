"""Training by several processes on torch: what its user writes around our models."""

import json
import os
import pathlib
import socket
import subprocess
import sys

import numpy as np
import pytest

WORKER = pathlib.Path(__file__).parent / "parallel_worker.py"
RANKS = 2


@pytest.mark.backends("torch")
def test_processes_train_as_one(tmp_path):
    """The processes take 10 s to start; nothing else holds torch's DDP and FSDP2."""
    from parallel_worker import NAMES, dense, losses, model_of

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    paths = [str(WORKER.parents[1]), *filter(None, [os.environ.get("PYTHONPATH")])]
    given = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}  # this very checkout
    command = [sys.executable, "-W", "ignore", WORKER]
    running = [
        subprocess.Popen(
            [*map(str, [*command, rank, RANKS, port, tmp_path])],
            env=given,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(RANKS)
    ]
    try:
        done = [process.communicate(timeout=300) for process in running]
    finally:
        for process in running:
            process.kill()
    assert not any(process.returncode for process in running), done
    found = [json.loads(output.splitlines()[-1]) for output, _ in done]
    for name in NAMES:
        expected = losses(*model_of(name))
        assert expected[0] > expected[-1]
        for rank in found:
            np.testing.assert_allclose(rank[name], expected, rtol=1e-5, err_msg=name)
    # Keras computes with its own variables, which `fully_shard` does not replace, so
    # that the weights that the optimizer changes are used nowhere: a limit of Keras.
    assert len({*found[0]["fully_shard"]}) == 1
    alone = losses(*dense())
    assert alone[0] > alone[-1]
