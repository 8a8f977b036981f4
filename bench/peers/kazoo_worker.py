"""Runs kazoo's lock for the bench. The protocol is described in peers.go."""

import itertools
import logging
import os
import platform
import queue
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import kazoo
from kazoo.client import KazooClient

SESSION_TIMEOUT = 30.0  # seconds, as on the other sides
MAX_PARALLEL = 32


class Worker:
    def __init__(self, servers, recipe, sessions, threads, path):
        if recipe != "mutex":
            raise ValueError("unknown recipe " + recipe)
        every = servers.split(",")
        self.clients = [KazooClient(hosts=every[i % len(every)], timeout=SESSION_TIMEOUT) for i in range(sessions)]
        self.locks = [self.clients[i % sessions].Lock(path) for i in range(threads)]
        self.threads = ThreadPoolExecutor(threads)
        self.in_parallel(lambda client: client.start(60))

    def run(self, lead, cycles, hold_micros):
        """Let all threads together run these cycles after the lead.

        Returns the times in ns: of the block, and of each cycle.
        """
        took = [0] * cycles
        bounds = [0, 0]  # of the block, each written by the thread that has this turn
        turns = itertools.count(-lead)  # next() on it is atomic

        def work(lock):
            while True:
                turn, began = next(turns), time.perf_counter_ns()
                if turn == 0:
                    bounds[0] = began
                if turn == cycles:
                    bounds[1] = began
                if turn >= cycles:
                    return
                lock.acquire()
                if hold_micros:
                    time.sleep(hold_micros / 1e6)
                lock.release()
                if turn >= 0:
                    took[turn] = time.perf_counter_ns() - began

        for done in [self.threads.submit(work, lock) for lock in self.locks]:
            done.result()
        if lead == 0:
            bounds[1] = time.perf_counter_ns()
        return [bounds[1] - bounds[0]] + took

    def close(self):
        def close(client):
            client.stop()
            client.close()

        self.in_parallel(close)
        self.threads.shutdown()

    def in_parallel(self, step):
        with ThreadPoolExecutor(MAX_PARALLEL) as pool:
            list(pool.map(step, self.clients))


def read(commands):
    """Read the commands, and end the process when there are no more, even during a block."""
    for line in sys.stdin:
        commands.put(line.split())
    os._exit(0)


def main():
    logging.disable(logging.CRITICAL)
    commands = queue.Queue()
    threading.Thread(target=read, args=(commands,), daemon=True).start()
    print("ok", kazoo.__version__ + ", Python", platform.python_version(), flush=True)
    worker = None
    while True:
        command, *words = commands.get()
        answer = ["ok"]
        try:
            if command == "open":
                servers, recipe, sessions, threads, path = words
                worker = Worker(servers, recipe, int(sessions), int(threads), path)
            elif command == "run":
                answer += worker.run(*map(int, words))
            elif command == "close":
                worker.close()
            else:
                raise ValueError("unknown command " + command)
        except Exception as e:
            answer = ["error", " ".join(repr(e).split())]
        print(*answer, flush=True)


main()
