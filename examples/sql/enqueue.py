"""Takes an order and enqueues a job for it in one transaction: afterwards both exist, or neither.

    DB_HOST=127.0.0.1 DB_USER=shop DB_PASSWORD=secret DB_NAME=shop python3 enqueue.py 4711 ann@example.org
"""

import json
import os
import sys

import pymysql


def submit(cursor, queue, job_type, key=None, data=None, **options):
    """Enqueues a job; returns its id, and whether a live job already had that key. options: priority, at, in_, timeout, …"""
    options = json.dumps({name.rstrip("_"): value for name, value in options.items()})
    data = None if data is None else json.dumps(data)
    cursor.execute("CALL shop_job_submit(%s, %s, %s, %s, %s)", (queue, job_type, key, data, options))
    job_id, duplicate = cursor.fetchone()
    while cursor.nextset():
        pass
    return job_id, bool(duplicate)


def take_order(db, number, customer):
    with db.cursor() as cursor:
        cursor.execute("INSERT INTO orders (number, customer) VALUES (%s, %s)", (number, customer))
        job = submit(cursor, "emails", "send", key=f"order-{number}", data={"to": customer, "order": number}, timeout=30)
    db.commit()
    return job


if __name__ == "__main__":
    db = pymysql.connect(
        host=os.environ.get("DB_HOST", "127.0.0.1"),
        port=int(os.environ.get("DB_PORT", "3306")),
        user=os.environ.get("DB_USER", "shop"),
        password=os.environ.get("DB_PASSWORD", ""),
        database=os.environ.get("DB_NAME", "shop"),
        charset="utf8mb4",
    )
    job_id, duplicate = take_order(db, int(sys.argv[1]), sys.argv[2])
    print(f"job {job_id}" + (", which was there already" if duplicate else ""))
