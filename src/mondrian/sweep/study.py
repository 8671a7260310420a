"""One study of Optuna that any number of workers share, each with the trials that it claims.

A journal file in the sweep's folder is the study, or a database. The folder lies on a file system that all workers see:
the runs are in it, and locks say who trains what. A process that ends, in whatever way, holds no lock, so the trial of
a killed worker is claimed by the next one, which resumes its run.
"""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mondrian.support.libraries import library
from mondrian.support.lock import Lock, LockedError
from mondrian.support.text import one_line
from mondrian.sweep.plan import SweepPlan
from mondrian.sweep.space import combination, text

if TYPE_CHECKING:
    from optuna.study import Study
    from optuna.trial import Trial

JOURNAL = "study.journal"


@dataclass(frozen=True)
class SharedStudy:
    """The study of a sweep's folder."""

    plan: SweepPlan
    study: Study

    @classmethod
    def open(cls, plan: SweepPlan, *, rungs: int = 1) -> SharedStudy:
        """Join the study, or begin it. `rungs` are the steps to the first validation, for `pruner=halving`."""
        optuna = library("optuna", extra="sweeps")
        if int(optuna.__version__.split(".")[0]) < 4:
            raise ValueError(f"optuna {optuna.__version__} is too old; needed 4 or later (extra `sweeps`)")
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        database = _database(optuna, plan.storage) if plan.storage else None
        with _waiting_for(Lock.of_folder(plan.folder)):
            name = plan.remember()
            study = optuna.create_study(
                storage=database or _journal(optuna, plan),
                study_name=name,
                load_if_exists=True,
                direction="minimize",
                pruner=_pruner(optuna, plan.search.pruner, rungs),
            )
        return cls(plan, study)

    @contextmanager
    def claimed(self) -> Iterator[Trial | None]:
        """A trial for this worker alone while the block lasts: one that was left, or a new one; None at the end."""
        with _waiting_for(Lock.of_folder(self.plan.folder)):
            claim = self._left() or self._new()
        if claim is None:
            yield None
            return
        trial, lock = claim
        try:
            yield trial
        finally:
            lock.release()

    def states(self) -> dict[int, str]:
        """`complete`, `pruned`, `fail` or `running` for each trial."""
        return {trial.number: trial.state.name.lower() for trial in self.study.get_trials(deepcopy=False)}

    def _left(self) -> tuple[Trial, Lock] | None:
        """A trial that has begun and that nobody trains any more."""
        from optuna.trial import Trial, TrialState

        for frozen in self.study.get_trials(deepcopy=False, states=(TrialState.RUNNING,)):
            lock = self._lock(frozen.number)
            try:
                lock.acquire()
            except LockedError:
                continue
            # Whoever had it may have come to its end before the lock was free.
            now = self.study.get_trials(deepcopy=False)[frozen.number]
            if lock.enforced and now.state == TrialState.RUNNING:
                return Trial(self.study, frozen._trial_id), lock  # no public way to continue a trial
            lock.release()
        return None

    def _new(self) -> tuple[Trial, Lock] | None:
        """The next trial, if there is one."""
        from optuna.trial import TrialState

        trials = self.study.get_trials(deepcopy=False)
        counted = [trial for trial in trials if trial.state not in (TrialState.FAIL, TrialState.WAITING)]
        if len(counted) >= self.plan.trials:
            return None
        trial = self._ask(trials)
        lock = self._lock(trial.number)
        lock.acquire()
        return trial, lock

    def _ask(self, trials: list[Any]) -> Trial:
        optuna = library("optuna", extra="sweeps")
        search, dimensions = self.plan.search, self.plan.dimensions
        queued = any(trial.state.name == "WAITING" for trial in trials)  # by someone who was killed before he asked
        if search.sampler == "grid" and not queued:
            self.study.enqueue_trial(_next_combination(self.plan, trials))
        # A generator for each trial: whoever asks, and after whatever stop, a search of one worker is the same.
        seed = int.from_bytes(hashlib.sha256(f"{search.sampler_seed} {len(trials)}".encode()).digest()[:4])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            self.study.sampler = (
                optuna.samplers.TPESampler(n_startup_trials=search.startup_trials, constant_liar=True, seed=seed)
                if search.sampler == "tpe"
                else optuna.samplers.RandomSampler(seed=seed)
            )
        if search.sampler == "grid":
            choices = optuna.distributions.CategoricalDistribution
            return self.study.ask({each.key: choices(each.values) for each in dimensions})
        return self.study.ask({each.key: each.distribution() for each in dimensions})

    def _lock(self, number: int) -> Lock:
        return Lock.of_file(self.plan.folder / str(number))


def chosen(plan: SweepPlan, trial: Trial) -> list[str]:
    """The overrides that the study has chosen for a trial."""
    return [f"{key}={text(trial.params[key])}" for key in plan.keys]


def _next_combination(plan: SweepPlan, trials: list[Any]) -> dict[str, str]:
    """The first that nobody has begun; once there is none, the first that has failed."""
    wanted = [combination(plan.dimensions, number) for number in range(plan.trials)]
    begun = [trial.params for trial in trials]
    good = [trial.params for trial in trials if trial.state.name != "FAIL"]
    return next(each for known in (begun, good) for each in wanted if each not in known)


def _journal(optuna: Any, plan: SweepPlan) -> Any:
    # Optuna's lock of the file is a symbolic link to it, which must be right from everywhere.
    journal = str((plan.folder / JOURNAL).resolve())
    return optuna.storages.JournalStorage(optuna.storages.journal.JournalFileBackend(journal))


def _database(optuna: Any, url: str) -> Any:
    sqlalchemy = library("sqlalchemy", extra="sweeps")
    try:
        return optuna.storages.RDBStorage(url)
    except (ImportError, optuna.exceptions.OptunaError, sqlalchemy.exc.SQLAlchemyError) as error:
        raise ValueError(f"storage={_without_password(url)}: {one_line(error)}") from error


def _without_password(url: str) -> str:
    """
    >>> _without_password("postgresql://me:secret@host/db")
    'postgresql://me:***@host/db'
    """
    scheme, _, rest = url.partition("://")
    user, at, place = rest.rpartition("@")
    return f"{scheme}://{user.partition(':')[0]}:***@{place}" if at else url


def _pruner(optuna: Any, name: str, rungs: int) -> Any:
    if name == "median":
        return optuna.pruners.MedianPruner()
    return (
        optuna.pruners.SuccessiveHalvingPruner(min_resource=rungs) if name == "halving" else optuna.pruners.NopPruner()
    )


@contextmanager
def _waiting_for(lock: Lock) -> Iterator[None]:
    lock.acquire(wait=True)
    try:
        yield
    finally:
        lock.release()
