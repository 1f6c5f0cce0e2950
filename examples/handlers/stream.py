#!/usr/bin/env python3
# Counts the words of texts and writes a report for each. handler: {stream: [python3, stream.py], env: [PAUSE]}
import glob
import json
import os
import signal
import sys
import time
import traceback


class NoSuchText(Exception):
    pass


def stop(*_):
    # hipq sends SIGTERM at a job's timeout, and when its worker must end. The finally blocks remove what is half done.
    sys.exit("told to stop")


def say(job, what):
    print(json.dumps({"id": job["id"], "token": job["token"], **what}), flush=True)  # flush, or it stays in the buffer


def count(job):
    file = str(job["job_data"].get("file", "")) if isinstance(job["job_data"], dict) else ""
    report = f"report-{job['id']}.txt"
    if job["attempt"] > 1:  # an earlier attempt was killed or told to stop, at an unknown point
        for left in glob.glob(f"report-{job['id']}.*.part"):
            os.remove(left)
        if os.path.exists(report):  # it had done everything but report it
            with open(report) as done:
                return int(done.read().split()[0])
    if not os.path.isfile(file):
        raise NoSuchText(f"no such text: {file}")
    part = f"report-{job['id']}.{job['attempt']}.part"
    try:
        with open(file, "rb") as text, open(part, "w") as out:
            size, read, words, told = os.path.getsize(file), 0, 0, 0
            for line in text:
                words += len(line.split())
                read += len(line)
                time.sleep(float(os.environ.get("PAUSE", 0)))  # simulates slow work
                if read * 100 // size > told:
                    told = read * 100 // size
                    say(job, {"progress": told, "note": f"{words} words"})
            out.write(f"{words} words in {file}\n")
        os.rename(part, report)  # atomically
    finally:
        if os.path.exists(part):
            os.remove(part)
    return words


signal.signal(signal.SIGTERM, stop)
for line in sys.stdin:  # ends when hipq has no more jobs
    job = json.loads(line)
    try:
        reply = {"outcome": "finished", "result": {"words": count(job)}}
    except NoSuchText as error:
        reply = {"outcome": "failed", "error": str(error)}  # a retry won't help
    except Exception as error:
        traceback.print_exc()  # the log, kept with the attempt
        reply = {"outcome": "retry", "error": str(error)}
    say(job, reply)
