"""A process of `test_parallel.py`, which trains on TensorFlow with a strategy.

python strategy_worker.py FOLDER mirrored
python strategy_worker.py FOLDER workers, where the variable TF_CONFIG names the workers

It prints a line of JSON: the losses, and the number of replicas. It also generates,
saves what was trained, and loads it.
"""

import json
import os
import sys
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

from keras_attention import models

STEPS = 3
TOKENS = np.random.default_rng(0).integers(1, 17, (4, 7)).astype("int32")


def train(strategy, tokens):
    """A model that was trained, and its losses."""
    with strategy.scope():
        keras.utils.set_random_seed(0)
        sizes = {"num_layers": 1, "dim": 6, "num_heads": 3, "intermediate_dim": 11}
        model = models.CausalLM(17, **sizes, dropout=0.0, max_length=9)
        optimizer = keras.optimizers.SGD(0.1)
        optimizer.build(model.trainable_variables)
        # A loss of Keras is divided by the number of replicas.
        loss_of = keras.losses.SparseCategoricalCrossentropy(from_logits=True)

    def replica(tokens):
        with tf.GradientTape() as tape:
            loss = loss_of(tokens[:, 1:], model({"tokens": tokens[:, :-1]}))
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply(gradients, model.trainable_variables)  # of all replicas
        return loss

    @tf.function
    def step(tokens):
        return strategy.reduce("SUM", strategy.run(replica, (tokens,)), axis=None)

    return model, [float(step(tokens)) for _ in range(STEPS)]


def main(folder, kind):
    if kind == "mirrored":
        cpu = tf.config.list_physical_devices("CPU")[0]
        pair = [tf.config.LogicalDeviceConfiguration()] * 2
        tf.config.set_logical_device_configuration(cpu, pair)
        strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
        data = tf.data.Dataset.from_tensors(TOKENS).unbatch().batch(len(TOKENS))
        tokens = next(iter(strategy.experimental_distribute_dataset(data)))
        rank = kind
    else:
        strategy = tf.distribute.MultiWorkerMirroredStrategy()
        rank = json.loads(os.environ["TF_CONFIG"])["task"]["index"]
        tokens = tf.constant(TOKENS[rank :: strategy.num_replicas_in_sync])
    model, losses = train(strategy, tokens)
    path = folder / f"{rank}.keras"
    model.save(path)
    again = keras.saving.load_model(path)
    made = [m.generate(TOKENS[:, :3], max_length=6).tolist() for m in (model, again)]
    assert made[0] == made[1]
    print(json.dumps([losses, strategy.num_replicas_in_sync]))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
