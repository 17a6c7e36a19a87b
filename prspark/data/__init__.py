"""The sample that ships in the package: real answers of five systems, with references and human labels."""

import atexit
import shutil
import tempfile
from functools import cache
from importlib.resources import files
from pathlib import Path

SAMPLE = "sample.jsonl"


@cache
def sample_path() -> Path:
    """Return a file that holds the sample: 125 JSON lines, 25 groups of 5, MIT licence (`sample.LICENSE`).

    Imported from a zip, the package has no files: the sample is then copied, once a process, to a temporary
    folder that is removed when the process ends.
    """
    packaged = files(__name__).joinpath(SAMPLE)
    if isinstance(packaged, Path):
        return packaged
    folder = Path(tempfile.mkdtemp(prefix="prspark-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    copy = folder / SAMPLE
    copy.write_bytes(packaged.read_bytes())
    return copy
