"""Runs jobs in a few forked workers at a time, and starts them again after a crash."""

import logging
from collections.abc import Iterable, Iterator
from multiprocessing.connection import wait

import torch

import pydisc
from conformance.outcome import OpResult
from conformance.worker import Job, Worker

_TICK = 1.0


def run_jobs(jobs: Iterable[Job], workers: int) -> Iterator[OpResult]:
    """Results in the order in which they are ready."""
    _warm_up()
    waiting = iter(jobs)
    running: list[Worker] = []
    while True:
        while len(running) < workers and (job := next(waiting, None)) is not None:
            running.append(Worker(job))
        if not running:
            return
        ready = wait([w.connection for w in running], _TICK)
        for worker in list(running):
            if worker.connection in ready:
                ended = worker.read()
            elif worker.is_hanging():
                ended = worker.kill()
            else:
                continue
            if ended:
                yield worker.job.result
            elif not worker.connection.closed:
                continue
            running.remove(worker)
            if not ended:
                running.append(Worker(worker.job))


def _warm_up() -> None:
    """Compile once before forking: what a first compile loads, every worker has then.

    With one thread, as a process that has OpenMP threads cannot be forked.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    logging.disable(logging.WARNING)  # that Dynamo takes over is meant
    with torch.no_grad():
        pydisc.compile(lambda x: x.exp() + 1)(torch.ones(2, 3))
        pydisc.compile(lambda x: x + 1 if x.sum() > 0 else x)(torch.ones(3))  # through Dynamo
    logging.disable(logging.NOTSET)
    torch._dynamo.reset()
    torch.set_num_threads(threads)
