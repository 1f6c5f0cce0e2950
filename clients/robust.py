#!/usr/bin/env python3
"""1,000 jobs of a framework's shop, while something happens: .ci/with-mariadb --durable --keep clients/robust.py FRAMEWORK

FRAMEWORK is laravel, symfony, rails or django. hipq is HIPQ_TEST_HIPQ. In the middle come a TERM and a KILL of hipq work, a KILL of
its programs, a KILL of the database's server, and a deployment; the jobs leak memory all the time. In the end each job must have
run to its end and be finished, none was told that it has failed, and each further attempt has its reason in hipq's activity.

The shop's job steady writes "N begins TRY PID REVISION" and "N ends TRY PID REVISION" to the file STEADY, and "N failed" if it is
told so. In between it waits 10 ms, writes to the database, and keeps 1 MiB.
"""
import collections
import os
import re
import signal
import sys
import time

import faults
from faults import HIPQ, RAILS, path

JOBS, AHEAD, PROCESSES, LEAKS = 1000, 3, 2, 60
framework = sys.argv[1]
shop = faults.Shop(framework)
sql, run, lines = shop.sql, shop.run, shop.lines
instance, failures = shop.instance, 0

# Of each: the memory in MiB of a program that has done little, and what adds the jobs.
memory, add = {
    "laravel": (50, ["php", path("laravel/tests/app/scenarios.php"), "steady", str(JOBS)]),
    "symfony": (40, ["php", path("symfony/tests/app/scenarios.php"), "steady", str(JOBS)]),
    "rails": (110, ["ruby", "-e", RAILS + f"(1..{JOBS}).each_slice(200) {{ |some| ActiveJob::Base.queue_adapter.enqueue_all(some.map {{ |n| Jobs::Steady.new(n) }}) }}"]),
    "django": (60, [sys.executable, path("django/tests/manage.py"), "shell", "-c", f"from shop import tasks\nfor n in range({JOBS}): tasks.steady.delay(n + 1)"]),
}[framework]


def check(good, what):
    global failures
    failures += not good
    print("ok   " if good else "FAIL ", what, flush=True)


def done():
    return len({line[0] for line in lines() if line[1] == "ends"})


def wait(until, seconds=60):
    end = time.monotonic() + seconds
    while not until() and time.monotonic() < end:
        time.sleep(0.05)


def deploy(pid):
    before = len(lines())
    with open(shop.revision, "w") as file:
        file.write("second")
    since = done()
    wait(lambda: done() > since + JOBS // 12)
    late = collections.Counter(line[3] for line in lines()[before:] if line[1] == "begins" and line[4] == "first")
    check(max(late.values(), default=0) <= 1, f"after a deployment, no old program began more than the job it was given: {dict(late)}")
    check(lines()[-1][4] == "second", "and new ones have the new code")


def kill_server(pid):
    shop.signal_server()
    time.sleep(3)


DISTURBANCES = {
    "TERM to hipq work": lambda pid: os.kill(pid, signal.SIGTERM),
    "KILL of the programs": lambda pid: [os.kill(one, signal.SIGKILL) for one in shop.programs()],
    "KILL of hipq work": lambda pid: os.kill(pid, signal.SIGKILL),
    "KILL of the database's server": kill_server,
    "a deployment": deploy,
}

try:
    begin = time.monotonic()
    shop.init({"timeout": "60s", "default_priority": 0, "worker": {"concurrency": PROCESSES * (1 + AHEAD), "grace": "5s"},
               "retry": {"attempts": 1000, "delay": "1s", "jitter": 0}},
              {"processes": PROCESSES, "ahead": AHEAD, "restart_on": [shop.revision], "max_memory": f"{memory + LEAKS}MiB"})
    if framework == "django":
        run(sys.executable, path("django/tests/manage.py"), "migrate", "--run-syncdb", "-v0")
    run(*add)
    check(sql(f"SELECT COUNT(*) FROM {instance}_default") == [[str(JOBS)]], f"{framework}: {JOBS} jobs are added")
    for what, disturb in DISTURBANCES.items():
        work = shop.start(HIPQ, "work")
        before = done()
        wait(lambda: done() > before + JOBS // 15)
        disturb(work.pid)
        time.sleep(1)
        if work.poll() is None:
            work.terminate()
        print(f"      {what} after {done()} jobs: hipq work ended with {work.wait()}", flush=True)
    end = time.monotonic() + 120
    while sql(f"SELECT COUNT(*) FROM {instance}_default WHERE live = 1") != [["0"]] and time.monotonic() < end:
        run(HIPQ, "work", good=(0, 1))
    check(done() == JOBS, f"{done()} of {JOBS} jobs ran to their end")
    check(sql(f"SELECT COUNT(*) FROM {instance}_default WHERE status = 'finished'") == [[str(JOBS)]],
          f"all are finished: {sql(f'SELECT status, COUNT(*) FROM {instance}_default GROUP BY status')}")
    check(not [line for line in lines() if line[1] == "failed"], "no job was told that it has failed")
    most = collections.Counter(line[3] for line in lines() if line[1] == "ends").most_common(1)[0][1]
    check(most <= 2 * LEAKS, f"a program with a leak did {most} jobs at most")
    reasons = collections.defaultdict(list)
    for job, reason in sql(f"SELECT job_id, error FROM {instance}_activity WHERE kind = 'job' AND state IN ('error', 'released') AND job_id <> 0"):
        reasons[job].append(reason)
    rows = sql(f"SELECT id, attempt, interrupted FROM {instance}_default ORDER BY id")
    unexplained = [row for row in rows if int(row[1]) - 1 != len(reasons[row[0]])]
    ended = collections.Counter(re.sub(r"\d+", "N", reason)[:100] for list_ in reasons.values() for reason in list_)
    check(not unexplained, f"each further attempt has its reason: {dict(ended)} {unexplained[:5]}")
    tries, number = collections.defaultdict(int), {}
    for line in lines():
        tries[line[0]] = max(tries[line[0]], int(line[2]) if line[1] == "begins" else 0)
    # jobs were added in the order of their numbers
    odd = [(row, tries[str(n)]) for n, row in enumerate(rows, 1) if tries[str(n)] > int(row[1]) - int(row[2])]
    check(not odd, f"the framework counts no attempt that hipq interrupted: tries {sorted(collections.Counter(tries.values()).items())} {odd[:5]}")
    print(f"      {framework}: {time.monotonic() - begin:.0f} s")
finally:
    if failures or sys.exc_info()[0]:
        print(f"kept {shop.place} and the database {shop.database}")
    else:
        shop.clear()
sys.exit(1 if failures else 0)
