"""Durable jobs on MariaDB, MySQL or SQLite: enqueue them in your own transaction, and run them for hipq. README.md has examples."""
import contextlib, datetime, functools, json, os, re, signal, sqlite3, subprocess, sys, time, traceback  # noqa: E401

# Numbers that a session without strict mode would change without a word.
LIMITS = {"priority": (-2147483647, 2147483647), "timeout": (1, 316224000), "throttle_factor": (0, 2147483647)}
# A column that isn't given; a text, in hex, which no character set, SQL mode or driver changes; a time from now.
SQLITE = "NULL", "CAST(X'{}' AS TEXT)", "strftime('%Y-%m-%d %H:%M:%f', 'now', '+{} seconds')"
MYSQL = "DEFAULT", "CONVERT(X'{}' USING utf8mb4)", "UTC_TIMESTAMP(6) + INTERVAL {} SECOND"

class HipqError(Exception):  # the base of the errors that Client raises; errors of the driver pass through unchanged
    def __init__(self, message, number=0):
        super().__init__(message)
        self.number = number
class DuplicateJob(HipqError): pass  # a live job has the type and the key
class Refused(HipqError): pass  # hipq refused the call. number is the procedure's, or on SQLite the exit code of the command
class JobNotFound(Refused): pass

class Client:
    """connection: of PyMySQL, mysqlclient or sqlite3, or Django's. tables: {queue: table}, for other names than
    <instance>_<queue>. command and config: hipq and its config, which do what SQLite has no procedures for."""
    def __init__(self, connection, instance, tables=None, command="hipq", config=None):
        self.connection, self.instance, self.tables = connection, instance, tables or {}
        self.command = [command] + (["--config", config] if config else [])
        self.sqlite = isinstance(connection, sqlite3.Connection) or getattr(connection, "vendor", "") == "sqlite"

    def push(self, queue, type, data=None, *, on_duplicate="error", **options):
        """Adds a job by a plain INSERT, and returns its id. The options are those of _row. on_duplicate: "error" raises
        DuplicateJob, "ignore" returns the live job's id, "replace" (not on SQLite) replaces a job that has not started."""
        row = _row(type, data, **options)
        if on_duplicate not in (["error", "ignore"] if self.sqlite else ["error", "ignore", "replace"]):
            raise ValueError(f"on_duplicate is {on_duplicate!r}")
        if on_duplicate == "error" or self.sqlite:
            conflict = "" if on_duplicate == "error" else "ON CONFLICT (job_type, job_key, live) DO UPDATE SET job_key = job_key RETURNING id"
            found, id = self._insert(queue, [row], conflict)
            return found["id"] if found else id
        job = [row.pop(column, None) for column in ("job_type", "job_key", "job_data")]
        when = row.pop("scheduled_run_time", "")
        return self._call("job_submit", queue, *job, {**row, "at" if when.endswith("Z") else "in": when or None, "on_duplicate": on_duplicate})["id"]

    def push_many(self, queue, jobs):
        """Adds jobs, each a dict of "type" and what push takes, by INSERTs of up to 500 rows. Returns their number."""
        inserts, size = {}, 0
        for job in jobs:
            row = _row(**job)
            size += 1000 + len(row.get("job_data", ""))
            inserts.setdefault(size // 500000, []).append(row)
        for rows in inserts.values():
            self._insert(queue, rows)
        return sum(map(len, inserts.values()))

    def get(self, queue, id=None, *, type=None, key=None):
        """Returns a job as a dict, or None. With type and key: the live job, else the newest final one."""
        if self.sqlite:
            where = f"job_type = {self._sql(type)} AND job_key = {self._sql(key)}" if id is None else f"id = {int(id)}"
            return self._query(f"SELECT * FROM {self._table(queue, '$jobs')} WHERE {where} ORDER BY state = 'final', id DESC LIMIT 1")[0]
        with contextlib.suppress(JobNotFound):
            return self._call("job_get", queue, id, type, key)

    def cancel(self, queue, id=None, *, type=None, key=None, running=False):
        """Ends a job, a running one only if asked. Like the next ones, it returns the job's state."""
        return self._change("cancel", queue, id, type, key, {"running": running})

    def retry(self, queue, id=None, *, type=None, key=None): return self._change("retry", queue, id, type, key)
    def dismiss(self, queue, id=None, *, type=None, key=None): return self._change("dismiss", queue, id, type, key)
    def reschedule(self, queue, id=None, *, type=None, key=None, at=None, in_=None):
        return self._change("reschedule", queue, id, type, key, {"at" if in_ is None else "in": _time(at, in_)})

    def answer(self, queue, type, key, outcome="finished", result=None, *, error=None, retry_after=None, count=None):
        """Ends the attempt of a job that awaits its answer: "finished", "failed", "retry", or "release", which is no error
        and uses up no attempt unless count is true. retry_after goes with the last two, in seconds."""
        result = None if result is None else _json(result)
        options = _given(error=error, retry_after=_time(in_=retry_after), count=count)
        if not self.sqlite:
            return self._call("job_answer", queue, None, type, key, outcome, result, options)["state"]
        options.update({"finished": _given(data=result), "failed": {}}.get(outcome, {outcome: True}))
        return self._change("complete" if outcome == "finished" else "fail", queue, None, type, key, options)

    def _change(self, name, queue, id, type, key, options=None):
        """Calls the procedure, or on SQLite the command of this name, and returns the job's state."""
        if not self.sqlite:
            return self._call("job_" + name, queue, id, type, key, *([] if options is None else [options]))["state"]
        job = self.get(queue, id, type=type, key=key)
        if job is None:
            raise JobNotFound(f"queue {queue} has no such job", 31007)
        flags = [f"--{option.replace('_', '-')}={value}" for option, value in (options or {}).items()]
        names = [job["job_type"], job["job_key"]] if name in ("complete", "fail") else [str(job["id"])]
        done = subprocess.run([*self.command, name, *flags, "--", queue, *names], stdin=subprocess.DEVNULL, capture_output=True, text=True)
        if done.returncode:
            raise Refused((done.stderr or done.stdout).strip(), done.returncode)
        return (self.get(queue, job["id"]) or {"state": "final"})["state"]

    def _call(self, procedure, *arguments):
        return self._query(f"CALL {self.instance}_{procedure}({', '.join(map(self._sql, arguments))})")[0]

    def _table(self, queue, more=""):
        return "`" + self.tables.get(queue, f"{self.instance}_{queue}").replace("`", "``") + more + "`"

    def _insert(self, queue, rows, more=""):
        columns = list(dict.fromkeys(column for row in rows for column in row))
        values = ", ".join(f"({', '.join(self._sql(row.get(column), column) for column in columns)})" for row in rows)
        job = "one of the types and keys" if len(rows) > 1 else f"type {rows[0]['job_type']} has the key {rows[0].get('job_key')}"
        return self._query(f"INSERT INTO {self._table(queue)} ({', '.join(columns)}) VALUES {values} {more}", f"queue {queue}: a live job of {job}")

    def _sql(self, value, column=""):
        missing, text, soon = SQLITE if self.sqlite else MYSQL
        if value is None:
            return missing if column else "NULL"
        if isinstance(value, int):
            return str(int(value))
        if column == "scheduled_run_time":
            return soon.format(value[:-1]) if value.endswith("s") else "'" + value[:-1].replace("T", " ") + "'"
        return text.format((value if isinstance(value, str) else _json(value)).encode().hex())

    def _query(self, sql, duplicate=""):
        """Returns the first row as a dict with aware times, or None, and the id of a new row. It reads all result sets."""
        with contextlib.closing(self.connection.cursor()) as cursor:
            try:
                cursor.execute(sql)
                names = [column[0] for column in cursor.description or []]
                rows = cursor.fetchall() if names else []
                while not self.sqlite and cursor.nextset():
                    pass
            except Exception as error:
                number, text = error.args[0] if isinstance(error.args[0], int) else 0, str(error.args[-1])
                if number in (0, 1062) and re.search(r"[$.]live'?$", text):
                    raise DuplicateJob(duplicate, number) from error
                if not 31000 < number < 32000:
                    raise
                raise (JobNotFound if number == 31007 else Refused)(text, number) from error
            row = next((row if isinstance(row, dict) else dict(zip(names, row)) for row in rows), None)
            return row and {name: _read(name, value) for name, value in row.items()}, cursor.lastrowid

def _read(name, value):
    value = value.decode() if isinstance(value, bytes) else value
    is_time = name.endswith("_time") and value is not None
    return datetime.datetime.fromisoformat(str(value)[:26]).replace(tzinfo=datetime.timezone.utc) if is_time else value

def _row(type, data=None, *, key=None, at=None, in_=None, priority=None, timeout=None, weight=None, windows=None, shard_key=None, raw=False):
    """Returns a job's columns, checked as the table would in strict mode, and as the next tick would. at: an aware datetime.
    in_: seconds or a timedelta. timeout: seconds. weight: throttle_factor. windows: a list. raw: data is text, not JSON."""
    row = _given(job_type=type, job_key=key, shard_key=shard_key, priority=priority, timeout=timeout, throttle_factor=weight)
    for name, value in row.items():
        low, high = LIMITS.get(name, (0, 0))
        if not (isinstance(value, int) and low <= value <= high if high else isinstance(value, str) and value and "\0" not in value):
            raise ValueError(f"{name} is {value!r}")
    text = data if raw or data is None else _json(data)
    if type in (None, "NONE") or re.search(r"[\0-\x1f\x7f-\x9f]", type) or text in ("", "NONE") or at is not None and in_ is not None:
        raise ValueError(f"a job needs a type without control characters, and no two times; NONE and empty text are no values: {row}")
    return _given(**row, job_data=text, time_windows=windows, scheduled_run_time=_time(at, in_))

def _time(at=None, in_=None):
    """Returns an aware datetime in UTC, or seconds or a timedelta from now, as hipq reads them."""
    if at is not None and (not isinstance(at, datetime.datetime) or at.tzinfo is None):
        raise ValueError(f"{at!r} is no datetime with a time zone")
    if in_ is None:
        return at and at.astimezone(datetime.timezone.utc).replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"
    seconds = in_.total_seconds() if isinstance(in_, datetime.timedelta) else float(in_)
    if not 0 <= seconds <= 1e11:  # a server makes NULL, which is now, of what it can't add
        raise ValueError(f"{in_!r} is no time from now")
    return f"{seconds:.6f}s"

def _given(**values): return {name: value for name, value in values.items() if value is not None}
_json = functools.partial(json.dumps, ensure_ascii=False, allow_nan=False)

class Outcome(Exception):  # the base of what a job's function may raise to end its attempt; after is in seconds
    def __init__(self, message="", after=None, count=None):
        super().__init__(message)
        self.after, self.count = after, count

class GiveUp(Outcome): outcome = "failed"  # for good
class Retry(Outcome): outcome = "retry"  # an error: run again, after so many seconds if given
class JobTimeout(TimeoutError): pass  # what run raises in a job at its timeout
class Release(Outcome):  # no error: run again; count: it uses up an attempt
    outcome = "release"
    def __init__(self, after=0, count=False):
        super().__init__("", after, count)

class Job:
    """What a function of run gets. data is decoded JSON, or a text that is none. timeout is in seconds."""
    def __init__(self, line, say):
        self.id, self.queue, self.type, self.key = line["id"], line["queue"], line["job_type"], line["job_key"]
        self.attempt, self.interrupts, self.token = line["attempt"], line.get("interrupts", 0), line["token"]
        self.data, self.timeout, self._say = line["job_data"], line["timeout_ms"] / 1000, say
        with contextlib.suppress(TypeError, ValueError):
            self.data = json.loads(self.data)

    def progress(self, percent, note=None):
        self._say(id=self.id, token=self.token, progress=percent, note=note)

def run(functions, connection=None):
    """Runs a stream's jobs, one after the other: {type: function(job) → result}, "*" for all other types. With connection,
    a transaction that a job leaves open is rolled back, and the job is retried. After a TERM it ends with the running job."""
    source, replies = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)  # what jobs print is log, never a reply
    over, end = None, False  # when the running job's timeout is over; after a TERM

    def say(**reply):
        replies.write(_json(_given(**reply)).encode(errors="replace") + b"\n")
        replies.flush()

    def on_signal(signum, frame):
        nonlocal end
        end, left = True, over and over - time.monotonic()
        if left and left > 0:
            signal.setitimer(signal.ITIMER_REAL, left)  # a TERM at the timeout may come before it, because hipq's clock began earlier
            return
        raise JobTimeout("the job's timeout is over") if over else SystemExit

    for number in (signal.SIGTERM, signal.SIGALRM):
        signal.signal(number, on_signal)
    say(ready=True)
    while not end and (line := source.readline()):
        job = Job(json.loads(line), say)
        over = time.monotonic() + job.timeout
        reply = _perform(functions.get(job.type) or functions.get("*"), job, connection)
        sys.stdout.flush()  # before the answer, so that it is in this attempt's log
        say(id=job.id, token=job.token, **reply)
        over = None

def _perform(function, job, connection):
    try:
        if function is None:
            raise GiveUp(f"no function for the type {job.type}")
        reply = {"outcome": "finished", "result": function(job)}
        if len(_json(reply).encode()) > 1048000:
            raise ValueError("the result has more than 1 MiB")
    except Outcome as error:
        reply = {"outcome": error.outcome, "error": str(error)[:2000] or None, "retry_after": _time(in_=error.after), "count": error.count}
    except (Exception, SystemExit) as error:
        traceback.print_exc()
        reply = {"outcome": "retry", "error": f"{type(error).__name__}: {str(error)[:2000]}"}
    wrong = left_open(connection)
    return {"outcome": "retry", "error": wrong} if wrong and reply["outcome"] == "finished" else reply

def left_open(connection):
    """Rolls back the transaction that the connection, if any, has open. Returns what was wrong with the connection, or None."""
    connection = connection.connection if hasattr(connection, "vendor") else connection  # of Django's
    sqlite = isinstance(connection, sqlite3.Connection)
    if connection is None or sqlite and not connection.in_transaction:
        return None
    try:
        if not sqlite:
            connection.cursor().execute("SET TRANSACTION READ WRITE")  # an error within a transaction
            return None
    except Exception as error:
        if error.args[:1] != (1568,):
            return f"the connection is lost: {error}"
    connection.rollback()
    return "the job left a transaction open, which was rolled back"
