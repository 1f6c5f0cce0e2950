"""Tests of hipq.py: python3 -m unittest discover clients/python/tests

They run a real hipq: the one in HIPQ_TEST_HIPQ, else one that they build. HIPQ_TEST_MYSQL_DSN is a server, such as
root@tcp(127.0.0.1:3306)/; without it they use only SQLite. Drivers that are missing are skipped, unless
HIPQ_TEST_REQUIRE_MYSQL is set.
"""
import datetime
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
sys.path.insert(0, os.path.dirname(HERE))
import hipq  # noqa: E402

SERVER = re.match(r"(\w+)(?::(.*))?@tcp\(([^:]+):(\d+)\)/", os.environ.get("HIPQ_TEST_MYSQL_DSN", ""))
REQUIRED = os.environ.get("HIPQ_TEST_REQUIRE_MYSQL")
TYPES = ("echo", "leave", "keep", "give_up", "retry", "release", "fail", "leaves", "unsendable", "large", "sleep", "unknown", "send")
CONFIG = """
name: shop
database: %s
timezone: UTC
worker: {concurrency: 1, grace: 3s}
timeout: 20s
retry: {attempts: 2, delay: 1s, jitter: 0}
queues:
  - name: emails
    job_types: %s
  - name: requests
    job_types: [{name: upload, async: true, timeout: 1m, handler: {exec: ["true"]}}]
"""


def binary():
    path = os.environ.get("HIPQ_TEST_HIPQ")
    if not path:
        path = os.path.join(tempfile.mkdtemp(), "hipq")
        subprocess.run(["go", "build", "-o", path, "."], cwd=os.path.join(HERE, *[".."] * 3), check=True)
        os.environ["HIPQ_TEST_HIPQ"] = path
    return path


def connect(driver, **traits):
    """Opens a connection of a driver to the database that the environment names, with autocommit off."""
    if driver == "sqlite3":
        return sqlite3.connect(os.environ["FILE"], timeout=20, **traits)
    if driver.startswith("django"):
        return django(driver)
    user, password, host, port = SERVER.groups()
    to = {"user": user, "password": password or "", "host": host, "port": int(port), "database": os.environ["DATABASE"], "charset": "utf8mb4", **traits}
    if driver == "MySQLdb":
        import MySQLdb
        return MySQLdb.connect(**to)
    import pymysql
    return pymysql.connect(**to)


def django(driver):
    """Django's connection, which is in autocommit mode, as it is by default."""
    from django.conf import settings
    if driver == "django-mysql":
        try:
            import MySQLdb  # noqa: F401
        except ImportError:
            import pymysql
            pymysql.install_as_MySQLdb()
    if not settings.configured:
        settings.configure(DATABASES={"default": {}})
    from django.db import connections
    to = {"ENGINE": "django.db.backends.sqlite3", "NAME": os.environ.get("FILE")}
    if driver == "django-mysql":
        user, password, host, port = SERVER.groups()
        to = {"ENGINE": "django.db.backends.mysql", "HOST": host, "PORT": int(port), "USER": user, "PASSWORD": password or "",
              "NAME": os.environ["DATABASE"], "OPTIONS": {"charset": "utf8mb4"}}
    alias = uuid.uuid4().hex
    connections.databases[alias] = {**connections.databases["default"], **to, "TEST": {}}
    for prepare in ("ensure_defaults", "prepare_test_settings"):
        if hasattr(connections, prepare):
            getattr(connections, prepare)(alias)
    for name, value in {"TIME_ZONE": None, "CONN_MAX_AGE": 0, "CONN_HEALTH_CHECKS": False, "AUTOCOMMIT": True, "ATOMIC_REQUESTS": False}.items():
        connections.databases[alias].setdefault(name, value)
    return connections[alias]


class Cases:
    driver = None
    mysql = True

    def setUp(self):
        if self.mysql and not SERVER:
            self.skipTest("HIPQ_TEST_MYSQL_DSN is not set")
        try:
            __import__(self.driver.split("-")[0])
        except ImportError as error:
            if REQUIRED:
                raise
            self.skipTest(str(error))
        self.dir = tempfile.TemporaryDirectory()
        self.addCleanup(self.dir.cleanup)
        os.environ["FILE"] = os.path.join(self.dir.name, "hipq.db")
        database = "{driver: sqlite, path: hipq.db}"
        if self.mysql:
            self.admin = connect_server()
            os.environ["DATABASE"] = "py_" + uuid.uuid4().hex[:12]
            run_sql(self.admin, f"CREATE DATABASE {os.environ['DATABASE']} CHARACTER SET utf8mb4")
            self.addCleanup(lambda name=os.environ["DATABASE"]: run_sql(self.admin, f"DROP DATABASE {name}"))
            database = json.dumps({"driver": "mysql", "dsn": os.environ["HIPQ_TEST_MYSQL_DSN"] + os.environ["DATABASE"]})
        handler = {"stream": [sys.executable, os.path.join(HERE, "worker.py")], "processes": 1,
                   "env": ["DRIVER", "FILE", "DATABASE", "HIPQ_TEST_MYSQL_DSN", "PYTHONPATH", "STAR"]}
        types = json.dumps([{"name": name, "handler": handler, **({"timeout": "1s"} if name == "sleep" else {})} for name in TYPES])
        os.environ["DRIVER"] = self.driver
        os.environ["HIPQ_CONFIG"] = os.path.join(self.dir.name, "hipq.yaml")
        with open(os.environ["HIPQ_CONFIG"], "w") as file:
            file.write(CONFIG % (database, types))
        self.hipq("init", "--yes")
        self.db = self.connect()
        self.jobs = hipq.Client(self.db, "shop", command=binary())

    def connect(self, **traits):
        db = connect(self.driver, **traits)
        self.addCleanup(db.close)
        return db

    def hipq(self, *args, codes=(0,)):
        done = subprocess.run([binary(), *args], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=self.dir.name,
                              universal_newlines=True)
        self.assertIn(done.returncode, codes, done.stdout + done.stderr)
        return done.stdout

    def all(self, queue="emails"):
        return {job["id"]: job for job in map(json.loads, self.hipq("jobs", queue, "--json", "--limit", "2000").splitlines())}

    def work(self, expect=None):
        """Runs hipq until no job is live, and returns the jobs by their ids."""
        for _ in range(20):
            self.hipq("work", codes=(0, 1))
            jobs = self.all()
            if all(job["state"] == "final" for job in jobs.values()):
                return jobs
            time.sleep(0.3)
        self.fail(f"jobs are not final: {jobs}")

    def query(self, sql):
        cursor = self.db.cursor()
        cursor.execute(sql)
        rows = cursor.fetchall()
        cursor.close()
        return rows

    # Enqueue

    def test_push_is_part_of_the_transaction(self):
        self.begin()
        lost = self.jobs.push("emails", "send", {"order": 4710})
        self.assertIsInstance(lost, int)
        self.db.rollback()
        self.begin()
        data = {"to": "ann@example.org", "text": "Grüße, 猫 \U0001f600 \\ ' \" % %s ? \n"}
        id = self.jobs.push("emails", "send", data, key="Schlüssel \U0001f511")
        self.db.commit()
        jobs = self.all()
        self.assertEqual(list(jobs), [id])
        self.assertEqual((jobs[id]["job_data"], jobs[id]["job_key"]), (data, "Schlüssel \U0001f511"))

    def begin(self):
        if hasattr(self.db, "vendor"):
            self.db.set_autocommit(False)

    def test_options(self):
        at = datetime.datetime(2035, 3, 1, 1, 30, 0, 123456, datetime.timezone(datetime.timedelta(hours=5, minutes=30)))
        self.jobs.push("emails", "send", key="at", at=at, priority=-5, timeout=7, weight=3, windows=["mon-fri 09:00-17:30"], shard_key="s")
        self.jobs.push("emails", "send", key="in", in_=3600.5)
        self.jobs.push("emails", "send", key="span", in_=datetime.timedelta(days=2))
        self.jobs.push("emails", "send", "text", key="text")
        self.jobs.push("emails", "send", "<xml/>", raw=True, key="raw")
        self.jobs.push("emails", "send", key="nothing")
        self.commit()
        jobs = {job["job_key"]: job for job in self.all().values()}
        job = jobs["at"]
        self.assertEqual(self.when(job), datetime.datetime(2035, 2, 28, 20, 0, 0, 123456, datetime.timezone.utc))
        self.assertEqual((job["priority"], job["timeout_ms"], job["throttle_factor"], job["shard_key"]), (-5, 7000, 3, "s"))
        self.assertEqual(job["time_windows"], ["mon-fri 09:00-17:30"])
        now = datetime.datetime.now(datetime.timezone.utc)
        self.assertAlmostEqual((self.when(jobs["in"]) - now).total_seconds(), 3600.5, delta=30)
        self.assertAlmostEqual((self.when(jobs["span"]) - now).total_seconds(), 2 * 86400, delta=30)
        self.assertEqual([jobs[key]["job_data"] for key in ("text", "raw", "nothing")], ['"text"', "<xml/>", None])

    def commit(self):
        if not hasattr(self.db, "vendor"):
            self.db.commit()

    @staticmethod
    def when(job):
        return datetime.datetime.fromisoformat(re.sub(r"Z$", "+00:00", job["scheduled_run_time"]))

    def test_duplicates(self):
        self.begin()
        id = self.jobs.push("emails", "send", key="one")
        with self.assertRaises(hipq.DuplicateJob) as caught:
            self.jobs.push("emails", "send", key="one")
        self.assertEqual(str(caught.exception), "queue emails: a live job of type send has the key one")
        self.jobs.push("emails", "echo", key="one")  # another type; the transaction goes on
        self.assertEqual(self.jobs.push("emails", "send", key="one", on_duplicate="ignore"), id)
        with self.assertRaises(hipq.DuplicateJob):
            self.jobs.push_many("emails", [{"type": "send", "key": "two"}, {"type": "send", "key": "one"}])
        self.db.commit()
        self.assertEqual(sorted((job["job_type"], job["job_key"]) for job in self.all().values()), [("echo", "one"), ("send", "one")])

    def test_other_errors_pass_through(self):
        for wrong in (lambda: self.jobs.push("nowhere", "send"), lambda: self.jobs.push("emails", "s" * 300),
                      lambda: self.jobs.push("emails", "send", "x" * (1 << 20))):
            with self.assertRaises(Exception) as caught:
                wrong()
            self.assertNotIsInstance(caught.exception, (hipq.HipqError, ValueError))
            self.db.rollback()
        self.assertEqual(self.all(), {})

    def test_invalid_jobs_are_refused(self):
        naive, far = datetime.datetime(2030, 1, 1), 1e12
        for options in ({"type": ""}, {"type": "NONE"}, {"type": None}, {"key": ""}, {"key": "a\0b"}, {"key": 5}, {"shard_key": ""},
                        {"priority": 1 << 31}, {"priority": 1.5}, {"timeout": 0}, {"timeout": 316224001}, {"weight": -1}, {"at": naive},
                        {"at": "2030-01-01"}, {"in_": -1}, {"in_": far}, {"in_": float("nan")}, {"in_": 1, "at": naive},
                        {"data": float("nan")}, {"data": {1, 2}}, {"data": "", "raw": True}, {"data": "NONE", "raw": True},
                        {"data": "\ud800"}, {"type": "se\nnd"}, {"windows": object()}):
            with self.assertRaises((ValueError, TypeError), msg=options):
                self.jobs.push("emails", **{"type": "send", **options})
        for options in ({"on_duplicate": "never"}, {"colour": "red"}):
            with self.assertRaises((ValueError, TypeError), msg=options):
                self.jobs.push("emails", "send", **options)
        self.commit()
        self.assertEqual(self.all(), {})

    def test_push_many(self):
        self.begin()
        at = datetime.datetime(2035, 1, 1, tzinfo=datetime.timezone.utc)
        jobs = [{"type": "send", "data": {"n": n, "ü": "'"}, "key": f"k{n}", **({"at": at} if n % 2 else {"priority": n})} for n in range(1100)]
        self.assertEqual(self.jobs.push_many("emails", jobs), 1100)
        self.db.rollback()
        self.begin()
        self.assertEqual(self.jobs.push_many("emails", iter(jobs)), 1100)
        self.assertEqual(self.jobs.push_many("emails", [{"type": "send", "data": '"' * 700000, "raw": True} for _ in range(4)]), 4)
        self.assertEqual(self.jobs.push_many("emails", [{"type": "send"}, {"type": "echo", "key": "mixed", "in_": 60}]), 2)
        self.assertEqual(self.jobs.push_many("emails", []), 0)
        self.db.commit()
        found = {job["job_key"]: job for job in self.all().values()}
        self.assertEqual(len(found), 1106)
        for n in (0, 1, 2, 1099):
            job = found[f"k{n}"]
            self.assertEqual(job["job_data"], {"n": n, "ü": "'"})
            self.assertEqual(job["priority"], None if n % 2 else n)
            self.assertEqual(self.when(job) == at, bool(n % 2))

    def test_tables(self):
        jobs = hipq.Client(self.db, "other", tables={"mails": "shop_emails"})
        id = jobs.push("mails", "send")
        self.commit()
        self.assertEqual(list(self.all()), [id])

    def test_process_in_another_zone(self):
        zone = os.environ.get("TZ")
        self.addCleanup(lambda: (os.environ.pop("TZ"), zone and os.environ.update(TZ=zone), time.tzset()))
        os.environ["TZ"] = "America/St_Johns"
        time.tzset()
        local = datetime.datetime(2031, 7, 1, 12).astimezone()  # 14:30 UTC
        self.jobs.push("emails", "send", key="at", at=local)
        self.jobs.push("emails", "send", key="in", in_=60)
        self.commit()
        jobs = {job["job_key"]: job for job in self.all().values()}
        self.assertEqual(self.when(jobs["at"]), datetime.datetime(2031, 7, 1, 14, 30, tzinfo=datetime.timezone.utc))
        self.assertAlmostEqual((self.when(jobs["in"]) - datetime.datetime.now(datetime.timezone.utc)).total_seconds(), 60, delta=30)

    # Look and act

    def test_acts(self):
        at = datetime.datetime(2035, 1, 1, 12, tzinfo=datetime.timezone(datetime.timedelta(hours=2)))
        id = self.jobs.push("emails", "send", {"ü": 1}, key="Schlüssel", in_=3600)
        self.commit()
        job = self.jobs.get("emails", id)
        self.assertEqual([job[name] for name in ("id", "job_type", "job_key", "job_data", "state", "error")],
                         [id, "send", "Schlüssel", '{"ü": 1}', "initial", None])
        self.assertAlmostEqual((job["scheduled_run_time"] - datetime.datetime.now(datetime.timezone.utc)).total_seconds(), 3600, delta=30)
        self.assertEqual(self.jobs.get("emails", type="send", key="Schlüssel")["id"], id)
        self.assertIsNone(self.jobs.get("emails", 99))
        self.assertIsNone(self.jobs.get("emails", type="send", key="none"))
        self.commit()
        self.assertEqual(self.jobs.reschedule("emails", id, at=at), "initial")
        self.assertEqual(self.jobs.get("emails", id)["scheduled_run_time"], at)
        self.jobs.reschedule("emails", type="send", key="Schlüssel", in_=60.25)
        self.assertAlmostEqual((self.jobs.get("emails", id)["scheduled_run_time"] - datetime.datetime.now(datetime.timezone.utc)).total_seconds(), 60, delta=30)
        self.commit()
        self.assertEqual(self.jobs.cancel("emails", id), "final")
        self.assertEqual(self.jobs.get("emails", id)["error"], "cancelled")
        with self.assertRaises(hipq.Refused) as caught:
            self.jobs.cancel("emails", id)
        self.assertNotIsInstance(caught.exception, hipq.JobNotFound)
        self.assertGreater(caught.exception.number, 0)
        with self.assertRaises(hipq.JobNotFound):
            self.jobs.cancel("emails", 99)
        failed = self.jobs.push("emails", "give_up", key="two")
        self.commit()
        self.hipq("work")
        self.assertEqual(self.jobs.get("emails", failed)["error"], "no such customer")
        self.commit()
        self.jobs.retry("emails", failed)
        self.commit()
        again = self.jobs.get("emails", type="give_up", key="two")
        self.assertEqual((again["state"], again["retry_of"]), ("initial", failed))
        self.commit()
        self.hipq("work")
        self.jobs.dismiss("emails", again["id"])
        self.commit()
        self.assertEqual(len(self.query("SELECT 1")), 1)  # all results of the calls were read

    def test_answers(self):
        for key in "abcde":
            self.jobs.push("requests", "upload", key=key)
        self.commit()
        self.hipq("work")
        self.jobs.answer("requests", "upload", "a", result={"receipt": 17})
        self.jobs.answer("requests", "upload", "b", "failed", error="no such customer")
        self.jobs.answer("requests", "upload", "c", "retry", error="busy", retry_after=60.5)
        self.assertEqual(self.jobs.answer("requests", "upload", "d", "release", retry_after=3600), "retry")
        self.jobs.answer("requests", "upload", "e", "release", count=True)
        with self.assertRaises(hipq.JobNotFound):
            self.jobs.answer("requests", "upload", "f")
        self.commit()
        a, b, c = (self.jobs.get("requests", type="upload", key=key) for key in "abc")
        self.assertEqual((a["state"], json.loads(a["result"]), b["state"], b["error"], c["error"]),
                         ("final", {"receipt": 17}, "final", "no such customer", "busy"))
        self.hipq("work")  # on SQLite, a worker decides on the retry
        c, d = (self.jobs.get("requests", type="upload", key=key) for key in "cd")
        self.assertIsNone(d["error"])
        for job, seconds in ((c, 60.5), (d, 3600)):
            self.assertAlmostEqual((job["scheduled_run_time"] - datetime.datetime.now(datetime.timezone.utc)).total_seconds(), seconds, delta=30)
        self.assertEqual(self.states("requests", d["id"]), ["added", "starting", "released"])

    def states(self, queue, id):
        """What the activity says of a job."""
        lines = self.hipq("activity", "--queue", queue, "--job", str(id), "--json").splitlines()
        return [json.loads(line)["state"] for line in lines]

    # Run

    def test_run(self):
        ids = {name: self.jobs.push("emails", name, {"x": ["ü", 1.5, None]}, key=os.path.join(self.dir.name, name))
               for name in ("echo", "give_up", "retry", "release", "fail", "leaves", "unsendable", "large", "unknown")}
        text, raw = self.jobs.push("emails", "echo", "5"), self.jobs.push("emails", "echo", "<xml/>", raw=True)
        self.commit()
        jobs = self.work()
        got = {name: (jobs[id]["attempt"], jobs[id]["error"]) for name, id in ids.items()}
        self.assertEqual(got.pop("unsendable")[0], 2)
        self.assertEqual(got, {
            "echo": (1, None), "give_up": (1, "no such customer"), "retry": (2, None), "release": (2, None), "fail": (2, "KeyError: '\\ud800 ü'"),
            "leaves": (2, "SystemExit: 3"), "large": (2, "ValueError: the result has more than 1 MiB"),
            "unknown": (1, "no function for the type unknown")})
        self.assertIn("set is not JSON serializable", jobs[ids["unsendable"]]["error"])
        self.assertEqual(self.states("emails", ids["release"]), ["added", "starting", "released", "starting", "finished"])
        shown = self.shown(ids["echo"])
        self.assertEqual(shown["result"], {"data": {"x": ["ü", 1.5, None]}, "key": os.path.join(self.dir.name, "echo"), "attempt": 1, "timeout": 20})
        self.assertIn("noise of a child", json.dumps(shown))
        self.assertIn("Traceback", json.dumps(self.shown(ids["fail"])))
        self.assertEqual([self.shown(id)["result"]["data"] for id in (text, raw)], ["5", "<xml/>"])

    def test_star(self):
        os.environ["STAR"] = "1"
        self.addCleanup(os.environ.pop, "STAR")
        id = self.jobs.push("emails", "unknown")
        self.commit()
        self.work()
        self.assertEqual(self.shown(id)["result"], "unknown")

    def shown(self, id):
        return json.loads(self.hipq("show", "emails", str(id), "--json"))

    def test_open_transactions_are_rolled_back(self):
        cursor = self.db.cursor()
        cursor.execute("CREATE TABLE trace (note VARCHAR(20))")
        cursor.close()
        left, kept = self.jobs.push("emails", "leave"), self.jobs.push("emails", "keep")
        self.commit()
        jobs = self.work()
        self.assertEqual((jobs[left]["attempt"], jobs[left]["error"]), (2, "the job left a transaction open, which was rolled back"))
        self.assertEqual((jobs[kept]["attempt"], jobs[kept]["error"]), (1, None))
        self.assertEqual([row[0] for row in self.query("SELECT note FROM trace")], ["kept"])

    def test_term_lets_the_job_end(self):
        flag = os.path.join(self.dir.name, "flag")
        id = self.jobs.push("emails", "sleep", 2, key=flag, timeout=15)
        self.commit()
        worker = subprocess.Popen([binary(), "work"], stdin=subprocess.DEVNULL)
        for _ in range(200):
            if os.path.exists(flag):
                break
            time.sleep(0.05)
        worker.send_signal(signal.SIGTERM)
        worker.wait(30)
        job = self.all()[id]
        self.assertEqual((job["state"], job["attempt"], job["error"]), ("final", 1, None))

    def test_stops_at_the_timeout(self):
        begin = time.monotonic()
        id = self.jobs.push("emails", "sleep", 60, key=os.path.join(self.dir.name, "flag"), timeout=1)
        self.commit()
        job = self.work()[id]
        self.assertIn("timeout after 1s", job["error"])
        self.assertLess(time.monotonic() - begin, 30)


class Signals(unittest.TestCase):
    def test_a_term_just_before_the_timeout_stops_the_job_at_the_timeout(self):
        program = "import os, time, hipq\nhipq.run({'sleep': lambda job: os.write(2, b'.') and time.sleep(60)})"
        worker = subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                  env={**os.environ, "PYTHONPATH": os.path.dirname(HERE)})
        self.addCleanup(worker.communicate)
        self.addCleanup(worker.kill)
        self.assertEqual(json.loads(worker.stdout.readline()), {"ready": True})
        job = {"id": 1, "queue": "emails", "job_type": "sleep", "job_key": "k", "job_data": None, "attempt": 1, "token": "t", "timeout_ms": 2000}
        worker.stdin.write(json.dumps(job).encode() + b"\n")
        worker.stdin.flush()
        worker.stderr.read(1)
        worker.terminate()
        begin = time.monotonic()
        reply = json.loads(worker.stdout.readline())
        self.assertEqual(reply, {"id": 1, "token": "t", "outcome": "retry", "error": "JobTimeout: the job's timeout is over"})
        self.assertLess(time.monotonic() - begin, 30)


class MySQLCases(Cases):
    def test_replaces(self):
        self.jobs.push("emails", "send", 1, key="one")
        id = self.jobs.push("emails", "send", 2, key="one", on_duplicate="replace", in_=60, windows=["mon-sun 00:00-24:00"], weight=2)
        job = self.jobs.get("emails", type="send", key="one")
        self.assertEqual((job["id"], job["job_data"], job["throttle_factor"]), (id, "2", 2))

    def test_session_in_another_zone(self):
        self.set("SET time_zone = '+05:30'")
        at = datetime.datetime(2031, 7, 1, 12, tzinfo=datetime.timezone.utc)
        self.jobs.push("emails", "send", key="at", at=at)
        self.jobs.push("emails", "send", key="in", in_=60)
        self.jobs.push("emails", "send", key="submit", in_=60, on_duplicate="ignore")
        self.jobs.push("emails", "send", key="submit at", at=at, on_duplicate="ignore")
        self.commit()
        jobs = {job["job_key"]: job for job in self.all().values()}
        self.assertEqual([self.when(jobs[key]) for key in ("at", "submit at")], [at, at])
        for key in ("in", "submit"):
            self.assertAlmostEqual((self.when(jobs[key]) - datetime.datetime.now(datetime.timezone.utc)).total_seconds(), 60, delta=30)

    def set(self, sql):
        cursor = self.db.cursor()
        cursor.execute(sql)
        cursor.close()

    def test_session_without_strict_mode(self):
        self.set("SET sql_mode = ''")
        at = datetime.datetime(1960, 1, 1, tzinfo=datetime.timezone.utc)
        for options in ({"type": "s" * 300}, {"key": "k" * 300}, {"shard_key": "k" * 300}, {"data": "x" * (1 << 20)}, {"at": at},
                        {"windows": ["mon"] * 1000}, {"in_": 9e10 * 3}):
            with self.assertRaises(Exception, msg=options):
                self.jobs.push("emails", **{"type": "send", **options})
        self.jobs.push("emails", "send", {"a": "ü\U0001f600"}, key="ü\U0001f600")
        self.commit()
        self.assertEqual([(job["job_key"], job["job_data"]) for job in self.all().values()], [("ü\U0001f600", {"a": "ü\U0001f600"})])

    def test_session_without_backslash_escapes(self):
        self.set("SET sql_mode = 'NO_BACKSLASH_ESCAPES,ANSI_QUOTES,STRICT_ALL_TABLES'")
        text = "'; DROP TABLE x; -- \\' \" \\"
        self.jobs.push("emails", "send", [text], key=text)
        self.commit()
        self.assertEqual([(job["job_key"], job["job_data"]) for job in self.all().values()], [(text, [text])])

    def test_session_in_latin1(self):
        self.set("SET NAMES latin1")  # the driver doesn't know
        self.jobs.push("emails", "send", {"a": "ü\U0001f600"}, key="ü\U0001f600")
        self.jobs.push("emails", "send", {"a": "ü\U0001f600"}, key="2ü\U0001f600", on_duplicate="ignore")
        self.commit()
        self.assertEqual([(job["job_key"], job["job_data"]) for job in self.all().values()],
                         [("ü\U0001f600", {"a": "ü\U0001f600"}), ("2ü\U0001f600", {"a": "ü\U0001f600"})])


class SQLite(Cases, unittest.TestCase):
    driver, mysql = "sqlite3", False


class DjangoOnSQLite(Cases, unittest.TestCase):
    driver, mysql = "django-sqlite", False


class PyMySQL(MySQLCases, unittest.TestCase):
    driver = "pymysql"

    def test_connection_in_latin1(self):
        self.db = self.connect(charset="latin1")
        self.jobs = hipq.Client(self.db, "shop", command=binary())
        self.jobs.push("emails", "send", {"a": "ü\U0001f600"}, key="ü\U0001f600")
        self.commit()
        self.assertEqual([(job["job_key"], job["job_data"]) for job in self.all().values()], [("ü\U0001f600", {"a": "ü\U0001f600"})])

    def test_rows_as_dicts(self):
        import pymysql.cursors
        self.db = self.connect(cursorclass=pymysql.cursors.DictCursor)
        self.jobs = hipq.Client(self.db, "shop", command=binary())
        id = self.jobs.push("emails", "send", key="one")
        self.assertEqual(self.jobs.push("emails", "send", key="one", on_duplicate="ignore"), id)


class MySQLdb(MySQLCases, unittest.TestCase):
    driver = "MySQLdb"
    test_connection_in_latin1 = PyMySQL.test_connection_in_latin1


class DjangoOnMySQL(MySQLCases, unittest.TestCase):
    driver = "django-mysql"


def connect_server():
    import pymysql
    user, password, host, port = SERVER.groups()
    return pymysql.connect(user=user, password=password or "", host=host, port=int(port), autocommit=True)


def run_sql(db, sql):
    cursor = db.cursor()
    cursor.execute(sql)
    cursor.close()


if __name__ == "__main__":
    unittest.main()
