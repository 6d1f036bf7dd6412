"""Calls that cuDNN computes on a GPU, computed by XLA on a CPU.

`test_accelerators.py` lowers the calls of cuDNN.
"""

import contextlib

import numpy as np
import pytest
import references
from calling import BACKEND, platform
from gradients import gradient, tensor, to_numpy
from keras import ops

from keras_attention import masks

if BACKEND != "jax":
    pytest.skip("only JAX asks for cuDNN", allow_module_level=True)

import jax

from keras_attention.kernels.attention import jax_cudnn

pytestmark = pytest.mark.backends("jax")

ON_GPU = platform() == "gpu"  # where cuDNN computes, in half precision
PLATFORM = "keras_attention.kernels.tracing.jax.default_backend"
B, T, S, H, G, E = 3, 7, 11, 4, 2, 8
SCATTERED = np.random.default_rng(5).random((B, S)) < 0.5
SCATTERED[0] = False  # no query of the first example sees a key
AT_END = np.arange(S) < [[0], [2], [S]]
# Of each case: T, the mask of keys, whether it is causal, and the window.
CASES = {
    "all keys": (T, None, False, None),
    "padding": (T, AT_END, False, None),
    "scattered": (T, SCATTERED, False, None),
    "the same for all": (T, SCATTERED[1:2], False, None),
    "of no key": (T, SCATTERED[:1, :1], False, None),
    "causal": (T, None, True, None),
    "causal, more queries": (S + 2, None, True, None),
    "causal, padding": (S, AT_END, True, None),
    "causal, scattered": (S, SCATTERED, True, None),
    "window": (S, None, True, 4),
    "window, padding": (S, AT_END, True, 4),  # of its last queries nothing is seen
    "window, scattered": (S, SCATTERED, True, 4),
}


@pytest.fixture(autouse=True)
def on_a_gpu(monkeypatch):
    monkeypatch.setattr(PLATFORM, lambda: "gpu")
    monkeypatch.setattr(jax_cudnn, "widest", lambda: 128)
    if not ON_GPU:
        monkeypatch.setattr(jax_cudnn, "IMPLEMENTATION", "xla")
    monkeypatch.setattr(jax_cudnn, "CHUNK", B * H * 3 * S)  # 3 queries


def attend(*arrays, mask, is_causal, window):
    mask = None if mask is None else ops.convert_to_tensor(mask[:, None, None])
    dtype = "bfloat16" if ON_GPU else "float32"
    arrays = [ops.cast(x, dtype) for x in arrays]
    output = jax_cudnn.attend(*arrays, mask, E**-0.5, is_causal, window)
    return ops.cast(output, "float32")


def assert_near(slope, correct):
    tolerance = {"rtol": 0.03, "atol": 0.03} if ON_GPU else {"rtol": 1e-4, "atol": 1e-5}
    np.testing.assert_allclose(slope, correct, **tolerance)


def inputs(queries):
    shapes = (B, queries, H, E), (B, S, G, E), (B, S, G, E)
    return references.normal(B, queries, H, E, seed=8), references.normals(*shapes)


def visible(queries, mask, is_causal, window):
    """Where a query may attend, (B, H, T, S)."""
    t, s = np.arange(queries)[:, None], np.arange(S)
    allowed = (s <= t) | (not is_causal)
    allowed = allowed & (abs(t - s) < (window or S + T))
    if mask is not None:
        allowed = allowed & mask[:, None, None]
    return np.broadcast_to(allowed, (B, H, queries, S))


@pytest.mark.parametrize("case", CASES)
def test_output_and_gradients_equal_the_reference(case):
    queries, *options = CASES[case]
    options = dict(zip(("mask", "is_causal", "window"), options))
    probe, arrays = inputs(queries)

    def loss(probe, *x):  # its gradient by the probe is the output
        return ops.sum(attend(*x, **options) * probe)

    found = gradient(loss, probe, *arrays)
    allowed = visible(queries, *options.values())
    wanted = references.heads_attention(*arrays, probe, allowed)[:-1]
    for slope, correct in zip(found, wanted, strict=True):
        assert_near(slope, correct)
    if options["mask"] is not None:
        seen, used = allowed.any((1, 3)), allowed.any((1, 2))
        for slope in found[:2]:
            assert not slope[~seen].any()
        for slope in found[2:]:
            assert not slope[~used].any()


def test_vmap_scan_and_checkpoint_choose_a_path_for_each_mask():
    """Only here the choice is vectorized, which computes both paths."""
    two = np.stack([AT_END, SCATTERED])
    _, arrays = inputs(S)
    arrays = [tensor(x) for x in arrays]

    def loss(mask, *x):
        out = attend(*x, mask=mask, is_causal=True, window=None)
        return ops.sum(out * ops.cos(out))

    def each(*x):
        return jax.vmap(loss, (0, None, None, None))(two, *x).sum()

    def turns(*x):
        step = jax.checkpoint(lambda total, mask: (total + loss(mask, *x), None))
        return jax.lax.scan(step, 0.0, two)[0]

    places = 0, 1, 2
    wanted = [jax.jit(jax.grad(loss, (1, 2, 3)))(mask, *arrays) for mask in two]
    wanted = [sum(parts) for parts in zip(*wanted)]
    for form in (each, turns):
        for slope, correct in zip(jax.jit(jax.grad(form, places))(*arrays), wanted):
            assert_near(slope, correct)


@pytest.mark.parametrize(
    ("is_causal", "window"), [(False, None), (True, None), (True, 4)]
)
@pytest.mark.parametrize(
    "batched", [(0, 0), (0, None), (None, 0), "query", "key", "query, key"]
)
def test_vmap_reaches_cudnn(is_causal, window, batched, monkeypatch):
    """JAX's rule for vmap may want an axis of each argument; nothing is compiled."""
    from jax._src.cudnn import fused_attention_stablehlo as checks

    monkeypatch.setattr(jax_cudnn, "IMPLEMENTATION", "cudnn")
    monkeypatch.setattr(checks, "check_cudnn_version", lambda: 91900)
    monkeypatch.setattr(checks, "check_compute_capability", lambda least: True)
    monkeypatch.setattr(checks, "is_cuda_compute_capability_equal", lambda one: False)

    def loss(x, y, mask=None):
        out = jax_cudnn.attend(x, y, y, mask, 0.3, is_causal, window)
        return out.astype("float32").sum()

    if isinstance(batched, str):  # without a mask, of an even length
        axes = [0 if name in batched else None for name in ("query", "key")]
        shapes, dtypes = [(2, 10, H, E)] * 2, ["bfloat16"] * 2
    else:
        axes = [batched[0], *batched]
        shapes = [(2, 9, H, E), (2, 9, H, E), (2, 1, 1, 9)]
        dtypes = ["bfloat16", "bfloat16", "bool"]
    arguments = [
        shaped(*(3,) * (axis == 0), *shape, dtype=dtype)
        for axis, shape, dtype in zip(axes, shapes, dtypes)
    ]
    slopes = jax.grad(loss, (0, 1))
    program = jax.make_jaxpr(jax.vmap(slopes, axes))(*arguments)
    assert "dot_product_attention_bwd" in str(program)


L = 130  # queries and keys of calls by users
KEYS = np.arange(L) < [[L], [31]]


def half(*shape):
    return tensor(references.normal(*shape), "bfloat16")


@pytest.mark.parametrize(
    ("options", "uses"),
    [
        ({"mask": KEYS[:, None, None]}, True),
        ({"mask": masks.Prefix(np.array([L, 31]))}, True),
        ({"mask": masks.Causal() & masks.Window(9)}, True),
        ({"mask": KEYS[:, None, None], "sliding_window": 9, "is_causal": True}, True),
        ({"scale": np.float32(0.3)}, True),
        ({"mask": masks.Window(9)}, False),
        ({"mask": KEYS[:, None, :, None]}, False),
        ({"mask": masks.Segments(KEYS.astype("int32"))}, False),
        ({"mask": KEYS[:, None, None], "bias": np.ones((1, 1, 1, L))}, False),
    ],
    ids=range(9),
)
def test_calls_of_users(options, uses, monkeypatch):
    from keras_attention.ops import dot_product_attention

    used, kernel = [], jax_cudnn.attend
    monkeypatch.setattr(jax_cudnn, "attend", lambda *x: used.append(1) or kernel(*x))
    x = half(2, L, 2, E)
    output = dot_product_attention(x, x, x, **options)
    assert bool(used) is uses
    monkeypatch.setattr(PLATFORM, lambda: "cpu")
    wide = ops.cast(x, "float32")
    wanted = to_numpy(dot_product_attention(wide, wide, wide, **options))
    np.testing.assert_allclose(to_numpy(ops.cast(output, "float32")), wanted, atol=0.05)


def shaped(*shape, dtype="bfloat16"):
    return jax.ShapeDtypeStruct(shape, dtype)


@pytest.mark.parametrize(
    ("change", "taken"),
    [
        ({}, True),
        ({"mask": shaped(1, 1, 1, L, dtype="bool")}, True),
        ({"mask": shaped(2, 1, 1, 1, dtype="bool")}, True),
        ({"mask": shaped(2, 1, L, L, dtype="bool")}, False),
        ({"mask": shaped(2, 2, 1, L, dtype="bool")}, False),
        ({"query": shaped(2, 127, 4, 64)}, False),  # copies cost more
        ({"query": shaped(2, L + 1, 4, 64)}, True),
        ({"query": shaped(2, L + 1, 4, 64), "is_causal": True}, False),
        ({"query": shaped(2, L + 1, 4, 64), "is_causal": True, "mask": None}, True),
        ({"query": shaped(2, 1, 4, 64), "mask": None}, False),  # a step with a cache
        ({"window": 5, "is_causal": True}, True),
        ({"window": 5, "is_causal": True, "mask": None}, True),
        ({"window": 5}, False),  # on both sides
        ({"value": shaped(2, L, 2, 32)}, False),
        ({"query": shaped(1, L, 4, 64)}, False),
        ({"value": shaped(2, L, 2, 64, dtype="float16")}, False),
        ({"width": 136}, False),
        ({"width": 60}, False),
        ({"dtype": "float32"}, False),
        ({"dtype": "float16"}, True),
        ({"heads": 0}, False),
    ],
    ids=range(21),
)
def test_what_is_known_of_a_call_decides(change, taken):
    width, heads = change.pop("width", 64), change.pop("heads", 4)
    dtype = change.pop("dtype", "bfloat16")
    call = {
        "query": shaped(2, L, heads, width, dtype=dtype),
        "key": shaped(2, L, 2, width, dtype=dtype),
        "value": shaped(2, L, 2, width, dtype=dtype),
        "mask": shaped(2, 1, 1, L, dtype="bool"),
        "is_causal": False,
    }
    assert jax_cudnn.takes(**{**call, **change}) is taken


def test_several_devices_have_no_lengths(monkeypatch):
    x = shaped(2, L, 2, 64)
    monkeypatch.setattr(jax_cudnn, "has_devices", lambda: True)
    assert jax_cudnn.takes(x, x, x, None, False)
    odd = shaped(2, L + 1, 2, 64)
    assert jax_cudnn.takes(odd, odd, odd, None, True)
    assert not jax_cudnn.takes(odd, odd, odd, None, False)
    assert not jax_cudnn.takes(x, x, x, shaped(2, 1, 1, L, dtype="bool"), False)


@pytest.mark.parametrize(
    ("version", "capability", "width"),
    [
        (91900, "9.0", 256),
        (91900, "8.0", 128),
        (91900, "10.0", 128),
        (91900, "7.5", 0),
        (90501, "9.0", 0),
        (91001, "9.0", 0),  # has errors
        (91002, "10.3", 0),
        (91100, "10.3", 128),
        (None, "9.0", 0),
    ],
)
def test_widths_that_a_gpu_takes(version, capability, width, monkeypatch):
    class Versions:
        cudnn_get_version = staticmethod(lambda: version)

    class Device:
        compute_capability = capability

        class client:
            platform_version = "PJRT C API\ncuda 12080"

    monkeypatch.undo()  # of `widest`
    monkeypatch.setattr("jax._src.lib.cuda_versions", version and Versions)
    monkeypatch.setattr(jax, "local_devices", lambda backend: [Device])
    jax_cudnn.widest.cache_clear()
    expected = contextlib.nullcontext()
    if version is None:
        expected = pytest.warns(UserWarning, match="JAX finds no cuDNN")
    with expected:
        assert jax_cudnn.widest() == width
    Device.client.platform_version = "rocm 6.2"
    jax_cudnn.widest.cache_clear()
    assert jax_cudnn.widest() == 0
    jax_cudnn.widest.cache_clear()
