"""The example's worker in Python, for the test: it does what a job's data says, and keeps the ledger, as the handler does.

Usage: worker.py EXAMPLES LEDGER QUEUE LOCK_SECONDS SECONDS, of which the last says after how long it ends in order."""

import json
import os
import random
import signal
import sys
import threading
import time

examples, ledger, queue, lock_seconds, seconds = sys.argv[1:]
sys.dont_write_bytecode = True
sys.path[0] = examples
import worker  # noqa: E402

ledger = os.open(ledger, os.O_WRONLY | os.O_APPEND)


def note(job, event):
    now = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
    line = f"\n{event} {job['queue']} {job['id']} {job['attempt']} {job['token']} {os.getpid()} {os.getppid()} {now} ."
    os.write(ledger, line.encode())


class Crew(worker.Worker):
    late = False

    def work(self):
        self.hipq.call = self.dawdle(self.hipq.call)
        threading.Timer(float(seconds), lambda: os.kill(os.getpid(), signal.SIGTERM)).start()
        super().work()

    def dawdle(self, call):
        """Takes its time between grab and start now and then, to be killed there."""

        def dawdling(procedure, *args):
            if procedure == "job_start" and random.random() < 0.1:
                time.sleep(0.3)
            return call(procedure, *args)

        return dawdling

    def heartbeat(self, name):
        if not self.late:
            super().heartbeat(name)

    def do(self, job):
        note(job, "start")
        steps = json.loads(job["job_data"])["steps"]
        step = steps[min(job["attempt"], len(steps)) - 1]
        until = time.monotonic() + step.get("ms", 0) / 1000
        while (left := until - time.monotonic()) > 0:
            time.sleep(min(left, 0.005))
            note(job, "beat")
        do = step["do"]
        if do == "crash":
            raise worker.Later("killed by signal 9 (SIGKILL), as it were", "1s")
        while do == "hang":
            time.sleep(0.1)
        note(job, do)
        if do == "fatal":
            raise worker.Final("failed for good on purpose")
        if do == "fail":
            raise Exception("failed on purpose")
        if do == "late":
            self.be_late(job)

    def be_late(self, job):
        """Comes back, without a heartbeat meanwhile, when another runs the job."""
        self.late = True
        db = worker.connect(60)
        with db.cursor() as cursor:
            while True:
                cursor.execute(f"SELECT state, attempt FROM proof_{queue} WHERE id = %s", job["id"])
                state, attempt = cursor.fetchone()
                if attempt > job["attempt"]:
                    break
                time.sleep(0.01)
        print(f"late for {queue} {job['id']}, which is {state} in attempt {attempt}", file=sys.stderr)
        self.late = False


crew = Crew(worker.connect, queue, {}, "proof", int(lock_seconds), grab=3)
crew.handlers = dict.fromkeys(("plain", "brief", "fragile", "asked", "sent"), crew.do)
crew.work()
