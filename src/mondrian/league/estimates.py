"""How long the trainings of a league that have not ended will take."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from mondrian.league.entrants import Entrant
from mondrian.league.jobs import Job
from mondrian.league.plan import LeaguePlan
from mondrian.league.spec import TIME


@dataclass(frozen=True)
class Estimate:
    """Seconds on free cores, without validation and evaluation."""

    plan: LeaguePlan

    def seconds(self, job: Job) -> float:
        """Of one training."""
        return job.steps * self.plan.league.conditions.batch_size / self.plan.speeds[job.entrant.name]

    def seconds_left(self) -> float:
        """Of all that has not ended, one after the other; where further seeds are not known yet, of average ones."""
        league, speeds = self.plan.league, self.plan.speeds
        budgets = league.budgets
        left = sum(count * seconds for entrant in league.entrants for count, seconds in self._waiting(entrant))
        if jobs := self.plan.more_seeds():
            mine = (job for job in jobs if job.entrant in league.entrants)
            return left + sum(self.seconds(job) for job in mine if not self.plan.snapshot.ended(job))
        if league.entrants == league.everyone and budgets.seeds > 1:
            each = [self.plan.budgets(e)[league.last_budget] / speeds[e.name] for e in league.entrants]
            mean = league.conditions.batch_size * sum(each) / len(each)
            left += mean * (budgets.seeds - 1) * min(budgets.best, len(each))
        return left

    def longest(self) -> float:
        """On any number of cores: the trainings of an entrant wait for each other."""
        entrants = self.plan.league.entrants
        chains = [sum(seconds for count, seconds in self._waiting(entrant) if count) for entrant in entrants]
        seeds = [self.seconds(job) for job in self.plan.more_seeds() if not self.plan.snapshot.ended(job)]
        return max(chains) + max(seeds, default=0.0)

    def _waiting(self, entrant: Entrant) -> Iterator[tuple[int, float]]:
        """How many trials, finalists and trainings for the second budget have not ended, and the seconds of each."""
        plan, ended = self.plan, self.plan.snapshot.ended
        budgets, speed = plan.league.budgets, plan.speeds[entrant.name]
        yield sum(not ended(job) for job in plan.tuning(entrant)), budgets.tuning_samples / speed
        finalists = plan.finalists(entrant)
        waiting = sum(not ended(job) for job in finalists) if finalists else plan.most_finalists
        yield waiting, budgets.samples / speed
        if TIME in (steps := plan.budgets(entrant)):
            last = plan.trainings(entrant).get(TIME)
            yield int(last is None or not ended(last)), steps[TIME] * plan.league.conditions.batch_size / speed
