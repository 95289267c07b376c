import csv
import io
import json
import re
from html.parser import HTMLParser

import pytest
from rich.console import Console

from tests.ablation.studies import POSITIONS, study
from tfexp.ablation.report.charts import figures_of
from tfexp.ablation.report.terminal import terminal_table
from tfexp.ablation.report.text import latex_table, markdown_page
from tfexp.ablation.report.write import write_report

MARKDOWN = """\
| variant               |               seeds |          val/loss | difference |    95 % interval | better in |     p | p (Holm) | parameters | per token | tokens/s |  memory |
| :-------------------- | ------------------: | ----------------: | ---------: | ---------------: | --------: | ----: | -------: | ---------: | --------: | -------: | ------: |
| sinusoidal (baseline) |                   3 |     3.310 ± 0.010 |          - |                - |         - |     - |        - |     0.54 M | 3.2 MFLOP |   33,508 | 800 MiB |
| rope                  |                   3 | **3.120 ± 0.020** |     -0.190 | [-0.233, -0.147] |    3 of 3 | 0.003 |    0.006 |     0.54 M | 3.2 MFLOP |   33,508 | 800 MiB |
| alibi                 | 2 of 3 (1 diverged) |     3.165 ± 0.021 |     -0.145 | [-0.209, -0.081] |    2 of 2 | 0.022 |    0.022 |     0.54 M | 3.2 MFLOP |   33,508 | 800 MiB |
"""  # noqa: E501  (a golden table is as wide as it is)
LATEX = r"""  \begin{tabular}{lrrrrrrrrr}
    \toprule
    variant & seeds & val/loss & difference & 95\,\% interval & $p$ & $p$ (Holm) & parameters & per token & tokens/s \\
    \midrule
    sinusoidal (baseline) & 3 & 3.310 $\pm$ 0.010 & -- & -- & -- & -- & 0.54\,M & 3.2\,MFLOP & 33,508 \\
    rope & 3 & \textbf{3.120 $\pm$ 0.020} & $-$0.190 & [$-$0.233, $-$0.147] & 0.003 & 0.006 & 0.54\,M & 3.2\,MFLOP & 33,508 \\
    alibi & 2 of 3 & 3.165 $\pm$ 0.021 & $-$0.145 & [$-$0.209, $-$0.081] & 0.022 & 0.022 & 0.54\,M & 3.2\,MFLOP & 33,508 \\
    \bottomrule
"""  # noqa: E501  (a golden table is as wide as it is)
TERMINAL = """\
Which positions?

variant        seeds         val/loss  difference     95 % interval  p (Holm)  parameters  tokens/s
sinusoidal         3    3.310 ± 0.010    baseline                 -         -      0.54 M    33,508
rope               3  3.120 ± 0.020 *      -0.190  [-0.233, -0.147]     0.006      0.54 M    33,508
alibi       2 of 3 !    3.165 ± 0.021      -0.145  [-0.209, -0.081]     0.022      0.54 M    33,508
"""
# Sinusoidal is the baseline everywhere; what the first sentence must say.
HEADLINES = {
    "clear": (POSITIONS, "lower", "rope has the lowest val/loss: 3.120 ± 0.020 over 3 seeds, 0.190 lower .*zero.$"),
    "higher": ({"a": [1.0, 1.1, 1.2], "b": [2.0, 2.2, 2.1]}, "higher", "b has the highest .* higher than the base"),
    "unclear": ({"a": [3.0, 3.1, 3.2], "b": [3.1, 2.9, 3.2]}, "lower", "includes zero: this study does not separate"),
    "too_many": ({"a": [3.0, 3.1], "b": [2.9, 2.999], "c": [2.8, 3.1]}, "lower", "b has .*|c has .*"),
    "baseline_wins": ({"a": [3.0, 3.1], "b": [3.2, 3.2]}, "lower", "^No variant beats the baseline a"),
    "tie": ({"b": [3.0, 3.0], "a": [3.0, 3.0]}, "lower", "^No variant beats the baseline b"),
    "one_seed": ({"a": [3.0], "b": [2.9]}, "lower", "over 1 seed, against 3.000 .*chance and effect"),
    "baseline_failed": ({"a": ["failed"], "b": [2.9], "c": [3.0]}, "lower", "The baseline a has no value"),
    "only_one_variant": ({"a": [3.0, 3.1]}, "lower", "^Only a has values"),
    "nothing_yet": ({"a": ["running"], "b": ["queued"]}, "lower", "^No run is complete yet: 0 of 2"),
}  # fmt: skip
FIGURES = {
    "all_but_cost": (POSITIONS, ["differences", "curves", "gap"]),
    "one_seed": ({"a": [3.0], "b": [2.9]}, ["differences", "curves", "gap"]),
    "one_variant": ({"a": [3.0, 3.1]}, ["curves"]),
    "baseline_failed": ({"a": ["queued"], "b": [2.9]}, ["curves"]),
    "running": ({"a": ["running"], "b": ["running"]}, ["curves", "gap"]),
    "nothing_yet": ({"a": ["queued"], "b": ["queued"]}, []),
}
ON_THE_PAGE = [
    "of the variance out of the differences", "xlnet", "needs two streams", "1 of 9 runs diverged", "Holm",
    "tfexp ablate ablation=positions", "loss 99 at step 100", "abcdef123456", "0123456789abcdef",
]  # fmt: skip
HOSTILE = [
    "<script>alert(1)</script>",
    "</script><b>",
    "<img src=x onerror=alert(1)>",
    "\"quoted\" & 'single'",
    "a|b*c_d`e`",
    "{{ 1 + 1 }}",
    "$x_1^2$ \\input{x} 100% #1 ~",
    "[link](javascript:alert(1))",
    "a very long name that goes on, " * 6,
    "two\nlines",
]
VOID = {"meta", "link", "br", "img", "wbr", "hr", "input"}


class Page(HTMLParser):
    """What a browser would see: elements with their attributes, text, and the text of each script."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags, self.open, self.text, self.scripts, self.rows = [], [], [], [], []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if "script" in self.open:
            self.scripts.append(data)
        elif "style" not in self.open:
            self.text.append(data)
            if "td" in self.open or "th" in self.open:
                self.rows[-1][-1] += data

    def attributes(self, name):
        return [found[name] for _, found in self.tags if name in found]

    def count(self, tag):
        return sum(found == tag for found, _ in self.tags)


def written(result, folder):
    return Page(write_report(result, folder / "studies" / "s").read_text(encoding="utf-8"))


def printed(result, width):
    console = Console(width=width, file=io.StringIO())
    console.print(terminal_table(result))
    return console.file.getvalue()


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    """The folder of one report, and its page."""
    outputs = tmp_path_factory.mktemp("outputs")
    result = study(folder=outputs, pruned={"xlnet": "needs two streams"}, notes=("1 of 9 runs diverged.",))
    return outputs / "studies" / "s", written(result, outputs)


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    """The same for a study whose names try to break out of every format."""
    outputs = tmp_path_factory.mktemp("outputs")
    values = {name: [3.0 + 0.1 * i, 3.05 + 0.1 * i] for i, name in enumerate(HOSTILE)}
    result = study(
        values, outputs, question=HOSTILE[0], command=HOSTILE[1], pruned={HOSTILE[2]: HOSTILE[3]}, notes=(HOSTILE[1],)
    )
    return outputs / "studies" / "s", written(result, outputs)


def test_markdown_table():
    assert MARKDOWN in markdown_page(study())


def test_latex_table():
    assert LATEX in latex_table(study())


def test_terminal_table():
    assert [line.rstrip() for line in printed(study(), 100).splitlines()][:6] == TERMINAL.splitlines()


@pytest.mark.parametrize("width", [48, 60, 80, 100, 200])
def test_the_terminal_table_fits(width):
    lines = printed(study(), width).splitlines()
    assert max(map(len, lines)) <= min(width, 100)
    assert any("rope" in line and "3.120 ± 0.020 *" in line for line in lines)


@pytest.mark.parametrize(("values", "direction", "expected"), HEADLINES.values(), ids=HEADLINES)
def test_the_first_sentence_says_no_more_than_the_numbers(values, direction, expected):
    text = " ".join(markdown_page(study(values, direction=direction)).split("\n\n")[1].split())
    assert re.search(expected, text)


@pytest.mark.parametrize(("values", "names"), FIGURES.values(), ids=FIGURES)
def test_only_figures_that_say_something(values, names):
    assert [figure.name for figure in figures_of(study(values))] == names


def test_every_file_is_there_and_linked(report):
    folder, page = report
    assert all((folder / link).is_file() for link in page.attributes("href") if "runs/" not in link)
    assert {p.name for p in folder.iterdir()} == {
        "figures",
        *(f"report.{e}" for e in ("html", "md", "tex", "csv", "json")),
    }
    figures = {p.name for p in (folder / "figures").iterdir()}
    assert figures == {f"{name}.{e}" for name in ("differences", "curves", "gap") for e in ("svg", "png", "pdf")}
    assert (folder / "figures" / "gap.pdf").read_bytes().startswith(b"%PDF")
    assert (folder / "figures" / "gap.png").read_bytes().startswith(b"\x89PNG")


def test_the_page_is_one_file_that_needs_no_network(report):
    folder, page = report
    assert page.open == []
    assert not page.attributes("src")
    assert not [link for link in page.attributes("href") if "://" in link]
    assert (folder / "report.html").stat().st_size < 1_500_000
    assert sum("vegaEmbed=" in script for script in page.scripts) == 1


def test_the_page_shows_what_a_sound_report_must(report):
    _, page = report
    text = " ".join(" ".join(page.text).split())
    rows = {row[0].split()[0]: [" ".join(cell.split()) for cell in row] for row in page.rows[1:4]}
    assert rows["rope"][1:7] == ["3", "3.120 ± 0.020", "−0.190 [−0.233, −0.147]", "3 of 3", "0.003", "0.006"]
    assert "1 diverged" in rows["alibi"][0]
    assert [needed for needed in ON_THE_PAGE if needed not in text] == []


def test_run_links_are_relative_to_the_page(report):
    folder, page = report
    links = [link for link in page.attributes("href") if "runs/" in link]
    assert len(links) == 9
    assert all((folder / link).resolve().parent == (folder.parent.parent / "runs").resolve() for link in links)


def test_the_json_is_enough_to_work_everything_out_again(report):
    folder, _ = report
    value = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    runs = {(run["variant"], run["seed"]): run["value"] for run in value["runs"]}
    rope = next(row for row in value["rows"] if row["variant"] == "rope")
    differences = [runs["rope", seed] - runs["sinusoidal", seed] for seed in range(3)]
    assert list(rope["paired_differences"].values()) == pytest.approx(differences)
    assert rope["difference"]["mean"] == pytest.approx(sum(differences) / 3)
    assert rope["difference"]["better"] == 3
    assert value["runs"][0]["curve"] == [[0, 5.3], [100, 4.3], [200, 3.3]]
    assert next(row for row in value["rows"] if row["variant"] == "alibi")["states"] == {"complete": 2, "diverged": 1}


def test_the_csv_has_one_row_per_run(report):
    folder, _ = report
    rows = list(csv.DictReader((folder / "report.csv").read_text(encoding="utf-8").splitlines()))
    assert [(row["variant"], row["seed"]) for row in rows] == [(v, str(s)) for v in POSITIONS for s in range(3)]
    assert [row["val/loss"] for row in rows if row["variant"] == "alibi"] == ["3.15", "3.18", ""]
    assert rows[-1]["state"] == "diverged"


def test_the_page_reads_itself_again_only_while_runs_are_going(tmp_path, report):
    going = written(study({"a": [3.0, 3.1], "b": [3.0, "running"]}, tmp_path), tmp_path)
    assert ("meta", {"http-equiv": "refresh", "content": "20"}) in going.tags
    assert "refresh" not in report[1].attributes("http-equiv")


def test_names_are_text_in_the_page(hostile):
    _, page = hostile
    assert page.open == []
    assert page.count("b") == page.count("img") == 0
    names = [row[0] for row in page.rows[1 : len(HOSTILE) + 1]]
    assert all(name in found for name, found in zip(HOSTILE, names, strict=True))


def test_names_are_text_in_the_scripts(hostile):
    _, page = hostile
    specs = [json.loads(script) for script in page.scripts if script.startswith("{")]
    assert len(specs) == 3
    assert all(any(name in text for text in strings(spec)) for spec in specs for name in HOSTILE[1:3])
    assert page.count("script") == len(specs) + 2


def test_names_are_text_in_latex(hostile):
    folder, _ = hostile
    text = (folder / "report.tex").read_text(encoding="utf-8")
    assert r"\$x\_1\textasciicircum{}2\$ \textbackslash{}input\{x\} 100\% \#1 \textasciitilde{} &" in text
    assert r"a\textbar{}b*c\_d`e` &" in text


def test_names_are_text_in_markdown(hostile):
    folder, _ = hostile
    text = (folder / "report.md").read_text(encoding="utf-8")
    assert r"| a\|b\*c\_d\`e\`" in text
    assert "\n" not in text[text.index("two") : text.index("two lines") + 9]
    assert not re.search(r"(?<!\\)<(script|img|b)", text.partition("## Run it again")[0])
    assert r"[link\](javascript" in text


def test_names_are_text_on_the_terminal():
    result = study({"[bold]a[/bold]": [3.0, 3.1], ":smile:": [3.0, 3.2]})
    assert "[bold]a[/bold]" in printed(result, 100)
    assert ":smile:" in printed(result, 100)


def test_twelve_variants_and_diverged_curves(tmp_path):
    values = {f"variant {i}": [3.0 + i / 100, 3.01 + i / 100, "diverged"] for i in range(12)}
    page = written(study(values, tmp_path), tmp_path)
    assert page.count("figure") == 3
    keys = [(a["stroke"], a["stroke-dasharray"]) for tag, a in page.tags if tag == "line" and "stroke-dasharray" in a]
    assert len(set(keys[:12])) == 12


def test_a_figure_that_no_longer_holds_is_removed(tmp_path):
    folder = tmp_path / "studies" / "s"
    written(study({"a": [3.0], "b": [2.9]}, tmp_path), tmp_path)
    written(study({"a": ["queued"], "b": ["queued"]}, tmp_path), tmp_path)
    assert list((folder / "figures").iterdir()) == []


def strings(node):
    """Every string of a JSON value."""
    if isinstance(node, str):
        yield node
    for child in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
        yield from strings(child)
