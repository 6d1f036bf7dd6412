"""One of the processes of `test_parallel.py`, which train on torch together.

python parallel_worker.py RANK RANKS PORT FOLDER

It prints a line of JSON: losses by the names of models. Rank 0 also generates, saves
what was trained, and loads it.
"""

import json
import sys
from pathlib import Path

import catalogue
import keras
import numpy as np
import torch
from torch import distributed
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

STEPS = 3
# Rows, and what they are made with: dropout would differ between processes.
NAMES = {"memn2n": {}, "transformer": {"dropout": 0.0}, "causal_lm": {"dropout": 0.0}}


def model_of(name):
    """A model and its batch, both the same in each process."""
    row = next(row for row in catalogue.ROWS if row.name == name)
    keras.utils.set_random_seed(0)
    model, inputs = row.make(**NAMES[name]), row.inputs(np.random.default_rng(0))
    return model, {name: torch.from_numpy(array) for name, array in inputs.items()}


def dense():
    """A model of Keras' own layers and its batch."""
    keras.utils.set_random_seed(0)
    given = keras.layers.Input((6,))
    layers = [given, keras.layers.Dense(8), keras.layers.Dense(4)]
    return keras.Sequential(layers), torch.ones(2, 6)


def losses(trained, inputs, mean=lambda loss: loss):
    """The loss of each step. Without processes, `trained` is a model."""
    optimizer = torch.optim.SGD(trained.parameters(), 0.1)
    found = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = (trained(inputs) ** 2).mean()
        loss.backward()
        optimizer.step()
        found.append(float(mean(loss.detach())))
    return found


def main(rank, ranks, port, folder):
    torch.set_num_threads(1)
    address = f"tcp://127.0.0.1:{port}"
    distributed.init_process_group("gloo", address, rank=rank, world_size=ranks)

    def mean(loss):
        distributed.all_reduce(loss)
        return loss / ranks

    found = {}
    for name in NAMES:
        model, inputs = model_of(name)
        own = {name: x[rank::ranks] for name, x in inputs.items()}  # of the batch
        found[name] = losses(DistributedDataParallel(model), own, mean)
        if rank == 0:
            model.save(folder / f"{name}.keras")
            again = keras.saving.load_model(folder / f"{name}.keras")
            with torch.no_grad():
                torch.testing.assert_close(again(inputs), model(inputs))
            if name == "causal_lm":
                prompt = inputs["tokens"][:, :3].numpy()
                made = [
                    m.generate(prompt, max_length=6).tolist() for m in (model, again)
                ]
                assert made[0] == made[1]
    model, inputs = dense()
    mesh = init_device_mesh("cpu", (ranks,))
    found["fully_shard"] = losses(fully_shard(model, mesh=mesh), inputs, mean)
    print(json.dumps(found))
    distributed.destroy_process_group()


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], Path(sys.argv[4]))
