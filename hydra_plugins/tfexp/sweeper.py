"""The sweeper behind `tfexp train -m` and studies: check every job first, run all, report each."""

from collections.abc import Sequence
from typing import Any

from hydra._internal.core_plugins.basic_sweeper import BasicSweeper
from hydra.core.config_store import ConfigStore
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.utils import JobReturn, JobStatus

ConfigStore.instance().store(
    group="hydra/sweeper",
    name="tfexp",
    node={"_target_": "hydra_plugins.tfexp.sweeper.TfexpSweeper", "max_batch_size": None, "params": None},
    provider="tfexp",
)


class TfexpSweeper(BasicSweeper):
    """The jobs of Hydra's basic sweeper, with two differences.

    Every job's config is composed and checked before the first job starts, and a job that fails
    does not hide the others: all run, and the outcome of each is returned.
    """

    def sweep(self, arguments: list[str]) -> list[JobReturn]:
        assert self.hydra_context is not None
        assert self.launcher is not None
        parser = OverridesParser.create(config_loader=self.hydra_context.config_loader)
        (jobs,) = self.split_arguments(parser.parse_overrides([*self._parse_config(), *arguments]), None)
        self.check(jobs)
        returns = list(self.launcher.launch(jobs, initial_job_idx=0))
        report(returns)
        return returns

    def check(self, jobs: Sequence[Sequence[str]]) -> None:
        """Refuse the whole sweep if one job's config could not run."""
        from tfexp.config.freeze import freeze

        assert self.hydra_context is not None
        assert self.config is not None
        for overrides in jobs:
            freeze(self.hydra_context.config_loader.load_sweep_config(self.config, list(overrides)))


def report(returns: Sequence[JobReturn]) -> None:
    """Raise one error that names every job that failed and why; nothing if all went well."""
    from tfexp.errors import RunError

    failed = [r for r in returns if r.status is not JobStatus.COMPLETED]
    if failed:
        shared = set.intersection(*(set(r.overrides or ()) for r in returns)) if len(returns) > 1 else set()
        own = [[o.lstrip("+") for o in r.overrides or () if o not in shared] for r in failed]
        lines = [f"  {' '.join(overrides)}: {reason(r)}" for overrides, r in zip(own, failed, strict=True)]
        raise RunError("\n".join([f"{len(failed)} of {len(returns)} jobs failed:", *lines]))


def reason(job: JobReturn) -> Any:
    """Why a job failed, in a line."""
    error = job._return_value
    return f"{type(error).__name__}: {error}".splitlines()[0]
