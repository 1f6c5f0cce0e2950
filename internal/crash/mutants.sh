#!/usr/bin/env bash
# Shows that the tests bite: breaks a copy of the source in one place after the other, and runs a reduced TestCrash (or,
# where it is about the throttle limit, TestThrottle) and the store's suite on it; where it is about the worker itself, a
# part of the worker's; where it is about others that hold something, those that look at that from outside. Each mutant names the tests that must go red; what else goes red is shown too.
#
#   .ci/with-mariadb internal/crash/mutants.sh [MUTANT...]
#
# Not among them: settling without the token while the attempt is still compared, or the other way round. Each attempt
# has one token and each token one attempt of a job, so either of them alone fences as well as both.
set -euo pipefail

root=$(cd "$(dirname "$0")/../.." && pwd)
copy=$(mktemp -d)
trap 'rm -rf "$copy" "$copy.sound" "$copy.log"' EXIT
(cd "$root" && tar -c --exclude=./.git --exclude=./.bin .) | tar -x -C "$copy"
cp -r "$copy" "$copy.sound"

worker_tests='^Test(LostAnswers|ManyAnswersAreLost|StoppedAfterALostAnswer|OutcomesAreToldOnce|Concurrency.*)$'
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

# Every mutant is a function that says which tests must go red: those of this package (on each of its engines), store, worker.
mutants=()
mutant() { mutants+=("$1"); }

# What the comparison with a parameter becomes that is always true: the parameter stays.
any_worker='s/AND worker_id = \?/AND ? <> \x27\x27/'

mutant settle_without_token # nor worker or attempt: a late worker settles another's attempt
settle_without_token() {
  must=(crash store)
  edit queue/round_settle.go 's/row\.Token == s\.Job\.Token && row\.Attempt == s\.Job\.Attempt && //' "$any_worker"
}

mutant settle_without_state # nor worker: a late worker settles what was taken from it and waits for its next attempt
settle_without_state() {
  must=(crash store)
  edit queue/round_settle.go "$any_worker" \
    's/ AND line = \x27locked\x27 AND state IN \(\x27running\x27, \x27error\x27\)//'
}

mutant settle_twice # a commit whose answer was lost is done again
settle_twice() {
  must=(store) tests=()
  edit queue/round_settle.go 's/ AND line = \x27locked\x27 AND state IN \(\x27running\x27, \x27error\x27\)//' \
    's/row\.Attempt == s\.Job\.Attempt && \(row\.State == job\.Error \|\| !s\.Asked\)/row.Attempt == s.Job.Attempt/'
  edit queue/round_settle.go 's/ AND state <> \x27final\x27//'
}

mutant settle_what_can_be_read # a row that another transaction holds counts as settled
settle_what_can_be_read() {
  must=(store) tests=() engines=(mysql)
  edit queue/round_settle.go 's/\t\t\tdone\.Unsettled = append\(done\.Unsettled, s\)\n/\t\t\tcontinue\n/'
}

mutant start_what_has_started # nobody looks whether another was faster
start_what_has_started() {
  must=(crash store)
  edit queue/round_start.go 's/ AND line IN \(\x27due\x27, \x27held\x27\)//' 's/job\.CheckTransition\(j\.State, job\.Running\)/error(nil)/'
}

mutant start_without_locks # candidates are as good as locks: on SQLite the file's lock is enough
start_without_locks() {
  must=(crash store) engines=(mysql)
  edit queue/round_start.go 's/(AND line IN \(\x27due\x27, \x27held\x27\)) " ?\+ ?tx\.SkipLocked/$1"/'
}

mutant start_although_dead # a worker that was declared dead starts jobs
start_although_dead() {
  must=(store) tests=()
  edit queue/round_start.go 's/" AND " ?\+ ?q\.workers\.Working\("\?"\)/" AND ? <> \x27\x27"/'
}

mutant start_again # a round that is repeated starts others instead of those that it has started
start_again() {
  must=(store worker) tests=()
  edit queue/round.go 's/\t\tif again \{/\t\tif again \&\& r.Slots < 0 {/'
}

mutant start_under_another_token # and so doesn't know them again
start_under_another_token() {
  must=(worker) tests=()
  edit queue/worker/dispatch.go 's/r\.Again = true\n/r.Again, r.Token = true, rounds.New(w.self).Token\n/'
}

mutant slots_not_reserved # two rounds at once fill the same slots
slots_not_reserved() {
  must=(worker) tests=() engines=(mysql)
  edit queue/worker/lane.go 's/l\.reserved \+= n/l.reserved += 0 * n/'
}

mutant reclaim_from_the_living # nobody asks whether the worker is dead
reclaim_from_the_living() {
  must=(crash)
  edit internal/roster/fragments.go 's/" ON w\.id = " \+ id \+ " AND w\.state = \x27working\x27"/" ON w.id = " + id + " AND 1 = 0"/'
}

mutant reclaim_as_finished # a lost attempt counts as done
reclaim_as_finished() {
  must=(crash store)
  edit queue/upkeep_reclaim.go 's/SET state = \x27error\x27, line = \x27error\x27, error = \?,/SET state = \x27final\x27, line = \x27finished\x27, error = CASE WHEN ? = \x27\x27 THEN \x27\x27 ELSE \x27NONE\x27 END,/'
}

mutant reclaim_undecided # a job about which a dead worker was deciding stays its own
reclaim_undecided() {
  must=(crash store)
  edit queue/upkeep_reclaim.go 's/where\+" AND state = \x27error\x27"/where+" AND state = \x27sleeping\x27"/'
}

mutant reclaim_running_as_due # a lost attempt starts again as the same attempt
reclaim_running_as_due() {
  must=(crash store)
  edit queue/upkeep_reclaim.go 's/where\+" AND state IN \(\x27initial\x27, \x27retry\x27\)"/where/'
}

mutant reclaim_costs_an_attempt # of a job that was never started: former versions locked first
reclaim_costs_an_attempt() {
  must=(store) tests=()
  edit queue/upkeep_reclaim.go 's/backInLine\+", worker_id = \x27NONE\x27"/backInLine+", worker_id = \x27NONE\x27, attempt = attempt + 1"/'
}

mutant reclaim_started_only # locked jobs stay locked for ever
reclaim_started_only() {
  must=(store) tests=()
  edit queue/upkeep_reclaim.go 's/AND state IN \(\x27initial\x27, \x27retry\x27\)"/AND state = \x27sleeping\x27"/'
}

mutant activity_on_its_own # a crash comes between a transition and its activity
activity_on_its_own() {
  must=(crash)
  size=(-crash.jobs 2000 -crash.kills 80 -crash.stops 3 -crash.patience 180s)
  edit queue/round.go 's/var done rounds\.Done\n/var done rounds.Done\n\tvar written []activity.Entry\n/' \
    's/return q\.logAs\(ctx, tx, r\.Worker, entries\)\n\t\}\)/written = entries\n\t\treturn nil\n\t})\n\tif err == nil {\n\t\terr = q.db.Tx(ctx, func(tx *engine.Tx) error { return q.logAs(ctx, tx, r.Worker, written) })\n\t}/'
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

mutant guard_asleep # handlers outlive their worker, and those who take its jobs don't look after them
guard_asleep() {
  must=(crash)
  edit internal/guard/sentry.go 's/\ts\.end\(limit\)/\t_ = limit/'
  edit internal/guard/stray.go 's/h := newHunt\(workerID\)\n\K/\tif workerID != "" {\n\t\treturn nil\n\t}\n/'
}

mutant final_comes_back # what failed for good is promoted
final_comes_back() {
  must=(crash)
  edit queue/job/after.go 's/n\.Line = LineFailed\n\K/\t\tn.Wake = now.Add(3 * time.Second)\n/'
  edit queue/upkeep_promote.go 's/ AND line = \x27later\x27 ORDER/ ORDER/' 's/SET line = \x27due\x27, wake_time = NULL WHERE line = \?/SET line = \x27due\x27, state = \x27retry\x27, wake_time = NULL WHERE ? <> \x27\x27/'
}

# The turn is over before the round begins: it is counted, but two workers take the same room. Not on SQLite, where they take
# turns in any case, for it has one writer.
mutant limit_without_turns
limit_without_turns() {
  must=(throttle) tests=(throttle) engines=(mysql)
  edit queue/round_room.go 's/if err := tx\.Write\(ctx, "UPDATE "\+q\.db\.Queues\(\)\+" SET turn/if _, err := q.db.ExecContext(ctx, "UPDATE "+q.db.Queues()+" SET turn/'
}

mutant limit_ignored # what doesn't fit goes along
limit_ignored() {
  must=(throttle store) tests=(throttle)
  edit queue/round_room.go 's/r\.full = true\n\t\treturn waits\n//'
}

mutant limit_forgets_running # each round has all the room
limit_forgets_running() {
  must=(throttle store) tests=(throttle)
  edit queue/round_room.go 's/WHERE line IN \(\x27locked\x27, \x27waiting\x27\)/$& AND state <> \x27running\x27/'
}

# What the tests do that look at others, in their short form.
beside=(-short -parallel 16)

mutant wait_for_others # for locks, as long as the server lets everybody wait
wait_for_others() {
  must=(disturbed) tests=(disturbed) engines=(mysql) size=("${beside[@]}")
  edit schema/mysql.go 's/innodb_lock_wait_timeout = 3, lock_wait_timeout = 5/innodb_lock_wait_timeout = 50, lock_wait_timeout = 86400/'
}

mutant wait_for_the_dead # the server keeps the locks of those who are gone
wait_for_the_dead() {
  must=(disturbed) tests=(disturbed) engines=(mysql) size=("${beside[@]}")
  edit schema/mysql.go 's/idle_transaction_timeout = 10/idle_transaction_timeout = 0/'
}

mutant wait_in_line # jobs whose rows are held are waited for
wait_in_line() {
  must=(disturbed) tests=(disturbed) engines=(mysql) size=("${beside[@]}")
  edit internal/engine/dialect.go 's/FOR UPDATE SKIP LOCKED/FOR UPDATE/'
}

mutant repeat_for_ever # what can't be done now
repeat_for_ever() {
  must=(waits) tests=(waits) engines=(mysql) size=("${beside[@]}")
  edit internal/engine/repeat.go 's/patience = 22 \* time\.Second/patience = 22 * time.Minute/'
}

mutant tick_without_end # as long as its lock holds
tick_without_end() {
  must=(ticks) tests=(ticks) engines=(mysql) size=("${beside[@]}")
  edit queue/worker/worker.go 's/return max\(w\.Grace, 10\*time\.Second\)/return time.Hour/'
}

mutant procedures_without_token # while the worker is still compared: one that comes too late settles its own next attempt
procedures_without_token() {
  must=(store) tests=()
  edit schema/sql/mysql/procedures/instance/judge.sql 's/ OR p_lock <> v_token THEN/ THEN/' \
    's/ELSEIF p_attempt = v_token AND p_holder = p_worker AND/ELSEIF FALSE AND/'
}

mutant procedures_without_fence # whoever comes too late settles another's attempt
procedures_without_fence() {
  must=(sqlworkers) tests=(sqlworkers) engines=(without_a_limit) size=("${beside[@]}")
  edit schema/sql/mysql/procedures/instance/judge.sql 's/ OR p_holder <> p_worker OR p_lock <> v_token THEN/ THEN/' \
    's/ELSEIF p_attempt = v_token AND p_holder = p_worker AND/ELSEIF FALSE AND/'
}

mutant procedures_limit_ignored # what doesn't fit is grabbed all the same
procedures_limit_ignored() {
  must=(sqlworkers) tests=(sqlworkers) engines=(throttled) size=("${beside[@]}")
  edit schema/sql/mysql/procedures/queue/grab.sql 's/v_limit > 0 AND v_factor > 0 AND v_used > 0/FALSE AND v_used > 0/'
}

mutant procedures_limit_forgets_grabbed # what is locked and not started has no weight
procedures_limit_forgets_grabbed() {
  must=(sqlworkers) tests=(sqlworkers) engines=(throttled) size=("${beside[@]}")
  edit schema/sql/mysql/procedures/queue/used.sql 's/IF p_own THEN/IF TRUE THEN/' 's/j\.state <> \x27error\x27 OR/j.state = \x27running\x27 OR/'
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
  if [[ ${must[*]} == *worker* ]]; then
    red worker go test -count=1 -timeout 5m -run "$worker_tests" ./queue/worker || survivors+=" $name:worker"
  fi
  printf '%-30s red:%s\n' "$name" "${went_red:- nothing}"
  if [[ $name == sound* && $went_red ]]; then echo "the tests are red without any mutant" >&2 && exit 1; fi
}

survivors=''
sound() { tests=(crash throttle) must=(worker); } # none: all must be green
sound_beside() { tests=(disturbed waits ticks) size=("${beside[@]}"); }
sound_sql() { tests=(sqlworkers) engines=(without_a_limit throttled) size=("${beside[@]}"); }
if (($#)); then mutants=("$@"); fi
for m in sound sound_beside sound_sql "${mutants[@]}"; do try "$m"; done
if [[ $survivors ]]; then echo "not red, but should be:$survivors" >&2 && exit 1; fi
