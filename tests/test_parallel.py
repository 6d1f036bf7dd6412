"""Training by several processes: what a user of torch or TensorFlow writes for it."""

import json
import os
import pathlib
import socket
import subprocess
import sys

import numpy as np
import pytest

HERE = pathlib.Path(__file__).parent
RANKS = 2


def free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


def run_together(commands, environments):
    """What the processes of these scripts print last, as JSON."""
    paths = [str(HERE.parent), *filter(None, [os.environ.get("PYTHONPATH")])]
    given = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}  # this very checkout
    running = [
        subprocess.Popen(
            [sys.executable, "-W", "ignore", *map(str, command)],
            env={**given, **more},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for command, more in zip(commands, environments, strict=True)
    ]
    try:
        done = [process.communicate(timeout=300) for process in running]
    finally:
        for process in running:
            process.kill()
    assert not any(process.returncode for process in running), done
    return [json.loads(output.splitlines()[-1]) for output, _ in done]


@pytest.mark.slow
@pytest.mark.backends("tensorflow")
def test_strategies_train_as_one_process(tmp_path):
    """Three processes start in 25 s; nothing else holds TensorFlow's strategies.

    `fit` with several workers ends in an error in Keras 3.15, also for one `Dense`.
    """
    import tensorflow as tf
    from strategy_worker import TOKENS, train

    workers = [f"127.0.0.1:{port}" for port in free_ports(RANKS)]
    tasks = [{"type": "worker", "index": rank} for rank in range(RANKS)]
    configs = [{"cluster": {"worker": workers}, "task": task} for task in tasks]
    script = HERE / "strategy_worker.py"
    found = run_together(
        [[script, tmp_path, "mirrored"], *[[script, tmp_path, "workers"]] * RANKS],
        [{}, *({"TF_CONFIG": json.dumps(config)} for config in configs)],
    )
    _, expected = train(tf.distribute.get_strategy(), tf.constant(TOKENS))
    assert expected[0] > expected[-1]
    for losses, replicas in found:
        assert replicas == RANKS
        np.testing.assert_allclose(losses, expected, rtol=1e-5)


@pytest.mark.slow
@pytest.mark.backends("torch")
def test_processes_train_as_one(tmp_path):
    """Two processes start in 10 s; nothing else holds torch's DDP and FSDP2."""
    from parallel_worker import NAMES, dense, losses, model_of

    (port,) = free_ports(1)
    script = HERE / "parallel_worker.py"
    commands = [[script, rank, RANKS, port, tmp_path] for rank in range(RANKS)]
    found = run_together(commands, [{}] * RANKS)
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
