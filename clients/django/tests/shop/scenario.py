"""What the shop does. Each queue must leave the same trace."""
import datetime as dt

from django.db import transaction

from . import tasks
from .models import Order, note


def place(number, customer, fail=False):
    with transaction.atomic():
        order = Order.objects.create(number=number, customer=customer, total="12.50")
        tasks.confirm.delay(order.pk)
        if fail:
            raise RuntimeError("the card was refused")


def begin():
    """Adds all tasks, and returns the results to look at in the end."""
    place(1, "ann")
    try:
        place(2, "bob", fail=True)
    except RuntimeError as error:
        note("place", error)
    tasks.arguments.delay(1, "ü\U0001f600 ' \" \\ %s", None, 1.5, [True, {"a": []}], to="x", n=-1)
    tasks.arguments.apply_async(args=("two",), kwargs={"k": "v"}, countdown=1)
    tasks.arguments.apply_async(("three",), eta=dt.datetime.now(dt.timezone.utc) + dt.timedelta(seconds=1))
    tasks.arguments.apply_async(("four",), queue="emails", priority=9, expires=600)
    tasks.arguments("direct", a=1)
    tasks.bound.delay("b")
    tasks.bound.apply_async(kwargs={"name": "c"})
    tasks.flaky.delay(True)
    tasks.flaky.delay(False)
    tasks.broken.delay()
    tasks.gives_up.delay()
    tasks.raises_its_own.delay()
    tasks.backs_off.delay()
    tasks.silent.delay()
    tasks.everything.delay()
    for n in range(10):
        tasks.counted.delay(n)
    return [tasks.add.delay(2, 3), tasks.add.apply_async(("a", "b")), tasks.add.delay(1, "x")]


def end(results):
    for result in results:
        got = result.get(propagate=False)
        note("result", result.state, result.ready(), result.successful(), result.failed(), str(got) if result.failed() else repr(got))
    for order in Order.objects.order_by("number"):
        note("order", order.number, order.customer, order.state)
