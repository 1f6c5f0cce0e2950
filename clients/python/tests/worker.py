"""The program of the tests' streams."""
import os
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(__file__), ".."))
import hipq  # noqa: E402
from test_hipq import connect  # noqa: E402

db = connect(os.environ["DRIVER"])


def echo(job):
    print('{"outcome": "failed"}')  # noise, which must not be a reply
    os.system("echo noise of a child")
    assert sys.stdin.read() == ""
    job.progress(50, "half")
    return {"data": job.data, "key": job.key, "attempt": job.attempt, "timeout": job.timeout}


def leave(job):
    cursor = db.cursor()
    cursor.execute("BEGIN" if hasattr(db, "vendor") or job.data == "begin" else "SELECT 1")
    cursor.execute("INSERT INTO trace (note) VALUES ('lost')")


def keep(job):
    db.cursor().execute("INSERT INTO trace (note) VALUES ('kept')")
    if not hasattr(db, "vendor"):
        db.commit()


def give_up(job):
    raise hipq.GiveUp("no such customer")


def retry(job):
    if job.attempt == 1:
        raise hipq.Retry("busy", 0)


def release(job):
    if not os.path.exists(job.key):
        open(job.key, "w").close()
        raise hipq.Release(0)
    return {"attempt": job.attempt}


def fail(job):
    raise KeyError("\ud800 ü")


def leaves(job):
    sys.exit(3)


def unsendable(job):
    return {1, 2}


def large(job):
    return "x" * (1 << 20)


def sleep(job):
    open(job.key, "w").close()
    time.sleep(job.data)
    return "slept"


def other(job):
    return job.type


functions = {f.__name__: f for f in (echo, leave, keep, give_up, retry, release, fail, leaves, unsendable, large, sleep)}
if __name__ == "__main__":
    hipq.run(functions if os.environ.get("STAR") is None else {**functions, "*": other}, connection=db)
