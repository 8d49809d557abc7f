"""A training step of a decoder: 6 layers, width 512, 8 heads, 32 sequences of 128 tokens, data-parallel, Adam."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import optax
from flax import linen as nn
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

LAYERS, WIDTH, HEADS, VOCABULARY = 6, 512, 8, 1024
SEQUENCES, LENGTH = 32, 128


class Layer(nn.Module):
    """Causal attention and a feed-forward block, each after a norm and beside a shortcut."""

    @nn.compact
    def __call__(self, x: Any, mask: Any) -> Any:
        x = x + nn.MultiHeadDotProductAttention(HEADS)(nn.LayerNorm()(x), mask=mask)
        return x + nn.Dense(WIDTH)(nn.gelu(nn.Dense(4 * WIDTH)(nn.LayerNorm()(x))))


class Decoder(nn.Module):
    """Logits of the next token at each position."""

    @nn.compact
    def __call__(self, tokens: Any) -> Any:
        positions = self.param("positions", nn.initializers.normal(0.02), (LENGTH, WIDTH))
        x = nn.Embed(VOCABULARY, WIDTH)(tokens) + positions
        mask = nn.make_causal_mask(tokens)
        for _ in range(LAYERS):
            x = Layer()(x, mask)
        return nn.Dense(VOCABULARY)(nn.LayerNorm()(x))


model = Decoder()
optimizer = optax.adam(1e-3)


def step(state: Any, tokens: Any, targets: Any) -> Any:
    params, opt = state

    def loss(params: Any) -> Any:
        logits = model.apply({"params": params}, tokens)
        return optax.softmax_cross_entropy_with_integer_labels(logits, targets).mean()

    value, gradient = jax.value_and_grad(loss)(params)
    updates, opt = optimizer.update(gradient, opt)
    return (optax.apply_updates(params, updates), opt), value


def setup() -> tuple[Any, Any, Any]:
    """The jitted step, its state and its data. Weights are made by numpy, so that only the step is compiled."""
    mesh = Mesh(np.array(jax.devices()), ("batch",))
    random = np.random.RandomState(0)
    tokens = random.randint(0, VOCABULARY, (SEQUENCES, LENGTH + 1)).astype(np.int32)
    shapes = jax.eval_shape(model.init, jax.random.key(0), tokens[:, :-1])["params"]

    def weight(path: Any, kind: Any) -> Any:
        if path[-1].key in {"scale", "bias"}:
            return np.full(kind.shape, path[-1].key == "scale", np.float32)
        return (random.randn(*kind.shape) * 0.02).astype(np.float32)

    params = jax.tree_util.tree_map_with_path(weight, shapes)
    moments = jax.tree.map(lambda kind: np.zeros(kind.shape, kind.dtype), jax.eval_shape(optimizer.init, params))
    state = jax.device_put((params, moments), NamedSharding(mesh, P()))
    data = jax.device_put((tokens[:, :-1], tokens[:, 1:]), NamedSharding(mesh, P("batch")))
    return jax.jit(step, donate_argnums=0), state, data
