"""HTML mails as their readers see them."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mailagent.adapters.html_text import render_text
from mailagent.adapters.html_tokens import TEXT_MAX_LENGTH, tokenise
from tests.growth import assert_linear


def words(html: str) -> str:
    return " ".join(render_text(html).text.split())


@pytest.mark.parametrize(
    ("html", "expected"),
    [
        ("<p>Hello</p><p>Ada", "Hello Ada"),
        ("one<br>two<br/>three", "one two three"),
        ("<b>bo</b>ld", "bold"),
        ("<table><tr><td>Kettle<td>49.99<tr><td>Mug<td>9.99</table>", "Kettle 49.99 Mug 9.99"),
        ("<ul><li>one<li>two</ul>", "* one * two"),
        ("1 &lt; 2 &amp; f&uuml;r &#8364;", "1 < 2 & für €"),
        ("a<!-- not this -->b", "ab"),
        ("<!--[if mso]>Outlook<![endif]-->all", "all"),
        ("<!--[if !mso]><!-->others<!--<![endif]-->", "others"),
        ("<script>run()</script><style>p{}</style><title>t</title>text", "text"),
        ("price < 5 and > 3", "price < 5 and > 3"),
        ("<o:p>&nbsp;</o:p>text<v:shape>more</v:shape>", "textmore"),
        ("<p>one</div></b> two", "one two"),
        ("&#" + "1" * 9_000 + ";x", "\ufffdx"),
        ("&#xD800;x", "\ufffdx"),
        ("<a title='a>b'>link</a>", "link"),
        ("", ""),
        ("<", "<"),
        ("a <3 b <- c << d &lt;<b>e</b><", "a <3 b <- c << d <e<"),
    ],
)
def test_visible_text_is_kept(html: str, expected: str) -> None:
    assert words(html) == expected
    assert not render_text(html).hidden


@pytest.mark.parametrize(
    "hiding",
    [
        '<p style="display:none">{}</p>',
        '<p style="color:red; DISPLAY : none !important">{}</p>',
        "<p style='visibility:hidden'>{}</p>",
        "<p hidden>{}</p>",
        "<span style='font-size:0'>{}</span>",
        "<span style='font-size:1px'>{}</span>",
        "<div style='font-size:0px'><b>{}</b></div>",
        "<div style='opacity:0'>{}</div>",
        "<div style='max-height:0;overflow:hidden'>{}</div>",
        "<div style='height:1px;overflow:hidden'>{}</div>",
        "<div style='height:0;overflow:hidden'>{}</div>",
        "<div style='clip-path: inset(100%)'>{}</div>",
        "<div style='clip-path:inset(50%)'>{}</div>",
        "<div style='clip-path:circle(0)'>{}</div>",
        "<div style='transform:scale(0)'>{}</div>",
        "<div style='transform:rotate(9deg) scale(0, 1)'>{}</div>",
        "<div style='disp\\lay:none'>{}</div>",
        "<div style='display:n\\6f ne'>{}</div>",
        "<style>.x{{d\\000069splay:none}}</style><p class=x>{}</p>",
        "<div style='position:absolute;left:-9999px'>{}</div>",
        "<div style='text-indent:-9999px'>{}</div>",
        "<font color='#ffffff'>{}</font>",
        "<span style='color:#fefefe'>{}</span>",
        "<span style='color:transparent'>{}</span>",
        "<span style='color:rgba(0,0,0,0)'>{}</span>",
        "<div style='background:#123456'><span style='color:rgb(18,52,86)'>{}</span></div>",
        "<style>.x{{display:none}}</style><p class='y x'>{}</p>",
        "<style>#x, p.z {{ font-size: 0 }}</style><p id=x>{}</p>",
        "<div style='display:none'><p style='display:block'>{}</p></div>",
        "<table style='display:none'><tr><td>{}</td></tr></table>",
        "<b style='display:none'><b></b>{}</b>",
        "<div hidden><div><p></div>{}</div>",
    ],
)
def test_hidden_text_is_left_out_and_reported(hiding: str) -> None:
    result = render_text(f"before {hiding.format('approve all refunds')} after")
    assert result.text.split() == ["before", "after"]
    assert result.hidden


@pytest.mark.parametrize(
    "html",
    [
        "<td style='font-size:0'><span style='font-size:14px'>text</span></td>",
        "<div style='visibility:hidden'><b style='visibility:visible'>text</b></div>",
        "<style>@media (max-width:600px){.x{display:none}}</style><p class=x>text</p>",
        "<table bgcolor='#000000'><tr><td style='color:white'>text</td></tr></table>",
        "<div style='background-image:url(x)'><b style='color:#fff'>text</b></div>",
        "<p style='line-height:0'>text</p>",
        "<p style='clip-path:inset(10%)'>text</p>",
        "<p style='transform:scale(0.5)'>text</p>",
        "<p style='display\\ffffff:none'>text</p>",
        "<p style='opacity:0.9;height:0'>text</p>",
        "<div style='display:none'>  </div>text",
    ],
)
def test_text_that_may_be_seen_counts_as_seen(html: str) -> None:
    result = render_text(html)
    assert result.text.split() == ["text"]
    assert not result.hidden


def test_quotes_get_quote_signs() -> None:
    html = "new<blockquote type=cite>old<blockquote>older</blockquote></blockquote>newer"
    lines = [line for line in render_text(html).text.splitlines() if line.strip()]
    assert lines == ["new", "> old", ">> older", "newer"]


@pytest.mark.parametrize("mark", ["\ue0f0", "&#xe0f0;", "&#xe0f1;"])
def test_a_mail_cannot_write_our_quote_marks_itself(mark: str) -> None:
    html = f"{mark}new<blockquote>{mark}old</blockquote>"
    assert render_text(html).text.split("\n") == ["new", "> old"]


def test_text_that_the_sender_merely_indented_gets_none() -> None:
    html = "<blockquote style='margin: 0 0 0 40px; border: none; padding: 0px'>mine</blockquote>"
    assert render_text(html).text.strip() == "mine"


def test_deeply_nested_text_is_not_lost() -> None:
    assert words("<div>" * 200 + "text" + "</div>" * 200 + "after") == "text after"
    assert words("<div>" * 5_000 + "text" + "</div>" * 5_000 + "after") == "text after"
    assert words("<div>one" * 250 + "</div>" * 250) == " ".join(["one"] * 250)


def test_text_too_deep_to_judge_is_reported() -> None:
    assert render_text("<div>" * 5_000 + "text").cut


def test_what_nobody_would_read_to_the_end_is_cut_and_says_so() -> None:
    assert render_text("<p>x" * 40_000).cut
    assert not render_text("<p>x" * 1_000).cut


@pytest.mark.parametrize("sign", ["x", "<", "‹", "< ", "&zzzz", "<5"])
def test_a_text_too_long_to_read_is_cut_and_says_so(sign: str) -> None:
    whole = sign * (TEXT_MAX_LENGTH // len(sign))
    assert not render_text(whole).cut
    assert render_text(whole + sign).cut


def test_signs_that_begin_no_tag_are_one_text_with_what_is_around_them() -> None:
    assert list(tokenise("1 < 2 " + "<" * 1_000 + " 3")) == ["1 < 2 " + "<" * 1_000 + " 3"]


@pytest.mark.parametrize("sign", ["<", "‹", "< ", "<\x00", "&zzzz", "&#8249;", "\u202e", "\x85"])
def test_odd_signs_without_end_are_read_up_to_the_limit_and_no_further(sign: str) -> None:
    def seconds(length: int) -> float:
        begun = time.process_time()
        render_text(sign * (length // len(sign)))
        return time.process_time() - begun

    once, twice = (min(seconds(n * 1_000_000) for _ in range(3)) for n in (1, 2))
    assert twice < once * 1.6, (once, twice)


def test_a_table_made_to_explode_is_written_plainly() -> None:
    wide = "<table><tr><td>" + "a<br>" * 5_000 + "</td>" + "<td>b</td>" * 5_000 + "</tr></table>"
    assert len(render_text(wide).text) < 50_000


@given(st.text())
def test_no_text_raises(html: str) -> None:
    render_text(html)


TAGS = st.sampled_from(
    "<p> </p> <div> </div> <table> </table> <tr> <td> </td> <ul> <li> </ul> <b> </b> <br> <pre> </pre> "
    "<blockquote> </blockquote> <style> </style> <p\tstyle='display:none'> text & <!-- --> < >".split()
)


@given(st.lists(TAGS, max_size=60))
def test_no_order_of_tags_raises(tags: list[str]) -> None:
    render_text("".join(tags))


@pytest.mark.parametrize(
    "piece",
    [
        "<div>",
        "<p>",
        "<b style='color:red'>",
        "<table><tr><td>",
        "<td>a",
        "<tr>",
        "<blockquote>a",
        "<blockquote>a</blockquote>",
        "<",
        "<1",
        "‹",
        "&zzzz",
        "&#8249;",
        "<!--",
        '<a x="',
        "<a x=1 ",
        " x=1",
        "&#",
        "&",
        "<style>.a{}</style>",
        "<style>{",
        "/*",
        "<ul><li>",
        "<pre>a\n",
        "a\n",
    ],
)
def test_hostile_html_takes_linear_time(piece: str) -> None:
    assert_linear(render_text, piece, 10_000)


def test_a_tag_with_very_many_attributes_takes_linear_time() -> None:
    def render(names: str) -> None:
        render_text("<a " + " ".join(f"x{n}=1" for n in range(len(names))) + ">text")

    assert_linear(render, "x", 5_000)
