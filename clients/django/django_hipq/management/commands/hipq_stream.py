import datetime as dt
import json
import sys
import traceback
from types import SimpleNamespace

import django
import hipq
from django import db
from django.conf import settings
from django.core.cache import close_caches
from django.core.management.base import BaseCommand
from django.utils import timezone, translation

from django_hipq import Release, plain, registry


class Command(BaseCommand):
    help = "The stream program of hipq work: runs tasks, one after the other."
    requires_system_checks = []

    def handle(self, **options):
        hipq.run({"*": in_order})


def in_order(job):
    """Performs a job as if it were the first. What it leaves behind must not reach the next one."""
    db.reset_queries()
    db.close_old_connections()
    translation.activate(settings.LANGUAGE_CODE)
    timezone.deactivate()
    try:
        result = perform(job)
    except BaseException:
        tidy()
        raise
    error = tidy()
    if error:
        raise hipq.Retry(error)
    return json.dumps(result, ensure_ascii=False) if isinstance(result, str) else result  # hipq keeps a text without quotes


def tidy():
    """Closes what a job left open, and returns an error if that was a transaction."""
    error = None
    for connection in db.connections.all():
        if connection.connection is None:
            continue
        left = hipq.left_open(connection) or connection.in_atomic_block and "the task left an atomic block open, which was rolled back"
        if left or connection.autocommit != connection.settings_dict["AUTOCOMMIT"]:
            error = error or left
            try:
                connection.connection.close()  # not the wrapper's, which waits for the end of an atomic block
            except Exception:
                traceback.print_exc()
            del db.connections[connection.alias]
    close_caches()
    db.close_old_connections()
    return error


def perform(job):
    task = registry.get(job.type)
    if task is None and django.VERSION < (6,):
        raise hipq.Retry(f"no task {job.type}")  # the next deployment may have it
    data = job.data
    if task is not None and data.get("expires") and dt.datetime.fromisoformat(data["expires"].replace("Z", "+00:00")) < dt.datetime.now(dt.timezone.utc):
        print(f"task {job.type}, {job.key}: expired at {data['expires']}", file=sys.stderr)
        return None
    try:
        if task is None:
            from django_hipq import backend
            return backend.perform(job)
        result = task.trace(SimpleNamespace(id=job.key, args=data["args"], kwargs=data["kwargs"], job=job, called_directly=False, is_eager=False,
                                            retries=job.attempt - 1 - job.interrupts))
    except (hipq.Retry, hipq.GiveUp, Release) as error:
        if error.__cause__:
            traceback.print_exc()
        raise
    except (db.OperationalError, db.InterfaceError, hipq.JobTimeout):
        raise  # not the task's fault: hipq's retry policy decides
    except Exception as error:
        traceback.print_exc()
        name = type(error).__name__ if task else backend.path_of(error)
        raise hipq.GiveUp(f"{name}: {error}")
    return None if task.ignore_result else plain(result)
