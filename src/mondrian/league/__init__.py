"""A league: many models, the same data, the same budgets, one table.

`entrants` who takes part; `settings` the budgets; `agreement` keeps a folder to them; `speeds` how fast each trains;
`plan` which trainings are needed; `runner` runs them, several at once; `job` is one of them, in a process of its own;
`results` reads what they left; `tables`, `figures`, `strips` and `publish` show it; `hold` is all of this.
"""

from mondrian.league.entrants import Entrant
from mondrian.league.results import collect
from mondrian.league.settings import League

__all__ = ["Entrant", "League", "collect"]
