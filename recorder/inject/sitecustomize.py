"""Runs at the start of every Python below tracelake-record, and begins to record in those that train.

Any Python may come here, of any version and with any packages: so this is plain code, imports nothing that is not
loaded already, and raises nothing of its own. Where nothing is to be recorded it is done after some microseconds.
"""

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from importlib.machinery import ModuleSpec

# Programs that start the training, or have nothing to do with it; scripts by the name of their file.
_OTHER_SCRIPTS = (
    "torchrun", "accelerate", "accelerate-launch", "accelerate-config", "deepspeed", "ds", "horovodrun", "fabric",
    "lightning", "composer", "colossalai", "ray", "jupyter", "jupyter-lab", "jupyter-notebook", "tensorboard",
    "wandb", "mlflow", "dvc", "aws", "gsutil", "gcloud", "conda", "mamba", "micromamba", "uv", "poetry", "pipx",
    "virtualenv", "huggingface-cli", "hf", "nvitop", "gpustat", "cmake", "ninja", "tracelake", "tracelake-record",
)  # fmt: skip
_OTHER_MODULES = (
    "torch.distributed.run", "torch.distributed.launch", "torch.distributed.launcher", "accelerate", "deepspeed",
    "horovod.runner", "composer.cli", "colossalai.cli", "ray", "jupyter", "ipykernel", "tensorboard", "wandb", "mlflow",
    "pip", "venv", "ensurepip", "virtualenv", "build", "site", "sysconfig", "compileall", "py_compile",
    "joblib.externals.loky", "multiprocessing", "tracelake",
)  # fmt: skip
_RANKS = ("TRACELAKE_RANK", "RANK", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID", "PMI_RANK")
_COMPAT = ("smppy", "smprof")


def _program(arguments: "Sequence[str]") -> "tuple[bool, str] | None":
    """(is a module, its name or the script's path) of Python's own command line; None for -c and for no program.

    Workers of multiprocessing are started by -c, and so are the small questions that shell scripts ask.
    """
    rest = iter(arguments[1:])
    for argument in rest:
        if argument == "-" or not argument.startswith("-"):
            return False, argument
        if argument.startswith("--"):
            if argument == "--check-hash-based-pycs":
                next(rest, None)
            continue
        for place, letter in enumerate(argument[1:], 2):
            if letter == "c":
                return None
            if letter in "mWX":
                value = argument[place:] or next(rest, None)
                if letter == "m":
                    return (True, value) if value else None
                break
    return None


def _is_training(arguments: "Sequence[str]") -> bool:
    program = _program(arguments)
    if program is None:
        return False
    is_module, name = program
    if is_module:
        return not any(name == other or name.startswith(other + ".") for other in _OTHER_MODULES)
    name = os.path.basename(name)  # noqa: PTH119 -- pathlib takes a millisecond to import
    if name == "train":
        return not _is_toolkit(program[1])
    # pip, pip3 and pip3.11
    is_pip = name.startswith("pip") and (name[3:].replace(".", "") or "0").isdigit()
    return name not in _OTHER_SCRIPTS and not is_pip


def _is_toolkit(path: str) -> bool:
    """SageMaker's own `train`, which starts the user's script."""
    try:
        with open(path, "rb") as file:  # noqa: PTH123 -- as above
            return b"sagemaker_training" in file.read(4096)
    except OSError:
        return False


def _rank(environ: "Mapping[str, str]") -> str:
    for name in _RANKS:
        if environ.get(name):
            return environ[name]
    return "x"


def _is_wanted(arguments: "Sequence[str]", environ: "Mapping[str, str]") -> bool:
    if not environ.get("TRACELAKE_LAUNCH_FOLDER"):
        return False
    if environ.get("TRACELAKE_ENABLED", "1").strip().lower() in ("0", "false", "no", "off"):
        return False
    # A process that replaces itself (exec) keeps its id, and is to be recorded again.
    rank, _, process_id = environ.get("TRACELAKE_RECORDED", "").partition(":")
    if rank == _rank(environ) and process_id != str(os.getpid()):
        return False
    return _is_training(arguments)


class _Finder:
    """Finds the stand-ins for SageMaker's packages; see tracelake.recorder.compat."""

    tracelake_compat = True

    def find_spec(self, name: str, path: object = None, target: object = None) -> "ModuleSpec | None":
        if name not in _COMPAT or path is not None:
            return None
        try:
            from tracelake.recorder import compat
        except ImportError:
            return None
        return compat.spec(name)


def _record() -> None:
    os.environ["TRACELAKE_RECORDED"] = "{}:{}".format(_rank(os.environ), os.getpid())  # noqa: UP032 -- any Python
    try:
        from tracelake.recorder.hooks.begin import begin

        begin()
    except Exception as error:  # noqa: BLE001 -- the job must start whatever is wrong with us
        told = "tracelake: nothing is recorded in this process: {}: {}\n".format(type(error).__name__, error)  # noqa: UP032
        if sys.stderr is not None:
            sys.stderr.write(told)


def _chain() -> None:
    """Run the sitecustomize that would have run without us; what it raises is its own."""
    own = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120 -- as above
    sys.path[:] = [folder for folder in sys.path if os.path.abspath(folder) != own]  # noqa: PTH100
    module = sys.modules.pop("sitecustomize", None)
    try:
        import sitecustomize  # type: ignore[import-not-found]  # noqa: F401
    except ImportError as error:
        if getattr(error, "name", None) != "sitecustomize":
            raise
    finally:
        if module is not None:
            sys.modules.setdefault("sitecustomize", module)


def _main() -> None:
    try:
        _chain()
    finally:
        # The wheel's .pth may have added its own already.
        if not any(getattr(finder, "__name__", "") == "TracelakeNames" for finder in sys.meta_path):
            sys.meta_path.append(_Finder())
        if _is_wanted(getattr(sys, "orig_argv", ()), os.environ):
            _record()


if __name__ == "sitecustomize":
    _main()
