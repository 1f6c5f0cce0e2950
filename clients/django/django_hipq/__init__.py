"""Tasks as in Celery, kept in Django's own database and run by hipq.

    @shared_task(autoretry_for=(OSError,), retry_backoff=True)
    def confirm(order_id): ...

    confirm.delay(order.pk)  # an INSERT in Django's transaction: it commits with the order, or not at all
"""
import datetime as dt
import functools
import json
import random
import threading
import time
import traceback
import uuid
from types import SimpleNamespace

import hipq
from django.conf import settings
from django.core.serializers.json import DjangoJSONEncoder
from django.db import connections
from hipq import GiveUp, Release

__all__ = ["AsyncResult", "GiveUp", "MaxRetriesExceededError", "Release", "Retry", "Task", "client", "shared_task", "task"]

registry = {}  # the tasks by their names, which are hipq's types
DIRECT = SimpleNamespace(id=None, args=(), kwargs={}, retries=0, called_directly=True, is_eager=False, job=None)


class Retry(hipq.Retry):
    """What Task.retry raises. exc is the reason, after the number of seconds."""

    def __init__(self, exc, after):
        super().__init__(f"{type(exc).__name__}: {exc}" if isinstance(exc, Exception) else "retry", after)
        self.exc = exc


class MaxRetriesExceededError(Exception):
    pass


def option(name, default=None):
    """Reads HIPQ = {"INSTANCE": "app", "DATABASE": "default", "QUEUE": "default", "TABLES": {}, "ALWAYS_EAGER": False}."""
    return getattr(settings, "HIPQ", {}).get(name, default)


def client(using=None):
    """hipq.Client on Django's connection."""
    return hipq.Client(connections[using or option("DATABASE", "default")], option("INSTANCE", "app"), option("TABLES"),
                       command=option("COMMAND", "hipq"), config=option("CONFIG"))


def queue_name(name):
    return (name or option("QUEUE", "default")).translate(str.maketrans("-.:", "___"))


def plain(value):
    return json.loads(json.dumps(value, cls=DjangoJSONEncoder))


class Task:
    """A function with its options, as in Celery. Subclass it for base=, with your on_success, on_failure or on_retry."""
    queue = priority = expires = time_limit = None
    bind = ignore_result = retry_backoff = False
    max_retries, default_retry_delay = 3, 180
    autoretry_for = dont_autoretry_for = ()
    retry_kwargs, retry_backoff_max, retry_jitter = {}, 600, True

    def __init__(self, function, name=None, **options):
        unknown = [option for option in options if not hasattr(Task, option)]
        if unknown:
            raise TypeError(f"task {function.__name__}: hipq has no option {', '.join(unknown)}")
        functools.update_wrapper(self, function)
        self.__dict__.update(options, function=function, name=name or f"{function.__module__}.{function.__qualname__}")
        self._requests = threading.local()
        registry[self.name] = self

    @property
    def request(self):
        return getattr(self._requests, "top", DIRECT)

    def __call__(self, *args, **kwargs):
        return self._run(SimpleNamespace(**{**vars(DIRECT), "args": args, "kwargs": kwargs}))

    def delay(self, *args, **kwargs):
        return self.apply_async(args, kwargs)

    def apply_async(self, args=(), kwargs=None, countdown=None, eta=None, expires=None, queue=None, priority=None, task_id=None,
                    key=None, using=None):
        """Adds the task in the transaction of the database `using`. With a key there is only one such live task."""
        if option("ALWAYS_EAGER"):
            return self.apply(args, kwargs, task_id)
        expires = self.expires if expires is None else expires
        if isinstance(expires, (int, float)):
            expires = dt.datetime.now(dt.timezone.utc) + dt.timedelta(seconds=expires)
        data = {"args": list(args), "kwargs": kwargs or {}, **({"expires": aware(expires)} if expires else {})}
        result = AsyncResult(key or task_id or str(uuid.uuid4()), self.name, queue_name(queue or self.queue), using)
        when = {"at": aware(eta)} if eta else {"in_": max(0, countdown)} if countdown else {}
        try:
            client(using).push(result.queue, self.name, plain(data), key=result.id, timeout=self.time_limit,
                               priority=self.priority if priority is None else priority, **when)
        except hipq.DuplicateJob:
            if not key:
                raise
        return result

    def apply(self, args=(), kwargs=None, task_id=None, retries=0):
        """Runs the task here and now, with its retries."""
        request = SimpleNamespace(id=task_id or str(uuid.uuid4()), args=args, kwargs=kwargs or {}, retries=retries, called_directly=False,
                                  is_eager=True, job=None)
        try:
            return EagerResult(request.id, "SUCCESS", self.trace(request))
        except Retry:
            return self.apply(args, kwargs, request.id, retries + 1)
        except Exception as error:
            return EagerResult(request.id, "FAILURE", error)

    def retry(self, exc=None, countdown=None, eta=None, max_retries=None):
        """Ends the attempt: the task runs again in countdown seconds. After its last retry it raises exc instead."""
        if self.request.called_directly:
            raise exc or Retry(None, None)
        most = self.max_retries if max_retries is None else max_retries
        if most is not None and self.request.retries >= most:
            request = self.request
            raise exc or MaxRetriesExceededError(f"Can't retry {self.name}[{request.id}] args:{request.args} kwargs:{request.kwargs}")
        if eta:
            countdown = (aware(eta) - dt.datetime.now(dt.timezone.utc)).total_seconds()
        raise Retry(exc, max(0, self.default_retry_delay if countdown is None else countdown)) from exc

    def trace(self, request):
        """Runs an attempt with its hooks. It returns the result, or raises Retry, Release or the error."""
        job = request.id, request.args, request.kwargs
        try:
            result = self._run(request)
        except Retry as retry:
            self.on_retry(retry.exc, *job, SimpleNamespace(exception=retry.exc, traceback=traceback.format_exc()))
            raise
        except Release:
            raise
        except Exception as error:
            self.on_failure(error, *job, SimpleNamespace(exception=error, traceback=traceback.format_exc()))
            raise
        self.on_success(result, *job)
        return result

    def _run(self, request):
        before, self._requests.top = self.request, request
        try:
            return self.function(*([self] if self.bind else []), *request.args, **request.kwargs)
        except (Retry, GiveUp, Release, *self.dont_autoretry_for):
            raise
        except tuple(self.autoretry_for) as error:
            options = dict(self.retry_kwargs)
            if self.retry_backoff:
                delay = min(self.retry_backoff_max, int(max(1, self.retry_backoff)) * 2 ** request.retries)
                options["countdown"] = random.randint(0, delay) if self.retry_jitter else delay
            self.retry(exc=error, **options)
        finally:
            self._requests.top = before

    def on_success(self, retval, task_id, args, kwargs):
        pass

    def on_failure(self, exc, task_id, args, kwargs, einfo):
        pass

    def on_retry(self, exc, task_id, args, kwargs, einfo):
        pass


def shared_task(*args, base=Task, **options):
    """@shared_task, or @shared_task(option=…)."""
    if args:
        return base(*args, **options)
    return functools.partial(base, **options)


task = shared_task


def aware(when):
    return when.astimezone() if when.tzinfo is None else when


class AsyncResult:
    """A task that was added. state reads it from the database, as PENDING, STARTED, RETRY, SUCCESS or FAILURE."""

    def __init__(self, id, name, queue, using=None):
        self.id, self.name, self.queue, self.using = id, name, queue, using

    def job(self):
        return client(self.using).get(self.queue, type=self.name, key=self.id)

    @property
    def state(self):
        return self._read()[0]

    @property
    def result(self):
        return self._read()[1]

    status = state

    def ready(self):
        return self.state in ("SUCCESS", "FAILURE")

    def successful(self):
        return self.state == "SUCCESS"

    def failed(self):
        return self.state == "FAILURE"

    def get(self, timeout=None, interval=0.5, propagate=True):
        end = timeout and time.monotonic() + timeout
        while True:
            state, result = self._read()
            if state == "FAILURE" and propagate:
                raise result
            if state in ("SUCCESS", "FAILURE"):
                return result
            if end and time.monotonic() > end:
                raise TimeoutError(f"task {self.id} is {state}")
            time.sleep(interval)

    def _read(self):
        job = self.job() or {"state": "initial", "error": None, "result": None}
        if job["state"] != "final":
            return {"initial": "PENDING", "running": "STARTED"}.get(job["state"], "RETRY"), None
        if job["error"] is not None:
            return "FAILURE", hipq.HipqError(job["error"])
        return "SUCCESS", None if job["result"] is None else json.loads(job["result"])


class EagerResult(AsyncResult):
    def __init__(self, id, state, result):
        super().__init__(id, None, None)
        self._outcome = state, result

    def _read(self):
        return self._outcome
