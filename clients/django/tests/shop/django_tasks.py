"""Tasks of Django 6's own framework."""
from django.tasks import task

from .models import note


@task(queue_name="emails", priority=5)
def total(a, b=1):
    note("total", a, b)
    return {"total": a + b}


@task(takes_context=True)
def attempts(context, n):
    return [context.attempt, n]


@task
async def asynchronous():
    return "async"


@task
def fails():
    raise ValueError("no such customer")
