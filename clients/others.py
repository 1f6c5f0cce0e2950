#!/usr/bin/env python3
"""Jobs on another queue or on hipq, under the same faults: .ci/with-mariadb --durable --keep clients/others.py QUEUE SETTINGS SEED

QUEUE is laravel, symfony or delayed_job, or the same application on hipq: hipq-laravel, hipq-symfony or hipq-rails. SETTINGS is
default, or reliable: what the manual advises. The seed decides when the faults come, for each queue at the same times. .ci/others
runs several. The result is a line of JSON.

For three minutes, jobs of 50 to 300 ms are added, ten each 2 s. Four worker processes run them. In each minute, four times a process
that runs a job is killed. The database's server is killed twice, and stopped for 10 s once. On hipq the processes are the programs of
its handler, and each minute the hipq work above one is killed, too. A supervisor starts the others' workers 1 s after they have
ended; cron starts hipq work each minute. A fault waits until a job runs. The last may be late then, and jobs are added until it came.
"""
import collections
import json
import math
import os
import random
import re
import signal
import statistics
import subprocess
import sys
import threading
import time

from faults import HERE, HIPQ, RAILS, Shop, path

MINUTES, PROCESSES, BURST, EVERY, WAIT = 3, 4, 10, 2, 130
OUTAGES = {"kill": signal.SIGKILL, "stop": signal.SIGSTOP}
queue, settings, seed = sys.argv[1:]
reliable = settings == "reliable"
on_hipq = queue.startswith("hipq-")
framework = queue.replace("hipq-", "").replace("delayed_job", "rails")
chance = random.Random(seed)
shop = Shop(framework)
shop.environment["SPAN"] = shop.variables["SPAN"] = "1"
fed, over = threading.Event(), threading.Event()  # no more jobs; no more workers
added, unsure, started, killed, exits = {}, set(), set(), {}, collections.Counter()  # by number, pid, status

# Of each queue: how long it holds a lost worker's job by default and if it is reliable, in s; variables; its tables; its workers' command;
# the texts of the jobs that are left, and of those that it gave up; and what ends all of its locks.
OTHERS = {
    "laravel": ((90, 30), {"QUEUE_CONNECTION": "database", "CACHE_DRIVER": "file"},
                "CREATE TABLE jobs (id BIGINT UNSIGNED AUTO_INCREMENT PRIMARY KEY, queue VARCHAR(255), payload LONGTEXT, attempts TINYINT UNSIGNED, "
                "reserved_at INT UNSIGNED NULL, available_at INT UNSIGNED, created_at INT UNSIGNED, KEY (queue)); "
                "CREATE TABLE failed_jobs (id BIGINT UNSIGNED AUTO_INCREMENT PRIMARY KEY, uuid VARCHAR(255) UNIQUE, connection TEXT, queue TEXT, "
                "payload LONGTEXT, exception LONGTEXT, failed_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP)",
                ["php", path("laravel/tests/app/artisan"), "queue:work", "database"] + reliable * ["--sleep=3", "--tries=3", "--timeout=25", "--max-time=3600"],
                "SELECT payload FROM jobs", "SELECT payload FROM failed_jobs", "UPDATE jobs SET reserved_at = reserved_at - 86400"),
    "symfony": ((3600, 30), {"QUEUE": "doctrine"}, "SELECT 1",
                ["php", path("symfony/tests/app/console"), "messenger:consume", "default"] + reliable * ["--time-limit=3600"],
                "SELECT body FROM messages WHERE delivered_at IS NULL OR delivered_at < '9999-12-31'", "SELECT 1 LIMIT 0",
                "UPDATE messages SET delivered_at = delivered_at - INTERVAL 1 DAY WHERE delivered_at < '9999-12-31'"),
    "delayed_job": ((4 * 3600, 30), {"ADAPTER": "delayed_job"},
                    "CREATE TABLE delayed_jobs (id INTEGER PRIMARY KEY AUTO_INCREMENT, priority INT NOT NULL DEFAULT 0, attempts INT NOT NULL DEFAULT 0, "
                    "handler TEXT NOT NULL, last_error TEXT, run_at DATETIME, locked_at DATETIME, failed_at DATETIME, locked_by VARCHAR(255), queue VARCHAR(255), "
                    "created_at DATETIME, updated_at DATETIME, KEY delayed_jobs_priority (priority, run_at))",
                    ["ruby", "-e", RAILS + "worker = Delayed::Worker.new\n" + reliable * "Delayed::Worker.max_run_time = 30\nworker.name = ENV.fetch('NAME')\n" + "worker.start"],
                    "SELECT handler FROM delayed_jobs WHERE failed_at IS NULL", "SELECT handler FROM delayed_jobs WHERE failed_at IS NOT NULL",
                    "UPDATE delayed_jobs SET locked_at = locked_at - INTERVAL 1 DAY"),
}
if on_hipq:
    hold, command = (60, 60), [HIPQ, "work"]
    left = f"SELECT job_data FROM {shop.instance}_default WHERE live = 1"
    failed = f"SELECT job_data FROM {shop.instance}_default WHERE status = 'failed'"
    shop.program += {"laravel": ["--force"] + reliable * ["--tries=3"], "symfony": ["--no-interaction"], "rails": []}[framework]
    shop.variables["CACHE_DRIVER"] = "file"
    shop.init(*(({"worker": {"concurrency": 8 * PROCESSES, "linger": True}, **{  # as hipq init --for writes it
        "laravel": {"timeout": "70s", "retry": {"attempts": 1000000, "delay": "1s", "backoff": "fixed"}},
        "symfony": {"timeout": "10m", "retry": {"attempts": 50, "delay": "10s"}},
        "rails": {"timeout": "10m", "retry": {"attempts": 3, "delay": "15s"}, "default_priority": 0},
    }[framework]}, {"processes": PROCESSES, "ahead": 7}) if reliable else ({}, {"processes": PROCESSES})))
else:
    hold, more, tables, command, left, failed, expire = OTHERS[queue]
    shop.environment.update(more, RETRY_AFTER=str(hold[reliable]), REDELIVER_TIMEOUT=str(hold[reliable]))
    shop.sql(tables)
FEEDER = {
    "laravel": ["php", path("laravel/tests/app/scenarios.php"), "feed"],
    "symfony": ["php", path("symfony/tests/app/scenarios.php"), "feed"],
    "rails": ["ruby", "-e", RAILS + """
        $stdout.sync = true
        while (n = $stdin.gets)
          begin
            Jobs::Steady.perform_later(n.to_i)
            puts "#{n.chomp} added"
          rescue StandardError
            ActiveRecord::Base.connection_pool.disconnect!
            puts "#{n.chomp} unsure"
          end
        end
     """],
}[framework]
if queue == "symfony":
    shop.run(*command[:2], "messenger:setup-transports")


def say(text):
    print(f"{time.time() - begin:6.1f} s  {text}", file=sys.stderr, flush=True)


def feed():
    """Adds jobs. What fails to be added may have been: its number is not used again."""
    feeder, n = None, 0
    while not fed.is_set():
        if feeder is None:
            feeder = shop.start(*FEEDER, stdin=subprocess.PIPE, stdout=subprocess.PIPE, universal_newlines=True)
        try:
            for n in range(n + 1, n + BURST + 1):
                unsure.add(str(n))
                feeder.stdin.write(f"{n}\n")
                feeder.stdin.flush()
                number, did = feeder.stdout.readline().split()
                if did == "added":
                    unsure.discard(number)
                    added[number] = time.time()
        except (OSError, ValueError):  # it died
            feeder.kill()
            feeder = None
        fed.wait(EVERY)
    if feeder:
        feeder.stdin.close()
        feeder.wait()


def work():
    """Starts hipq work each minute, or each other worker 1 s after it has ended."""
    workers, due = [], [(phase, "")] if on_hipq else [(0, f"worker {n}") for n in range(PROCESSES)]
    while not over.wait(0.02):
        now = time.time() - begin
        for at, name in [one for one in due if one[0] <= now]:
            due.remove((at, name))
            workers.append((shop.start(*command, env={**shop.environment, "NAME": name}), name))
            started.add(workers[-1][0].pid)
            if on_hipq:
                due.append((at + 60, name))
        for worker, name in workers[:]:
            if worker.poll() is not None:
                workers.remove((worker, name))
                if worker.pid not in killed and not (on_hipq and worker.returncode in (0, 1)):  # 1: a job had an error
                    exits[worker.returncode] += 1
                if not on_hipq:
                    due.append((now + 1, name))
    for worker, _ in workers:
        worker.terminate()
    for worker, _ in workers:
        worker.wait(60)


def runs():
    """The runs of each job, from the file: lists of [begin, end or None, pid]."""
    found, open_ = collections.defaultdict(list), {}
    for number, what, _, pid, _, at in shop.lines():
        if what == "begins":
            open_[number, pid] = [float(at), None, int(pid)]
            found[number].append(open_[number, pid])
        else:
            open_[number, pid][1] = float(at)
    return found


def running(what):
    """The numbers of the jobs that run now, and the pids; for the fault hipq work, of those that are below one."""
    last = {run[2]: (number, run) for number, list_ in runs().items() for run in list_ if run[1] is None and run[2] not in killed}
    return [(number, pid) for pid, (number, run) in last.items() if time.time() - run[0] < 5 and parent(pid) and (what != "hipq work" or parent(pid) in started)]


def strike(what):
    """Waits until a job runs, and does it. Returns the jobs that it hit, and when."""
    chosen, end = chance.random(), time.time() + 200
    while not running(what):
        time.sleep(0.02)
        if time.time() > end:
            sys.exit(f"no job runs: see {shop.log}")
    time.sleep(chosen)
    while not (now := running(what)):
        time.sleep(0.005)
    number, pid = now[int(chosen * len(now))]
    if what in OUTAGES:
        say(f"{what} of the server, while jobs run: {' '.join(number for number, _ in now)}")
        server = shop.signal_server(OUTAGES[what])
        if what == "stop":
            time.sleep(10)
            os.kill(server, signal.SIGCONT)
        while not answers():
            time.sleep(0.1)
        return []
    hit = [number]
    if what == "hipq work":
        pid = parent(pid)
        hit = [number for number, program in now if parent(program) == pid]
    killed[pid] = time.time()
    os.kill(pid, signal.SIGKILL)
    say(f"killed a {what}, with jobs {' '.join(hit)}")
    return [(number, killed[pid]) for number in hit]


def parent(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return int(file.read().rpartition(")")[2].split()[1])
    except OSError:  # it has ended
        return 0


def answers():
    try:
        return shop.sql("SELECT 1")
    except subprocess.CalledProcessError:
        return False


def rest(statement):
    """The numbers in the texts of jobs."""
    return {number for row in shop.sql(statement) for number in re.findall(r"(?:name\W+s:\d+:\W+(?:steady )?|arguments(?:\W|\\n)*?)(\d+)", row[0])[:1]}


def wait(seconds):
    end = time.time() + seconds
    while rest(left) and time.time() < end:
        time.sleep(0.5)
    return rest(left)


def version():
    """The versions of what is tested."""
    name, package = {"laravel": ("Laravel", "php-laravel-framework"), "symfony": ("Symfony", "php-symfony-doctrine-messenger"), "rails": ("Rails", "ruby-rails")}[framework]
    named = [("delayed_job", "ruby-delayed-job")] * (queue == "delayed_job") + [(name, package)]
    packages = [shop.run("dpkg-query", "-W", "-f", "${Version}", package) for _, package in named]
    versions = [f"{name} {re.search(r'([0-9]+:)?([0-9.]+[0-9])', text).group(2)}" for (name, _), text in zip(named, packages)]
    return ", ".join([f"hipq {shop.run('git', '-C', HERE, 'rev-parse', '--short', 'HEAD').strip()}"] * on_hipq + versions)


# The plan is the same for each queue.
plan = []
outages = chance.sample(["kill", "kill", "stop"], 3)
for minute in range(MINUTES):
    *first, last = sorted(60 * minute + chance.uniform(3, 57) for _ in range(6))
    plan += zip(first, chance.sample(4 * ["process"] + [outages[minute]], 5))
    plan += [(last, "hipq work")] * on_hipq
phase = chance.uniform(0, 60)
begin = time.time()
threads = [threading.Thread(target=one, daemon=True) for one in (feed, work)]
for thread in threads:
    thread.start()
hits = collections.defaultdict(list)
for at, what in plan:
    time.sleep(max(0, at - (time.time() - begin)))
    hits[what] += strike(what)
fed.set()
threads[0].join()
load = time.time() - begin
stuck, gave_up = wait(WAIT), rest(failed)
say(f"stuck: {sorted(stuck)}, failed: {sorted(gave_up)}")
waited = time.time()
if stuck and not on_hipq:  # as if the time that it holds them were over
    shop.sql(expire)
    wait(60)
over.set()
threads[1].join()

of = runs()
ended = {number for number, list_ in of.items() if any(run[1] for run in list_)}
overlaps, again = 0, {}
for number, list_ in of.items():
    # A run without an end was killed: it lasted 0.3 s at most.
    overlaps += any(second[0] < (first[1] or min(killed.get(first[2], math.inf), first[0] + 0.3)) for first, second in zip(list_, list_[1:]))
for what in ("process", "hipq work"):
    next_ = [min((run[0] - at for run in of[number] if at < run[0] < waited), default=None) for number, at in hits[what]]
    again[what] = [seconds and round(seconds, 1) for seconds in next_]
ready = min(list_[0][0] for list_ in of.values())  # the workers have started
waits = [of[number][0][0] - at for number, at in added.items() if of[number] and at > ready]
print(json.dumps({
    "queue": queue, "settings": settings, "seed": seed, "version": version(), "mariadb": shop.sql("SELECT VERSION()")[0][0].split("-")[0], "load": round(load),
    "jobs": len(added), "again": again, "lost": len(set(added) - ended - gave_up), "failed": len(gave_up), "stuck": len(stuck), "hold": hold[reliable],
    "repeated": sum(len(list_) > 1 for list_ in of.values()), "doubled": sum(sum(run[1] is not None for run in list_) > 1 for list_ in of.values()),
    "overlaps": overlaps, "exits": sum(exits.values()), "waits": [round(max(0, number), 1) for number in (statistics.median(waits), max(waits))],
}))
say(f"exits {dict(exits)}, unsure {len(unsure)}")
if not os.environ.get("KEEP"):
    shop.clear()
