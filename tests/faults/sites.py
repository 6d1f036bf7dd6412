"""Faults that can be sown into the package: where they fit, and how they are applied.

A fault replaces one expression or statement of one function. It is addressed by the
function's name and the expression's text, not by file and line, so that a fault that
was drawn once is found again after the code around it has moved.
"""

import ast
import pathlib
from collections.abc import Iterator
from dataclasses import dataclass, fields

COMPARISONS = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}
ARITHMETIC = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
}
SAVING = {
    "build_from_config",
    "from_config",
    "get_build_config",
    "get_config",
    "load_own_variables",
    "save_own_variables",
}
FOLDERS = ("numerics", "kernels", "ops", "layers", "models")  # of the package
GROUPS = ("kernels", "masks", "saving", "rest")


@dataclass(frozen=True)
class Fault:
    """One change to the source of the package.

    Attributes:
        module: the dotted module in which it was drawn. Only a hint: if the function
            has moved, it is looked for in the other modules.
        function: the function, with its class in front: `MemoryHop.call`.
        expression: what is replaced, as `ast.unparse` writes it.
        occurrence: which one of several equal expressions of the function, from 0.
        change: what takes its place.
    """

    module: str
    function: str
    expression: str
    occurrence: int
    change: str

    @classmethod
    def of(cls, row: dict) -> "Fault":
        """The fault of a row of a file, whatever else the row says."""
        return cls(**{field.name: row[field.name] for field in fields(cls)})

    def __str__(self) -> str:
        where = f"{self.module}:{self.function}"
        again = f" (number {self.occurrence + 1})" if self.occurrence else ""
        return f"{where}: `{self.expression}`{again} -> `{self.change}`"

    @property
    def group(self) -> str:
        """One of `GROUPS`: what kind of code the fault is in."""
        if ".kernels" in self.module:
            return "kernels"
        if self.module.split(".")[-1] in ("masks", "normalizers"):
            return "masks"
        return "saving" if self.function.split(".")[-1] in SAVING else "rest"

    @property
    def kind(self) -> str:
        """What kind of code is replaced, as `ast` calls it: `Compare`, `Call` …"""
        statement = ast.parse(self.expression).body[0]
        if isinstance(statement, ast.Expr) and self.change != "pass":
            return type(statement.value).__name__
        return type(statement).__name__


def modules(root: pathlib.Path, folders: tuple[str, ...]) -> dict[str, pathlib.Path]:
    """The files of some folders of the package, by the name of their module."""
    package = root / "keras_attention"
    found = {}
    for folder in folders:
        for path in sorted((package / folder).rglob("*.py")):
            parts = path.relative_to(root).with_suffix("").parts
            found[".".join(parts)] = path
    return found


def functions(tree: ast.Module) -> Iterator[tuple[str, ast.AST]]:
    """The outermost functions and methods of a module, by name."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            yield node.name, node
        elif isinstance(node, ast.ClassDef):
            for child in node.body:
                if isinstance(child, ast.FunctionDef):
                    yield f"{node.name}.{child.name}", child


def _parts(function: ast.AST) -> Iterator[ast.AST]:
    """What is computed in a function: no text, annotations, messages or imports."""
    left_out = (ast.Raise, ast.JoinedStr, ast.Import, ast.ImportFrom, ast.arg)
    waiting = list(function.body)
    while waiting:
        node = waiting.pop(0)
        if isinstance(node, left_out):
            continue
        yield node
        for name, value in ast.iter_fields(node):
            if name not in ("annotation", "returns", "decorator_list"):
                children = value if isinstance(value, list) else [value]
                waiting += [child for child in children if isinstance(child, ast.AST)]


def _changes(node: ast.AST) -> Iterator[ast.AST]:
    """What may wrongly stand in the place of a piece of code."""
    if isinstance(node, ast.Compare) and type(node.ops[0]) in COMPARISONS:
        first = COMPARISONS[type(node.ops[0])]()
        yield ast.Compare(node.left, [first, *node.ops[1:]], node.comparators)
    elif isinstance(node, ast.BinOp) and type(node.op) in ARITHMETIC:
        yield ast.BinOp(node.left, ARITHMETIC[type(node.op)](), node.right)
    elif isinstance(node, ast.BoolOp):
        other = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        yield ast.BoolOp(other, node.values)
    elif isinstance(node, ast.UnaryOp) and not isinstance(node.operand, ast.Constant):
        yield node.operand
    elif isinstance(node, ast.Constant):
        if isinstance(node.value, bool):
            yield ast.Constant(not node.value)
        elif isinstance(node.value, int):
            yield ast.Constant(node.value + 1)
        elif isinstance(node.value, float):
            yield ast.Constant(2 * node.value if node.value else 1.0)
    elif isinstance(node, ast.Call):
        for one in node.keywords:
            if one.arg is not None:
                others = [other for other in node.keywords if other is not one]
                yield ast.Call(node.func, node.args, others)
    elif isinstance(node, ast.Dict):
        for i in range(len(node.keys)):
            keys, values = node.keys[:i] + node.keys[i + 1 :], list(node.values)
            yield ast.Dict(keys, values[:i] + values[i + 1 :])
    elif isinstance(node, ast.If | ast.IfExp):
        return  # its condition is a piece of its own
    elif isinstance(node, ast.AugAssign) or (
        isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)
    ):
        yield ast.Pass()


def _text(node: ast.AST) -> str:
    return ast.unparse(ast.fix_missing_locations(node))


def faults(name: str, source: str) -> Iterator[Fault]:
    """Every fault that fits into a module."""
    for function, node in functions(ast.parse(source)):
        counts: dict[str, int] = {}
        for part in _parts(node):
            if not hasattr(part, "lineno"):
                continue
            text = _text(part)
            occurrence = counts.get(text, 0)
            counts[text] = occurrence + 1
            for change in _changes(part):
                yield Fault(name, function, text, occurrence, _text(change))


def apply(fault: Fault, source: str) -> str | None:
    """The source with the fault in it; None where it does not fit."""
    for function, node in functions(ast.parse(source)):
        if function != fault.function:
            continue
        same = [
            part
            for part in _parts(node)
            if hasattr(part, "lineno") and _text(part) == fault.expression
        ]
        if fault.occurrence < len(same):
            return _replaced(source, same[fault.occurrence], fault.change)
    return None


def _replaced(source: str, node: ast.AST, change: str) -> str:
    lines = source.encode().splitlines(keepends=True)  # columns count bytes
    before = b"".join(lines[: node.lineno - 1])
    start = len(before) + node.col_offset
    end = sum(map(len, lines[: node.end_lineno - 1])) + node.end_col_offset
    same = "\n" * (node.end_lineno - node.lineno)  # no other line moves
    new = change + same if isinstance(node, ast.stmt) else f"({change}{same})"
    whole = source.encode()
    return (whole[:start] + new.encode() + whole[end:]).decode()


def place(fault: Fault, where: dict[str, pathlib.Path]) -> tuple[pathlib.Path, str]:
    """The file in which the fault fits, and that file with the fault in it.

    Args:
        fault: the fault.
        where: files by module, from `modules`.

    Raises:
        LookupError: if it fits nowhere, or in several files of other names.
    """
    if fault.module in where:
        path = where[fault.module]
        found = apply(fault, path.read_text("utf-8"))
        if found is not None:
            return path, found
    fits = []
    for path in where.values():
        found = apply(fault, path.read_text("utf-8"))
        if found is not None:
            fits.append((path, found))
    if len(fits) != 1:
        files = ", ".join(str(path) for path, _ in fits) or "none"
        raise LookupError(f"a fault must fit into one file. Received: {fault}; {files}")
    return fits[0]
