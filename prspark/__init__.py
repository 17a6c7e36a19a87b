"""prspark scores how robust an LLM system is to rewording."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from prspark.api import calibrate, plan, score
    from prspark.engine.config import Config, load_config
    from prspark.judges.protocol import CorrectnessRequest, Judge, RobustnessRequest, Verdict
    from prspark.metric.config import PerturbationRobustnessExternalConfig

__version__ = "0.1.0"

_PLACES = {
    "Config": "engine.config",
    "CorrectnessRequest": "judges.protocol",
    "Judge": "judges.protocol",
    "PerturbationRobustnessExternalConfig": "metric.config",
    "RobustnessRequest": "judges.protocol",
    "Verdict": "judges.protocol",
    "calibrate": "api",
    "load_config": "engine.config",
    "plan": "api",
    "score": "api",
}

__all__ = [
    "Config",
    "CorrectnessRequest",
    "Judge",
    "PerturbationRobustnessExternalConfig",
    "RobustnessRequest",
    "Verdict",
    "calibrate",
    "load_config",
    "plan",
    "score",
]


def __getattr__(name: str) -> Any:
    """Import a public name when it is used: a Python worker of Spark needs few of them, and starts sooner."""
    if name not in _PLACES:
        raise AttributeError(f"module prspark has no attribute {name}")
    return getattr(import_module(f"prspark.{_PLACES[name]}"), name)
