"""TensorBoard event files."""

from collections.abc import Mapping
from typing import Any

from tfexp.errors import ConfigError
from tfexp.registry import register
from tfexp.training.mirror import Mirror, RunInfo


@register("logger", "tensorboard")
class TensorBoardLogger(Mirror):
    """Event files in the run's folder, for `tensorboard --logdir outputs/runs`."""

    def __init__(self, run: RunInfo) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError as error:
            raise ConfigError("logger=tensorboard needs the package tensorboard: pip install tensorboard") from error
        self.make_writer = SummaryWriter
        self.folder = run.folder / "tensorboard"

    def start(self) -> None:
        self.writer = self.make_writer(str(self.folder))

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        for name, value in metrics.items():
            self.writer.add_scalar(name, value, step)

    def finish(self, status: str, summary: Mapping[str, Any]) -> None:
        self.writer.add_text("status", status)
        self.writer.close()
