from django.db import models


class Order(models.Model):
    number = models.IntegerField()
    customer = models.CharField(max_length=64)
    total = models.DecimalField(max_digits=8, decimal_places=2, default=0)
    state = models.CharField(max_length=16, default="new")

    class Meta:
        db_table = "orders"


class Trace(models.Model):
    line = models.CharField(max_length=255)

    class Meta:
        db_table = "trace"


def note(*words):
    Trace.objects.create(line=" ".join(str(word) for word in words)[:255])
