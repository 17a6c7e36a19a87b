"""prspark scores how robust an LLM system is to rewording."""

from prspark.api import plan, score
from prspark.engine.config import Config, load_config
from prspark.judges.protocol import CorrectnessRequest, Judge, RobustnessRequest, Verdict
from prspark.metric.config import PerturbationRobustnessExternalConfig

__version__ = "0.1.0"

__all__ = [
    "Config",
    "CorrectnessRequest",
    "Judge",
    "PerturbationRobustnessExternalConfig",
    "RobustnessRequest",
    "Verdict",
    "load_config",
    "plan",
    "score",
]
