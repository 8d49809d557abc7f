"""A training step of ResNet-50 on 64x64 images: global batch 64, data-parallel over all devices, SGD with momentum."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import numpy as np
import optax
from flax import linen as nn
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

STAGES = (3, 4, 6, 3)
BATCH, SIZE, CLASSES = 64, 64, 1000


class Bottleneck(nn.Module):
    """1x1, 3x3, 1x1 convolutions beside a shortcut."""

    features: int
    stride: int

    @nn.compact
    def __call__(self, x: Any) -> Any:
        conv = partial(nn.Conv, use_bias=False)
        norm = partial(nn.BatchNorm, use_running_average=False, momentum=0.9)
        y = nn.relu(norm()(conv(self.features, (1, 1))(x)))
        y = nn.relu(norm()(conv(self.features, (3, 3), strides=self.stride)(y)))
        y = norm(scale_init=nn.initializers.zeros)(conv(4 * self.features, (1, 1))(y))
        if x.shape != y.shape:
            x = norm()(conv(4 * self.features, (1, 1), strides=self.stride)(x))
        return nn.relu(x + y)


class ResNet50(nn.Module):
    """The 50-layer network of He et al., stride in the 3x3 convolution."""

    @nn.compact
    def __call__(self, x: Any) -> Any:
        x = nn.Conv(64, (7, 7), strides=2, padding=3, use_bias=False)(x)
        x = nn.relu(nn.BatchNorm(use_running_average=False, momentum=0.9)(x))
        x = nn.max_pool(x, (3, 3), strides=(2, 2), padding="SAME")
        for stage, blocks in enumerate(STAGES):
            for block in range(blocks):
                x = Bottleneck(64 << stage, 2 if stage and not block else 1)(x)
        return nn.Dense(CLASSES)(x.mean((1, 2)))


model = ResNet50()
optimizer = optax.sgd(0.1, momentum=0.9)


def step(state: Any, images: Any, labels: Any) -> Any:
    params, stats, opt = state

    def loss(params: Any) -> Any:
        logits, new = model.apply({"params": params, "batch_stats": stats}, images, mutable=["batch_stats"])
        return optax.softmax_cross_entropy_with_integer_labels(logits, labels).mean(), new["batch_stats"]

    (value, stats), gradient = jax.value_and_grad(loss, has_aux=True)(params)
    updates, opt = optimizer.update(gradient, opt)
    return (optax.apply_updates(params, updates), stats, opt), value


def setup() -> tuple[Any, Any, Any]:
    """The jitted step, its state and its data. Weights are made by numpy, so that only the step is compiled."""
    mesh = Mesh(np.array(jax.devices()), ("batch",))
    random = np.random.RandomState(0)
    images = random.rand(BATCH, SIZE, SIZE, 3).astype(np.float32)
    labels = random.randint(0, CLASSES, BATCH).astype(np.int32)
    shapes = jax.eval_shape(model.init, jax.random.key(0), images)

    def weight(path: Any, kind: Any) -> Any:
        name = path[-1].key
        if name == "kernel":
            return (random.randn(*kind.shape) * np.sqrt(2 / np.prod(kind.shape[:-1]))).astype(np.float32)
        return np.full(kind.shape, name in {"scale", "var"}, np.float32)

    variables = jax.tree_util.tree_map_with_path(weight, shapes)
    momentum = jax.tree.map(
        lambda kind: np.zeros(kind.shape, kind.dtype), jax.eval_shape(optimizer.init, variables["params"])
    )
    state = jax.device_put((variables["params"], variables["batch_stats"], momentum), NamedSharding(mesh, P()))
    return jax.jit(step, donate_argnums=0), state, jax.device_put((images, labels), NamedSharding(mesh, P("batch")))
