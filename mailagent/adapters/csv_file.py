"""Small CSV files (RFC 4180) for people with a spreadsheet program."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Iterator, Sequence

# Spreadsheet programs take a cell that begins with one of these characters for a formula (OWASP, CSV
# injection). If a program's list separator is the semicolon, as in Germany, it also begins a cell behind a
# semicolon, and a row behind a line break, even inside our quotation marks.
_FORMULA = re.compile(
    r"\A(?=[\t\r\n])|(?:\A|(?<=[;\t\r\n]))(?=[^\S\r\n]*[=+\-@\uff1d\uff0b\uff0d\uff20])"
)

# Excel on Windows reads a file as UTF-8 only if it begins with this.
BYTE_ORDER_MARK = "\ufeff"


def plain_cell(text: str) -> str:
    """Return a cell with an apostrophe before what spreadsheet programs would take for a formula."""
    return _FORMULA.sub("'", text)


def write_csv(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return the text of a CSV file with these columns and rows."""
    file = io.StringIO()
    writer = csv.writer(file)
    writer.writerow(heads)
    writer.writerows([plain_cell(cell) for cell in row] for row in rows)
    return file.getvalue()


def read_csv(data: bytes) -> Iterator[tuple[int, dict[str, str]]]:
    """Yield the line number of each row that is not empty, and its cells by the column's name in lower case.
    Commas or semicolons separate cells. Raises UnicodeDecodeError, or csv.Error for what is no CSV."""
    text = data.decode("utf-8-sig")
    first = text.partition("\n")[0]
    delimiter = ";" if first.count(";") > first.count(",") else ","
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    heads = [cell.strip().lower() for cell in next(reader, [])]
    for cells in reader:
        if any(cell.strip() for cell in cells):
            yield reader.line_num, dict(zip(heads, map(str.strip, cells), strict=False))
