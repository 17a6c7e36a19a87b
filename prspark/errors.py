"""What can end a run, by what the user can do about it; each class carries its exit code."""


class PrsparkError(Exception):
    """A run that ended on purpose. The text is one line: what, where, what next."""

    exit_code = 1


class ConfigError(PrsparkError):
    """The configuration is wrong; nothing was judged."""

    exit_code = 2


class InputError(PrsparkError):
    """The input or the output is not what the run needs; nothing was judged."""

    exit_code = 2


class PreflightError(PrsparkError):
    """The endpoint would refuse every call; nothing was judged."""

    exit_code = 2


class UnscoredError(PrsparkError):
    """`--strict`, and some group has no score. The output is written."""

    exit_code = 3


class BudgetError(PrsparkError):
    """The plan needs more than the budget allows; nothing was judged."""

    exit_code = 4


class OutputError(PrsparkError):
    """The output can't be written, though all is judged; nothing of it is visible."""


class JudgeStoppedError(PrsparkError):
    """The endpoint refused call after call, so the run stopped; the journal keeps what was paid for."""
