from __future__ import annotations

import importlib
import os
import sys
import textwrap
from pathlib import Path
from types import SimpleNamespace

import pytest
from frameworks import framework_python, run_script, torch_python

from tracelake.recorder.hooks import cuda, importing
from tracelake.recorder.hooks.cuda import CudaWatch

# Prints the names of the steps that were annotated, closed ones first seen first.
_SHOW = """
import json
from tracelake.recorder import annotation
from tracelake.recorder.hooks import find_steps
annotation.set_recording(True)
find_steps()

def show():
    ranges = [entry for log in annotation._logs for entry in log.ranges]
    texts = [(str(entry[0]), entry[2] > 0) for entry in sorted(ranges, key=lambda entry: entry[1])]
    print(json.dumps(texts))
"""


def _steps(python: str, script: str) -> list[tuple[str, bool]]:
    return [(text, closed) for text, closed in run_script(python, _SHOW + textwrap.dedent(script))]


# Imports --------------------------------------------------------------------------------------------------------------


@pytest.fixture
def module_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


def test_action_runs_after_the_module_and_leaves_no_trace(module_folder: Path) -> None:
    (module_folder / "tl_first.py").write_text("value = 1\n")
    seen = []
    importing.after_import("tl_first", lambda module: seen.append(module.value))
    assert importing._finder in sys.meta_path
    import tl_first  # type: ignore[import-not-found]

    assert seen == [1]
    assert importing._finder not in sys.meta_path
    assert "exec_module" not in vars(tl_first.__spec__.loader)


def test_action_runs_at_once_for_a_module_that_is_there() -> None:
    seen = []
    importing.after_import("json", lambda module: seen.append(module.__name__))
    assert seen == ["json"]


def test_a_failing_action_breaks_no_import(module_folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    (module_folder / "tl_second.py").write_text("value = 2\n")
    importing.after_import("tl_second", lambda module: 1 / 0)
    import tl_second  # type: ignore[import-not-found]

    assert tl_second.value == 2
    assert "ZeroDivisionError" in caplog.text


def test_a_module_that_fails_to_import_fails_as_ever_and_may_be_tried_again(module_folder: Path) -> None:
    path = module_folder / "tl_third.py"
    path.write_text("raise KeyError('mine')\n")
    seen = []
    importing.after_import("tl_third", lambda module: seen.append(module.value))
    with pytest.raises(KeyError, match="mine"):
        importlib.import_module("tl_third")
    path.write_text("value = 'now it works'\n")
    importlib.import_module("tl_third")
    assert seen == ["now it works"]


def test_a_name_that_never_comes_is_not_found_as_ever() -> None:
    importing.after_import("tl_nowhere", lambda module: None)
    with pytest.raises(ModuleNotFoundError, match="tl_nowhere"):
        import tl_nowhere  # type: ignore[import-not-found]  # noqa: F401
    importing._finder.waiting.pop("tl_nowhere")


# CUDA -----------------------------------------------------------------------------------------------------------------


def _proc(folder: Path, *, library: bool = False, device: str = "") -> Path:
    (folder / "fd").mkdir()
    (folder / "maps").write_text("7f00-7f01 r-xp 0 08:01 1 /usr/lib/libcuda.so.535\n" if library else "")
    (folder / "fd" / "3").symlink_to(device or "/dev/null")
    return folder


@pytest.mark.parametrize(
    ("library", "device", "with_torch", "expected"),
    [
        (False, "", False, 0),
        (True, "", False, 1),
        (True, "", True, 0),
        (True, "/dev/nvidia-uvm", True, 1),
        (True, "/dev/nvidiactl", True, 0),
    ],
)
def test_poll_sees_cuda_start_but_not_torch_just_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, library: bool, device: str, with_torch: bool, expected: int
) -> None:
    if with_torch:
        monkeypatch.setitem(sys.modules, "torch", SimpleNamespace())  # type: ignore[arg-type]
    else:
        monkeypatch.delitem(sys.modules, "torch", raising=False)
    calls: list[int] = []
    watch = CudaWatch(lambda: calls.append(1), proc=_proc(tmp_path, library=library, device=device))
    assert [watch.poll(), watch.poll()] == [bool(expected)] * 2
    assert len(calls) == expected


def test_torch_calls_back_before_cuda_starts_and_its_function_is_put_back() -> None:
    order: list[str] = []

    def init() -> None:
        order.append("cuda")

    native = SimpleNamespace(_cuda_init=init)
    torch = SimpleNamespace(_C=native, cuda=SimpleNamespace(is_initialized=lambda: False))
    cuda._hook_torch(torch, CudaWatch(lambda: order.append("callback")))  # type: ignore[arg-type]
    native._cuda_init()
    assert order == ["callback", "cuda"]
    assert native._cuda_init is init


@pytest.mark.parametrize("use", ["torch.cuda.init()", "torch.zeros(1, device='cuda')", "torch.ones(1).cuda()"])
def test_a_real_torch_calls_back_on_every_way_into_cuda(use: str) -> None:
    script = f"""
import json
from tracelake.recorder.hooks import when_cuda_starts
calls = []
watch = when_cuda_starts(lambda: calls.append(1))
import torch
inner = torch._C._cuda_init
torch.ones(1); torch.cuda.is_available()
before = [len(calls), watch.poll()]
try: {use}
except (RuntimeError, AssertionError): pass   # there may be no GPU
print(json.dumps([before, len(calls), watch.poll(), torch._C._cuda_init is not inner]))
"""
    assert run_script(framework_python("torch", "modern"), script) == [[0, False], 1, True, True]


def test_a_forked_child_is_not_called_back() -> None:
    watch = CudaWatch(lambda: os._exit(7))
    child = os.fork()
    if child == 0:
        watch.fire()
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_a_failing_callback_breaks_nothing(caplog: pytest.LogCaptureFixture) -> None:
    CudaWatch(lambda: 1 / 0).fire()
    assert "division by zero" in caplog.text


# A plain PyTorch loop -------------------------------------------------------------------------------------------------

_LOOP = """
import torch
model = torch.nn.Linear(2, 1)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
other = torch.optim.Adam(torch.nn.Linear(2, 1).parameters())
def step():
    model(torch.ones(3, 2)).sum().backward()
    optimizer.step()
    other.step()
"""
_TORCHES = pytest.mark.parametrize("environment", ["torch", "modern"])


def _torch(environment: str) -> str:
    return torch_python() if environment == "torch" else framework_python("torch", environment)


@_TORCHES
def test_steps_run_from_the_end_of_one_optimizer_step_to_the_next(environment: str) -> None:
    found = _steps(_torch(environment), _LOOP + "for _ in range(4): step()\nshow()")
    assert found == [("step_1", True), ("step_2", True), ("step_3", True), ("step_4", False)]


@_TORCHES
def test_schedulers_and_closures_still_work(environment: str) -> None:
    script = """
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)
    losses = []
    def closure():
        optimizer.zero_grad(); loss = model(torch.ones(3, 2)).sum(); loss.backward(); losses.append(1); return loss
    for _ in range(3):
        result = optimizer.step(closure)
        scheduler.step()
    assert len(losses) == 3 and result is not None
    show()
    """
    assert [text for text, _ in _steps(_torch(environment), _LOOP + textwrap.dedent(script))] == [
        "step_1",
        "step_2",
        "step_3",
    ]


@_TORCHES
@pytest.mark.parametrize("text", ["step_0", "train_step_7", "iteration 3", "Batch#4"])
def test_the_scripts_own_steps_silence_the_optimizers(environment: str, text: str) -> None:
    script = f"""
    for _ in range(3):
        with annotation.annotate({text!r}):
            step()
    show()
    """
    assert _steps(_torch(environment), _LOOP + textwrap.dedent(script)) == [(text, True)] * 3


def test_other_annotations_of_the_script_silence_nothing() -> None:
    script = """
    for _ in range(3):
        with annotation.annotate("forward"):
            step()
    show()
    """
    found = _steps(torch_python(), _LOOP + textwrap.dedent(script))
    assert [text for text, _ in found if text != "forward"] == ["step_1", "step_2", "step_3"]


def test_a_watch_that_was_there_before_keeps_seeing_everything() -> None:
    script = """
    seen = []
    from tracelake.recorder.hooks import steps
    annotation.set_watch(seen.append)
    find_steps()
    with annotation.annotate("forward"): pass
    step(); step()
    with annotation.annotate("step_9"): pass
    assert annotation._watch == seen.append, "the watch for steps has gone"
    with annotation.annotate("backward"): pass
    assert seen == ["forward", "step_1", "step_2", "step_9", "backward"], seen
    show()
    """
    _steps(torch_python(), _LOOP + textwrap.dedent(script))


def test_compiled_optimizer_steps_work_and_add_no_graph_break() -> None:
    script = """
    def stepping():
        optimizer.step()
    model(torch.ones(3, 2)).sum().backward()
    def breaks():
        torch._dynamo.reset()
        return torch._dynamo.explain(stepping)().graph_break_count
    hooked = breaks()
    from torch.optim import optimizer as module
    module._global_optimizer_post_hooks.clear()
    assert hooked == breaks(), (hooked, breaks())
    show()
    """
    _steps(framework_python("torch", "modern"), _LOOP + textwrap.dedent(script))


# Trainers -------------------------------------------------------------------------------------------------------------

_LIGHTNING = """
import pickle, torch
class Model(L.LightningModule):
    def __init__(self): super().__init__(); self.layer = torch.nn.Linear(2, 1)
    def training_step(self, batch, index): return self.layer(batch[0]).sum()
    def configure_optimizers(self): return torch.optim.SGD(self.parameters(), 0.1)
data = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.ones(6, 2)), batch_size=2)
trainer = L.Trainer(max_epochs=2, accelerator="cpu", logger=False, enable_checkpointing=True, default_root_dir=FOLDER,
                    enable_progress_bar=False, enable_model_summary=False)
trainer.fit(Model(), data)
callback = pickle.loads(pickle.dumps(trainer.callbacks[0]))
assert type(callback) is type(trainer.callbacks[0])
show()
"""


@pytest.mark.parametrize("package", ["pytorch_lightning", "lightning.pytorch"])
def test_lightning_tells_each_batch_once(package: str, tmp_path: Path) -> None:
    python = framework_python(package.partition(".")[0], "modern")
    script = f"import {package} as L\n" + _LIGHTNING.replace("FOLDER", repr(str(tmp_path)))
    assert _steps(python, script) == [(f"step_{number}", True) for number in range(6)]


_TRANSFORMERS = """
import torch
from transformers import Trainer, TrainingArguments
class Model(torch.nn.Module):
    def __init__(self): super().__init__(); self.layer = torch.nn.Linear(2, 1)
    def forward(self, x=None, labels=None): y = self.layer(x); return {"loss": y.sum(), "logits": y}
data = [{"x": torch.ones(2), "labels": torch.ones(1)} for _ in range(8)]
arguments = TrainingArguments(output_dir=FOLDER, per_device_train_batch_size=2, gradient_accumulation_steps=2,
    num_train_epochs=2, report_to=[], use_cpu=True, save_strategy="no", disable_tqdm=True)
Trainer(Model(), arguments, train_dataset=data).train()
show()
"""


@pytest.mark.parametrize("environment", ["torch", "modern"])
def test_transformers_tells_each_step_once(environment: str, tmp_path: Path) -> None:
    python = framework_python("transformers", environment)
    script = _TRANSFORMERS.replace("FOLDER", repr(str(tmp_path)))
    assert _steps(python, script) == [(f"step_{number}", True) for number in range(4)]


_KERAS = """
import numpy
model = keras.Sequential([keras.layers.Dense(1)])
model.compile(optimizer="sgd", loss="mse")
model.fit(numpy.ones((6, 2)), numpy.ones((6, 1)), batch_size=2, epochs=2, verbose=0)
model.evaluate(numpy.ones((6, 2)), numpy.ones((6, 1)), batch_size=2, verbose=0)
show()
"""


@pytest.mark.parametrize(
    ("environment", "imported"),
    [("modern", "import keras"), ("tensorflow", "import keras"), ("tensorflow", "from tensorflow import keras")],
)
def test_keras_tells_each_batch_once(environment: str, imported: str) -> None:
    python = framework_python("keras", environment)
    script = _SHOW + f"{imported}\n" + _KERAS
    found = run_script(python, script, KERAS_BACKEND="torch" if environment == "modern" else "tensorflow")
    assert found == [[f"step_{number}", True] for number in range(6)]
