"""A worker in Python that uses only hipq's stored procedures. Copy it, and insert your handlers and your database.

    DB_HOST=127.0.0.1 DB_USER=shop DB_PASSWORD=secret DB_NAME=shop python3 worker.py emails

It works until SIGTERM or SIGINT: then it finishes the current job, gives back what it has grabbed, and exits with 0. If it
loses its lock, its jobs belong to others, and it exits with 75: have a supervisor restart it. It needs PyMySQL.
"""

import json
import os
import random
import secrets
import signal
import socket
import sys
import threading
import time

import pymysql


class Refused(Exception):
    """hipq refuses, with its own error code: for example, the job belongs to another worker."""

    LOCK_LOST, STARTED, TAKEN = 31006, 31009, 31014

    def __init__(self, code, text):
        super().__init__(text)
        self.code = code


class Final(Exception):
    """For handlers: don't retry this job."""


class Later(Exception):
    """For handlers: Later("over quota", "5m") retries after that time."""


class Timeout(Exception):
    pass


class Hipq:
    """Calls the procedures of an instance, on its own connection."""

    IN_THE_WAY = {1020, 1047, 1180, 1205, 1213}  # deadlocks and the like: the call is undone, and may be repeated
    LOST = {0, 2003, 2006, 2013, 2014, 2055, 1053, 1317, 1927, 1969}  # or the call was interrupted

    def __init__(self, connect, instance, patience):
        self.connect, self.instance, self.patience = connect, instance, patience
        self.db, self.doubt = None, False
        self.sent = 0  # when the last call, or its repetition, was sent

    def call(self, procedure, *args):
        until = time.monotonic() + self.patience
        while True:
            try:
                self.db = self.db or self.connect(self.patience)
                self.sent = time.monotonic()
                with self.db.cursor(pymysql.cursors.DictCursor) as cursor:
                    cursor.execute(f"CALL {self.instance}_{procedure}({', '.join(['%s'] * len(args))})", args)
                    rows = cursor.fetchall()
                    while cursor.nextset():  # after the rows comes the end of the call
                        pass
                    return rows
            except pymysql.MySQLError as e:
                code = e.args[0] if e.args and isinstance(e.args[0], int) else 0
                if 31000 < code < 32000:
                    raise Refused(code, e.args[1]) from None
                if code in self.LOST:
                    # The call may have been done. Starting or settling a job again is harmless: its token allows that only
                    # once. Deregistering this worker cleans up all else: see Worker.work.
                    self.db, self.doubt = None, True
                elif code not in self.IN_THE_WAY:
                    raise
                if time.monotonic() > until:
                    raise
                time.sleep(random.uniform(0.05, 0.5))


class Worker:
    """Runs the jobs of one queue in turn. handlers: a function per job type, which returns the result."""

    def __init__(self, connect, queue, handlers, instance="shop", lock_seconds=60, grab=1):
        self.hipq, self.pulse = Hipq(connect, instance, 60), Hipq(connect, instance, lock_seconds / 4)
        self.queue, self.handlers, self.lock_seconds, self.grab = queue, handlers, lock_seconds, grab
        self.secret, self.ending = None, threading.Event()

    def work(self):
        for s in (signal.SIGTERM, signal.SIGINT):
            signal.signal(s, lambda *_: self.ending.set())
        signal.signal(signal.SIGALRM, self.overdue)
        self.register()
        for thread in (self.keep_alive, self.watch):
            threading.Thread(target=thread, daemon=True).start()
        while not self.ending.is_set():
            if self.hipq.doubt:
                self.deregister()
                self.register()
            try:
                jobs = self.job("grab", json.dumps(list(self.handlers)), self.grab)
            except Refused as e:
                if e.code == Refused.LOCK_LOST:
                    give_up(e)
                raise
            for job in jobs:
                if self.ending.is_set():
                    break
                self.run(job)
            if not jobs:
                self.ending.wait(random.uniform(0.5, 1.5))
        self.deregister()

    def register(self):
        new = secrets.token_hex(16)
        try:
            self.hipq.call("worker_register", new, socket.gethostname(), os.getpid(), self.lock_seconds)
        except Refused as e:
            if e.code != Refused.TAKEN:  # by this worker: the secret is random, and the answer to the first call was lost
                raise
        self.hipq.call("worker_heartbeat", new)  # the lock may date from the first of several calls
        self.alive, self.hipq.doubt = self.hipq.sent, False
        self.secret = new

    def deregister(self):
        worker, self.secret = self.secret, None
        try:
            self.hipq.call("worker_deregister", worker)  # jobs that were grabbed but not started go back at no cost
        except Refused as e:
            print(e, file=sys.stderr)  # it counts as dead already, so others have its jobs

    def keep_alive(self):
        """Renews the lock four times in its life, on its own connection."""
        while True:
            time.sleep(self.lock_seconds / 4)
            worker, now = self.secret, time.monotonic()
            if worker is None:
                continue
            try:
                self.heartbeat(worker)
                self.alive = max(now, self.alive)
            except Refused as e:
                if worker == self.secret:
                    give_up(e)
            except pymysql.MySQLError as e:
                print(f"heartbeat: {e}", file=sys.stderr)

    def heartbeat(self, worker):
        self.pulse.call("worker_heartbeat", worker)

    def watch(self):
        """Ends the process before an unrenewed lock expires, even if calls wait for the network."""
        while self.secret is None or time.monotonic() < self.alive + self.lock_seconds * 0.8:
            time.sleep(min(1, self.lock_seconds / 20))
        give_up("not renewed in time")

    def job(self, what, *args):
        """Calls a procedure of this queue: the right to those suffices."""
        return self.hipq.call(f"{self.queue}$job_{what}", self.secret, *args)

    def run(self, job):
        mine = (job["id"], job["token"])
        try:
            job["attempt"] = self.job("start", *mine)[0]["attempt"]
        except Refused as e:
            if e.code != Refused.STARTED:
                return self.say(job, e)
            job["attempt"] += 1  # by this worker: the answer to the first call was lost
        job["queue"] = self.queue
        try:
            signal.alarm(job["timeout"])
            try:
                result = self.handlers[job["job_type"]](job)
            finally:
                signal.alarm(0)
            settle = ("complete", *mine, None if result is None else json.dumps(result))
        except Timeout:
            settle = ("fail", *mine, f"timeout after {job['timeout']}s", None)
        except Final as e:
            settle = ("fail", *mine, str(e), '{"final": true}')
        except Later as e:
            settle = ("fail", *mine, e.args[0], json.dumps({"retry_after": e.args[1]}))
        except Exception as e:
            settle = ("fail", *mine, f"{type(e).__name__}: {e}", None)
        try:
            self.job(*settle)
        except Refused as e:  # too late: it changes nothing
            self.say(job, e)

    def say(self, job, what):
        print(f"{self.queue} {job['id']}: {what}", file=sys.stderr)

    def overdue(self, *_):
        raise Timeout


def give_up(why):
    """Ends the process with the running handler, because another worker may run the job now."""
    print(f"worker lost its lock: {why}", file=sys.stderr, flush=True)
    os._exit(75)


def connect(patience):
    return pymysql.connect(
        host=os.environ.get("DB_HOST", "127.0.0.1"),
        port=int(os.environ.get("DB_PORT", "3306")),
        user=os.environ.get("DB_USER", "shop"),
        password=os.environ.get("DB_PASSWORD", ""),
        database=os.environ.get("DB_NAME", "shop"),
        charset="utf8mb4",
        autocommit=True,
        connect_timeout=patience,
        read_timeout=patience,
        write_timeout=patience,
    )


# Keep the code above as it is; your application follows.


def send(job):
    data = json.loads(job["job_data"] or "{}")
    if "@" not in data.get("to", ""):
        raise Final(f"no address: {data}")
    print(f"to {data['to']}, attempt {job['attempt']}", flush=True)
    return {"sent_to": data["to"]}


if __name__ == "__main__":
    Worker(connect, sys.argv[1] if len(sys.argv) > 1 else "emails", {"send": send}).work()
