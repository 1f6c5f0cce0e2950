"""The shop's tasks, for Celery and for hipq: only the import differs."""
import datetime as dt
import os
import signal
import sys
import time

from django.conf import settings
from django.db import connection, transaction
from django.utils import timezone, translation

from .models import Order, note

if settings.QUEUE == "celery":
    from celery import Celery, Task, shared_task
    Celery("shop").config_from_object({"task_always_eager": True, "task_eager_propagates": False})
else:
    from django_hipq import Release, Task, shared_task


class Watched(Task):
    def on_success(self, retval, task_id, args, kwargs):
        note(self.name, "on_success", retval, bool(task_id), list(args), kwargs)

    def on_failure(self, exc, task_id, args, kwargs, einfo):
        note(self.name, "on_failure", repr(exc), bool(task_id), list(args), kwargs)

    def on_retry(self, exc, task_id, args, kwargs, einfo):
        note(self.name, "on_retry", repr(exc), bool(task_id), list(args), kwargs)


@shared_task
def confirm(pk):
    order = Order.objects.get(pk=pk)
    note("confirm", order.number, order.customer, order.total, order.state)
    Order.objects.filter(pk=pk).update(state="confirmed")
    invoice.delay(order.number, at="desk")


@shared_task(queue="emails", priority=3)
def invoice(number, at=None):
    note("invoice", number, at)


@shared_task
def arguments(*args, **kwargs):
    print('{"outcome": "failed"}')
    sys.stdout.flush()
    note("arguments", args, sorted(kwargs.items()))


@shared_task(bind=True, max_retries=5)
def bound(self, name):
    note("bound", name, self.name, self.request.retries, list(self.request.args), self.request.kwargs, bool(self.request.id))
    if self.request.retries < 2:
        self.retry(countdown=0)
    return "done"


@shared_task(base=Watched, bind=True, autoretry_for=(ValueError,), max_retries=2, default_retry_delay=1)
def flaky(self, succeeds):
    note("flaky", succeeds, self.request.retries)
    if not succeeds or self.request.retries < 1:
        raise ValueError("boom")
    return "at last"


@shared_task(base=Watched, autoretry_for=(ValueError,))
def broken():
    note("broken")
    raise KeyError("no retry for this")


@shared_task(base=Watched, bind=True, max_retries=1, default_retry_delay=1)
def gives_up(self):
    note("gives_up", self.request.retries)
    self.retry()


@shared_task(base=Watched, bind=True, max_retries=1)
def raises_its_own(self):
    try:
        raise OSError("the printer is on fire")
    except OSError as error:
        self.retry(exc=error, countdown=1, max_retries=2)


@shared_task(autoretry_for=(OSError,), retry_backoff=1, retry_jitter=False, retry_kwargs={"max_retries": 2})
def backs_off():
    note("backs_off")
    raise OSError("busy")


@shared_task(base=Watched)
def add(a, b):
    return a + b


@shared_task(ignore_result=True)
def silent():
    note("silent")
    return "not kept"


@shared_task
def everything():
    """A task that adds others in its own transaction."""
    with transaction.atomic():
        invoice.delay(1, at="inner")
        try:
            with transaction.atomic():
                invoice.delay(2, at="lost")
                raise RuntimeError
        except RuntimeError:
            note("everything")


# What only hipq runs

@shared_task
def leaves_locale():
    note("locale", translation.get_language(), timezone.get_current_timezone_name())
    translation.activate("de")
    timezone.activate(dt.timezone.utc)


@shared_task
def leaves_transaction(how):
    note("kept", how)
    if how == "autocommit":
        transaction.set_autocommit(False)
    elif how == "atomic":
        transaction.atomic().__enter__()
    else:
        connection.cursor().execute("BEGIN")
    note("lost", how)


@shared_task
def loses_connection():
    note("loses_connection")
    with connection.cursor() as cursor:
        cursor.execute("SELECT CONNECTION_ID()")
        cursor.execute(f"KILL {cursor.fetchone()[0]}")


@shared_task(bind=True)
def released(self):
    note("released", self.request.job.attempt)
    if self.request.job.attempt == 1:
        raise Release(0)


@shared_task(time_limit=1)
def slow():
    try:
        time.sleep(30)
    except TimeoutError:
        note("slow is stopped")
        raise


@shared_task
def dies(n):
    os.kill(os.getpid(), signal.SIGKILL)


@shared_task
def counted(n, seconds=0.01):
    with transaction.atomic():
        note("counted", n)
        time.sleep(seconds)


leak = []
revision = open(os.environ["REVISION"]).read() if "REVISION" in os.environ else ""


@shared_task(bind=True)
def steady(self, number):  # of robust.py
    def say(what):
        with open(os.environ["STEADY"], "a") as file:
            file.write(f"{number} {what} {self.request.retries + 1} {os.getpid()} {revision}\n")
    say("begins")
    time.sleep(0.01)
    leak.append(b"x" * (1 << 20))
    note("steady", number)
    say("ends")
