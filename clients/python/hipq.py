"""Durable jobs on MariaDB, MySQL or SQLite: enqueue them in your own transaction, and run them for hipq.

    jobs = hipq.Client(db, "shop")  # db: your connection, whose transactions remain yours
    jobs.push("emails", "send", {"order": 4711}, key="order-4711")

    hipq.run({"send": send})  # the program of a stream
"""
import datetime, json, os, signal, sqlite3, subprocess, sys, threading, time, traceback  # noqa: E401

MIB = 1 << 20
LIMITS = {"priority": (-2147483647, 2147483647), "timeout": (1, 316224000), "throttle_factor": (0, 2147483647)}


class HipqError(Exception):
    """The base of the errors that Client raises. Errors of the driver pass through unchanged."""


class DuplicateJob(HipqError):
    """A live job of this type has the key. With push_many, type and key are None, and the message names them."""

    def __init__(self, queue, type, key, message=None):
        super().__init__(message or f"queue {queue}: a live job of type {type} has the key {key}")
        self.queue, self.type, self.key = queue, type, key


class Refused(HipqError):
    """hipq refused a call. number is that of the procedure's error, or on SQLite the exit code of the command."""

    def __init__(self, message, number):
        super().__init__(message)
        self.number = number


class JobNotFound(Refused):
    """There is no such job."""


class Client:
    """connection: of PyMySQL, mysqlclient or sqlite3, or Django's. tables: {queue: table}, for other names than
    <instance>_<queue>. command and config: hipq and its config, which do what SQLite has no procedures for."""

    def __init__(self, connection, instance, tables=None, command="hipq", config=None):
        self.connection, self.instance, self.tables = connection, instance, tables or {}
        self.command = [command] + (["--config", config] if config else [])
        self.sqlite = isinstance(connection, sqlite3.Connection) or getattr(connection, "vendor", "") == "sqlite"
        self.mark = "?" if isinstance(connection, sqlite3.Connection) else "%s"

    def push(self, queue, type, data=None, *, on_duplicate="error", **options):
        """Adds a job by a plain INSERT, and returns its id. Options: key, at (an aware datetime), in_ (seconds or a
        timedelta), priority, timeout (seconds), weight, windows (a list), shard_key, raw (data is text, not JSON).
        on_duplicate: "error" raises DuplicateJob, "ignore" returns the live job's id, "replace" replaces a job that has
        not started (not on SQLite)."""
        row = _row(type, data, **options)
        if on_duplicate not in ("error", "ignore", "replace") or on_duplicate == "replace" and self.sqlite:
            raise ValueError(f"on_duplicate is {on_duplicate!r}")
        if on_duplicate != "error" and not self.sqlite:
            when = row.pop("scheduled_run_time", None)
            row.update({} if when is None else {"at": when + "Z"} if isinstance(when, str) else {"in": _duration(when)})
            job = [queue] + [row.pop(name, None) for name in ("job_type", "job_key", "job_data")]
            row.update({"time_windows": json.loads(row["time_windows"])} if "time_windows" in row else {})
            return self._call("job_submit", *job, dict(row, on_duplicate=on_duplicate))["id"]
        try:
            return self._insert(queue, [row])
        except DuplicateJob:
            if on_duplicate == "error":
                raise
            return self._find(queue, None, type, row["job_key"])["id"]

    def push_many(self, queue, jobs):
        """Adds jobs, each a dict of "type" and what push takes, by INSERTs of up to 500 rows. Returns their number."""
        rows = [_row(**job) for job in jobs]
        chunk, size = [], 0
        for row in rows:
            length = len(row.get("job_data", "").encode())
            if chunk and (len(chunk) == 500 or size + length > MIB):
                self._insert(queue, chunk)
                chunk, size = [], 0
            chunk.append(row)
            size += length
        if chunk:
            self._insert(queue, chunk)
        return len(rows)

    def get(self, queue, id=None, *, type=None, key=None):
        """Returns a job as a dict, or None. With type and key: the live job, else the newest final one."""
        try:
            return self._find(queue, id, type, key) if self.sqlite else self._call("job_get", queue, id, type, key)
        except JobNotFound:
            return None

    def cancel(self, queue, id=None, *, type=None, key=None, running=False):
        """Ends a job, a running one only if asked. Like the next three, it returns the job's state."""
        return self._act("cancel", queue, id, type, key, [{"running": running}], ["--running"] if running else [])

    def retry(self, queue, id=None, *, type=None, key=None):
        return self._act("retry", queue, id, type, key)

    def dismiss(self, queue, id=None, *, type=None, key=None):
        return self._act("dismiss", queue, id, type, key)

    def reschedule(self, queue, id=None, *, type=None, key=None, at=None, in_=None):
        name, when = ("at", _utc(at).replace(" ", "T") + "Z") if in_ is None else ("in", _duration(in_))
        return self._act("reschedule", queue, id, type, key, [{name: when}], ["--" + name, when])

    def answer(self, queue, type, key, outcome="finished", result=None, *, error=None, retry_after=None):
        """Ends the attempt of a job that awaits its answer: "finished", "retry" or "failed"."""
        text = None if result is None else _json(result)
        options = {} if error is None else {"error": error}
        options.update({} if retry_after is None else {"retry_after": _duration(retry_after)})
        if not self.sqlite:
            return self._call("job_answer", queue, None, type, key, outcome, text, options or None)["state"]
        if retry_after is not None or outcome not in ("finished", "retry", "failed"):
            raise ValueError("outcome is finished, retry or failed; retry_after needs MariaDB or MySQL")
        flags = ["complete", *(["--data", text] if text else [])] if outcome == "finished" else ["fail", "--error", error or outcome]
        return self._run(flags + ["--retry"] * (outcome == "retry"), queue, [type, key], (None, type, key))

    def _act(self, name, queue, id, type, key, options=(), flags=()):
        if not self.sqlite:
            return self._call("job_" + name, queue, id, type, key, *options)["state"]
        id = (self._find(queue, id, type, key) or {"id": id}).get("id")
        return self._run([name, *flags], queue, [str(id or 0)], (id, None, None))

    def _run(self, command, queue, names, job):
        done = subprocess.run([*self.command, *command, "--", queue, *names], stdin=subprocess.DEVNULL, capture_output=True, text=True)
        found = self._find(queue, *job)
        if done.returncode:
            raise (Refused if found else JobNotFound)((done.stderr or done.stdout).strip(), done.returncode)
        return found and found["state"]

    def _table(self, queue, more=""):
        return "`" + self.tables.get(queue, f"{self.instance}_{queue}").replace("`", "``") + more + "`"

    def _insert(self, queue, rows):
        names = list(dict.fromkeys(name for row in rows for name in row))
        values, parameters = [], []
        for row in rows:  # on SQLite, NULL is a column's default
            marks = [self._value(row.get(name), parameters, "NULL" if self.sqlite else "DEFAULT") for name in names]
            values.append(f"({', '.join(marks)})")
        cursor = self.connection.cursor()
        try:
            cursor.execute(f"INSERT INTO {self._table(queue)} ({', '.join(names)}) VALUES {', '.join(values)}", parameters)
            return cursor.lastrowid
        except Exception as error:
            text = str(error)
            if not (_number(error) == 1062 and "$live" in text or self.sqlite and "UNIQUE" in text and ".job_key" in text):
                raise
            one = rows[0] if len(rows) == 1 else {}
            raise DuplicateJob(queue, one.get("job_type"), one.get("job_key"), None if one else text) from error
        finally:
            cursor.close()

    def _value(self, value, parameters, missing="NULL"):
        """Returns the SQL of a value. Text travels in hex, which no character set, SQL mode or driver changes."""
        if value is None:
            return missing
        if isinstance(value, datetime.timedelta):  # from now, by the database's clock
            parameters.append(f"+{value.total_seconds():.6f} seconds" if self.sqlite else _seconds(value) * 1000000 // 1)
            form = "%Y-%m-%d %H:%M:%f" if self.mark == "?" else "%%Y-%%m-%%d %%H:%%M:%%f"
            return f"strftime('{form}', 'now', {self.mark})" if self.sqlite else "UTC_TIMESTAMP(6) + INTERVAL %s MICROSECOND"
        value = json.dumps(value) if isinstance(value, dict) else value
        text = isinstance(value, str) and not self.sqlite
        parameters.append(value.encode().hex() if text else value)
        return "CONVERT(UNHEX(%s) USING utf8mb4)" if text else self.mark

    def _call(self, name, *arguments):
        parameters = []
        marks = ", ".join([self._value(a, parameters) for a in arguments])
        try:
            return self._first(f"CALL {self.instance}_{name}({marks})", parameters)
        except Exception as error:
            number = _number(error)
            if not 31000 < number < 32000:
                raise
            raise (JobNotFound if number == 31007 else Refused)(str(error.args[1]), number) from error

    def _find(self, queue, id, type, key):
        where, values = ("id = {0}", [id]) if id is not None else ("job_type = {0} AND job_key = {0}", [type, key])
        sql = f"SELECT * FROM {self._table(queue, '$jobs')} WHERE {where} ORDER BY id DESC LIMIT 1"
        return self._first(sql.format(self.mark), values)

    def _first(self, sql, parameters):
        """Returns the first row as a dict with aware times, or None. It reads all result sets."""
        cursor = self.connection.cursor()
        try:
            if isinstance(cursor, sqlite3.Cursor):
                cursor.row_factory = None
            cursor.execute(sql, parameters)
            row = cursor.fetchone()
            if row is not None and not isinstance(row, dict):
                row = dict(zip([column[0] for column in cursor.description], row))
            while not self.sqlite and cursor.nextset():
                pass
        finally:
            cursor.close()
        return row and {name: _read(name, value) for name, value in row.items()}


def _read(name, value):
    value = value.decode() if isinstance(value, bytes) else value
    if not name.endswith("_time") or value is None:
        return value
    return (datetime.datetime.fromisoformat(value[:26]) if isinstance(value, str) else value).replace(tzinfo=datetime.timezone.utc)


def _row(type, data=None, *, key=None, at=None, in_=None, priority=None, timeout=None, weight=None, windows=None,
         shard_key=None, raw=False):
    """Checks a job as the table would in strict mode, and as the next tick would."""
    row = {"job_type": type, "job_key": key, "shard_key": shard_key, "priority": priority, "timeout": timeout, "throttle_factor": weight}
    row = {name: value for name, value in row.items() if value is not None}
    for name, value in row.items():
        low, high = LIMITS.get(name, (0, 0))
        if not (isinstance(value, int) and low <= value <= high if high else isinstance(value, str) and value and "\0" not in value):
            raise ValueError(f"{name} is {value!r}")
    if data is not None:
        row["job_data"] = data if raw else _json(data)
    if type in (None, "NONE") or any(c < " " or "\x7f" <= c <= "\x9f" for c in type) or row.get("job_data") in ("", "NONE") or at is not None and in_ is not None:
        raise ValueError(f"a job needs a type without control characters, and no two times; NONE and empty text are no values: {row}")
    if at is not None or in_ is not None:
        row["scheduled_run_time"] = _utc(at) if in_ is None else datetime.timedelta(seconds=_seconds(in_))
    if windows is not None:
        row["time_windows"] = _json(windows)
    return row


def _json(value):
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def _utc(at):
    if not isinstance(at, datetime.datetime) or at.tzinfo is None:
        raise ValueError(f"{at!r} is no datetime with a time zone")
    return at.astimezone(datetime.timezone.utc).replace(tzinfo=None).isoformat(" ", "microseconds")


def _seconds(span):
    seconds = span.total_seconds() if isinstance(span, datetime.timedelta) else float(span)
    if not 0 <= seconds <= 1e11:  # a server makes NULL, which is now, of what it can't add
        raise ValueError(f"{span!r} is no time from now")
    return seconds


def _duration(span):
    return f"{_seconds(span):.6f}s"


def _number(error):
    return error.args[0] if error.args and isinstance(error.args[0], int) else 0


class GiveUp(Exception):
    """The job fails for good."""

    def reply(self):
        return {"outcome": "failed", "error": _short(self)}


class Retry(Exception):
    """An error of the job. It runs again after so many seconds, or as its retry policy says."""

    def __init__(self, message="retry", after=None):
        super().__init__(message)
        self.after = after

    def reply(self):
        return {"outcome": "retry", "error": _short(self), **({} if self.after is None else {"retry_after": _duration(self.after)})}


class Release(Exception):
    """No error: the job runs again after so many seconds. count: it uses up an attempt."""

    def __init__(self, after=0, count=False):
        super().__init__("released")
        self.after, self.count = after, count

    def reply(self):
        return {"outcome": "release", "retry_after": _duration(self.after), "count": self.count}


class Job:
    """What a function of run gets. data is decoded JSON, or a text that is none. timeout is in seconds."""

    def __init__(self, line, say):
        self.id, self.queue, self.type, self.key = line["id"], line["queue"], line["job_type"], line["job_key"]
        self.attempt, self.interrupts, self.token = line["attempt"], line.get("interrupts", 0), line["token"]
        self.data, self.timeout, self._say = line["job_data"], line["timeout_ms"] / 1000, say
        try:
            self.data = json.loads(self.data) if isinstance(self.data, str) else self.data
        except ValueError:
            pass

    def progress(self, percent, note=None):
        self._say({"id": self.id, "token": self.token, "progress": percent, **({"note": note} if note else {})})


def run(functions, connection=None):
    """Runs a stream's jobs, one after the other: {type: function(job) → result}, "*" for all other types. With connection,
    a transaction that a job leaves open is rolled back, and the job is retried. After a TERM it ends with the running job."""
    source, replies, lock = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb"), threading.Lock()
    with open(os.devnull) as nothing:
        os.dup2(nothing.fileno(), 0)
    os.dup2(2, 1)  # what jobs print is log, never a reply
    over, end = None, False  # when the running job's timeout is over; after a TERM

    def say(reply):
        line = _json(reply).encode()
        if len(line) >= MIB:
            raise ValueError("the result has more than 1 MiB")
        with lock:
            replies.write(line + b"\n")
            replies.flush()

    def on_term(signum, frame):
        nonlocal end
        end = True
        if over is None:
            raise SystemExit
        if time.monotonic() >= over:
            raise TimeoutError("stopped at its timeout")

    signal.signal(signal.SIGTERM, on_term)
    say({"ready": True})
    for line in source:
        job = Job(json.loads(line), say)
        over = time.monotonic() + job.timeout
        reply = _perform(functions.get(job.type) or functions.get("*"), job, connection)
        sys.stdout.flush()  # before the answer, so that it is in this attempt's log
        try:
            say({"id": job.id, **reply})
        except (TypeError, ValueError) as error:
            say({"id": job.id, "outcome": "retry", "error": f"the result can't be sent: {error}"})
        over = None
        if end:
            return


def _perform(function, job, connection):
    try:
        if function is None:
            raise GiveUp(f"no function for the type {job.type}")
        result = function(job)
        reply = {"outcome": "finished", **({} if result is None else {"result": result})}
    except (GiveUp, Retry, Release) as error:
        reply = error.reply()
    except (Exception, SystemExit) as error:
        traceback.print_exc()
        reply = {"outcome": "retry", "error": f"{type(error).__name__}: {_short(error)}"}
    try:
        wrong = left_open(connection) and "the job left a transaction open, which was rolled back"
    except Exception as error:
        wrong = f"the connection is lost: {_short(error)}"
    return {"outcome": "retry", "error": wrong} if wrong and reply["outcome"] == "finished" else reply


def _short(error):
    return str(error).encode(errors="replace").decode()[:2000]


def left_open(connection):
    """Says whether the connection, if any, has an open transaction, and rolls it back."""
    connection = connection.connection if hasattr(connection, "vendor") else connection  # of Django's
    if connection is None or isinstance(connection, sqlite3.Connection) and not connection.in_transaction:
        return False
    if not isinstance(connection, sqlite3.Connection):
        cursor = connection.cursor()
        try:
            cursor.execute("SET TRANSACTION READ WRITE")  # an error within a transaction
            return False
        except Exception as error:
            if _number(error) != 1568:
                raise
        finally:
            cursor.close()
    connection.rollback()
    return True
