"""All public names with their arguments, which `test_signatures.py` compares.

`python tests/signatures.py` writes fixtures/signatures.txt anew.
"""

import dataclasses
import importlib
import inspect
import os
import pathlib
import types
from typing import Any, NamedTuple

os.environ.setdefault("KERAS_BACKEND", "torch")

import catalogue
import keras

import keras_attention

FILE = pathlib.Path(__file__).parent / "fixtures" / "signatures.txt"
PACKAGE = keras_attention.__name__
BASE_CONFIG = {*keras.layers.Layer().get_config(), *keras.Model().get_config()}

# Names of methods that layers and models define for Keras, and for each other.
INTERNAL = (
    *("build", "check_", "compute_", "from_config", "get_config", "make_layers"),
    *("torchtree_", "tree_", "aligned", "allows", "bounds", "map"),
)
OF_KERAS = {
    name
    for cls in (keras.Model, keras.layers.Layer, keras.callbacks.Callback)
    for name in dir(cls)
}


def is_ours(thing):
    return getattr(thing, "__module__", "").split(".")[0] == PACKAGE


def public_names(module):
    """The names of `__all__`; without it, what the module itself defines."""
    if hasattr(module, "__all__"):
        return sorted({*module.__all__, *getattr(module, "_LAZY", ())})
    return sorted(
        name
        for name, thing in vars(module).items()
        if not name.startswith("_")
        and getattr(thing, "__module__", "") == module.__name__
    )


class Default(NamedTuple):
    """A default as the file shows it, the same in every process."""

    value: Any

    def __repr__(self):
        if isinstance(
            self.value, type | types.FunctionType | types.BuiltinFunctionType
        ):
            return self.value.__qualname__
        text = repr(self.value)
        long = " at 0x" in text or len(text) > 60
        return type(self.value).__name__ if long else text


def arguments(call):
    """The arguments and defaults of a call; annotations are left out."""
    if isinstance(call, type) and issubclass(call, Exception):
        return ""
    signature, empty = inspect.signature(call), inspect.Parameter.empty
    parameters = [
        p.replace(
            annotation=empty,
            default=empty if p.default is empty else Default(p.default),
        )
        for name, p in signature.parameters.items()
        if name not in ("self", "cls")
    ]
    return str(signature.replace(parameters=parameters, return_annotation=empty))


def config_keys(cls):
    """The keys of a class's config that Keras' own base classes do not have."""
    row = next((row for row in catalogue.ROWS if row.cls is cls), None)
    return sorted({*row.make().get_config()} - BASE_CONFIG) if row else []


def things(name, thing, seen):
    """Each public name with what it stands for; a module once."""
    if not isinstance(thing, types.ModuleType):
        yield name, thing
    elif thing not in seen:
        seen.add(thing)
        for inner in public_names(thing):
            yield from things(f"{name}.{inner}", getattr(thing, inner), seen)


def members(cls, bases):
    """The public methods and properties of a class.

    Those of its bases among `bases` are left out: they have lines of their own. So are
    those that Keras' classes have, too, if we do not document them, except `call`; and
    what only our own classes call (`INTERNAL`).
    """
    attributes = {}
    for base in reversed(cls.__mro__):
        if is_ours(base) and (base is cls or base not in bases):
            attributes |= vars(base)
    for name, member in sorted(attributes.items()):
        member = getattr(member, "__func__", member)  # of a class method
        documented = getattr(member, "__doc__", None) or name == "call"
        if name.startswith(("_", *INTERNAL)) or (name in OF_KERAS and not documented):
            continue
        if inspect.isfunction(member):
            yield f"{name}{arguments(member)}"
        elif isinstance(member, property):
            yield name


def lines():
    """A line for each public name, method, property and config."""
    package = importlib.import_module(PACKAGE)
    public = [*things(PACKAGE, package, set())]
    classes = {thing for _, thing in public if isinstance(thing, type)}
    visited = set()
    for name, thing in public:
        yield name + (arguments(thing) if callable(thing) else "")
        if not isinstance(thing, type) or thing in visited:
            continue
        visited.add(thing)
        yield from (f"{name}.{member}" for member in members(thing, classes))
        if dataclasses.is_dataclass(thing):
            names = ", ".join(field.name for field in dataclasses.fields(thing))
            yield f"{name} fields: {names}"
        if keys := config_keys(thing):
            yield f"{name} config: {', '.join(keys)}"


if __name__ == "__main__":
    FILE.write_text("\n".join(lines()) + "\n", "utf-8")
