"""Tests of django_hipq with a shop: python3 clients/django/tests/test_django.py

They run a real hipq: the one in HIPQ_TEST_HIPQ, else one that they build. They use SQLite, and the server in
HIPQ_TEST_MYSQL_DSN, if it is set.
"""
import contextlib
import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
import unittest
import uuid

HERE = os.path.dirname(os.path.abspath(__file__))
CONFIG = """
name: shop
database: %s
worker: {concurrency: 2, grace: 5s}
timeout: 20s
retry: {attempts: 20, delay: 1s, jitter: 0}
queues:
  - name: default
    job_types: [{name: "*", handler: &tasks {stream: [%s, %s, hipq_stream], processes: 2, start_timeout: 1m, env: [FILE, DATABASE, HIPQ_TEST_MYSQL_DSN, DJANGO_SETTINGS_MODULE, PYTHONPATH]}}]
  - name: emails
    job_types: [{name: "*", handler: *tasks}]
"""


def binary():
    path = os.environ.get("HIPQ_TEST_HIPQ")
    if not path:
        path = os.path.join(tempfile.mkdtemp(), "hipq")
        subprocess.run(["go", "build", "-o", path, "."], cwd=os.path.join(HERE, *[".."] * 3), check=True)
        os.environ["HIPQ_TEST_HIPQ"] = path
    return path


class Cases:
    mysql = False

    def setUp(self):
        if self.mysql and not os.environ.get("HIPQ_TEST_MYSQL_DSN"):
            self.skipTest("HIPQ_TEST_MYSQL_DSN is not set")
        self.env = dict(os.environ, HIPQ_TEST_HIPQ=binary())
        dir = tempfile.TemporaryDirectory()
        self.addCleanup(dir.cleanup)
        self.dir = dir.name
        self.fresh("shop")

    def fresh(self, name):
        """Makes an empty database with the shop's tables and hipq's."""
        self.env.update(FILE=os.path.join(self.dir, name + ".db"), HIPQ_CONFIG=os.path.join(self.dir, name + ".yaml"))
        database = {"driver": "sqlite", "path": name + ".db"}
        self.env.pop("DATABASE", None)
        if self.mysql:
            self.env["DATABASE"] = "django_" + uuid.uuid4().hex[:12]
            self.sql(f"CREATE DATABASE {self.env['DATABASE']} CHARACTER SET utf8mb4")
            self.addCleanup(self.sql, f"DROP DATABASE {self.env['DATABASE']}")
            database = {"driver": "mysql", "dsn": self.env["HIPQ_TEST_MYSQL_DSN"] + self.env["DATABASE"]}
        with open(self.env["HIPQ_CONFIG"], "w") as file:
            file.write(CONFIG % (json.dumps(database), sys.executable, os.path.join(HERE, "manage.py")))
        self.hipq("init", "--yes")
        self.manage("migrate", "--run-syncdb", "-v0")

    def sql(self, sql):
        import pymysql
        from shop.settings import server
        user, password, host, port = server.groups()
        db = pymysql.connect(user=user, password=password or "", host=host, port=int(port), autocommit=True)
        with db.cursor() as cursor:
            cursor.execute(sql)
            rows = cursor.fetchall()
        db.close()
        return rows

    def run_it(self, *command, codes=(0,)):
        done = subprocess.run(command, env=self.env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True)
        self.assertIn(done.returncode, codes, done.stdout + done.stderr)
        return done.stdout

    def hipq(self, *args):
        return self.run_it(binary(), *args, codes=(0, 1) if args[0] == "work" else (0,))

    def manage(self, *args):
        return self.run_it(sys.executable, os.path.join(HERE, "manage.py"), *args)

    def shell(self, code, queue="hipq"):
        """Runs code with all of the shop imported, and returns what it prints."""
        self.env["SHOP_QUEUE"] = queue
        return self.manage("shell", "-v", "0", "-c", "from shop import scenario, tasks, models\n" + code)

    def jobs(self, queue="default"):
        return {job["id"]: job for job in map(json.loads, self.hipq("jobs", queue, "--json", "--limit", "5000").splitlines())}

    def work(self, seconds=120):
        """Runs hipq until no task is live, as long as tasks end."""
        ended, end = -1, 0
        while True:
            self.hipq("work")
            jobs = [*self.jobs().values(), *self.jobs("emails").values()]
            live = [job for job in jobs if job["state"] != "final"]
            if not live:
                return jobs
            if len(jobs) - len(live) > ended:
                ended, end = len(jobs) - len(live), time.monotonic() + seconds
            if time.monotonic() > end:
                self.fail(live)
            time.sleep(0.2)

    def count(self, table):
        """The rows of a table, which is read without Django."""
        if self.mysql:
            return self.sql(f"SELECT COUNT(*) FROM {self.env['DATABASE']}.{table}")[0][0]
        with contextlib.closing(sqlite3.connect(self.env["FILE"], timeout=20)) as db:
            return db.execute(f"SELECT COUNT(*) FROM {table}").fetchone()[0]

    def trace(self):
        return self.shell("for t in models.Trace.objects.order_by('pk'): print(t.line)").splitlines()

    def test_same_trace_as_celery(self):
        try:
            import celery  # noqa: F401
        except ImportError as error:
            self.skipTest(str(error))
        self.maxDiff = None
        self.shell("scenario.end(scenario.begin())", "celery")
        celery_trace = self.comparable()
        self.fresh("eager")
        self.shell("from django.conf import settings\nsettings.HIPQ['ALWAYS_EAGER'] = True\nscenario.end(scenario.begin())")
        self.assertEqual(self.comparable(), celery_trace)
        self.fresh("hipq")
        ids = self.shell("print(*(r.id for r in scenario.begin()))").split()[-3:]
        self.work()
        self.shell(f"from django_hipq import AsyncResult\nscenario.end([AsyncResult(id, 'shop.tasks.add', 'default') for id in {ids}])")
        self.assertEqual(self.comparable(), celery_trace)
        print(f"{type(self).__name__}: {len(celery_trace)} lines of the trace are those of Celery", file=sys.stderr)

    def comparable(self):
        """The trace, sorted, because Celery runs a retry inside of its attempt. Lists of arguments are tuples in Celery."""
        lines = (re.sub(r"\[[0-9a-f-]{36}\] args:[\[(][])]", "[ID]", line) for line in self.trace())
        return sorted(line.replace("FAILURE True False True TypeError: ", "FAILURE True False True ") for line in lines)

    def test_howto(self):
        """Does what docs/howto/django.md says."""
        with open(os.path.join(HERE, *[".."] * 3, "docs", "howto", "django.md")) as file:
            blocks = dict(re.findall(r"```python django (\w+)\n(.*?)```", file.read(), re.S))
        self.assertEqual(sorted(blocks), ["place", "settings", "tasks"])
        os.mkdir(os.path.join(self.dir, "mine"))
        for name, text in {"__init__": "", "tasks": blocks["tasks"],
                           "settings": f"from shop.settings import *\nINSTALLED_APPS = ['mine']\n{blocks['settings']}".replace('"app"', '"shop"')}.items():
            with open(os.path.join(self.dir, "mine", name + ".py"), "w") as file:
                file.write(text)
        path = os.pathsep.join(filter(None, [self.dir, self.env.get("PYTHONPATH")]))
        self.env.update(DJANGO_SETTINGS_MODULE="mine.settings", PYTHONPATH=path)
        self.manage("shell", "-v", "0", "-c", "from mine.tasks import confirm\n" + blocks["place"])
        jobs = {job["job_data"]["args"][0]: job for job in self.work()}
        self.assertEqual([(number, job["error"]) for number, job in sorted(jobs.items())], [(4711, None), (4712, None)])
        shown = json.loads(self.hipq("show", "default", str(jobs[4711]["id"]), "--json"))
        self.assertEqual(shown["result"], {"confirmed": 4711})
        self.assertIn("order 4711 thank you attempt 1", json.dumps(shown))

    def test_tasks_of_django(self):
        import django
        if django.VERSION < (6,):
            self.skipTest("Django 6 has tasks of its own")
        ids = json.loads(self.shell(
            "import json\nfrom datetime import timedelta\nfrom django.db import transaction\nfrom django.utils import timezone\n"
            "from shop import django_tasks as t\n"
            "with transaction.atomic(): results = [t.total.enqueue(2, b=3), t.attempts.enqueue(7), t.asynchronous.enqueue(), t.fails.enqueue()]\n"
            "results.append(t.total.using(run_after=timezone.now() + timedelta(hours=1)).enqueue(1))\n"
            "try:\n  with transaction.atomic(): t.total.enqueue(0); raise RuntimeError\nexcept RuntimeError: pass\n"
            "assert all(r.status == 'READY' for r in results)\nprint(json.dumps([r.id for r in results]))"))
        for _ in range(3):
            self.hipq("work")
        priorities = [job["priority"] for job in self.jobs("emails").values()]
        self.assertEqual(priorities, [95, 95])
        got = json.loads(self.shell(
            "import json\nfrom django.tasks import default_task_backend as backend\n"
            f"results = [backend.get_result(id) for id in {ids}]\nresults[3].refresh()\n"
            "assert results[3].errors[0].exception_class is ValueError\n"
            "assert results[0].enqueued_at <= results[0].started_at <= results[0].finished_at\n"
            "print(json.dumps([[r.task.name, r.status, r.attempts, r._return_value] for r in results]))"))
        self.assertEqual(got, [["total", "SUCCESSFUL", 1, {"total": 5}], ["attempts", "SUCCESSFUL", 1, [1, 7]],
                               ["asynchronous", "SUCCESSFUL", 1, "async"], ["fails", "FAILED", 1, None], ["total", "READY", 0, None]])
        self.assertEqual(self.trace(), ["total 2 3"])

    def test_jobs_are_rows(self):
        self.shell("tasks.arguments.apply_async(('one',), {'two': 'ü'}, queue='high.prio-x:y'.replace('high.prio-x:y', 'emails'), priority=7, countdown=900)\n"
                   "tasks.slow.apply_async(task_id='mine')")
        job = list(self.jobs("emails").values())[0]
        self.assertEqual((job["job_type"], job["job_data"], job["priority"]), ("shop.tasks.arguments", {"args": ["one"], "kwargs": {"two": "ü"}}, 7))
        job = list(self.jobs().values())[0]
        self.assertEqual((job["job_key"], job["timeout_ms"]), ("mine", 1000))

    def test_a_key_is_unique(self):
        self.shell("a, b = (tasks.counted.apply_async((n,), key='one') for n in (1, 2))\nassert a.id == b.id")
        self.work()
        self.assertEqual(self.trace(), ["counted 1"])

    def test_expired_tasks_are_dropped(self):
        self.shell("tasks.counted.apply_async((1,), expires=0.01)")
        time.sleep(0.1)
        self.assertEqual([job["error"] for job in self.work()], [None])
        self.assertEqual(self.trace(), [])

    def test_unknown_tasks_are_retried(self):
        self.shell("from django_hipq import client\nclient().push('default', 'shop.tasks.gone', {'args': [], 'kwargs': {}})")
        self.hipq("work")
        self.assertEqual([(job["state"], job["error"]) for job in self.jobs().values()], [("retry", "no task shop.tasks.gone")])

    def test_locale_and_zone_are_reset(self):
        self.shell("for _ in range(4): tasks.leaves_locale.delay()")
        self.work()
        self.assertEqual(self.trace(), ["locale en America/St_Johns"] * 4)

    def test_open_transactions_are_rolled_back(self):
        self.shell("for how in ('autocommit', 'atomic', 'sql'): tasks.leaves_transaction.delay(how)\ntasks.counted.delay(1)")
        for _ in range(3):
            self.hipq("work")
            time.sleep(1)
        trace = self.trace()
        self.assertEqual([line for line in trace if line.startswith("lost")], [])
        self.assertGreaterEqual(len([line for line in trace if line.startswith("kept")]), 6)  # they are retried
        self.assertIn("counted 1", trace)
        errors = {job["error"] for job in self.jobs().values()}
        self.assertEqual(errors, {None, "the job left a transaction open, which was rolled back"})

    def test_release(self):
        self.shell("tasks.released.delay()")
        self.assertEqual([(job["attempt"], job["error"]) for job in self.work()], [(2, None)])

    def test_time_limit(self):
        self.shell("tasks.slow.delay()")
        self.hipq("work")
        self.assertEqual(self.trace(), ["slow is stopped"])
        self.assertIn("timeout after 1s", list(self.jobs().values())[0]["error"])

    def test_nothing_is_lost(self):
        """Workers are terminated and killed, programs are killed, connections are cut, in the middle of 200 tasks."""
        self.shell("from django.db import transaction\nwith transaction.atomic():\n for n in range(200): tasks.counted.delay(n, 0.05)")
        kills = ["TERM to hipq", "KILL to hipq", "KILL to a program", "KILL of connections"]
        for how in kills if self.mysql else kills[:3]:
            worker = subprocess.Popen([binary(), "work"], env=self.env, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            before, end = self.count("trace"), time.monotonic() + 60
            while self.count("trace") < before + 20 and time.monotonic() < end:  # in the middle of them, however slow the machine is
                time.sleep(0.05)
            self.assertIsNone(worker.poll(), how)
            if how.endswith("hipq"):
                worker.send_signal(signal.SIGTERM if how.startswith("TERM") else signal.SIGKILL)
            elif how == "KILL to a program":
                subprocess.run(["pkill", "-KILL", "-P", str(worker.pid), "-f", "hipq_stream"])
            else:
                for id, in self.sql(f"SELECT id FROM information_schema.processlist WHERE db = '{self.env['DATABASE']}'"):
                    try:
                        self.sql(f"KILL {id}")
                    except Exception as error:
                        self.assertEqual(error.args[0], 1094)  # it is gone
            time.sleep(0.5)
            worker.terminate()
            worker.wait(60)
        self.work()
        jobs = list(self.jobs().values())
        self.assertEqual([job["error"] for job in jobs if job["error"]], [])
        lines = [int(line.split()[1]) for line in self.trace()]
        self.assertEqual(sorted(set(lines)), list(range(200)))
        more = sum(job["attempt"] - 1 for job in jobs)  # also those that found no program, because two were killed in a row
        self.assertLessEqual(len(lines) - 200, more)  # each repetition has its attempt
        print(f"{type(self).__name__}: {more} more attempts, {len(lines) - 200} tasks ran twice", file=sys.stderr)


class SQLite(Cases, unittest.TestCase):
    pass


class MySQL(Cases, unittest.TestCase):
    mysql = True

    def test_lost_connection(self):
        self.shell("tasks.loses_connection.delay()\nfor n in range(5): tasks.counted.delay(n)")
        self.hipq("work")
        jobs = list(self.jobs().values())
        self.assertEqual([job["state"] for job in jobs if job["error"]], ["retry"])
        self.assertEqual(sorted(line for line in self.trace() if "counted" in line), [f"counted {n}" for n in range(5)])


sys.path[:0] = [HERE, os.path.join(HERE, ".."), os.path.join(HERE, "..", "..", "python")]
if __name__ == "__main__":
    unittest.main()
