"""One operator in a process of its own, so that a crash or a hang ends no more than a sample."""

import faulthandler
import os
import re
import shutil
import signal
import tempfile
import time
import warnings
from dataclasses import dataclass, field
from itertools import islice
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import torch

from conformance.check import CompileRoute, Route, TorchCompileRoute, check, fresh
from conformance.outcome import OpResult, Outcome
from conformance.samples import (
    DTYPES,
    UNDEFINED,
    described,
    entry_name,
    samples,
    structure,
    variant_of,
)
from pydisc.support import knobs

MAX_LOST = 10
"""Crashes and hangs of one operator before its other samples are left out."""


@dataclass(frozen=True)
class Options:
    """How samples are run."""

    samples: int = 0
    """Of each operator, the first ones; 0 is all."""
    torch_compile: bool = False
    variant: str = "function"
    threads: int = 1
    timeout: float = 60.0
    """Seconds that one sample may take."""


@dataclass
class Job:
    """An operator in one dtype, and how far it is."""

    op: Any
    dtype: str
    options: Options
    result: OpResult = field(init=False)
    next_sample: int = 0
    running: Outcome | None = None
    """The sample that was begun last; its status is not known."""
    lost: int = 0

    def __post_init__(self) -> None:
        self.result = OpResult(entry_name(self.op), self.dtype)


class Worker:
    """A forked process that runs the rest of a job, as seen from the parent."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self._log = Path(tempfile.mkdtemp(prefix="pydisc-conformance-"))
        context = get_context("fork")  # importing PyTorch and its database takes ten seconds
        self.connection, theirs = context.Pipe(duplex=False)
        self._process = context.Process(target=_work, args=(job, theirs, self._log), daemon=True)
        self._process.start()
        theirs.close()
        self._heard = time.monotonic()

    def read(self) -> bool:
        """Take in what the process has sent; True when the job is done."""
        self._heard = time.monotonic()
        try:
            message = self.connection.recv()
        except EOFError:
            return self._ended()
        if message is None:
            self._close()
            return True
        if isinstance(message, str):
            self.job.result.error = message
        elif message.status == "running":
            self.job.running = message
        else:
            self.job.result.outcomes.append(message)
            self.job.running = None
            self.job.next_sample = message.sample + 1
        return False

    def is_hanging(self) -> bool:
        """Whether nothing was heard for longer than a sample may take."""
        return time.monotonic() - self._heard > self.job.options.timeout

    def kill(self) -> bool:
        """End a process that hangs; True if the job ends with it."""
        self._process.kill()
        self._process.join()
        return self._lose("hang", f"no answer in {self.job.options.timeout:.0f} s")

    def _ended(self) -> bool:
        self._process.join()
        code = self._process.exitcode or 0
        name = signal.Signals(-code).name if code < 0 else f"exit status {code}"
        return self._lose("crash", f"{name}{self._last_words()}")

    def _lose(self, status: str, reason: str) -> bool:
        """Note the sample that was running; True if the job ends with it."""
        self._close()
        job = self.job
        running = job.running
        if running is None:
            job.result.error = f"{status} while samples were made: {reason}"
            return True
        job.result.outcomes.append(Outcome(running.sample, status, reason, running.inputs))
        job.running = None
        job.next_sample = running.sample + 1
        job.lost += 1
        if job.lost >= MAX_LOST:
            job.result.error = f"left after {MAX_LOST} crashes or hangs"
        return job.lost >= MAX_LOST

    def _last_words(self) -> str:
        """Where Python was, and what a library printed."""
        text = (self._log / "stderr").read_text(errors="replace")
        said, _, stack = text.partition("Fatal Python error")
        frames = re.findall(r'File "[^"]*/(\w+\.py)", line (\d+) in (\w+)', stack)
        lines = [line for line in said.splitlines() if line.strip()]
        words = [f"in {name}:{line} {function}" for name, line, function in frames[:3]]
        return "; ".join(["", *words, *(line[:200] for line in lines[-1:])])

    def _close(self) -> None:
        self._process.join(5)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()
        self.connection.close()
        shutil.rmtree(self._log, ignore_errors=True)


def _work(job: Job, connection: Connection, log: Path) -> None:
    """In the forked process: run the samples that are left, telling of each."""
    stderr = os.open(log / "stderr", os.O_WRONLY | os.O_CREAT)
    os.dup2(stderr, 1)
    os.dup2(stderr, 2)
    faulthandler.enable(stderr)
    warnings.simplefilter("ignore")
    options = job.options
    torch.set_num_threads(options.threads)
    torch.use_deterministic_algorithms(True, warn_only=True)  # memory never written is NaN
    with torch.no_grad(), knobs.scope(repro=str(log / "repro")):
        try:
            _run_samples(job, connection)
        except Exception as error:  # the database's own: a package is not there, say
            connection.send(f"no samples: {type(error).__name__}: {error}")
    connection.send(None)
    connection.close()
    os._exit(0)  # no destructors: the process has no other use


def _run_samples(job: Job, connection: Connection) -> None:
    options = job.options
    fn = variant_of(job.op, options.variant)
    if fn is None:
        connection.send(f"no {options.variant} variant")
        return
    routes: dict[Any, Route] = {}
    found = samples(job.op, DTYPES[job.dtype])
    for number, arguments in enumerate(islice(found, options.samples or None)):
        if number < job.next_sample:
            continue
        connection.send(Outcome(number, "running", inputs=described(arguments)))
        key = number if options.torch_compile else structure(arguments)
        seen = key in routes
        if not seen:
            make = TorchCompileRoute if options.torch_compile else CompileRoute
            routes[key] = make(fresh(fn))
        values = job.op.name not in UNDEFINED
        connection.send(check(number, fn, routes[key], arguments, seen, values))
