"""Cut Shopify's schema down to what our queries use: `python -m tests.platforms.trim_schema FILE`.

FILE is `dist/data/admin_<version>.json.gz` of the npm package @shopify/dev-mcp (1.16.0, ISC licence). Each type
that a query touches keeps the touched fields, with all their arguments; inputs and enums are kept whole.
"""

from __future__ import annotations

import gzip
import json
import sys
from collections import defaultdict
from pathlib import Path

from graphql import (
    FieldNode,
    GraphQLEnumType,
    GraphQLInputObjectType,
    GraphQLInterfaceType,
    GraphQLNamedType,
    GraphQLObjectType,
    GraphQLSchema,
    TypeInfo,
    TypeInfoVisitor,
    Visitor,
    build_client_schema,
    parse,
    visit,
)
from graphql.utilities import lexicographic_sort_schema, print_schema

from mailagent.adapters.shopify import queries

SCHEMA = Path(__file__).with_name(f"shopify_{queries.VERSION}.graphql")


class _Used(Visitor):
    def __init__(self, info: TypeInfo, fields: dict[str, set[str]]) -> None:
        super().__init__()
        self._info, self._fields = info, fields

    def enter_field(self, node: FieldNode, *_rest: object) -> None:
        parent = self._info.get_parent_type()
        if parent is not None:
            self._fields[parent.name].add(node.name.value)


def main(file: str) -> None:
    """Write the schema."""
    whole = build_client_schema(json.loads(gzip.decompress(Path(file).read_bytes()))["data"])
    fields: dict[str, set[str]] = defaultdict(set)
    for query in queries.ALL:
        info = TypeInfo(whole)
        visit(parse(query), TypeInfoVisitor(info, _Used(info, fields)))
    trimmed = lexicographic_sort_schema(_trim(whole, fields))
    text = print_schema(trimmed)
    SCHEMA.write_text(_HEAD.format(version=queries.VERSION) + text + "\n", "utf-8")


_HEAD = """\
# Shopify's Admin API {version}, as in the npm package @shopify/dev-mcp 1.16.0, without what we do not use.
# Written by tests.platforms.trim_schema.
#
# ISC License. Copyright 2025-present, Shopify Inc. Permission to use, copy, modify, and/or distribute
# this software for any purpose with or without fee is hereby granted, provided that the above copyright
# notice and this permission notice appear in all copies. THE SOFTWARE IS PROVIDED "AS IS" AND THE AUTHOR
# DISCLAIMS ALL WARRANTIES WITH REGARD TO THIS SOFTWARE INCLUDING ALL IMPLIED WARRANTIES OF
# MERCHANTABILITY AND FITNESS. IN NO EVENT SHALL THE AUTHOR BE LIABLE FOR ANY SPECIAL, DIRECT, INDIRECT,
# OR CONSEQUENTIAL DAMAGES OR ANY DAMAGES WHATSOEVER RESULTING FROM LOSS OF USE, DATA OR PROFITS, WHETHER
# IN AN ACTION OF CONTRACT, NEGLIGENCE OR OTHER TORTIOUS ACTION, ARISING OUT OF OR IN CONNECTION WITH THE
# USE OR PERFORMANCE OF THIS SOFTWARE.

"""


def _trim(schema: GraphQLSchema, fields: dict[str, set[str]]) -> GraphQLSchema:
    kept: list[GraphQLNamedType] = []
    for named in schema.type_map.values():
        named.description = None
        if isinstance(named, GraphQLObjectType | GraphQLInterfaceType):
            _trim_fields(named, fields[named.name])
            if fields[named.name]:
                kept.append(named)
        elif isinstance(named, GraphQLInputObjectType):
            for each in named.fields.values():
                each.description = None
        elif isinstance(named, GraphQLEnumType):
            for value in named.values.values():
                value.description = None
    for directive in schema.directives:
        directive.description = None
        for argument in directive.args.values():
            argument.description = None
    return GraphQLSchema(
        query=schema.query_type, mutation=schema.mutation_type, types=kept, directives=schema.directives
    )  # fmt: skip


def _trim_fields(named: GraphQLObjectType | GraphQLInterfaceType, wanted: set[str]) -> None:
    implemented = [each for each in named.interfaces if each.name == "Node"]
    named.interfaces = tuple(implemented)
    wanted = wanted | ({"id"} if implemented or named.name == "Node" else set())
    for name in list(named.fields):
        if name not in wanted:
            del named.fields[name]
            continue
        field = named.fields[name]
        field.description = None
        for argument in field.args.values():
            argument.description = None


if __name__ == "__main__":
    main(sys.argv[1])
