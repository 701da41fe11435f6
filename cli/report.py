"""`dpeer report`: the results of runs, on one page."""

from __future__ import annotations

from pathlib import Path

import click

from dpeer.exceptions import ConfigurationError
from dpeer.optional_libraries import check_libraries
from dpeer.results.run_folders import find_runs


@click.command(short_help="Show what runs came to, on one page.")
@click.argument("folders", metavar="DIR...", nargs=-1, type=click.Path(path_type=Path))
@click.option(
    "--site", type=click.Path(path_type=Path), metavar="DIR/rank-R",
    help="Show what left one site, and what stayed, for an ethics board.",
)  # fmt: skip
@click.option(
    "--out", type=click.Path(path_type=Path), metavar="FOLDER",
    help="Folder of the page and its pictures; an existing report is replaced.  "
         "[default: dpeer-report; with --site dpeer-site]",
)  # fmt: skip
@click.option(
    "--label", "labels", multiple=True, metavar="TEXT",
    help="What the runs of a DIR are called: given once for each DIR, in order.",
)  # fmt: skip
@click.option("--title", metavar="TEXT", help="The page's heading.  [default: what the runs have in common]")
def report(
    folders: tuple[Path, ...], site: Path | None, out: Path | None, labels: tuple[str, ...], title: str | None
) -> None:
    """Show runs on one page: accuracy, disagreement, bytes, the graph and the class mix.

    A DIR is the --out of a run, or a folder of such. All runs found are overlaid; those that differ in nothing
    but their seed are one line. The page, index.html, needs no other file; its pictures also lie beside it.

    \b
    Example:
      dpeer report dpeer-run
      dpeer report with-dp without-dp --label "epsilon 8" --label "no privacy"
      dpeer report --site dpeer-run/rank-0
    """  # noqa: D301 - \b is click's
    if site is not None:
        if folders or labels:
            raise ConfigurationError("--site: its page is of one peer alone; leave out DIR and --label")
        _of_site(site, out or Path("dpeer-site"), title)
        return
    if not folders:
        raise click.UsageError("Missing argument 'DIR...'.")
    out = out or Path("dpeer-report")
    if labels and len(labels) != len(folders):
        raise ConfigurationError(f"--label: {len(labels)} for {len(folders)} folders; give one for each, or none")
    check_libraries("dpeer report", "plot", matplotlib="matplotlib", jinja2="Jinja2")
    from dpeer.report.page import write_report  # needs the optional libraries
    from dpeer.report.pages import check_out

    check_out(out)
    runs = find_runs(folders)
    page, *pictures = write_report(runs, out, labels, title)
    click.echo(f"{page}: {'1 run' if len(runs) == 1 else f'{len(runs)} runs'}; open it in a browser")
    for picture in pictures:
        click.echo(str(picture))


def _of_site(folder: Path, out: Path, title: str | None) -> None:
    check_libraries("dpeer report --site", "plot", jinja2="Jinja2")
    from dpeer.federation.site_records import read
    from dpeer.report.pages import check_out, write
    from dpeer.report.site_page import page

    check_out(out)
    (path,) = write(out, page(folder, read(folder), title), {})
    click.echo(f"{path}: what left this site; open it in a browser")
