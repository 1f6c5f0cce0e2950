"""A worker in Python that does the jobs of queue "bench" in several ways by turns, a few of them each time, so that noise hits all
alike: "ROUNDS CHUNK" are its arguments. For each way it says how many jobs it did in a second, in the round in the middle. The
database is in the environment, as for examples/sql.

The ways are the stored procedures; "steps", the same three transactions a job written by hand, with the two rows of the activity; and
"four", the least that anybody would write: four statements a job, each a transaction of its own, where a crash between two of them
loses a row of the activity. All read by the same index and write under a token. The number is how many jobs they grab at once.
"""

import os
import statistics
import sys
import time
import uuid

import pymysql

db = pymysql.connect(
    host=os.environ["DB_HOST"], port=int(os.environ["DB_PORT"]), user=os.environ["DB_USER"], password=os.environ["DB_PASSWORD"],
    database=os.environ["DB_NAME"], charset="utf8mb4", autocommit=True,
)
cursor = db.cursor()
me = str(uuid.uuid4())

DUE = """SELECT id, job_type, job_key, job_data, attempt, timeout FROM shop_bench FORCE INDEX (shop_bench$claim)
    WHERE status = 'available' AND part = 'NONE' AND job_type = 'noop' ORDER BY run_rank, scheduled_run_time, id LIMIT %s FOR UPDATE SKIP LOCKED"""
LOCK = "UPDATE shop_bench SET status = 'locked', worker_id = %s, lock_token = %s WHERE id IN %s"
RUN = """UPDATE shop_bench SET status = 'running', attempt = attempt + 1, attempt_token = lock_token, start_time = UTC_TIMESTAMP(6),
    update_time = UTC_TIMESTAMP(6) WHERE id = %s AND lock_token = %s"""
LOCK_AND_RUN = """UPDATE shop_bench SET status = 'running', worker_id = %s, lock_token = %s, attempt = attempt + 1,
    start_time = UTC_TIMESTAMP(6), update_time = UTC_TIMESTAMP(6) WHERE id = %s AND status = 'available'"""
END = """UPDATE shop_bench SET status = 'finished', result = %s, update_time = UTC_TIMESTAMP(6)
    WHERE id = %s AND lock_token = %s"""
TELL = """INSERT INTO shop_activity (at, kind, state, queue, job_id, job_type, job_key, worker_id, attempt)
    VALUES (UTC_TIMESTAMP(6), 'job', %s, 'bench', %s, %s, %s, %s, %s)"""


def call(procedure, *args):
    cursor.execute(f"CALL shop_{procedure}({', '.join(['%s'] * len(args))})", args)
    rows = cursor.fetchall()
    while cursor.nextset():  # behind the rows comes the word that the call is over
        pass
    return rows


def procedures(n):
    jobs = call("job_grab", me, "bench", "noop", n)
    for id, *_, token in jobs:
        call("job_start", me, "bench", id, token)
        call("job_complete", me, "bench", id, token, "ok")
    return len(jobs)


def steps(n):
    token = str(uuid.uuid4())
    cursor.execute("BEGIN")
    cursor.execute(DUE, (n,))
    jobs = cursor.fetchall()
    if jobs:
        cursor.execute(LOCK, (me, token, [id for id, *_ in jobs]))
    cursor.execute("COMMIT")
    for id, kind, key, _, attempt, _ in jobs:
        for state, write, args in ("starting", RUN, (id, token)), ("finished", END, ("ok", id, token)):
            cursor.execute("BEGIN")
            cursor.execute(write, args)
            cursor.execute(TELL, (state, id, kind, key, me, attempt + 1))
            cursor.execute("COMMIT")
    return len(jobs)


def four(n):
    cursor.execute(DUE, (n,))
    jobs = cursor.fetchall()
    for id, kind, key, _, attempt, _ in jobs:
        token = str(uuid.uuid4())
        cursor.execute(LOCK_AND_RUN, (me, token, id))
        cursor.execute(END, ("ok", id, token))
        cursor.execute(TELL, ("finished", id, kind, key, me, attempt + 1))
    return len(jobs)


call("worker_register", me, None, None, 86400)
rounds, chunk = map(int, sys.argv[1:])
ways = {"four": (four, 1), "calls-n1": (procedures, 1), "steps-n1": (steps, 1), "calls-n10": (procedures, 10), "steps-n10": (steps, 10)}
times = {name: [] for name in ways}
for _ in range(rounds):
    for name, (way, n) in ways.items():
        began, done = time.perf_counter(), 0
        while done < chunk:
            last = way(n)
            if last == 0:
                sys.exit(f"{name}: no job is left")
            done += last
        times[name].append((time.perf_counter() - began) / done)
for name in ways:
    print(name, 1 / statistics.median(times[name]))
