"""A league: many models, the same data, the same budgets, one table.

`settings` turns overrides into a `LeagueSpec`; `entrants` are the models; `folder_settings` keeps a folder to them;
`speeds` how fast each trains. `snapshot` is how all trainings stand, `plan` says from it which are needed, `estimates`
how long they take, `runner` runs them, several at once, each by `train_one` in a process of its own; `run_league` is
all of this. `results` are the rows of the tables, `results_files` all that is kept, `tables`, `figures`,
`field_panels` and `publish` show it.
"""

from mondrian.league.entrants import Entrant
from mondrian.league.plan import LeaguePlan
from mondrian.league.results import collect
from mondrian.league.spec import LeagueSpec
from mondrian.support.former import former_names

__all__ = ["Entrant", "LeaguePlan", "LeagueSpec", "collect"]

__getattr__ = former_names(__name__)
