r"""Words with maths between asterisks, for both renderers.

*α = n/d*     $\alpha = n/d$       <i>α = n/d</i>
*q_{00}*      $q_{\mathrm{00}}$    <i>q<sub>00</sub></i>
*z_{y}*       $z_{y}$              <i>z<sub>y</sub></i>
"""

from __future__ import annotations

import re
from html import escape

_MATHS = re.compile(r"\*([^*\n]+)\*")
_RAISED = re.compile(r"([_^])\{([^}]*)\}")
_COMMANDS = {
    "α": r"\alpha ", "λ": r"\lambda ", "ε": r"\varepsilon ", "Φ": r"\Phi ", "∝": r"\propto ",
    "→": r"\to ", "≠": r"\neq ", "−": "-", "max": r"\max ",
}  # fmt: skip


def as_mathtext(text: str) -> str:
    """For matplotlib; a dollar sign of the words themselves stays one."""

    def upright(found: re.Match[str]) -> str:
        word = len(found[2]) > 1 and found[2].isalnum()  # one letter is a variable
        return f"{found[1]}{{\\mathrm{{{found[2]}}}}}" if word else found[0]

    def maths(found: re.Match[str]) -> str:
        inner = _RAISED.sub(upright, found[1])
        for sign, command in _COMMANDS.items():
            inner = inner.replace(sign, command)
        return f"${inner}$"

    return _MATHS.sub(maths, text.replace("$", r"\$"))


def as_html(text: str) -> str:
    """For the page: escaped, with italics, indices and powers."""

    def raised(found: re.Match[str]) -> str:
        tag = "sub" if found[1] == "_" else "sup"
        return f"<{tag}>{found[2]}</{tag}>"

    words = _MATHS.sub(lambda found: f"<i>{found[1]}</i>", escape(text, quote=False))
    return _RAISED.sub(raised, words).replace("\n", "<br>")


def as_plain(text: str) -> str:
    """Without markup, for a terminal."""
    return _RAISED.sub(r"\1\2", _MATHS.sub(r"\1", text))
