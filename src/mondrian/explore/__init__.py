"""A page to explore a trained model: other inputs, other resolutions, more time, and who looks at whom.

`question` what may be asked; `explorer` answers, from the model, its data and, where it is known, the equation, which
`solving` solves; `server` carries both, as `messages`, between a browser on this machine and the explorer; `page/` is
what the browser shows.
"""

from mondrian.explore.explorer import Answer, Explorer
from mondrian.explore.question import Question, Stroke

__all__ = ["Answer", "Explorer", "Question", "Stroke"]
