"""A backend for Django 6's Tasks framework:

    TASKS = {"default": {"BACKEND": "django_hipq.backend.HipqBackend", "QUEUES": ["default", "emails"]}}

enqueue() is an INSERT in Django's transaction, so it needs no on_commit.
"""
import json
import traceback

import hipq
from django.tasks.backends.base import BaseTaskBackend
from django.tasks.base import Task, TaskContext, TaskError, TaskResult, TaskResultStatus
from django.tasks.exceptions import TaskResultDoesNotExist
from django.tasks.signals import task_enqueued, task_finished, task_started
from django.utils import timezone
from django.utils.json import normalize_json
from django.utils.module_loading import import_string

from . import client, queue_name


class HipqBackend(BaseTaskBackend):
    supports_defer = True
    supports_async_task = True
    supports_get_result = True
    supports_priority = True

    def _client(self):
        return client(self.options.get("database"))

    def enqueue(self, task, args, kwargs):
        self.validate_task(task)
        queue = queue_name(task.queue_name)
        data = {"args": normalize_json(args), "kwargs": normalize_json(kwargs), "backend": self.alias}
        at = task.run_after
        if at is not None and timezone.is_naive(at):
            at = timezone.make_aware(at)
        # hipq starts the lowest priority first, and 100 is its default
        id = self._client().push(queue, task.module_path, data, at=at, priority=100 - int(task.priority))
        result = result_of(task, self.alias, f"{queue}/{id}", data, enqueued_at=timezone.now())
        task_enqueued.send(type(self), task_result=result)
        return result

    def get_result(self, result_id):
        queue, _, id = result_id.rpartition("/")
        job = self._client().get(queue, int(id)) if queue and id.isdigit() else None
        if job is None:
            raise TaskResultDoesNotExist(result_id)
        return result_of_job(import_string(job["job_type"]), self.alias, result_id, job)


def result_of(task, alias, id, data, status=TaskResultStatus.READY, enqueued_at=None, started_at=None, finished_at=None, errors=(), workers=()):
    return TaskResult(task=task, id=id, status=status, enqueued_at=enqueued_at, started_at=started_at, last_attempted_at=started_at,
                      finished_at=finished_at, args=data["args"], kwargs=data["kwargs"], backend=alias, errors=list(errors), worker_ids=list(workers))


def result_of_job(task, alias, id, job):
    """hipq keeps the time of the last start only, which stands for the first one too."""
    final, failed = job["state"] == "final", job["error"] is not None
    status = TaskResultStatus.RUNNING if job["state"] == "running" else TaskResultStatus.READY
    errors = []
    if final:
        status = TaskResultStatus.FAILED if failed else TaskResultStatus.SUCCESSFUL
    if final and failed:
        name = job["error"].partition(":")[0]
        errors = [TaskError(exception_class_path=name if "." in name else "hipq.HipqError", traceback=job["error"])]
    result = result_of(task, alias, id, json.loads(job["job_data"]), status, job["create_time"], job["start_time"],
                       job["update_time"] if final else None, errors, [job["worker_id"] or ""] * job["attempt"])
    if status == TaskResultStatus.SUCCESSFUL and job["result"] is not None:
        object.__setattr__(result, "_return_value", json.loads(job["result"]))
    return result


def path_of(error):
    return f"{type(error).__module__}.{type(error).__qualname__}"


def perform(job):
    """Runs a task of Django. Any exception of it is final, as in the framework's own backends."""
    try:
        task = import_string(job.type)
    except ImportError:
        task = None
    if not isinstance(task, Task):
        raise hipq.Retry(f"no task {job.type}")  # the next deployment may have it
    data = job.data
    result = result_of(task, data["backend"], f"{job.queue}/{job.id}", data, TaskResultStatus.RUNNING, None, timezone.now(), None, (),
                       ["hipq"] * job.attempt)
    sender, status = type(task.get_backend()), TaskResultStatus.READY
    task_started.send(sender, task_result=result)
    try:
        context = [TaskContext(task_result=result)] if task.takes_context else []
        returned = normalize_json(task.call(*context, *data["args"], **data["kwargs"]))
        object.__setattr__(result, "_return_value", returned)
        status = TaskResultStatus.SUCCESSFUL
        return returned
    except (hipq.Retry, hipq.Release):
        raise
    except Exception as error:
        status = TaskResultStatus.FAILED
        result.errors.append(TaskError(exception_class_path=path_of(error), traceback=traceback.format_exc()))
        raise
    finally:
        object.__setattr__(result, "status", status)
        object.__setattr__(result, "finished_at", timezone.now())
        if status != TaskResultStatus.READY:
            task_finished.send(sender, task_result=result)
