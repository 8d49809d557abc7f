"""Which programs are compared with the TPU compiler's own memory analysis? One row a kind of work.

Every function is pure; arguments are shapes alone. A program over eight cores says how its arguments are sharded.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import PartitionSpec as P

f32, bf16, i32 = jnp.float32, jnp.bfloat16, jnp.int32


def array(*shape: int, dtype: Any = f32) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, dtype)


@dataclass(frozen=True)
class Case:
    """A function of ``arguments``, compiled for a mesh of ``mesh`` cores with axes "x" and "y".

    ``specs`` gives one partition spec for each argument (all leaves alike); None for replicated or one core.
    """

    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    donated: tuple[int, ...] = ()
    mesh: tuple[int, ...] = (1,)
    specs: tuple[Any, ...] | None = None


def _sgd(loss: Callable[..., Any]) -> Callable[..., Any]:
    """A step of stochastic gradient descent with momentum: (weights, momentum, *batch) to the new ones and the loss."""

    def step(weights: Any, momentum: Any, *batch: Any) -> Any:
        value, gradient = jax.value_and_grad(loss)(weights, *batch)
        momentum = jax.tree.map(lambda m, g: 0.9 * m + g, momentum, gradient)
        return jax.tree.map(lambda w, m: w - 0.01 * m, weights, momentum), momentum, value

    return step


def _cross_entropy(logits: Any, labels: Any) -> Any:
    return -jnp.take_along_axis(jax.nn.log_softmax(logits.astype(f32)), labels[:, None], 1).mean()


def _mlp_loss(weights: Any, x: Any, labels: Any) -> Any:
    for name in ("one", "two"):
        x = jax.nn.relu(x @ weights[name] + weights[f"{name}_bias"])
    return _cross_entropy(x @ weights["out"] + weights["out_bias"], labels)


_MLP = {
    "one": array(784, 1024),
    "one_bias": array(1024),
    "two": array(1024, 1024),
    "two_bias": array(1024),
    "out": array(1024, 10),
    "out_bias": array(10),
}


def _adam_mlp(weights: Any, first: Any, second: Any, step: Any, x: Any, labels: Any) -> Any:
    value, gradient = jax.value_and_grad(_mlp_loss)(weights, x, labels)
    step = step + 1
    first = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, first, gradient)
    second = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g * g, second, gradient)
    rate = 1e-3 * jnp.sqrt(1 - 0.999**step) / (1 - 0.9**step)
    weights = jax.tree.map(lambda w, m, v: w - rate * m / (jnp.sqrt(v) + 1e-8), weights, first, second)
    return weights, first, second, step, value


def _conv(x: Any, kernel: Any, padding: str = "VALID", stride: int = 1) -> Any:
    return lax.conv_general_dilated(x, kernel, (stride, stride), padding, dimension_numbers=("NHWC", "HWIO", "NHWC"))


def _cnn_loss(weights: Any, x: Any, labels: Any) -> Any:
    x = jax.nn.relu(_conv(x, weights["c1"]) + weights["c1_bias"])
    x = jax.nn.relu(_conv(x, weights["c2"]) + weights["c2_bias"])
    x = lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID").reshape(x.shape[0], -1)
    x = jax.nn.relu(x @ weights["d1"] + weights["d1_bias"])
    return _cross_entropy(x @ weights["d2"] + weights["d2_bias"], labels)


_CNN = {
    "c1": array(3, 3, 1, 32),
    "c1_bias": array(32),
    "c2": array(3, 3, 32, 64),
    "c2_bias": array(64),
    "d1": array(9216, 128),
    "d1_bias": array(128),
    "d2": array(128, 10),
    "d2_bias": array(10),
}


def _batch_norm(x: Any, scale: Any, shift: Any) -> Any:
    mean = x.mean((0, 1, 2))
    variance = jnp.square(x).mean((0, 1, 2)) - mean * mean
    return (x - mean) * lax.rsqrt(variance + 1e-5) * scale + shift


def _residual_loss(weights: Any, x: Any, target: Any) -> Any:
    y = jax.nn.relu(_batch_norm(_conv(x, weights["reduce"], "SAME"), *weights["norm1"]))
    y = jax.nn.relu(_batch_norm(_conv(y, weights["middle"], "SAME"), *weights["norm2"]))
    y = _batch_norm(_conv(y, weights["expand"], "SAME"), *weights["norm3"])
    return jnp.square(jax.nn.relu(x + y) - target).mean()


_RESIDUAL = {
    "reduce": array(1, 1, 256, 64),
    "middle": array(3, 3, 64, 64),
    "expand": array(1, 1, 64, 256),
    "norm1": (array(64), array(64)),
    "norm2": (array(64), array(64)),
    "norm3": (array(256), array(256)),
}


def _layer_norm(x: Any, scale: Any, shift: Any) -> Any:
    mean = x.mean(-1, keepdims=True)
    return (x - mean) * lax.rsqrt(jnp.square(x - mean).mean(-1, keepdims=True) + 1e-5) * scale + shift


def _transformer_loss(weights: Any, x: Any, target: Any) -> Any:
    batch, length, width = x.shape
    h = _layer_norm(x, *weights["norm1"])
    q, k, v = ((h @ weights[name]).reshape(batch, length, 8, width // 8) for name in ("query", "key", "value"))
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / (width // 8) ** 0.5
    scores = jnp.where(jnp.tril(jnp.ones((length, length), bool)), scores, jnp.finfo(scores.dtype).min)
    h = jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores), v).reshape(batch, length, width)
    x = x + h @ weights["out"]
    h = jax.nn.gelu(_layer_norm(x, *weights["norm2"]) @ weights["up"])
    x = x + h @ weights["down"]
    return jnp.square((x - target).astype(f32)).mean()


def _transformer(dtype: Any) -> Any:
    square = {name: array(512, 512, dtype=dtype) for name in ("query", "key", "value", "out")}
    norms = {name: (array(512, dtype=dtype), array(512, dtype=dtype)) for name in ("norm1", "norm2")}
    return {**square, **norms, "up": array(512, 2048, dtype=dtype), "down": array(2048, 512, dtype=dtype)}


def _lstm_loss(weights: Any, x: Any, target: Any) -> Any:
    def cell(carry: Any, x: Any) -> Any:
        h, c = carry
        i, f, g, o = jnp.split(x @ weights["input"] + h @ weights["hidden"] + weights["bias"], 4, axis=-1)
        c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        h = jax.nn.sigmoid(o) * jnp.tanh(c)
        return (h, c), None

    zeros = jnp.zeros((x.shape[1], 256))
    (h, _), _ = lax.scan(cell, (zeros, zeros), x)
    return jnp.square(h - target).mean()


_LSTM = {"input": array(256, 1024), "hidden": array(256, 1024), "bias": array(1024)}


def _chain(x: Any) -> Any:
    for _ in range(8):
        x = jnp.tanh(x) * 1.5 + jnp.exp(-x * x)
    return x


def _softmax_statistics(x: Any) -> Any:
    p = jax.nn.softmax(x, axis=-1)
    return -(p * jnp.log(p + 1e-9)).sum(-1), p.max(0), jnp.argmax(p, axis=-1)


def _embedding_loss(table: Any, tokens: Any, target: Any) -> Any:
    return jnp.square(table[tokens] - target).mean()


def _embedding(table: Any, tokens: Any, target: Any) -> Any:
    return table - 0.1 * jax.grad(_embedding_loss)(table, tokens, target)


def _sorted(x: Any) -> Any:
    return jnp.sort(x, axis=-1), jnp.argsort(x[0])


def _spectrum(x: Any) -> Any:
    return jnp.abs(jnp.fft.ifft(jnp.fft.fft(x) * jnp.fft.fft(x[::-1])))


def _narrow(x: Any) -> Any:
    return jnp.sqrt(jnp.square(x).sum(-1)) * 2, x[..., ::-1] + 1


def _stencil(x: Any) -> Any:
    for _ in range(4):
        x = x + 0.1 * (jnp.roll(x, 1, 0) + jnp.roll(x, -1, 0) + jnp.roll(x, 1, 1) + jnp.roll(x, -1, 1) - 4 * x)
    return x


_LABELS = array(128, dtype=i32)
_TOKENS = (32, 128, 512)


def _vae_loss(weights: Any, x: Any) -> Any:
    h = jax.nn.relu(x @ weights["encode"])
    mean, log_variance = h @ weights["mean"], h @ weights["variance"]
    z = mean + jnp.exp(0.5 * log_variance) * jax.random.normal(jax.random.key(0), mean.shape)
    logits = jax.nn.relu(z @ weights["decode"]) @ weights["pixels"]
    likelihood = (jnp.maximum(logits, 0) - logits * x + jnp.log1p(jnp.exp(-jnp.abs(logits)))).sum(-1).mean()
    return likelihood - 0.5 * (1 + log_variance - mean * mean - jnp.exp(log_variance)).mean()


_VAE = {
    "encode": array(784, 512),
    "mean": array(512, 32),
    "variance": array(512, 32),
    "decode": array(32, 512),
    "pixels": array(512, 784),
}


def _strided_loss(weights: Any, x: Any, labels: Any) -> Any:
    for name in ("one", "two", "three"):
        x = _conv(x, weights[name], "SAME", 1 if name == "one" else 2)
        x = jax.nn.relu(_batch_norm(x, *weights[f"{name}_norm"]))
    return _cross_entropy(x.mean((1, 2)) @ weights["out"], labels)


_STRIDED = {
    "one": array(3, 3, 3, 32),
    "two": array(3, 3, 32, 64),
    "three": array(3, 3, 64, 128),
    **{f"{name}_norm": (array(size), array(size)) for name, size in (("one", 32), ("two", 64), ("three", 128))},
    "out": array(128, 10),
}


def _attention(q: Any, k: Any, v: Any) -> Any:
    return jax.nn.softmax(q @ k.swapaxes(-1, -2) / 8) @ v


def _random(key: Any) -> Any:
    return jax.random.normal(jax.random.wrap_key_data(key, impl="threefry2x32"), (2048, 2048))


def _square_root(x: Any) -> Any:
    return lax.fori_loop(0, 10, lambda _, y: y - (y * y - x) / (2 * y), jnp.ones_like(x))


_IMAGES = array(32, 28, 28, 256)
_GRADIENT = (array(2048, 2048), array(3000))
_LAYER, _LAYER16 = _transformer(f32), _transformer(bf16)
_TOKENS16 = array(*_TOKENS, dtype=bf16)


def _product(a: Any, b: Any) -> Any:
    return a @ b


def _product_chain(x: Any, w: Any) -> Any:
    return jnp.sum(((x @ w) @ w) @ w)


def _sharded_product(a: Any, b: Any) -> Any:
    return jax.nn.relu(a @ b)


def _update(weights: Any, gradient: Any) -> Any:
    return jax.tree.map(lambda w, g: w - 0.1 * g, weights, gradient)


CASES: dict[str, Case] = {
    "matmul": Case(_product, (array(4096, 2048), array(2048, 1024))),
    "matmul chain, bf16": Case(_product_chain, (array(8192, 1024, dtype=bf16), array(1024, 1024, dtype=bf16))),
    "MLP, Adam": Case(_adam_mlp, (_MLP, _MLP, _MLP, array(), array(1024, 784), array(1024, dtype=i32)), (0, 1, 2, 3)),
    "MNIST CNN": Case(_sgd(_cnn_loss), (_CNN, _CNN, array(128, 28, 28, 1), _LABELS), (0, 1)),
    "MNIST CNN, 8 cores": Case(
        _sgd(_cnn_loss),
        (_CNN, _CNN, array(1024, 28, 28, 1), array(1024, dtype=i32)),
        donated=(0, 1),
        mesh=(8,),
        specs=(P(), P(), P("x"), P("x")),
    ),
    "residual block": Case(_sgd(_residual_loss), (_RESIDUAL, _RESIDUAL, _IMAGES, _IMAGES), (0, 1)),
    "transformer layer": Case(_sgd(_transformer_loss), (_LAYER, _LAYER, array(*_TOKENS), array(*_TOKENS)), (0, 1)),
    "transformer layer, bf16": Case(_sgd(_transformer_loss), (_LAYER16, _LAYER16, _TOKENS16, _TOKENS16), (0, 1)),
    "LSTM": Case(_sgd(_lstm_loss), (_LSTM, _LSTM, array(64, 256, 256), array(256, 256)), (0, 1)),
    "elementwise chain": Case(_chain, (array(32 << 20),)),
    "softmax and reductions": Case(_softmax_statistics, (array(4096, 8192),)),
    "embedding": Case(_embedding, (array(32768, 256), array(4096, dtype=i32), array(4096, 256)), (0,)),
    "sort": Case(_sorted, (array(256, 65536),)),
    "FFT": Case(_spectrum, (array(64, 4096, dtype=jnp.complex64),)),
    "Cholesky": Case(jnp.linalg.cholesky, (array(512, 512),)),
    "donated update": Case(_update, (_GRADIENT, _GRADIENT), (0,)),
    "narrow trailing dimension": Case(_narrow, (array(64, 512, 128, 2),)),
    "stencil": Case(_stencil, (array(4096, 4096),)),
    "VAE": Case(_sgd(_vae_loss), (_VAE, _VAE, array(512, 784)), (0, 1)),
    "strided CNN, batch norm": Case(
        _sgd(_strided_loss), (_STRIDED, _STRIDED, array(64, 64, 64, 3), array(64, dtype=i32)), (0, 1)
    ),
    "attention": Case(_attention, (array(8, 8, 1024, 64),) * 3),
    "random numbers": Case(_random, (array(2, dtype=jnp.uint32),)),
    "loop": Case(_square_root, (array(4096, 4096),)),
    "matmul, 2-D sharded": Case(
        _sharded_product, (array(8192, 4096), array(4096, 2048)), mesh=(4, 2), specs=(P("x", "y"), P("y", None))
    ),
}
