"""What robust.py and others.py have in common: a framework's shop in a folder and a database of its own, and the server that is killed.

hipq is HIPQ_TEST_HIPQ. The server is that of HIPQ_TEST_MYSQL_DSN; .ci/with-mariadb --keep starts it again.
"""
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
HIPQ = os.environ["HIPQ_TEST_HIPQ"]
DSN = os.environ["HIPQ_TEST_MYSQL_DSN"]
HOST, PORT = re.fullmatch(r"root@tcp\((.*):(\d+)\)/", DSN).groups()


def path(*parts):
    return os.path.join(HERE, *parts)


TRACE = "CREATE TABLE trace (id INT AUTO_INCREMENT PRIMARY KEY, job VARCHAR(100), note TEXT)"
RAILS = "require '%s'\n" % path("rails/test/shop/config/environment")


class Shop:
    def __init__(self, framework):
        self.instance = "app" if framework == "rails" else "shop"
        self.database = f"steady_{framework}_{os.getpid()}"
        self.place = place = tempfile.mkdtemp()
        self.steady, self.revision, self.log = (os.path.join(place, name) for name in ("steady", "REVISION", "log"))
        # Of each framework: its variables, the program that hipq runs, its folder, and its tables.
        php = {"SHOP_DIR": place, "DB_PORT": PORT, "DB_DATABASE": self.database}
        variables, self.program, self.folder, self.tables = {
            "laravel": ({**php, "QUEUE_CONNECTION": "hipq"}, ["php", path("laravel/tests/app/artisan"), "queue:work", "hipq", "--sleep=0"], place,
                        f"{TRACE}; CREATE TABLE cache (`key` VARCHAR(255) PRIMARY KEY, value MEDIUMTEXT, expiration INT)"),
            "symfony": ({**php, "QUEUE": "hipq"}, ["php", path("symfony/tests/app/console"), "messenger:consume", "default", "--sleep=0"], place, TRACE),
            "rails": ({"DATABASE_URL": f"mysql2://root@{HOST}:{PORT}/{self.database}", "RUBYOPT": "-W:no-deprecated",
                       "RUBYLIB": path("rails/lib") + ":" + path("ruby/lib")}, ["ruby", "bin/rails", "hipq:stream"], path("rails/test/shop"),
                      "CREATE TABLE traces (id INTEGER PRIMARY KEY AUTO_INCREMENT, scenario VARCHAR(40), text TEXT)"),
            "django": ({"DATABASE": self.database, "HIPQ_TEST_MYSQL_DSN": DSN, "HIPQ_TEST_HIPQ": HIPQ},
                       [sys.executable, path("django/tests/manage.py"), "hipq_stream"], place, "SELECT 1"),
        }[framework]
        self.variables = {**variables, "STEADY": self.steady, "REVISION": self.revision}
        self.environment = {**os.environ, **self.variables, "HIPQ_CONFIG": os.path.join(place, "hipq.yaml")}
        for name in ("bootstrap/cache", "storage/framework", "app"):  # of Laravel
            os.makedirs(os.path.join(place, name))
        for name, text in (("composer.json", "{}"), ("steady", ""), ("REVISION", "first")):
            with open(os.path.join(place, name), "w") as file:
                file.write(text)
        self.sql(f"CREATE DATABASE {self.database} CHARACTER SET utf8mb4", "mysql")
        self.sql(self.tables)

    def clear(self):
        self.sql(f"DROP DATABASE {self.database}", "mysql")
        shutil.rmtree(self.place)

    def sql(self, statement, into=None):
        """Returns the rows, each a list of texts."""
        client = shutil.which("mariadb") or "mysql"
        done = subprocess.run([client, "-uroot", f"-h{HOST}", f"-P{PORT}", "-N", "-B", "-e", statement, into or self.database],
                              stdout=subprocess.PIPE, universal_newlines=True, check=True)
        return [line.split("\t") for line in done.stdout.splitlines()]

    def run(self, *command, good=(0,)):
        done = subprocess.run(command, env=self.environment, cwd=self.place, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, universal_newlines=True)
        if done.returncode not in good:
            sys.exit(f"{command} exits with {done.returncode}: {done.stdout}")
        return done.stdout

    def start(self, *command, **more):
        """Starts a program; what it prints goes to the log."""
        with open(self.log, "a") as file:
            return subprocess.Popen(command, **{"env": self.environment, "cwd": self.place, "stdin": subprocess.DEVNULL, "stdout": file, "stderr": file, **more})

    def init(self, settings, handler):
        """Writes hipq's config, and creates its tables."""
        handler = {"stream": self.program, "dir": self.folder, "env": [f"{name}={value}" for name, value in self.variables.items()],
                   "start_timeout": "60s", **handler}
        with open(self.environment["HIPQ_CONFIG"], "w") as file:
            json.dump({"name": self.instance, "database": {"driver": "mysql", "dsn": DSN + self.database}, **settings,
                       "queues": [{"name": "default", "job_types": [{"name": "*", "handler": handler}]}]}, file)
        self.run(HIPQ, "init")

    def lines(self):
        """The jobs' lines, each as its words."""
        with open(self.steady) as file:
            return [line.split() for line in file]

    def programs(self):
        """The pids of hipq's programs that run now."""
        found = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/environ", "rb") as env, open(f"/proc/{pid}/cmdline", "rb") as command:
                    if f"STEADY={self.steady}".encode() in env.read() and self.program[1].encode() in command.read():
                        found.append(int(pid))
            except OSError:
                pass
        return found

    def signal_server(self, number=signal.SIGKILL):
        with open(self.sql("SELECT @@pid_file")[0][0]) as file:
            pid = int(file.read())
        os.kill(pid, number)
        return pid
