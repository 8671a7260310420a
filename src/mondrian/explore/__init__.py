"""A page to explore a trained model: other inputs, other resolutions, longer rollouts, and attention maps.

`question` defines what can be asked. `explorer` answers from the model, its data and, if it is known, the equation,
which `solving` solves. `server` passes questions and answers as `messages` between the explorer and a browser on this
machine, which shows `page/`.
"""

from mondrian.explore.explorer import Answer, Explorer
from mondrian.explore.question import Question, Stroke

__all__ = ["Answer", "Explorer", "Question", "Stroke"]
