#!/usr/bin/env bash
# Shows that the tests bite: breaks a copy of the source in one place after the other, and runs a reduced TestCrash (or,
# where it is about the throttle limit, TestThrottle) and the store's suite on it. Each mutant names the tests that must go
# red; what else goes red is shown too.
#
#   .ci/with-mariadb internal/crash/mutants.sh [MUTANT...]
#
# Not among them: settling without lock_token while the attempt is still compared, or the other way round. Each attempt
# has one token and each token one attempt of a job, so either of them alone fences as well as both.
set -euo pipefail

root=$(cd "$(dirname "$0")/../.." && pwd)
copy=$(mktemp -d)
trap 'rm -rf "$copy" "$copy.sound" "$copy.log"' EXIT
(cd "$root" && tar -c --exclude=./.git --exclude=./.bin .) | tar -x -C "$copy"
cp -r "$copy" "$copy.sound"

size=(-crash.jobs 600 -crash.kills 15 -crash.stops 6 -crash.rounds 2000 -crash.patience 100s)

# edit FILE PERL...: one that changes nothing would look like a test that does not bite.
edit() {
  local file=$1 change before
  shift
  for change; do
    before=$(cksum <"$copy/$file")
    perl -0pi -e "$change" "$copy/$file"
    if [[ $(cksum <"$copy/$file") == "$before" ]]; then echo "$file is as it was after: $change" >&2 && exit 1; fi
  done
}

# Every mutant is a function that says which tests must go red: crash or throttle (on each of its engines), store, or both.
mutants=()
mutant() { mutants+=("$1"); }

# What the comparison with a parameter becomes that is always true: the parameter stays.
any_token='s/lock_token = \?/? <> \x27\x27/g'

mutant settle_without_token # and attempt: a late worker settles another's attempt
settle_without_token() {
  must=(crash store)
  edit queue/settle.go 's/state = \x27running\x27 AND lock_token = \? AND attempt = \?/state = \x27running\x27 AND ? <> \x27\x27 AND ? > 0/g' \
    's/AND lock_token = \? AND attempt = \? AND worker_id = \? " \+ q\.db\.ForUpdate/AND ? <> \x27\x27 AND ? > 0 AND ? <> \x27\x27 " + q.db.ForUpdate/'
}

mutant settle_without_state # a late worker settles what was taken from it and waits for its next attempt
settle_without_state() {
  must=(crash store)
  edit queue/settle.go 's/state = \x27running\x27 AND lock_token/lock_token/g' \
    's/line = \x27locked\x27 AND state IN \(\x27running\x27, \x27error\x27\) AND lock_token/lock_token/'
}

mutant start_without_token # a late worker starts what another has locked
start_without_token() {
  must=(store)
  edit queue/start.go "$any_token"
}

mutant start_without_token_or_state # any worker starts any job
start_without_token_or_state() {
  must=(crash store)
  edit queue/start.go "$any_token" 's/line = \x27locked\x27 AND state IN \(\x27initial\x27, \x27retry\x27\) AND //' \
    's/WHERE line = \x27locked\x27 AND \? <>/WHERE ? <>/' 's/w\.id = worker_id AND w\.state = \x27working\x27/1 = 1/'
}

mutant lock_what_is_locked # two workers have the same job
lock_what_is_locked() {
  must=(crash store)
  edit queue/walk.go 's/WHERE line = \x27due\x27 AND part = \? AND job_type/WHERE line IN (\x27due\x27, \x27locked\x27) AND part = ? AND job_type/'
  edit queue/lock.go 's/WHERE line = \x27due\x27 AND id IN/WHERE id IN/'
}

mutant lock_without_locks # neither row locks nor a look at the line: on SQLite the file's lock is enough
lock_without_locks() {
  must=(crash store) engines=(mysql)
  edit queue/walk.go 's/LIMIT \? " \+ l\.q\.db\.SkipLocked/LIMIT ?"/'
  edit queue/lock.go 's/WHERE line = \x27due\x27 AND id IN/WHERE id IN/'
}

mutant reclaim_from_the_living # nobody asks whether the worker is dead
reclaim_from_the_living() {
  must=(crash)
  edit queue/reclaim.go 's/ AND w\.state = \x27working\x27/ AND 1 = 0/g'
}

mutant reclaim_as_finished # a lost attempt counts as done
reclaim_as_finished() {
  must=(crash store)
  edit queue/reclaim.go 's/SET state = \x27error\x27, line = \x27error\x27, error = \?,/SET state = \x27final\x27, line = \x27finished\x27, error = CASE WHEN ? = \x27\x27 THEN \x27\x27 ELSE \x27NONE\x27 END,/'
}

mutant reclaim_running_as_due # a lost attempt starts again as the same attempt
reclaim_running_as_due() {
  must=(crash store)
  edit queue/reclaim.go 's/where\+" AND state IN \(\x27initial\x27, \x27retry\x27\)"/where/'
}

mutant reclaim_costs_an_attempt # of a job that was never started
reclaim_costs_an_attempt() {
  must=(crash store)
  edit queue/reclaim.go 's/backInLine\+", worker_id = \x27NONE\x27"/backInLine+", worker_id = \x27NONE\x27, attempt = attempt + 1"/'
}

mutant reclaim_started_only # locked jobs stay locked for ever
reclaim_started_only() {
  must=(crash store)
  edit queue/reclaim.go 's/AND state IN \(\x27initial\x27, \x27retry\x27\)"/AND state = \x27sleeping\x27"/'
}

mutant activity_on_its_own # a crash comes between a transition and its activity
activity_on_its_own() {
  must=(crash)
  size=(-crash.jobs 2000 -crash.kills 80 -crash.stops 3 -crash.patience 180s)
  edit queue/round.go 's/var r Round\n/var r Round\n\tvar written []activity.Entry\n/' \
    's/return q\.log\.Record\(ctx, tx, entries\)\n\t\}\)/written = entries\n\t\treturn nil\n\t})\n\tif err == nil {\n\t\terr = q.db.Tx(ctx, func(tx *schema.Tx) error { return q.log.Record(ctx, tx, written) })\n\t}/'
}

mutant key_not_unique # and nobody looked first either
key_not_unique() {
  must=(crash store)
  edit schema/sql/mysql/queue_001.sql 's/UNIQUE KEY/KEY/'
  edit schema/sql/sqlite/queue_001.sql 's/CREATE UNIQUE INDEX/CREATE INDEX/'
}

mutant enqueue_drops # the others of a statement that met a duplicate
enqueue_drops() {
  must=(crash store)
  edit queue/enqueue.go 's/\t\t\trest = append\(rest, i\)\n/\t\t\tadded[i] = Added{ID: 1, Key: jobs[i].Key}\n/'
}

mutant guard_asleep # handlers outlive their worker
guard_asleep() {
  must=(crash)
  edit queue/handler/sentry.go 's/workerGone\(\) \{\n\K/\tif s.grace >= 0 {\n\t\treturn\n\t}\n/'
}

mutant final_comes_back # what failed for good is promoted
final_comes_back() {
  must=(crash)
  edit queue/judge.go 's/n\.line, entry\.State = lineFailed, activity\.Failed\n\K/\t\tn.wake = schema.At(now.Add(3 * time.Second))\n/'
  edit queue/promote.go 's/ AND line = \x27later\x27 ORDER/ ORDER/'
  edit queue/held.go 's/WHERE line = \? AND id IN/WHERE ? <> \x27\x27 AND id IN/'
}

# The turn is over before the lock begins: it is counted, but two workers take the same room. Not on SQLite, where they take
# turns in any case, for it has one writer.
mutant limit_without_turns
limit_without_turns() {
  must=(throttle) tests=(throttle) engines=(mysql)
  edit queue/throttle.go 's/tx\.ExecContext/q.db.ExecContext/'
}

mutant limit_ignored # what doesn't fit goes along
limit_ignored() {
  must=(throttle store) tests=(throttle)
  edit queue/throttle.go 's/r\.full = true\n\t\treturn waits\n//'
}

mutant limit_forgets_running # only what is locked and not started counts
limit_forgets_running() {
  must=(throttle store) tests=(throttle)
  edit queue/throttle.go 's/WHERE line IN \(\x27locked\x27, \x27waiting\x27\)/$& AND state <> \x27running\x27/'
}

# red TEST COMMAND...: runs it in the copy, true if it fails
red() {
  local test=$1 log="$copy.log"
  shift
  if (cd "$copy" && "$@") >"$log" 2>&1; then return 1; fi
  if [[ ${KEEP_LOGS:-} ]]; then cp "$log" "$KEEP_LOGS/$name-${test/\//-}.log"; fi
  # which invariants did not hold
  went_red+=" $test $(grep -oE '_test.go:[0-9]+: (I[0-9]+|rows|ledger):' "$log" | grep -oE '[a-zI0-9]+:$' | tr -d : | sort -Vu | paste -sd, || true)"
}

try() { # MUTANT
  local name=$1 engine test went_red='' engines=(sqlite mysql) must=() tests=(crash) size=("${size[@]}")
  rm -rf "$copy" && cp -r "$copy.sound" "$copy"
  "$name"
  (cd "$copy" && go vet ./queue/... && go build -o /dev/null .) || { echo "$name does not compile" >&2 && exit 1; }
  for test in "${tests[@]}"; do
    for engine in "${engines[@]}"; do
      red "$test/$engine" go test -count=1 -timeout 15m -run "(?i)^test$test\$/^$engine\$" ./internal/crash "${size[@]}" ||
        [[ ${must[*]} != *$test* ]] || survivors+=" $name:$test/$engine"
    done
  done
  red store go test -count=1 -timeout 2m ./queue || [[ ${must[*]} != *store* ]] || survivors+=" $name:store"
  printf '%-30s red:%s\n' "$name" "${went_red:- nothing}"
  if [[ $name == sound && $went_red ]]; then echo "the tests are red without any mutant" >&2 && exit 1; fi
}

survivors=''
sound() { tests=(crash throttle); } # none: all must be green
if (($#)); then mutants=("$@"); fi
for m in sound "${mutants[@]}"; do try "$m"; done
if [[ $survivors ]]; then echo "not red, but should be:$survivors" >&2 && exit 1; fi
