#!/usr/bin/env bash
# A tour of hipq on the embedded database: prints each command as it runs it. `make demo` builds hipq and runs this.
#
#   docs/demo.sh           works in a new folder below TMPDIR, which is gone afterwards
#   KEEP=1 docs/demo.sh    leaves the folder, to look around in
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
if [[ ! -x $root/hipq ]]; then echo "demo: no $root/hipq: run make demo" >&2 && exit 1; fi

dir=$(mktemp -d "${TMPDIR:-/tmp}/hipq-demo.XXXXXX")
# shellcheck disable=SC2317,SC2329 # the trap calls it
leave() { if [[ ! ${KEEP:-} ]]; then rm -rf "$dir"; fi; }
trap leave EXIT

# Settings of yours must not change the demo.
while read -r name; do unset "$name"; done < <(compgen -e HIPQ_)

# Nor may it leave anything in your cache, where hipq work notes that the database is there.
export XDG_CACHE_HOME=$dir/cache

PATH=$root:$PATH
cp "$root/hipq.example.yaml" "$dir/hipq.yaml"
cd "$dir"

say() { printf '\n%s\n' "$*"; }
run() {
  printf '\n$ %s\n' "$1"
  eval "$1"
}

say "hipq, a durable job queue on a database and cron. The folder of this tour is $dir;
in it is a copy of hipq.example.yaml as hipq.yaml. Its instance \"shop\" has three queues, files, emails and requests."

say "Create the tables, in the SQLite file that the config names. On MariaDB and MySQL it is the same command."
run "hipq init"

say "Some files to work on, and jobs for them. The key of these jobs is the name of the file. A job is not run now:
enqueue prints its id, and that is all."
run 'seq 200000 > numbers.txt && ls -l numbers.txt | cut -d" " -f5-'
run "hipq enqueue files compress --key numbers.txt"
run "hipq enqueue files checksum --key numbers.txt"

say "One that can't succeed: its handler will exit with 65, which says that no retry helps. And one whose handler
will fail in another way, which is tried again later."
run "hipq enqueue files compress --key missing.txt"
run "hipq enqueue files checksum --key absent.txt"

say "Jobs with data; with a time window; for later; and of a type for which there is no handler on this host."
run "hipq enqueue emails send --data '{\"to\":\"ann@example.org\",\"subject\":\"Your order\"}' --key order-4711"
run "hipq enqueue emails newsletter --data '{\"issue\":7}'"
run "hipq enqueue emails send --data '{\"to\":\"bob@example.org\"}' --in 2h"
run "hipq enqueue emails print --data letter.pdf"

say "A key is unique per type among the jobs that are not final: this one is there, so its id comes back."
run "hipq enqueue emails send --key order-4711 --json"

say "Many at once: one JSON object a line."
# shellcheck disable=SC2016 # run expands it
run 'for i in $(seq 300); do
    echo "part $i" > part-$i.txt
    echo "{\"queue\":\"files\",\"job_type\":\"checksum\",\"job_key\":\"part-$i.txt\"}"
  done > jobs.ndjson'
run "head -n 2 jobs.ndjson"
run "hipq enqueue --ndjson jobs.ndjson"

say "Where they stand."
run "hipq status"

say "Now the line that cron runs every minute. Under cron it prints nothing, whatever becomes of the jobs."
run "hipq work"

say "What the handlers made."
run "ls numbers.txt.* && cat numbers.txt.cksum && ls part-*.cksum | wc -l && cat sent.txt"

say "The jobs: those that are final with an error, those that wait for another try, and those that nobody has tried."
run "hipq jobs --state final --type compress"
run "hipq jobs --state retry"
run "hipq jobs emails --state initial"
run "hipq status"

say "One job whole, with its attempts and what its handler printed."
run "hipq show files 4"

say "Some work ends elsewhere: this handler only sends it, and the job waits for an answer, by its type and key."
run "hipq enqueue requests upload --key order-4711 --data '{\"region\":\"east\"}'"
run "hipq work"
run "hipq why requests 1"
run "hipq complete requests upload order-4711 --data '{\"receipt\":17}'"

say "The activity is the log of every transition of a job or a worker."
run "hipq activity --queue files --job 3"
run "hipq activity --limit 5"

say "The monitor counts whole hours, five minutes after their end. These jobs will be in the metrics of this hour;
what it can aggregate now is the hour before, and the backlog of this moment. On a terminal it prints a table."
if [[ -t 1 ]]; then run "hipq monitor"; else run "hipq monitor --json | cut -c 1-600"; fi

say "And what would be deleted, if the activity were old enough, and the monitor had aggregated its hour."
run "hipq purge --older-than 0s --force --dry-run"

say "That was it. The crontab lines that do this for ever:

  * * * * *          hipq work
  5,20,35,50 * * * * hipq monitor
  0 4 1,15 * *       hipq purge"
if [[ ${KEEP:-} ]]; then say "The folder is $dir"; else say "The folder $dir is removed; KEEP=1 make demo leaves it."; fi
