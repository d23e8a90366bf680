# SPDX-License-Identifier: MIT
"""How all pictures of measurements look: for light and dark pages, with a title, the figures' world and what they show in words."""

import io
import re
import textwrap
from xml.sax.saxutils import escape

try:
    import matplotlib.pyplot as plt
except ModuleNotFoundError:  # without it pictures can be checked, but not drawn
    plt = None

# Okabe and Ito's colours, which colour-blind readers can distinguish. Each curve has its own marker or line, too. The second
# column is for dark pages.
INK, GRID = "#1f2328", "#d9dde1"
BLUE, SKY, GREEN, ORANGE, RED, PINK = "#0072b2", "#56b4e9", "#009e73", "#e69f00", "#d55e00", "#cc79a7"
GREY, BROWN, INDIGO = "#666666", "#8b4513", "#4b0082"
ON_DARK = {INK: "#e4e7ea", GRID: "#333a41", BLUE: "#4da3e0", SKY: "#9ad5f8", GREEN: "#2fbf95", RED: "#ff8a4c",
           GREY: "#b0b6bd", BROWN: "#d39a6a", INDIGO: "#ab93ff"}
STYLE = ("text{fill:%s}" % INK + "@media(prefers-color-scheme:dark){text{fill:%s}" % ON_DARK[INK] +
         "".join(f'[style*="{kind}: {light}"]{{{kind}:{dark}!important}}' for light, dark in ON_DARK.items()
                 for kind in ("stroke", "fill")) + "}")

if plt:
    plt.rcParams.update({"font.size": 12, "axes.titlesize": 12, "axes.grid": True, "grid.color": GRID, "text.color": "black",
                         "axes.edgecolor": INK, "xtick.color": INK, "xtick.labelcolor": "black", "ytick.color": INK,
                         "ytick.labelcolor": "black", "axes.spines.top": False, "axes.spines.right": False,
                         "axes.axisbelow": True, "lines.linewidth": 1.8, "lines.markersize": 6.5, "legend.fontsize": 11,
                         "figure.facecolor": "none", "axes.facecolor": "none", "savefig.facecolor": "none",
                         "backend": "svg", "svg.hashsalt": "specdec", "svg.fonttype": "none",
                         "font.family": ["DejaVu Sans"]})


def figure(columns, height=4.5, **more):
    return plt.subplots(1, columns, figsize=(8, height), **more)


def finish(fig, axes, columns, world):
    """The legend of these axes, and below it the world of the figures: models, temperature, γ, machine."""
    handles, labels = axes.get_legend_handles_labels()
    rows, lines = -(-len(labels) // columns), textwrap.wrap(world, 100)
    below = (0.2 * len(lines) + 0.12) / fig.get_figheight()
    fig.tight_layout(rect=(0, (0.24 * rows + 0.1) / fig.get_figheight() + below, 1, 1))
    fig.legend(handles, labels, loc="lower center", ncols=columns, frameon=False, bbox_to_anchor=(0.5, below))
    fig.text(0.5, 0.04 / fig.get_figheight(), "\n".join(lines), ha="center", va="bottom", fontsize=10)


def save(fig, path, title, shown):
    """Saves an SVG. `title` and `shown`, its figures in words, are for who does not see it. Equal numbers make equal files: no
    date, fixed ids. Coordinates are rounded to 0.01 points."""
    text = io.StringIO()
    fig.savefig(text, format="svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    plt.close(fig)
    short = re.sub(r"<!--.*?-->\n?|<metadata>.*?</metadata>\n?", "", text.getvalue(), flags=re.DOTALL)
    short = re.sub(r"-?\d+\.\d{3,}", lambda number: f"{float(number[0]):.2f}", short)
    short = short.replace("'DejaVu Sans'", "'DejaVu Sans', Verdana, sans-serif")
    short = re.sub(r"(<svg [^>]*)>", lambda svg: f'{svg[1]} role="img">\n<title>{escape(title)}</title>\n<desc>{escape(shown)}</desc>',
                   short, count=1)
    short = short.replace("<style type=\"text/css\">", "<style type=\"text/css\">" + STYLE, 1)
    path.write_text(re.sub(r"\n\s*", "\n", short), encoding="utf-8")
