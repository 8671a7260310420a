"""Which trainings a league needs, in which order, and which of them can begin now.

Each entrant first tries every learning rate on a few samples; where the best is at an end of the list, the list grows
there. The best of them by validation loss, the finalists, train for the first budget, and the best of those has the
learning rate for the second. When everyone has ended, the best entrants train again with other seeds, for the last
budget.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from mondrian.league.entrants import Entrant
from mondrian.league.jobs import Job
from mondrian.league.snapshot import Snapshot
from mondrian.league.spec import SAMPLES, TIME, TUNING, LeagueSpec
from mondrian.settings.compose import quoted
from mondrian.support.former import former_names

VALIDATIONS = 16  # in each training: the points of its learning curve
TRIALS = 4  # validations in the trial of a learning rate, of which the best counts


@dataclass(frozen=True)
class LeaguePlan:
    """The trainings of a league, given how fast its entrants are (samples a second) and which have ended how."""

    league: LeagueSpec
    speeds: Mapping[str, float]
    snapshot: Snapshot

    def tuning(self, entrant: Entrant) -> list[Job]:
        """A short training with each learning rate, where not all of them become finalists."""
        rates = self.league.budgets.rates
        if len(rates) <= self.league.budgets.finalists:
            return []
        trials = [self._trial(entrant, rate) for rate in sorted(rates)]
        for _ in range(self.league.budgets.wider):
            if not all(map(self.snapshot.ended, trials)):
                break
            first, second, last_but_one, last = (job.rate for job in (*trials[:2], *trials[-2:]))
            if (best := self._best(trials)) is trials[0]:
                trials.insert(0, self._trial(entrant, _beyond(second, first)))
            elif best is trials[-1]:
                trials.append(self._trial(entrant, _beyond(last_but_one, last)))
        return trials

    def finalists(self, entrant: Entrant) -> list[Job]:
        """Trainings for the first budget with the learning rates that did best; none while these are looked for."""
        rates = list(self.league.budgets.rates)
        if trials := self.tuning(entrant):
            if not all(map(self.snapshot.ended, trials)):
                return []
            ranked = sorted(trials, key=self._rank)
            rates = [job.rate for job in ranked if math.isfinite(self.snapshot.loss(job))] or [ranked[0].rate]
        steps = self.league.steps(self.league.budgets.samples)
        return [self._job(entrant, SAMPLES, rate, 0, steps) for rate in rates[: self.league.budgets.finalists]]

    def rate(self, entrant: Entrant) -> float | None:
        """The learning rate that did best; None while it is being looked for. The smallest if all diverged."""
        finalists = self.finalists(entrant)
        if len(finalists) == 1:
            return finalists[0].rate
        if not finalists or not all(map(self.snapshot.ended, finalists)):
            return None
        return self._best(finalists).rate

    def trainings(self, entrant: Entrant) -> dict[str, Job]:
        """A training for each budget, once the learning rate is known."""
        rate = self.rate(entrant)
        if rate is None:
            return {}
        return {budget: self._job(entrant, budget, rate, 0, steps) for budget, steps in self.budgets(entrant).items()}

    def shown(self, entrant: Entrant) -> dict[str, Job]:
        """For each budget the training that is shown: by the rules, or until that has ended the best so far."""
        chosen = self.trainings(entrant)
        shown = {}
        for budget, steps in self.budgets(entrant).items():
            if budget in chosen and self.snapshot.can_be_shown(chosen[budget]):
                shown[budget] = chosen[budget]
                continue
            jobs = (self._job(entrant, budget, rate, 0, steps) for rate in self._rates(entrant))
            if ended := [
                job for job in jobs if self.snapshot.can_be_shown(job) and math.isfinite(self.snapshot.loss(job))
            ]:
                shown[budget] = self._best(ended)
        return shown

    def again(self, job: Job, seed: int) -> Job:
        """The same training with another seed."""
        return self._job(job.entrant, job.budget, job.rate, seed, job.steps)

    def budgets(self, entrant: Entrant) -> dict[str, int]:
        """The steps of an entrant for each budget."""
        budgets = self.league.budgets
        steps = {SAMPLES: self.league.steps(budgets.samples)}
        if budgets.minutes is not None:
            steps[TIME] = self.league.steps(60 * budgets.minutes * self.speeds[entrant.name])
        return steps

    @property
    def most_finalists(self) -> int:
        """Learning rates that train for the first budget."""
        return min(self.league.budgets.finalists, len(self.league.budgets.rates))

    def best(self) -> tuple[Entrant, ...]:
        """The entrants that train with several seeds; nobody while some of the league are still at it."""
        if self.league.budgets.seeds < 2:
            return ()
        losses = {}
        for entrant in self.league.everyone:
            if entrant.name not in self.speeds:
                return ()
            job = self.trainings(entrant).get(self.league.last_budget)
            if job is None or not self.snapshot.ended(job):
                return ()
            losses[entrant] = self.snapshot.loss(job)
        ranked = sorted((entrant for entrant in losses if math.isfinite(losses[entrant])), key=lambda e: losses[e])
        return tuple(ranked[: self.league.budgets.best])

    @cached_property
    def known_jobs(self) -> tuple[Job, ...]:
        """The trainings that can be named by now: those that have ended, run, or could begin."""
        entrants = self.league.entrants
        jobs = [job for entrant in entrants for job in self.tuning(entrant)]
        for place in range(self.most_finalists):  # who comes later need not be evaluated if it loses
            jobs += [job for entrant in entrants for job in self.finalists(entrant)[place : place + 1]]
        jobs += [job for entrant in entrants if (job := self.trainings(entrant).get(TIME)) is not None]
        return (*jobs, *(job for job in self.more_seeds() if job.entrant in entrants))

    @property
    def waiting(self) -> list[Job]:
        """Those of the known trainings that have not ended."""
        return [job for job in self.known_jobs if not self.snapshot.ended(job)]

    @property
    def ended(self) -> bool:
        """Whether nothing is left to train."""
        measured = all(entrant.name in self.speeds for entrant in self.league.everyone)
        return measured and not self.waiting

    def more_seeds(self) -> list[Job]:
        """The trainings of the best with other seeds."""
        best = self.best()
        firsts = [self.trainings(entrant)[self.league.last_budget] for entrant in best]
        return [self.again(job, seed) for seed in range(1, self.league.budgets.seeds) for job in firsts]

    def everything(self) -> list[Job]:
        """Every training of the part that may be there, whoever was asked for in this call."""
        jobs = [job for entrant in self.league.everyone for job in self.tuning(entrant)]
        jobs += [job for entrant in self.league.everyone for job in self.finalists(entrant)]
        for entrant in self.league.everyone:
            if entrant.name in self.speeds:
                firsts = [*self.trainings(entrant).values(), *self.shown(entrant).values()]
                jobs += [self.again(job, seed) for seed in range(self.league.budgets.seeds) for job in firsts]
        return list(dict.fromkeys(jobs))

    def task(self, job: Job) -> dict[str, Any]:
        """What the process of a training is told."""
        return {
            "overrides": self.overrides(job),
            "evaluate": job.budget != TUNING,
            "rivals": [str(other.folder) for other in self.rivals(job)],
            "data": str(self.league.data),
            "native": None if self.league.native_data is None else str(self.league.native_data),
            "horizon": self.league.conditions.horizon,
        }

    def rivals(self, job: Job) -> list[Job]:
        """The other finalists, where it is one."""
        if job.budget != SAMPLES or job.seed:
            return []
        return [other for other in self.finalists(job.entrant) if other != job]

    def overrides(self, job: Job) -> list[str]:
        """What `mondrian train` is told."""
        every = max(1, math.ceil(job.steps / (TRIALS if job.budget == TUNING else VALIDATIONS)))
        warmup = self.league.conditions.warmup
        return [
            *self.league.overrides(job.entrant),
            f"run={quoted(job.folder)}",
            "trainer.devices=1",  # on which its speed was measured
            f"max_steps={job.steps}",
            f"optimizer.lr={job.rate}",
            *([] if warmup is None else [f"optimizer.warmup={max(1, round(warmup * job.steps))}"]),
            f"seed={job.seed}",
            f"validate_every={every}",
            f"checkpoint_every={every}",
            "resume=true",
        ]

    def _rates(self, entrant: Entrant) -> Iterable[float]:
        """The learning rates that it has tried, or may try."""
        return [job.rate for job in self.tuning(entrant)] or self.league.budgets.rates

    def _trial(self, entrant: Entrant, rate: float) -> Job:
        return self._job(entrant, TUNING, rate, 0, self.league.steps(self.league.budgets.tuning_samples))

    def _rank(self, job: Job) -> tuple[float, float]:
        return self.snapshot.loss(job), job.rate

    def _best(self, jobs: Iterable[Job]) -> Job:
        """The training with the least validation loss; the smallest learning rate if all diverged."""
        return min(jobs, key=self._rank)

    def _job(self, entrant: Entrant, budget: str, rate: float, seed: int, steps: int) -> Job:
        folder = self.league.runs / entrant.name / f"{budget}_lr{rate:g}_seed{seed}"
        return Job(entrant, budget, rate, seed, steps, folder)


def _beyond(rate: float, end: float) -> float:
    """The next learning rate after these two, in two digits.

    >>> _beyond(0.006, 0.018), _beyond(0.0007, 0.00023)
    (0.054, 7.6e-05)
    """
    return float(f"{end * end / rate:.2g}")


__getattr__ = former_names(__name__)
