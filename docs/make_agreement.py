"""Make all figures of a profile and record how well they agree, in docs/data:

    python docs/make_agreement.py quick            (minutes)
    python docs/make_agreement.py paper            (hours; a stopped run resumes)

Writes agreement-PROFILE.csv, the z of every symbol against its line, and figures-PROFILE.csv, a
line for each figure and one for all, with date, version and, of a run from the start, its cost.
Of `quick` it also writes the pictures of the page, images/figures/NAME.png. Figures go to
figures-PROFILE in the working folder, or to the folder that a second argument names;
where they are there already they are only read.
"""

from __future__ import annotations

import datetime
import os
import sys
from pathlib import Path

import pandas as pd
from PIL import Image

from polyceptron import __version__
from polyceptron.report.figures.agreement import verdict
from polyceptron.report.figures.making import FIGURES, make_figures, read_agreement

DATA = Path(__file__).parent / "data"


def summary(table: pd.DataFrame) -> pd.DataFrame:
    """One line for each figure that has symbols, and one for all of them."""
    parts = {name: table[table["figure"] == name] for name in FIGURES}
    parts = {name: part for name, part in parts.items() if len(part)} | {"all": table}
    lines = []
    for name, part in parts.items():
        found = verdict(part)
        lines.append(
            {
                "figure": name,
                "symbols": found.symbols,
                "judged": found.judged,
                "rms z": f"{found.root_mean_square_z:.2f}",
                "largest z": f"{found.largest_z:.1f}",
                "smallest p × judged": f"{min(found.smallest_p, 1.0):.2g}",
                "p < 0.05": f"{found.unlikely} (at most {found.unlikely_allowed})",
                "combined p": f"{found.combined_p:.2g}",
                "as chance allows": "yes" if found.by_chance else "no",
            }
        )
    return pd.DataFrame(lines)


def shrink(folder: Path) -> None:
    """The pictures of the page: 540 pixels wide, of 64 colours."""
    target = DATA.parent / "images" / "figures"
    target.mkdir(exist_ok=True)
    for name in FIGURES:
        with Image.open(folder / f"{name}.png") as picture:
            size = (540, round(540 * picture.height / picture.width))
            small = picture.convert("RGB").resize(size, Image.Resampling.LANCZOS)
        small.quantize(64).save(target / f"{name}.png", optimize=True)


def main(profile: str, folder: Path) -> None:
    run = f"{datetime.datetime.now(datetime.UTC).date()}, {__version__}"
    if not (folder / "index.html").exists():
        fresh = not folder.exists()
        make_figures(folder, profile=profile, progress=True)
        if fresh:  # of this process and its workers: whatever else the machine is doing
            run += f", {sum(os.times()[:4]) / 60:.0f} min of one core"
    table = read_agreement(folder)
    table.round(9).to_csv(DATA / f"agreement-{profile}.csv", index=False)
    lines = summary(table).assign(run=run)
    lines.to_csv(DATA / f"figures-{profile}.csv", index=False)
    print(lines.to_string(index=False))
    if profile == "quick":
        shrink(folder)


if __name__ == "__main__":
    chosen = sys.argv[1]
    main(chosen, Path(sys.argv[2] if len(sys.argv) > 2 else f"figures-{chosen}"))
