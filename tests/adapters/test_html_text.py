"""HTML mails as their readers see them."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mailagent.adapters.html.styles import SHEETS_MAX_LENGTH
from mailagent.adapters.html.text import TEXT_MAX_LENGTH, HtmlText, render_text
from mailagent.adapters.html.tree import TAGS_MAX
from mailagent.adapters.html.visibility import READ, is_understood
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


HIDING = [
    "<p style='inline-size:0;overflow:clip'>{}</p>",
    "<p style='max-block-size:0;overflow:hidden'>{}</p>",
    "<p style='position:absolute;top:99999px'>{}</p>",
    "<p style='margin-top:99999px'>{}</p>",
    "<p style='padding:0 0 0 99999px'>{}</p>",
    "<p style='margin-inline:-9999px'>{}</p>",
    "<p style='position:absolute;inset-inline-start:-9999px'>{}</p>",
    "<p style='transform:translateY(99999px)'>{}</p>",
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
    "<style>.x{d\\000069splay:none}</style><p class=x>{}</p>",
    "<div style='position:absolute;left:-9999px'>{}</div>",
    "<div style='text-indent:-9999px'>{}</div>",
    "<font color='#ffffff'>{}</font>",
    "<span style='color:#fefefe'>{}</span>",
    "<span style='color:transparent'>{}</span>",
    "<span style='color:rgba(0,0,0,0)'>{}</span>",
    "<div style='background:#123456'><span style='color:rgb(18,52,86)'>{}</span></div>",
    "<style>.x{display:none}</style><p class='y x'>{}</p>",
    "<style>#x, p.z { font-size: 0 }</style><p id=x>{}</p>",
    "<div style='display:none'><p style='display:block'>{}</p></div>",
    "<table style='display:none'><tr><td>{}</td></tr></table>",
    "<b style='display:none'><b></b>{}</b>",
    "<div hidden><div><p></div>{}</div>",
    "<style>.x{display:none}@media (max-width:600px){.x{display:block}}</style><p class=x>{}</p>",
    "<span style='color:#ffffffff'>{}</span>",
    "<span style='color:#00000000'>{}</span>",
    "<span style='color:#0000'>{}</span>",
    "<span style='font:0/0 a'>{}</span>",
    "<span style='font:400 0px Arial'>{}</span>",
    "<span style='font-size:0.01em'>{}</span>",
    "<span style='font-size:5%'>{}</span>",
    "<span style='font-size:0.1rem'>{}</span>",
    "<div style='font-size:20%'><div style='font-size:40%'>{}</div></div>",
    "<style>div .x{display:none}</style><div><p class=x>{}</p></div>",
    "<style>@media screen{.x{display:none}}</style><p class=x>{}</p>",
    "<style>@media all and (min-width:1px){.x{display:none}}</style><p class=x>{}</p>",
    "<style media=screen>.x{display:none}</style><p class=x>{}</p>",
    "<p class=x>{}</p><style>.x{display:none}</style>",
    "<div style='background:#123'><p style='color:#112233'>{}</p></div>",
    "<p style='background:red;color:#f00'>{}</p>",
    "<p style='color:hsl(0,0%,100%)'>{}</p>",
    "<p style='color:hsl(0 0% 99%)'>{}</p>",
    "<p style='color:hsl(0 0% 0% / 0)'>{}</p>",
    "<p style='color:rgb(100% 100% 100%)'>{}</p>",
    "<p style='color:rgba(255,255,255,1)'>{}</p>",
    "<p style='color:snow'>{}</p>",
    "<p style='color:rgb(0 0 0 / 1%)'>{}</p>",
    "<p style='transform:translateX(-9999px)'>{}</p>",
    "<p style='transform:translate(-200vw,0)'>{}</p>",
    "<p style='-webkit-transform:scale(0)'>{}</p>",
    "<p style='transform:matrix(0,0,0,0,0,0)'>{}</p>",
    "<p style='transform:rotateY(90deg)'>{}</p>",
    "<p style='translate:-9999px'>{}</p>",
    "<p style='scale:0'>{}</p>",
    "<p style='filter:opacity(0)'>{}</p>",
    "<p style='filter:alpha(opacity=0)'>{}</p>",
    "<p style='filter:opacity(0%)'>{}</p>",
    "<p style='opacity:0%'>{}</p>",
    "<p style='opacity:.01'>{}</p>",
    "<body bgcolor=#000><font color=black>{}</font></body>",
    "<body text=#ffffff>{}</body>",
    "<table bgcolor=red><tr><td><font color=red>{}</font></table>",
    "<p style='position:absolute;top:-9999px'>{}</p>",
    "<p style='position:fixed;right:-9999px'>{}</p>",
    "<p style='position:absolute;clip:rect(0,0,0,0)'>{}</p>",
    "<p style='position:absolute;clip:rect(1px 1px 1px 1px)'>{}</p>",
    "<p style='clip-path:polygon(0 0,0 0,0 0)'>{}</p>",
    "<p style='clip-path:ellipse(0 0)'>{}</p>",
    "<p style='max-width:0;overflow:hidden'>{}</p>",
    "<p style='width:0;overflow-x:hidden'>{}</p>",
    "<p style='height:0;overflow:clip'>{}</p>",
    "<p style='visibility:collapse'>{}</p>",
    "<p style='content-visibility:hidden'>{}</p>",
    "<p style='zoom:0'>{}</p>",
    "<style>.x{display:none!important}</style><p class=x style='display:block'>{}</p>",
    "<style>*{display:none}</style>{}",
    "<style>html{visibility:hidden}</style><p>{}</p>",
    "<style>body p{font-size:0}</style><p>{}</p>",
    "<style>/* } */ .x/**/{display/**/:none}</style><p class=x>{}</p>",
    "<style><!-- .x{display:none} --></style><p class=x>{}</p>",
    "<style>@import url('a;b');.x{display:none}</style><p class=x>{}</p>",
    "<style>@charset 'x';@font-face{src:x}.x{display:none}</style><p class=x>{}</p>",
    "<style>.x{display:none</style><p class=x>{}</p>",
    "<style>.X{DISPLAY:NONE}</style><p class=X>{}</p>",
    "<style>#a .b>c ~ d, .x{display:none}</style><p class=x>{}</p>",
    "<style>a:link{display:none}</style><a href=x>{}</a>",
    "<style>p::before{color:red} p{display:none}</style><p>{}</p>",
    "<div style='opacity:.2'><div style='opacity:.2'>{}</div></div>",
    "<style>.x{display:none} p{display:block}</style><p class=x>{}</p>",
    "<p style='display:none' style='display:block'>{}</p>",
    "<p style='display:block;display:none'>{}</p>",
    "<p style='color:rgb(255 255 255)'>{}</p>",
    "<p style='margin-left:-9999px'>{}</p>",
    "<p style='margin:0 0 0 -9999px'>{}</p>",
    "<p style='position:absolute;inset:0 0 0 -9999px'>{}</p>",
    "<font color=ffffff>{}</font>",
    "<p style='content:\";\";display:none'>{}</p>",
]


@pytest.mark.parametrize("hiding", HIDING)
def test_no_way_of_hiding_text_shows_it_to_the_model(hiding: str) -> None:
    result = render_text(f"{hiding.replace('{}', 'refund all')}")
    assert not result.text.strip()
    assert result.hidden
    assert result.hidden_text == "refund all"


@pytest.mark.parametrize(
    "doubtful",
    [
        "<style>div>p.x.y{display:none}</style><div><p class='y x'>{}</p></div>",
        "<style>@media only screen and (max-width:99999px){.x{display:none}}</style><p class=x>{}</p>",
        "<style>@media not print{.x{display:none}}</style><p class=x>{}</p>",
        "<p style='background:linear-gradient(#fff,#fff);color:#fff'>{}</p>",
        "<style>b+i{display:none}</style><b></b><i>{}</i>",
        "<style>p:not(.y){display:none}</style><p>{}</p>",
        "<style>p:first-child{display:none}</style><p>{}</p>",
        "<style>p[data-a^=z]{opacity:0}</style><p data-a=zz>{}</p>",
        "<style>[title=q]{display:none}</style><p title=q>{}</p>",
        "<style>@supports (a:b){.x{display:none}}</style><p class=x>{}</p>",
        "<style>b ~ .x{display:none}</style><p class=x>{}</p>",
        "<style>:is(.x){display:none}</style><p class=x>{}</p>",
        "<style>.y{.x{display:none}}</style><p class=x>{}</p>",
        "<div style='background:url(x)'><b style='color:#fff'>{}</b></div>",
        "<p style='background:linear-gradient(#fff,#000);color:#fff'>{}</p>",
        "<style>:not(:not(.x)){display:none}</style><p class=x>{}</p>",
    ],
)
def test_text_that_only_some_people_see_is_kept_and_flagged(doubtful: str) -> None:
    result = render_text(doubtful.replace("{}", "text"))
    assert result.text.split() == ["text"]
    assert result.hidden
    assert not result.hidden_text


@pytest.mark.parametrize(
    "html",
    [
        "<body bgcolor='#000000' text='#ffffff'>{}</body>",
        "<style>@media (prefers-color-scheme:dark){.x{display:none}}</style><p class=x>{}</p>",
        "<body bgcolor='#000000' text='#ffffff'><table><tr><td>{}</table>",
        "<body style='background:#000;color:#fff'>{}",
        "<style>body{background:black}p{color:white}</style><p>{}</p>",
        "<style>@media print{.x{display:none}}</style><p class=x>{}</p>",
        "<style>.x{display:none}.x{display:block}</style><p class=x>{}</p>",
        "<style>.x{display:none} p.x{display:block}</style><p class=x>{}</p>",
        "<style>.x{display:none}</style><p class=x style='display:block'>{}</p>",
        "<style>.x .y{display:none}</style><p class=y>{}</p>",
        "<style>a:hover{display:none}</style><a href=x>{}</a>",
        "<body text=#fff><a href=x>{}</a>",
        "<p style='color:windowtext'>{}</p>",
        "<p style='color:gray'>{}</p>",
        "<p style='color:#ccc'>{}</p>",
        "<div style='font-size:0'><div style='font-size:12px'>{}</div></div>",
        "<p style='position:relative;left:10px;top:-5px'>{}</p>",
        "<p style='clip:rect(0,0,0,0)'>{}</p>",
        "<p style='left:-9999px'>{}</p>",
        "<p style='height:0;min-height:100px;overflow:hidden'>{}</p>",
        "<p style='color:#ff0'>{}</p>",
        "<style>@media (max-width:600px){.x{display:none!important}}</style><p class=x>{}</p>",
        "<p style='font:italic bold 12px/30px Georgia,serif'>{}</p>",
        "<p style=\"font-family:'x;display:none'\">{}</p>",
        "<p style='background:url(data:a;display:none)'>{}</p>",
        "<p style='background:#000 url(x);color:#fff'>{}</p>",
        "<p style='width:100%;overflow:hidden;max-width:calc(100% - 2px)'>{}</p>",
        "<p style='color:red!ie'>{}</p>",
        "<!--[if mso]><style>.x{display:none}</style><![endif]--><p class=x>{}</p>",
        "<p style='display:none;display:block'>{}</p>",
        "<td style='font-size:0'><span style='font-size:14px'>text</span></td>",
        "<div style='visibility:hidden'><b style='visibility:visible'>text</b></div>",
        "<style>@media (max-width:600px){.x{display:none}}</style><p class=x>text</p>",
        "<table bgcolor='#000000'><tr><td style='color:white'>text</td></tr></table>",
        "<p style='line-height:0'>text</p>",
        "<p style='clip-path:inset(10%)'>text</p>",
        "<p style='transform:scale(0.5)'>text</p>",
        "<p style='display\\ffffff:none'>text</p>",
        "<p style='opacity:0.9;height:0'>text</p>",
        "<div style='display:none'>  </div>text",
        "<div style='position:absolute;top:50%;left:50%;transform:translate(-50%,-50%)'>text</div>",
        "<p style='translate:-50% -50%'>text</p>",
        "<div style='font-size:0'><font size=3>text</font></div>",
        "<div style='font-size:0'><p style='font-size:1rem'>text</p></div>",
        "<span style='width:0;overflow:hidden'>text</span>",
        "<table><tr><td style='width:0;height:0;overflow:hidden'>text</td></tr></table>",
        "<div style='max-width:0;min-width:100%;overflow:hidden'>text</div>",
        "<div style='display:none;display:-webkit-box'>text</div>",
        "<p style='letter-spacing:-0.5px;line-height:1;overflow:hidden'>text</p>",
        "<p style='rotate:5deg'>text</p>",
        "<p style='position:absolute;right:50%'>text</p>",
        "<p style='position:absolute;left:50%;margin-left:-50%'>text</p>",
        "<div style='font-size:0'><p style='font-size:xxx-large'>text</p></div>",
        "<p style='font-size:14'>text</p>",
        "<p style='margin:1em 2em 0;padding:0 10px;filter:grayscale(1)'>text</p>",
        "<p style='transform:rotate(-3deg) scale(.9);transform-origin:0 0'>text</p>",
        "<p style='height:20px;overflow:hidden'>text</p>",
    ],
)
def test_visible_text_is_neither_lost_nor_flagged(html: str) -> None:
    result = render_text(html.replace("{}", "text"))
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


def test_a_table_made_to_explode_is_written_plainly() -> None:
    wide = "<table><tr><td>" + "a<br>" * 5_000 + "</td>" + "<td>b</td>" * 5_000 + "</tr></table>"
    text = render_text(wide).text
    assert (text.count("a"), text.count("b")) == (5_000, 5_000)
    assert len(text) < 50_000


@given(st.text())
def test_no_text_raises(html: str) -> None:
    render_text(html)


TAGS = st.sampled_from(
    "<p> </p> <div> </div> <table> </table> <tr> <td> </td> <ul> <li> </ul> <b> </b> <br> <pre> </pre> "
    "<blockquote> </blockquote> <style> </style> <p\tstyle='display:none'> text & <!-- --> < > "
    "p{color:red} .x{ } @media\tscreen{ <p\tclass=x> <html> <body\ttext=#fff> <head> <select> <svg> "
    "<textarea> <plaintext> <details> <a\thref=x> </a>".split()
)


@given(st.lists(TAGS, max_size=60))
def test_no_order_of_tags_raises(tags: list[str]) -> None:
    render_text("".join(tags))


@pytest.mark.parametrize(
    "piece",
    [
        *(
            "<div>",
            "<p>",
            "<b style='color:red'>",
            "<table><tr><td>",
            "<td>a",
            "<ul><li>",
            "<pre>a\n",
        ),
        *(
            "<blockquote>a",
            "<blockquote>a</blockquote>",
            "a\n",
            "<",
            "<1",
            "‹",
            "&zzzz",
            "&#8249;",
            "&#",
        ),
        *(
            "<!--",
            '<a x="',
            "<a x=1 ",
            " x=1",
            "<style>.a{}</style>",
            "<style>{",
            "</html>",
            "<script>",
        ),
    ],
)
def test_hostile_html_takes_linear_time(piece: str) -> None:
    assert_linear(render_text, piece, 10_000)


@pytest.mark.parametrize(
    ("start", "piece", "end"),
    [
        ("<b>x" * 4_001, "<blockquote ", ""),
        ("", "</html ", "x"),
        ("<style>@media ", " ", "x{a{b:c}}</style>x"),
        ("<style>@media screen", " ", "x{a{b:c}}</style>x"),
        ("<style>" + "a," * 2_000 + "a{", "@media{top:1px}", "}</style>x"),
    ],
)
def test_tags_and_rules_that_do_not_end_take_linear_time(start: str, piece: str, end: str) -> None:
    assert_linear(lambda inner: render_text(start + inner + end), piece, 10_000)


def test_more_selectors_than_we_read_make_a_mail_doubtful() -> None:
    rules = "a," * 10_000 + "a{" + "@media{top:1px}" * 3 + "}"
    assert render_text(f"<style>{rules}</style>x").hidden


@pytest.mark.parametrize(
    "piece",
    [
        *(
            '"a"',
            "'",
            '"\\"',
            "\\",
            "{",
            "}",
            "(",
            "/*",
            "<!--",
            "a ",
            "p,",
            ".x>",
            "\\61 ",
            "color:red;",
        ),
        *(
            "@media x{",
            "@import 'x';",
            "a{}",
            "p{color:red;",
            "p:not(",
            "a{font:0/0 a;",
            "--x:var(--x);",
        ),
    ],
)
def test_a_hostile_style_sheet_takes_linear_time_and_not_much(piece: str) -> None:
    def render(css: str) -> None:
        render_text(f"<style>{css}</style><p class=x style='color:red'>text<p>more")

    assert_linear(render, piece, 50_000)
    begun = time.process_time()
    render((piece * 1_000_000)[:1_000_000])
    assert time.process_time() - begun < 0.5  # up to 75 ms were measured


@pytest.mark.parametrize("piece", ["1", "1.", "-", "a", "1px", "1 ", " ", "0,", "(", "scale(1)"])
@pytest.mark.parametrize("name", sorted(READ))
def test_a_hostile_value_takes_linear_time(name: str, piece: str) -> None:
    def read(value: str) -> None:
        is_understood(name, f"{value}_")

    assert_linear(read, piece, 3)  # each digit more doubled the time: 24 digits took seconds
    assert_linear(read, piece, 100)


@pytest.mark.parametrize(
    ("width", "text"),
    [("0 auto", ""), ("1px2px", ""), ("1px_", ""), ("20px", "text"), ("20px  1.5em -2%", "text")],
)
def test_a_value_that_mail_programs_ignore_leaves_the_one_before(width: str, text: str) -> None:
    html = f'<p style="overflow:hidden;width:0;width:{width}">text</p>'
    assert render_text(html).text.strip() == text


@pytest.mark.parametrize(
    "selector",
    [
        "p{n}",
        ".x{n} p",
        "p p p p p p",
        "[class=x]",
        "p:not(.y)",
        "p~p",
        "p:has(b)",
        "*",
        "p:nth-child({n})",
        "p:not(b ~ p)",
        ":root p",
    ],
)
def test_rules_times_elements_are_bounded(selector: str) -> None:
    def render(count: int) -> HtmlText:
        rules = "".join(
            f"{selector.replace('{n}', str(n))}{{color:#{n:06x}}}" for n in range(count)
        )
        return render_text(f"<style>{rules}</style>" + "<p class=x>text" * 1_000)

    begun = time.process_time()
    result = render(3_000)
    assert time.process_time() - begun < 1  # most of it for laying out the text
    assert "text" in result.text


@pytest.mark.parametrize(
    "piece", ["<div>", "<font color=red>", "<table><tr><td>", "<b><p>", "<a href=x>"]
)
def test_deep_nesting_with_a_style_sheet_takes_linear_time(piece: str) -> None:
    def render(html: str) -> None:
        render_text(f"<style>div div div p{{color:red}}</style>{html}")

    assert_linear(render, piece, 5_000)


def test_styles_beyond_what_is_read_flag_the_mail() -> None:
    many = ".a{color:red}" * (SHEETS_MAX_LENGTH // 12)
    result = render_text(f"<style>{many}.x{{display:none}}</style><p class=x>text")
    assert result.text.split() == ["text"]
    assert result.hidden


def test_a_tag_with_very_many_attributes_takes_linear_time() -> None:
    def render(names: str) -> None:
        render_text("<a " + " ".join(f"x{n}=1" for n in range(len(names))) + ">text")

    assert_linear(render, "x", 5_000)


@pytest.mark.parametrize(
    "style",
    [
        "display:none;display:x",
        "visibility:hidden;visibility:x",
        "opacity:0;opacity:x",
        "color:white;color:notacolour",
        "position:absolute;left:-9999px;left:foo",
        "max-height:0;overflow:hidden;max-height:bar",
        "text-indent:-9999px;text-indent:zzz",
        "transform:scale(0);transform:foo",
        "clip-path:inset(100%);clip-path:bar",
        "font-size:0;font-size:12zz",
        "font:0/0 a;font:broken",
        "font:0/0 a;font:14px",
        "font-size:0;font-size:-5px",
        "display:none;display:-ms-flexbox",
        "display:none;display:block block",
        "color:white;-moz-color:black",
        "color:white;color:-moz-none",
        "color:white;color:rgb(1,2)",
        "opacity:0;opacity:1px",
        "transform:scale(0);transform:none none",
        "transform:scale(0);transform:turn(1)",
        "transform:scale(0);-moz-transform:none",
        "width:0;width:-5px;overflow:hidden",
        "scale:0;scale:foo",
        "zoom:0;zoom:foo",
        "content-visibility:hidden;content-visibility:foo",
        "filter:opacity(0);filter:foo(2)",
    ],
)
def test_a_declaration_that_no_program_reads_takes_nothing_back(style: str) -> None:
    result = render_text(f"<p style='{style}'>text</p>")
    assert (result.text.strip(), result.hidden) == ("", True)


def test_a_rule_that_no_program_reads_takes_nothing_back() -> None:
    html = "<style>.a{display:none}.a{display:foo}</style><p class=a>text</p>"
    assert render_text(html).hidden_text == "text"


def test_of_a_mail_with_too_many_tags_the_rest_is_kept_as_plain_text() -> None:
    rest = "<p>last <b>words</b></p><script>no()</script><!-- no --><p style='color:red'>&amp; more"
    result = render_text("<p>x</p>" * TAGS_MAX + rest)
    assert result.cut
    assert result.text.split()[-4:] == ["last", "words", "&", "more"]


def test_beyond_too_many_tags_quotes_stay_quotes() -> None:
    html = "new<blockquote>" + "<p>old</p>" * TAGS_MAX + "older<!-- </blockquote> --> words"
    html += "<blockquote>oldest</blockquote></blockquote>below"
    lines = [line for line in render_text(html).text.splitlines() if line.strip()]
    assert (lines[0], lines[-1]) == ("new", "below")
    assert all(line.startswith(">") for line in lines[1:-1])
    assert lines[-2] == ">> oldest"


def test_beyond_too_many_tags_text_may_be_hidden_and_is_flagged() -> None:
    result = render_text("<p>x</p>" * TAGS_MAX + "<p style='display:none'>text</p>")
    assert result.hidden
    assert render_text("<div>" * 400 + "<p style='display:none'>text").hidden


def test_a_lone_surrogate_in_a_class_is_no_error() -> None:
    html = "<style>.a,[title]{display:none}</style><p class='a \ud800' title='\ud800'>text</p>b"
    assert "b" in render_text(html).text


def seconds(html: str) -> float:
    begun = time.process_time()
    render_text(html)
    return time.process_time() - begun


@pytest.mark.parametrize(
    "piece",
    [
        "<p>Hello <b>you</b></p>",
        "<ul><li>a",
        "<tr><td>a</td><td>b</td></tr>",
        "<table><tr><td>",
        "<p " + " ".join(f"a{number}=1" for number in range(50)) + ">x</p>",
        "<div style='color:red;font-size:12px'>some text</div>",
        "<!-- a --> b ",
        "a<br>",
        "&amp;&#228; ",
    ],
)
def test_a_megabyte_costs_no_more_than_what_is_laid_out_of_it(piece: str) -> None:
    """About 0.1 s; what goes beyond TAGS_MAX costs a pass of a regular expression."""
    render_text("<p>")
    assert seconds((piece * 1_000_000)[:1_000_000]) < 1


@pytest.mark.parametrize(
    "end", ["</body></html>", "</html>", "</BODY >", "</html class='<'>", "</html foo<bar>"]
)
def test_what_stands_behind_the_end_of_the_document_is_kept(end: str) -> None:
    assert words(f"<html><body><p>before</p>{end}\n<p>after") == "before after"


def test_quotations_of_any_spelling_are_counted() -> None:
    assert words('<blockquote a"<"b>' * 3_000 + "hello").split()[-1] == "hello"


@pytest.mark.parametrize("quote", ['"', "'", ""])
def test_a_very_long_tag_hides_nothing_that_follows(quote: str) -> None:
    assert words(f"before <img src={quote}{'x' * 10_000}{quote}>after") == "before after"
