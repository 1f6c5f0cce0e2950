import os
import re

SECRET_KEY = "not secret: a shop of tests"
USE_TZ = True
TIME_ZONE = "America/St_Johns"
LANGUAGE_CODE = "en"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
QUEUE = os.environ.get("SHOP_QUEUE", "hipq")  # or celery, eager
INSTALLED_APPS = ["shop"] + (["django_hipq"] if QUEUE == "hipq" else [])

server = re.match(r"(\w+)(?::(.*))?@tcp\(([^:]+):(\d+)\)/", os.environ.get("HIPQ_TEST_MYSQL_DSN", ""))
if os.environ.get("DATABASE") and server:
    import pymysql
    pymysql.version_info = (2, 2, 1, "final", 0)  # what Django asks of mysqlclient
    pymysql.install_as_MySQLdb()
    user, password, host, port = server.groups()
    DATABASES = {"default": {"ENGINE": "django.db.backends.mysql", "HOST": host, "PORT": int(port), "USER": user, "PASSWORD": password or "",
                             "NAME": os.environ["DATABASE"], "OPTIONS": {"charset": "utf8mb4"}, "CONN_MAX_AGE": 60}}
else:
    DATABASES = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": os.environ.get("FILE", "shop.db"), "OPTIONS": {"timeout": 20}}}

HIPQ = {"INSTANCE": "shop", "COMMAND": os.environ.get("HIPQ_TEST_HIPQ", "hipq")}
TASKS = {"default": {"BACKEND": "django_hipq.backend.HipqBackend", "QUEUES": ["default", "emails"]}}  # of Django 6
