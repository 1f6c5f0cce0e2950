from django.apps import AppConfig
from django.utils.module_loading import autodiscover_modules


class HipqConfig(AppConfig):
    name = "django_hipq"

    def ready(self):
        autodiscover_modules("tasks")
