"""The part of a script that one function needs, run without the rest.

A function of `__main__` cannot be imported elsewhere: importing the script would run all of it,
and start its agent a second time. So only the statements that define the function and what it
refers to, directly or not, are run; calls at the top level and the `if __name__ == "__main__"`
part are not.

Not here: ordinary modules, which are imported as always.
"""

from __future__ import annotations

import ast
import symtable
import sys
import types
from collections.abc import Iterator
from pathlib import Path

__all__ = ["run_slice"]

_replaced: list[types.ModuleType] = []
"""Keeps the former `__main__` alive: a module that is let go clears its globals."""


def run_slice(file: str, name: str, package: str | None) -> types.ModuleType:
    """Make a `__main__` that holds *name* as the script *file* defines it, and what that needs.

    Classes keep `__main__` as their module, so that instances can be pickled both ways.
    """
    tree = ast.parse(Path(file).read_bytes(), file)
    tree.body = list(_needed(tree.body, name))
    module = types.ModuleType("__main__")
    module.__file__ = file
    module.__package__ = package
    _replaced.append(sys.modules["__main__"])
    sys.modules["__main__"] = module
    exec(compile(tree, file, "exec", dont_inherit=True), module.__dict__)
    return module


def _needed(statements: list[ast.stmt], name: str) -> Iterator[ast.stmt]:
    """The *statements* that bind *name* and, transitively, what they use, in their order."""
    binds = [set(_bound(statement)) for statement in statements]
    wanted = {name}
    chosen: set[int] = set()
    grown = True
    while grown:
        grown = False
        for index, statement in enumerate(statements):
            if index in chosen or _is_main_part(statement):
                continue
            if binds[index] & wanted or _is_unconditional(statement):
                chosen.add(index)
                wanted |= set(_used(statement))
                grown = True
    return (statement for index, statement in enumerate(statements) if index in chosen)


def _is_unconditional(statement: ast.stmt) -> bool:
    """`from __future__` and star imports bind names nobody can see from outside."""
    return isinstance(statement, ast.ImportFrom) and (
        statement.module == "__future__" or any(alias.name == "*" for alias in statement.names)
    )


def _is_main_part(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.If) and any(
        isinstance(node, ast.Name) and node.id == "__name__" for node in ast.walk(statement.test)
    )


def _bound(node: ast.AST) -> Iterator[str]:
    """Names that *node* binds or changes at the top level, not inside functions or classes."""
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            yield node.name
            return
        case ast.Import() | ast.ImportFrom():
            for alias in node.names:
                yield alias.asname or alias.name.partition(".")[0]
            return
        case ast.Name(ctx=ast.Store()):
            yield node.id
        case ast.Attribute(ctx=ast.Store()) | ast.Subscript(ctx=ast.Store()):
            base: ast.expr = node  # `table[key] = f` changes what `table` is
            while isinstance(base, ast.Attribute | ast.Subscript):
                base = base.value
            if isinstance(base, ast.Name):
                yield base.id
        case _:
            pass
    for child in ast.iter_child_nodes(node):
        yield from _bound(child)


def _used(statement: ast.stmt) -> Iterator[str]:
    """Names of the top level that *statement* refers to, quoted annotations included.

    Local variables of a function are not: a local `result` has nothing to do with a `result` at
    the top level, whose making may be the very run that this function is a part of.
    """
    yield from _globals(symtable.symtable(ast.unparse(statement), "<statement>", "exec"))
    for node in ast.walk(statement):
        annotation = getattr(node, "annotation", None) or getattr(node, "returns", None)
        for part in ast.walk(annotation) if isinstance(annotation, ast.AST) else ():
            if isinstance(part, ast.Constant) and isinstance(part.value, str):
                yield from _names_in(part.value)


def _globals(table: symtable.SymbolTable) -> Iterator[str]:
    for symbol in table.get_symbols():
        if table.get_type() == "module" or symbol.is_global():
            yield symbol.get_name()
    for child in table.get_children():
        yield from _globals(child)


def _names_in(annotation: str) -> Iterator[str]:
    try:
        tree = ast.parse(annotation, mode="eval")
    except SyntaxError:
        return  # a description, as in Annotated[int, "how many"]
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            yield node.id
