#!/usr/bin/env python3
"""1,000 jobs of a framework's shop, while something happens: .ci/with-mariadb --durable --keep clients/robust.py FRAMEWORK

FRAMEWORK is laravel, symfony, rails or django. hipq is HIPQ_TEST_HIPQ. In the middle come a TERM and a KILL of hipq work, a KILL of
its programs, a KILL of the database's server, and a deployment; the jobs leak memory all the time. In the end each job must have
run to its end and be finished, none was told that it has failed, and each further attempt has its reason in hipq's activity.

The shop's job steady writes "N begins TRY PID REVISION" and "N ends TRY PID REVISION" to the file STEADY, and "N failed" if it is
told so. In between it waits 10 ms, writes to the database, and keeps 1 MiB.
"""
import collections
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

JOBS, AHEAD, PROCESSES, LEAKS = 1000, 3, 2, 60
HERE = os.path.dirname(os.path.abspath(__file__))
HIPQ = os.environ["HIPQ_TEST_HIPQ"]
DSN = os.environ["HIPQ_TEST_MYSQL_DSN"]
HOST, PORT = re.fullmatch(r"root@tcp\((.*):(\d+)\)/", DSN).groups()
framework = sys.argv[1]
instance = "app" if framework == "rails" else "shop"
database = f"steady_{framework}_{os.getpid()}"
place = tempfile.mkdtemp()
steady, revision, log = (os.path.join(place, name) for name in ("steady", "REVISION", "log"))
failures = 0


def sql(statement, into=database):
    """Returns the rows, each a list of texts."""
    client = shutil.which("mariadb") or "mysql"
    done = subprocess.run([client, "-uroot", f"-h{HOST}", f"-P{PORT}", "-N", "-B", "-e", statement, into], stdout=subprocess.PIPE, universal_newlines=True, check=True)
    return [line.split("\t") for line in done.stdout.splitlines()]


def path(*parts):
    return os.path.join(HERE, *parts)


# Of each: its variables, its program and folder, the memory in MiB of a program that has done little, what makes its tables, and
# what adds the jobs.
PHP = {"SHOP_DIR": place, "DB_PORT": PORT, "DB_DATABASE": database}
TRACE = "CREATE TABLE trace (id INT AUTO_INCREMENT PRIMARY KEY, job VARCHAR(100), note TEXT)"
RAILS = "require '%s'\n" % path("rails/test/shop/config/environment")
FRAMEWORKS = {
    "laravel": ({**PHP, "QUEUE_CONNECTION": "hipq"}, ["php", path("laravel/tests/app/artisan"), "queue:work", "hipq", "--sleep=0"], place, 50,
                lambda: sql(f"{TRACE}; CREATE TABLE cache (`key` VARCHAR(255) PRIMARY KEY, value MEDIUMTEXT, expiration INT)"),
                ["php", path("laravel/tests/app/scenarios.php"), "steady", str(JOBS)]),
    "symfony": ({**PHP, "QUEUE": "hipq"}, ["php", path("symfony/tests/app/console"), "messenger:consume", "default", "--sleep=0"], place, 40,
                lambda: sql(TRACE), ["php", path("symfony/tests/app/scenarios.php"), "steady", str(JOBS)]),
    "rails": ({"DATABASE_URL": f"mysql2://root@{HOST}:{PORT}/{database}", "RUBYOPT": "-W:no-deprecated",
               "RUBYLIB": path("rails/lib") + ":" + path("ruby/lib")}, ["ruby", "bin/rails", "hipq:stream"], path("rails/test/shop"), 110,
              lambda: sql("CREATE TABLE traces (id INTEGER PRIMARY KEY AUTO_INCREMENT, scenario VARCHAR(40), text TEXT)"),
              ["ruby", "-e", RAILS + f"(1..{JOBS}).each_slice(200) {{ |some| ActiveJob::Base.queue_adapter.enqueue_all(some.map {{ |n| Jobs::Steady.new(n) }}) }}"]),
    "django": ({"DATABASE": database, "HIPQ_TEST_MYSQL_DSN": DSN, "HIPQ_TEST_HIPQ": HIPQ}, [sys.executable, path("django/tests/manage.py"), "hipq_stream"], place, 60,
               lambda: run(sys.executable, path("django/tests/manage.py"), "migrate", "--run-syncdb", "-v0"),
               [sys.executable, path("django/tests/manage.py"), "shell", "-c", f"from shop import tasks\nfor n in range({JOBS}): tasks.steady.delay(n + 1)"]),
}
variables, program, folder, memory, tables, add = FRAMEWORKS[framework]
variables = {**variables, "STEADY": steady, "REVISION": revision}
environment = {**os.environ, **variables, "HIPQ_CONFIG": os.path.join(place, "hipq.yaml")}


def run(*command, good=(0,)):
    done = subprocess.run(command, env=environment, cwd=place, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, universal_newlines=True)
    if done.returncode not in good:
        sys.exit(f"{command} exits with {done.returncode}: {done.stdout}")
    return done.stdout


def check(good, what):
    global failures
    failures += not good
    print("ok   " if good else "FAIL ", what, flush=True)


def lines():
    """The jobs' lines, each as its words."""
    with open(steady) as file:
        return [line.split() for line in file]


def done():
    return len({line[0] for line in lines() if line[1] == "ends"})


def wait(until, seconds=60):
    end = time.monotonic() + seconds
    while not until() and time.monotonic() < end:
        time.sleep(0.05)


def programs():
    """The pids of the programs that run now."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/environ", "rb") as env, open(f"/proc/{pid}/cmdline", "rb") as command:
                if f"STEADY={steady}".encode() in env.read() and program[1].encode() in command.read():
                    found.append(int(pid))
        except OSError:
            pass
    return found


def deploy(pid):
    before = len(lines())
    with open(revision, "w") as file:
        file.write("second")
    since = done()
    wait(lambda: done() > since + JOBS // 12)
    late = collections.Counter(line[3] for line in lines()[before:] if line[1] == "begins" and line[4] == "first")
    check(max(late.values(), default=0) <= 1, f"after a deployment, no old program began more than the job it was given: {dict(late)}")
    check(lines()[-1][4] == "second", "and new ones have the new code")


def kill_server(pid):
    os.kill(int(open(sql("SELECT @@pid_file")[0][0]).read()), signal.SIGKILL)
    time.sleep(3)


DISTURBANCES = {
    "TERM to hipq work": lambda pid: os.kill(pid, signal.SIGTERM),
    "KILL of the programs": lambda pid: [os.kill(one, signal.SIGKILL) for one in programs()],
    "KILL of hipq work": lambda pid: os.kill(pid, signal.SIGKILL),
    "KILL of the database's server": kill_server,
    "a deployment": deploy,
}

try:
    begin = time.monotonic()
    sql(f"CREATE DATABASE {database} CHARACTER SET utf8mb4", "mysql")
    for name in ("bootstrap/cache", "storage/framework", "app"):  # of Laravel
        os.makedirs(os.path.join(place, name))
    for name, text in (("composer.json", "{}"), ("steady", ""), ("REVISION", "first")):
        with open(os.path.join(place, name), "w") as file:
            file.write(text)
    handler = {"stream": program, "dir": folder, "processes": PROCESSES, "ahead": AHEAD, "restart_on": [revision], "max_memory": f"{memory + LEAKS}MiB",
               "env": [f"{name}={value}" for name, value in variables.items()], "start_timeout": "60s"}
    with open(environment["HIPQ_CONFIG"], "w") as file:
        json.dump({"name": instance, "database": {"driver": "mysql", "dsn": DSN + database}, "timeout": "60s", "default_priority": 0,
                   "worker": {"concurrency": PROCESSES * (1 + AHEAD), "grace": "5s"}, "retry": {"attempts": 1000, "delay": "1s", "jitter": 0},
                   "queues": [{"name": "default", "job_types": [{"name": "*", "handler": handler}]}]}, file)
    run(HIPQ, "init")
    tables()
    run(*add)
    check(sql(f"SELECT COUNT(*) FROM {instance}_default") == [[str(JOBS)]], f"{framework}: {JOBS} jobs are added")
    for what, disturb in DISTURBANCES.items():
        with open(log, "a") as file:
            work = subprocess.Popen([HIPQ, "work"], env=environment, cwd=place, stdin=subprocess.DEVNULL, stdout=file, stderr=file)
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
        print(f"kept {place} and the database {database}")
    else:
        sql(f"DROP DATABASE {database}", "mysql")
        shutil.rmtree(place)
sys.exit(1 if failures else 0)
