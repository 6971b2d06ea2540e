"""Files of the Hugging Face hub, through its own client: it resumes, and compares with the hub's checksums."""

import importlib.util
import os
import urllib.error
import urllib.request
from pathlib import Path

from focalcal.data.download import DownloadError

_SECONDS = 5.0


def download_from_hub(repository: str, path: str, target: Path) -> None:
    """Bring a file of a data set's repository to ``target``, whose end is ``path``.

    Raises:
        DownloadError: the client is not installed, or the hub cannot be reached or refuses.
    """
    if importlib.util.find_spec("huggingface_hub") is None:
        raise DownloadError(
            "is downloaded with huggingface_hub, which is not installed (pip install 'focalcal[download]')"
        )
    _check_reachable(os.environ.get("HF_ENDPOINT", "https://huggingface.co"))
    from huggingface_hub import hf_hub_download

    folder = target.parents[len(Path(path).parts) - 1]
    try:
        hf_hub_download(repository, path, repo_type="dataset", local_dir=folder, etag_timeout=_SECONDS)
    except Exception as error:  # the client and its HTTP library have dozens of kinds, with texts of many lines
        raise DownloadError(f"could not be downloaded from the hub ({_why(error)})") from error


def _check_reachable(address: str) -> None:
    """Without a network the client would try for half a minute."""
    try:
        urllib.request.urlopen(urllib.request.Request(address, method="HEAD"), timeout=_SECONDS).close()
    except urllib.error.HTTPError as error:
        error.close()  # an answer, if not a friendly one: somebody is there
    except (OSError, ValueError) as error:
        reason = getattr(error, "reason", None) or error
        raise DownloadError(f"could not be downloaded: {address} cannot be reached ({reason})") from error


def _why(error: Exception) -> str:
    kind = type(error).__name__
    text = (str(error).strip().splitlines() or [""])[0].rstrip(".:")
    return f"{kind}: {text[:160]}" if text else kind
