"""Holds the package to its own house rules (docs/architecture.md), by reading it."""

import ast
import functools
import graphlib
import importlib
import inspect
import pathlib

import catalogue
import keras
import numpy as np
import pytest
from frames import frames

import keras_attention
from keras_attention.layers.base.attention_layer import AttentionLayer

PACKAGE = pathlib.Path(keras_attention.__file__).parent
FILES = sorted(PACKAGE.rglob("*.py"))
# A room may use those before it, never those behind it.
ORDER = [
    "backend_choice",
    "user_warnings",
    "numerics",
    "kernels",
    "ops",
    "layers",
    "samplers",
    "models",
    "losses",
    "callbacks",
    "schedules",
    "distribution",
    "text",
    "datasets",
    "visualization",
    "presets",
    "explore",
]
# `from_preset` and `save_to_preset` import the presets when they are called.
EXCEPTIONS = {("models/base/configured_model.py", "presets")}
# Use nothing of the package but themselves and what is named.
APART = {
    "text": ("user_warnings",),
    "datasets": ("text", "user_warnings"),
    "visualization": (),
}
EXTRAS = "text/tensorflow_text"  # needs TensorFlow Text
WHEN_ASKED = {
    "text",
    "datasets",
    "visualization",
    "presets",
    "explore",
}
ROOMS = {"keras_attention", "keras_attention.layers", "keras_attention.models"}
BACKENDS = {"torch", "jax", "tensorflow"}
# The same within a room. Folders that stand in one tuple do not see each other.
FOLDERS = {
    "layers": [
        ("base",),
        ("scores", "positions"),
        ("attention", "multi_head"),
        (
            "transformer",
            "recurrent",
            "memory_networks",
            "external_memory",
            "hopfield",
            "fast_weights",
        ),
    ],
    "models": [
        ("base",),
        (
            "memory_networks",
            "recurrent",
            "transformer",
            "external_memory",
            "hopfield",
            "factorization",
        ),
    ],
}


def name_of(path):
    return path.relative_to(PACKAGE).as_posix()


def room(path):
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


@functools.cache
def parse(path):
    return ast.parse(path.read_text("utf-8"))


def in_each_room(check):
    """Makes a test of each room from a check of a file, which it names."""

    @functools.wraps(check)
    def test(here):
        for path in FILES:
            if room(path) == here:
                try:
                    check(path)
                except AssertionError as error:
                    raise AssertionError(f"{name_of(path)}: {error}") from error

    del test.__wrapped__  # pytest reads the arguments of what is wrapped
    return pytest.mark.parametrize("here", sorted({*map(room, FILES)}))(test)


def imports(path):
    """The modules that a file imports, with the line of each."""
    for node in ast.walk(parse(path)):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, node.lineno
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: a relative import"
            if node.module in ROOMS:
                for alias in node.names:
                    yield f"{node.module}.{alias.name}", node.lineno
            else:
                yield node.module, node.lineno


@in_each_room
def test_imports_point_the_right_way(path):
    here = room(path)
    if here in ("__init__", "version"):
        return
    for module, line in imports(path):
        parts = module.split(".")
        where = f"{path.relative_to(PACKAGE)}:{line} imports {module}"
        if parts[0] == "keras_attention" and len(parts) > 1 and parts[1] != "version":
            target = parts[1]
            if here in APART and not name_of(path).startswith(EXTRAS):
                assert target in (here, *APART[here]), f"{where}: {here}/ stands alone"
            if target != here:
                assert target in ORDER, f"{where}: no such room"
                before = ORDER.index(target) < ORDER.index(here)
                before |= (name_of(path), target) in EXCEPTIONS
                assert before, f"{where}: wrong way"
                wants_extras = parts[1:3] == EXTRAS.split("/")
                assert not wants_extras, f"{where}: wants extras"
        in_kernels = "kernels" in path.parts
        if parts[0] in BACKENDS:
            may = in_kernels or name_of(path).startswith(EXTRAS)
            assert may, f"{where}: a backend"
        assert parts[:2] != ["keras", "src"] or in_kernels, f"{where}: private Keras"
        if here == "visualization":
            assert parts[0] != "keras", f"{where}: pictures see arrays alone"


def imported(path, modules):
    """The modules of `modules` that a file imports, also in its functions."""
    for node in ast.walk(parse(path)):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [f"{node.module}.{alias.name}" for alias in node.names]
            names = [n if n in modules else node.module for n in names]
        else:
            continue
        yield from modules.keys() & {*names}


def test_no_modules_import_each_other_in_a_circle():
    modules = {}
    for path in FILES:
        parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
        modules[".".join(parts).removesuffix(".__init__")] = path
    graph = {name: imported(path, modules) for name, path in modules.items()}
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as error:
        pytest.fail(" is imported by ".join(error.args[1]))


@in_each_room
def test_the_package_imports_nothing_beside_it(path):
    for module, line in imports(path):
        beside = module.split(".")[0] in ("studies", "speed", "tests", "examples")
        assert not beside, f"line {line} imports {module}"


@in_each_room
def test_folders_of_a_room_point_the_right_way(path):
    here = path.relative_to(PACKAGE).with_suffix("").parts
    if here[0] not in FOLDERS or here[1] == "__init__":
        return
    rank = {n: i for i, names in enumerate(FOLDERS[here[0]]) for n in names}
    for module, line in imports(path):
        parts = module.split(".")[1:]
        if parts[:1] != [here[0]]:
            continue
        where = f"{path.relative_to(PACKAGE)}:{line} imports {module}"
        assert len(parts) > 1, f"{where}: name the folder"
        right = parts[1] == here[1] or rank[parts[1]] < rank[here[1]]
        assert right, f"{where}: wrong way"


def test_the_rest_is_imported_when_asked_for(monkeypatch):
    """`import keras_attention` brings no data, no pictures and no vocabularies."""
    tree = parse(PACKAGE / "__init__.py")
    (types,) = [node for node in tree.body if isinstance(node, ast.If)]
    lazy = {alias.name for node in types.body for alias in node.names}
    assert ast.unparse(types.test) == "TYPE_CHECKING"
    assert lazy == WHEN_ASKED - {"explore"}
    for node in tree.body:
        if isinstance(node, ast.ImportFrom):
            assert not WHEN_ASKED & {*node.module.split(".")}, f"line {node.lineno}"
            names = {alias.name for alias in node.names}
            assert not WHEN_ASKED & names, f"line {node.lineno}"
    for name in lazy:
        module = importlib.import_module(f"keras_attention.{name}")
        monkeypatch.delattr(keras_attention, name)
        assert getattr(keras_attention, name) is module
    with pytest.raises(AttributeError, match="no attribute 'nowhere'"):
        _ = keras_attention.nowhere


def listing():
    """The modules of which users list the names."""
    yield "keras_attention"
    for name in dir(keras_attention):
        path = PACKAGE / name
        if path.is_dir() or path.with_suffix(".py").exists():
            yield f"keras_attention.{name}"


@pytest.mark.parametrize("name", [*listing()])
def test_dir_lists_public_names_only(name):
    module = importlib.import_module(name)
    lazy = WHEN_ASKED - {"explore"} if name == "keras_attention" else set()
    assert sorted({*module.__all__, *lazy}) == dir(module)
    assert not lazy & {*module.__all__}  # or `import *` would import them


def test_completion_knows_the_class_of_a_preset():
    """jedi takes `Self` for the class of the method, which has no `answer`."""
    annotations = keras_attention.models.MemN2N.from_preset.__annotations__
    assert annotations["cls"] == f"type[{annotations['return']}]"


@in_each_room
def test_no_file_asks_for_the_backend_or_is_unfinished(path):
    text = path.read_text("utf-8")
    if "kernels" not in path.parts and not name_of(path).startswith(EXTRAS):
        assert "config.backend()" not in text, "asks which backend runs"
        assert "backend.backend()" not in text, "asks which backend runs"
    for number, line in enumerate(text.splitlines(), 1):
        for word in ("TODO", "FIXME", "NotImplementedError", "-1e9", "-1e30"):
            assert word not in line, f"{path.name}:{number}: {line.strip()}"


@in_each_room
def test_nothing_is_swallowed(path):
    for node in ast.walk(parse(path)):
        if isinstance(node, ast.ExceptHandler):
            caught = getattr(node.type, "id", None)
            assert node.type is not None, f"line {node.lineno} catches everything"
            # An error may be told in other words, if it stays their cause.
            last = node.body[-1]
            if not (isinstance(last, ast.Raise) and last.cause is not None):
                broad = ("Exception", "BaseException")
                assert caught not in broad, f"line {node.lineno}"


@in_each_room
def test_what_is_public_is_documented(path):
    tree = parse(path)
    assert ast.get_docstring(tree), "a file says what it is for"
    for node in tree.body:
        public = isinstance(node, (ast.FunctionDef, ast.ClassDef))
        if public and not node.name.startswith("_"):
            assert ast.get_docstring(node), f"{node.name} has no docstring"


def public_modules():
    for path in FILES:
        if path.name == "__init__.py" and path.parent != PACKAGE:
            dotted = ".".join(path.parent.relative_to(PACKAGE).parts)
            yield f"keras_attention.{dotted}"


@pytest.mark.parametrize("name", [*public_modules()])
def test_what_is_listed_is_there(name):
    module = importlib.import_module(name)
    for public in getattr(module, "__all__", ()):
        assert hasattr(module, public), f"{name}.{public}"


def exported():
    """The public Keras classes, by the name under which users import them."""
    layers, models = keras_attention.layers, keras_attention.models
    things = [getattr(m, name) for m in (layers, models) for name in m.__all__]
    kinds = keras.layers.Layer, keras.Model
    return [
        thing
        for thing in things
        if isinstance(thing, type) and issubclass(thing, kinds)
        if not inspect.isabstract(thing)
    ]


@pytest.mark.parametrize("cls", exported(), ids=lambda cls: cls.__name__)
def test_each_class_is_registered_and_in_the_catalogue(cls):
    registered = keras.saving.get_registered_name(cls)
    assert registered == f"keras_attention>{cls.__name__}"
    rows = [row for row in catalogue.ROWS if row.cls is cls]
    assert rows, "no row in tests/catalogue.py"
    seen = set().union(*(row.arguments for row in rows))
    for name, parameter in inspect.signature(cls.__init__).parameters.items():
        if parameter.kind is parameter.VAR_KEYWORD or name in ("self", "dtype"):
            continue
        assert name in seen, f"no row gives `{name}`"


@pytest.mark.parametrize("cls", exported(), ids=lambda cls: cls.__name__)
def test_constructors_are_small(cls):
    names = [
        name
        for name, p in inspect.signature(cls.__init__).parameters.items()
        if p.kind is not p.VAR_KEYWORD and name not in ("self", "dtype")
    ]
    twin = getattr(keras.layers, cls.__name__, None)
    # One that takes the place of Keras' own has what that one has, and a little more:
    # six arguments, see docs/decisions.md. `self` and `**kwargs` are among Keras' ones.
    most = max(10, 4 + len(inspect.signature(twin.__init__).parameters) if twin else 0)
    if issubclass(cls, keras.Model):
        most = max(most, 12)  # of a paper's model, see docs/decisions.md
    assert len(names) <= most, names


def is_final(cls):
    """Whether it is one of the classes that files name; abstract ones are not."""
    return keras.saving.get_registered_name(cls).startswith("keras_attention>")


@pytest.mark.parametrize("cls", exported(), ids=lambda cls: cls.__name__)
def test_classes_are_abstract_or_final(cls):
    """A layer or model that wants what another one does holds it."""
    parents = [c.__name__ for c in cls.__mro__[1:] if is_final(c)]
    assert not parents, f"{cls.__name__} inherits from {parents}"


def test_no_layer_hides_what_keras_calls_its_own():
    # A functional model asks each of its layers for these.
    for cls in vars(keras_attention.layers).values():
        if isinstance(cls, type) and issubclass(cls, keras.layers.Layer):
            for name in ("input", "output"):
                assert getattr(cls, name) is getattr(keras.layers.Layer, name), cls


def attentions():
    """The public layers with the call of an attention layer."""
    for cls in exported():
        if {"query", "value"} <= {*inspect.signature(cls.call).parameters}:
            yield cls


@pytest.mark.parametrize("cls", [*attentions()], ids=lambda cls: cls.__name__)
def test_every_attention_keeps_the_protocol(cls):
    assert issubclass(cls, AttentionLayer)
    for name in ("prepare", "attend", "sample", "initial_state", "step"):
        ours = inspect.signature(getattr(cls, name)).parameters
        base = inspect.signature(getattr(AttentionLayer, name)).parameters
        assert [*ours] == [*base], name


# A conversion from one class to another has to name it.
CONVERSIONS = ("conversions.py", "adapter.py")


@in_each_room
def test_no_holder_asks_for_an_attention_by_its_class(path):
    names = {cls.__name__ for cls in attentions()}
    if path.name in CONVERSIONS:
        return
    for node in ast.walk(parse(path)):
        asks = isinstance(node, ast.Call) and getattr(node.func, "id", "") in (
            "isinstance",
            "issubclass",
        )
        if asks:
            asked = {n.id for n in ast.walk(node.args[1]) if isinstance(n, ast.Name)}
            assert not asked & names, f"line {node.lineno}"


def numbers(*shape):
    array = np.random.default_rng(0).normal(size=shape).astype("float32")
    return keras.ops.convert_to_tensor(array)


def eager_calls():
    """Calls of layers: how many functions and files of the package each may enter."""
    x, memory, step = numbers(2, 5, 7), numbers(2, 5, 8), numbers(2, 1, 7)
    padding = keras.ops.convert_to_tensor(np.arange(5) < [[5], [3]])
    masks = {"value_mask": padding, "use_causal_mask": True}
    layers = keras_attention.layers
    cell, attention = keras.layers.GRUCell(6), layers.BahdanauAttention(8)
    rnn = layers.AttentionRNN(cell, attention, return_sequences=True)
    for name, functions, files, layer, inputs in (
        ("multi_head", 16, 7, layers.MultiHeadAttention(2, 4), (x, memory)),
        ("bahdanau", 16, 8, layers.BahdanauAttention(8), (x, memory)),
        ("hopfield", 20, 8, layers.Hopfield(2, 4), (x, memory)),
        ("memory_hop", 18, 7, layers.MemoryHop(), (memory, memory)),
        ("attention_rnn", 44, 15, rnn, (step, memory)),  # torch enters each step anew
    ):
        yield pytest.param(functions, files, layer, inputs, {}, id=name)
    for name, functions, files, layer, inputs, options in (
        ("multi_head", 30, 9, layers.MultiHeadAttention(2, 4), (x, memory), masks),
        ("hopfield", 34, 10, layers.Hopfield(2, 4), (x, memory), masks),
        ("attention_rnn", 44, 16, rnn, (step, memory), {"memory_mask": padding}),
    ):
        name = f"{name}_masked"
        yield pytest.param(functions, files, layer, inputs, options, id=name)
    dnc = layers.DNC(layers.DNCCell(keras.layers.LSTMCell(8), 16, 4))
    eager = keras.config.backend() in ("torch", "numpy")
    functions = 20 + 5 * 20 if eager else 60  # 20 a step
    yield pytest.param(functions, 15, dnc, (memory,), {}, id="dnc")


@pytest.mark.backends("all")
@pytest.mark.parametrize(
    ("functions", "files", "layer", "inputs", "options"), [*eager_calls()]
)
def test_a_call_takes_a_short_way(functions, files, layer, inputs, options):
    if keras.config.backend() == "tensorflow":
        return  # whose graphs are made of other calls
    entered = frames(lambda: layer(*inputs, **options))
    assert len(entered) <= functions, "\n".join(entered)
    assert len({name.split(":")[0] for name in entered}) <= files, "\n".join(entered)
