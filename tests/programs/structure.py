"""Count what the product is made of: files, lines, functions, imports, words in the guides, lines of tests.

`python -m tests.programs.structure` prints a column for each checkout of the project.
"""

from __future__ import annotations

import argparse
import ast
import statistics
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from mailagent.app import ROOT

SMALL_MODULE_LINES = 60


@dataclass(frozen=True)
class Tree:
    """A checkout of the project."""

    root: Path

    @cached_property
    def modules(self) -> dict[str, Path]:
        """Every module of the product, by its dotted name."""
        found = {}
        for path in sorted((self.root / "mailagent").rglob("*.py")):
            parts = path.relative_to(self.root).with_suffix("").parts
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
        return found

    @cached_property
    def importers(self) -> dict[str, set[str]]:
        """For every module, the modules of the product that import it."""
        importers: dict[str, set[str]] = {name: set() for name in self.modules}
        for name, path in self.modules.items():
            for imported in self._imports(path):
                if imported != name:
                    importers[imported].add(name)
        return importers

    def _imports(self, path: Path) -> Iterator[str]:
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module:
                for alias in node.names:
                    whole = f"{node.module}.{alias.name}"
                    yield from {whole if whole in self.modules else node.module} & set(self.modules)
            elif isinstance(node, ast.Import):
                yield from {alias.name for alias in node.names} & set(self.modules)

    @property
    def functions(self) -> list[int]:
        """The length of every function, in lines."""
        return [
            (node.end_lineno or node.lineno) - node.lineno + 1
            for path in self.modules.values()
            for node in ast.walk(ast.parse(path.read_text("utf-8")))
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        ]

    @property
    def packages(self) -> Counter[str]:
        """How many modules each package has, without its `__init__`."""
        paths = (path for path in self.modules.values() if path.name != "__init__.py")
        return Counter(str(path.parent.relative_to(self.root)) for path in paths)

    def words(self, *patterns: str) -> int:
        """Count the words of the files that match."""
        return sum(len(path.read_text("utf-8").split()) for path in self._files(*patterns))

    def lines(self, *patterns: str) -> int:
        """Count the lines of the files that match."""
        return sum(_lines(path) for path in self._files(*patterns))

    def _files(self, *patterns: str) -> Iterator[Path]:
        for pattern in patterns:
            yield from self.root.glob(pattern)


def _lines(path: Path) -> int:
    return len(path.read_text("utf-8").splitlines())


def measure(tree: Tree) -> dict[str, str]:
    """Return the figures of a tree, as they are printed."""
    functions = tree.functions
    sizes = statistics.quantiles(functions, n=100)
    single = [name for name, importers in tree.importers.items() if len(importers) == 1]
    small = [name for name in single if _lines(tree.modules[name]) < SMALL_MODULE_LINES]
    busiest = sorted(tree.importers, key=lambda name: -len(tree.importers[name]))[:10]
    package, modules = tree.packages.most_common(1)[0]
    return {
        "product files": f"{len(tree.modules):,}",
        "product lines": f"{tree.lines('mailagent/**/*.py'):,}",
        "most modules in a package": f"{modules} ({package})",
        "lines of a function, p50 / p95": f"{sizes[49]:.0f} / {sizes[94]:.0f}",
        "modules with a single importer": f"{len(single)}, {len(small)} under 60 lines",
        "imports per module": f"{sum(map(len, tree.importers.values())) / len(tree.modules):.1f}",
        "importers of the busiest ten": " ".join(
            str(len(tree.importers[name])) for name in busiest
        ),
        "lines of tests and programs": f"{tree.lines('tests/**/*.py'):,}",
        "words in README and docs": f"{tree.words('README.md', 'docs/*.md', 'docs/deploy/**/*.md'):,}",
        "words in decisions": f"{tree.words('docs/decisions/*.md'):,}",
    }


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser("python -m tests.programs.structure", description=__doc__)
    parser.add_argument("trees", nargs="*", type=Path, help="checkouts; default: this one")
    trees = [Tree(each) for each in parser.parse_args().trees or [ROOT]]
    columns = [measure(tree) for tree in trees]
    for name in columns[0]:
        print(f"{name:34}" + "".join(f"{column[name]:40}" for column in columns))


if __name__ == "__main__":
    main()
