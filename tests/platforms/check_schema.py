"""Compare our stand-in for Shopify's schema with the published one.

`python -m tests.platforms.check_schema FILE`: FILE is `dist/data/admin_<version>.json.gz` of the npm package
@shopify/dev-mcp. Prints what the stand-in has and Shopify has not, or has otherwise; then it exits with 1.
"""

from __future__ import annotations

import gzip
import json
import sys
from pathlib import Path

from graphql import build_client_schema, build_schema
from graphql.utilities import find_breaking_changes

from mailagent.adapters.shopify.client import VERSION

STAND_IN = Path(__file__).with_name(f"shopify_{VERSION}.graphql")
# Enums of all currencies and countries there, and any text here; a directive of the language itself.
KNOWN = ("CountryCode", "CurrencyCode", "DIRECTIVE_DEFINITION was removed from @deprecated")


def main(file: str) -> int:
    published = build_client_schema(json.loads(gzip.decompress(Path(file).read_bytes()))["data"])
    stand_in = build_schema(STAND_IN.read_text("utf-8"))
    found = [each.description for each in find_breaking_changes(stand_in, published)]
    wrong = [each for each in found if not each.startswith(KNOWN)]
    print("\n".join(wrong) or f"agrees with Shopify's Admin API {VERSION}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
