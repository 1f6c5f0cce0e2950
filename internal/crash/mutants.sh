#!/usr/bin/env bash
# Shows that the tests bite: breaks a copy of the source in one place after the other. Each mutant names the tests that must go red:
# all of them, on each of its engines. They are run on the copy before it is broken too: there they must be green.
#
#   .ci/with-mariadb internal/crash/mutants.sh [--proof] [MUTANT...]
#
# With --proof it shows instead that the campaign of internal/proof bites: each mutant meets the turns of the campaign one after the other,
# each for a minute and a half, until one finds a violation. First come the rounds that the mutant names. What they found is added to
# internal/proof/testdata/mutants.jsonl, and what is there isn't tried again. A turn that finds something must be green without any
# mutant. TURNS="calls/sqlite ..." names other turns.
#
# NARROW=1 leaves out the rounds of internal/proof where a mutant names others too: they take a minute or two each. EDIT_ONLY=1 runs
# no test, and shows that each mutant still finds what it breaks, and compiles.
#
# Not among the mutants: settling without the token while the attempt is still compared, or the other way round. Each attempt
# has one token and each token one attempt of a job, so either of them alone fences as well as both.
set -euo pipefail

root=$(cd "$(dirname "$0")/../.." && pwd)
copy=$(mktemp -d)
trap 'rm -rf "$copy" "$copy.sound" "$copy.log" "$copy.test"' EXIT
(cd "$root" && tar -c --exclude=./.git --exclude=./.bin .) | tar -x -C "$copy"
cp -r "$copy" "$copy.sound"

# edit FILE PERL...: one that changes nothing would look like a test that does not bite.
edit() {
  local file=$1 change before
  shift
  for change; do
    before=$(cksum <"$copy/$file")
    perl -0pi -e "$change" "$copy/$file"
    if [[ $(cksum <"$copy/$file") == "$before" ]]; then echo "$file is as it was after: $change" >&2 && exit 1; fi
  done
  edited+=("$file")
}

# mend makes the copy sound again.
mend() {
  local file
  for file in "${edited[@]}"; do cp "$copy.sound/$file" "$copy/$file"; done
  edited=()
}
edited=()

# Every mutant is a function that breaks something and says which tests must go red: proof has turns of internal/proof, each with its
# round; queue, worker, rules and crash are patterns for the tests of those packages.
mutants=()
# By their seeds, the rounds 2 on MariaDB and 6 on SQLite have no limits, 7 has a limit, and 8 has a limit and shards.
mutant() { mutants+=("$1"); }

mutant finish_without_token # nor worker or attempt: a late worker finishes another's attempt, without a look at it
finish_without_token() {
  queue=LateWorkerChangesNothing
  edit internal/store/settle.go 's/"lock_token = \? AND attempt = \? AND id IN "/"? <> \x27\x27 AND ? <> 0 AND id IN "/' \
    's/stopping = 0 AND worker_id = \?/stopping = 0 AND ? <> \x27\x27/'
}

mutant settle_without_token # nor worker or attempt: a late worker settles another's attempt, after a look at it
settle_without_token() {
  queue=LateWorkerChangesNothing
  edit internal/store/settle.go 's/row\.Token == s\.Job\.Token && row\.Attempt == s\.Job\.Attempt && //' \
    's/(\x27deciding\x27\)) AND worker_id = \?/$1 AND ? <> \x27\x27/'
}

mutant finish_without_state # nor worker: a late worker finishes what was taken from it and waits for its next attempt
finish_without_state() {
  queue=LateWorkerChangesNothing
  edit internal/store/settle.go \
    's/ AND status = \x27running\x27 AND stopping = 0 AND worker_id = \?/ AND ? <> \x27\x27/'
}

mutant settle_without_state # the same after a look at it; and a commit whose answer was lost is done again
settle_without_state() {
  queue='LateWorkerChangesNothing|RoundMayBeRepeated' worker='LostAnswers|ManyAnswersAreLost'
  edit internal/store/settle.go \
    's/ AND status IN \(\x27running\x27, \x27answered\x27, \x27deciding\x27\) AND worker_id = \?/ AND ? <> \x27\x27/'
}

mutant settle_what_can_be_read # a row that another transaction holds counts as settled
settle_what_can_be_read() {
  queue='RoundWaitsForNoRow' worker=ResultWaitsForAnotherTransaction
  edit internal/store/settle.go 's/\t\t\tc\.done\.Unsettled = append\(c\.done\.Unsettled, s\)\n/\t\t\tcontinue\n/'
}

mutant start_what_has_started # nobody looks whether another was faster
start_what_has_started() {
  queue='RoundsShareNothing|ALockCostsNoAttempt'
  edit internal/store/claim_candidates.go 's/ AND status IN \(\x27available\x27, \x27throttled\x27\)//'
}

mutant start_without_locks # candidates are as good as locks: on SQLite the file's lock is enough
start_without_locks() {
  queue=RoundsShareNothing
  edit internal/store/claim_candidates.go 's/c\.q\.inShard\(c\.shard\) \+ " " \+ tx\.SkipLocked/c.q.inShard(c.shard)/'
}

mutant start_although_dead # a worker that was declared dead starts jobs
start_although_dead() {
  queue='ReclaimFromADeadWorker|DeadInItsTurn'
  edit internal/store/claim.go 's/q\.workers\.Working\("\?"\) \+ fmt/"? <> \x27\x27" + fmt/'
}

mutant pause_waits_for_nobody # a round that has looked before the pause starts jobs after it
pause_waits_for_nobody() {
  queue=PauseMeansNow
  edit internal/store/round.go 's/q\.isOpen\(q\.db\.SQL\.ForShare\)/q.isOpen("")/'
}

mutant start_again # a round that is repeated starts others instead of those that it has started
start_again() {
  queue=RoundMayBeRepeated worker='LostAnswers|ManyAnswersAreLost'
  edit internal/store/round.go 's/\t\tif again \{/\t\tif again \&\& r.Slots < 0 {/'
}

mutant start_under_another_token # and so doesn't know them again
start_under_another_token() {
  worker=StoppedAfterALostAnswer
  edit queue/worker/round.go 's/r\.Again = true\n/r.Again, r.Token = true, store.NewRound(d.self).Token\n/'
}

mutant slots_not_reserved # two rounds at once fill the same slots
slots_not_reserved() {
  worker='Concurrency.*'
  edit queue/worker/slots.go 's/l\.reserved \+= reserved/l.reserved += 0 * reserved/'
}

mutant rescue_from_the_living # nobody asks whether the worker is dead
rescue_from_the_living() {
  queue=ReclaimFromADeadWorker
  edit internal/workers/workers.go 's/" ON w\.id = " ?\+ ?id ?\+ ?" AND w\.state = \x27working\x27"/" ON w.id = " + id + " AND 1 = 0"/'
}

mutant rescue_as_finished # a lost attempt counts as done
rescue_as_finished() {
  queue=ReclaimFromADeadWorker
  edit internal/store/rescue.go 's/return o, lost/return job.Outcome{Verdict: job.Finished}, lost/'
}

mutant rescue_undecided # a job about which a dead worker was deciding stays its own
rescue_undecided() {
  queue=DecisionIsTakenByAnother
  edit internal/store/rescue.go 's/case !ok:/case !ok || j.State() == job.Error \&\& j.Status.HasWorker():/'
}

mutant rescue_as_due # a lost attempt starts again as the same attempt
rescue_as_due() {
  queue=ReclaimFromADeadWorker proof=(mariadb:2)
  edit internal/store/rescue.go 's/case j\.Status == job\.StatusLocked:/case j.State() != job.Error:/'
}

mutant rescue_costs_an_attempt # of a job that a worker in SQL had locked, and had not started
rescue_costs_an_attempt() {
  queue=ALockCostsNoAttempt
  edit internal/store/rescue.go 's/SET status = \?, wake_time = \?, worker_id = \x27NONE\x27/$&, attempt = attempt + 1/'
}

mutant rescue_started_only # such jobs stay locked for ever
rescue_started_only() {
  queue=ALockCostsNoAttempt
  edit internal/store/rescue.go 's/case !ok:/case !ok || j.Status == job.StatusLocked:/'
}

mutant interruptions_count # an attempt that ended because its worker was told to stop counts against the retry policy
interruptions_count() {
  worker=InterruptedAttemptsDontCount
  edit internal/policy/after.go 's/n\.Uncounted, n\.Interrupts = n\.Uncounted\+1, n\.Interrupts\+1/n.Interrupts++/'
}

mutant activity_on_its_own # a crash comes between a transition and its activity
activity_on_its_own() {
  proof=(sqlite:6 mariadb:2)
  edit internal/store/claim.go 's/err = c\.logRows\(ctx, c\.tx, c\.round\.Worker, activity\.Starting/err = unlogged(ctx, c.tx, c.round.Worker, activity.Starting/'
  edit internal/store/round.go 's/\treturn done, (texts\.Wrap\(err, "settle and start.*\))\n\}\n/\tif err == nil \&\& len(done.Started) > 0 {\n\t\terr = q.db.SQL.Tx(ctx, func(tx *engine.Tx) error { return q.logRows(ctx, tx, r.Worker, activity.Starting, activity.JobRows{IDs: *r.Tried}) })\n\t}\n\treturn done, $1\n}\n\nfunc unlogged(context.Context, *engine.Tx, workers.Worker, activity.State, activity.JobRows) error { return nil }\n/'
}

mutant key_not_unique # and nobody looked first either
key_not_unique() {
  queue='LiveKeyIsUnique|EnqueueTheSameKeysAtOnce' proof=(mariadb:2)
  edit schema/sql/mysql/queue_001.sql 's/UNIQUE KEY/KEY/'
  edit schema/sql/sqlite/queue_001.sql 's/CREATE UNIQUE INDEX/CREATE INDEX/'
  edit schema/order.go 's/newIndex\("UNIQUE ", u\.tables\[0\], "live"/newIndex("", u.tables[0], "live"/' # init would mend it
}

mutant enqueue_drops # the others of a statement that met a duplicate
enqueue_drops() {
  queue=DuplicateAmongMany proof=(mariadb:2)
  edit internal/store/add.go 's/\t\t\trest = append\(rest, i\)\n/\t\t\ta.added[i] = job.Added{ID: 1, Key: a.jobs[i].Key}\n/'
}

mutant guard_asleep # handlers outlive their worker, and those who take its jobs don't look after them
guard_asleep() {
  proof=(mariadb:2)
  edit internal/guard/watchdog.go 's/\ts\.end\(limit\)/\t_ = limit/'
  edit internal/guard/orphan.go 's/h := newHunt\(workerID\)\n\K/\tif workerID != "" {\n\t\treturn nil\n\t}\n/'
}

mutant final_comes_back # what failed for good is promoted
final_comes_back() {
  proof=(sqlite:6 mariadb:2)
  edit internal/policy/after.go 's/\t\tif n\.Status = job\.StatusFailed;/\t\tn.Wake = now.Add(3 * time.Second)\n$&/'
  edit internal/store/upkeep.go 's/ AND status = \x27scheduled\x27 ORDER/ ORDER/'
  edit internal/store/upkeep.go 's/SET status = \x27available\x27, wake_time = NULL, asked_time = NULL WHERE status = \?/SET status = \x27available\x27, wake_time = NULL, asked_time = NULL WHERE ? <> \x27\x27/'
}

# The turn is over before the round begins: it is counted, but two workers take the same room. Not on SQLite, where they take
# turns in any case, for it has one writer.
mutant limit_without_turns
limit_without_turns() {
  proof=(mariadb:7)
  edit internal/store/claim_turn.go 's/err := tx\.Write\(ctx, ("UPDATE "\+q\.db\.Shards\(\)\+" SET turn)/_, err := q.db.SQL.ExecContext(ctx, $1/'
}

mutant limit_ignored # what doesn't fit goes along
limit_ignored() {
  queue=Throttle proof=(mariadb:7)
  edit internal/claim/limits.go 's/min\(weight, l\.Whole\) <= l\.Max-max\(l\.Used, 0\)/weight >= 0/'
}

mutant limit_forgets_running # each round has all the room
limit_forgets_running() {
  queue=Throttle
  edit schema/order.go 's/(Runs =) "status IN \(\x27locked\x27, \x27running\x27, /$1 "status IN (\x27locked\x27, /'
}

# The claim's rules, each broken alone.
rule() { # NAME FILE PERL
  mutant "$1"
  eval "$1() { rules='RulesAreTheirSentences|WorkersShareLines|RulesForLong|NoLineWithoutASlot|HasRoom'; edit internal/claim/$2.go $(printf %q "$3"); }"
}
rule rule_overtakes limits 's/limit\.FirstUses > 0 \|\| (!limit\.HasRoom)/$1/'                    # what fits passes who waits
rule rule_room_for_all limits 's/l\.Max-max\(l\.Used, 0\)/l.Max/'                         # what is in use takes no room
rule rule_room_below_0 limits 's/max\(l\.Used, 0\)/l.Used/'                               # an invalid row makes room
rule rule_heavy_never limits 's/min\(weight, l\.Whole\)/weight/'                          # a job heavier than the limit waits for ever
rule rule_heavy_beside limits 's/min\(weight, l\.Whole\)/min(weight, max(l.Whole-1, 1))/' # it runs beside another
rule rule_weightless_waits limits 's/if j\.Weight == 0 \{/if j.Weight < 0 {/'             # weight 0 uses all limits
rule rule_weightless_free limits 's/return \[\]Scope\{Rate\}/return nil/'                 # it doesn't even use the rate
rule rule_rate_by_weight limits 's/if s == Rate \{/if s == Rate \&\& j.Weight == 0 {/'    # a start counts as much as the job
rule rule_queue_before_group limits 's/\{j\.Group, Queue, Rate\}/{Queue, j.Group, Rate}/' # a job of a full group holds up the queue
rule rule_none_in_use limits 's/limit\.Used \+= j\.uses\(s\)/_ = limit/'                    # all of a round start beside each other
rule rule_more_than_slots rules 's/slots < 1:/slots < 0:/'                                # one job more than slots
rule rule_others_dont_hold rules 's/isFirst = limit\.noteWaiter\(j\.uses\(s\)\) \|\| isFirst/isFirst = isFirst || limit.FirstUses == 0/' # waiting jobs of other workers are overtaken
rule rule_next_doesnt_hold rules 's/\(lacks == None \|\| s == lacks\)/(s == lacks || lacks == None \&\& s != Queue)/' # so is one that has room
rule rule_next_holds_one rules 's/limit != nil && \(lacks/!isFirst \&\& limit != nil \&\& (lacks/' # or it holds up one of its limits
rule rule_asks_for_ever rules 's/(j\.Held \|\| j\.wasAsked\(now, )AskLasts/${1}1000*AskLasts/' # nobody runs it, and all wait for it
rule rule_asks_for_nothing rules 's/(j\.Held \|\| j\.wasAsked\(now, )AskLasts/${1}1/' # no worker waits for another
rule rule_clock_set_back rules 's/\.Abs\(\)//'                                            # who waits holds the others up until the old time comes again
rule rule_never_is_long_ago rules 's/\(j\.Held \|\| j\.wasAsked/(j.wasAsked/'  # what nobody asked for yet
rule rule_busy_holds rules 's/!j\.Busy && \(/(/'                            # a job whose lane is full holds up the others
rule rule_own_leave rules 's/j\.Ours \|\| !j\.isWaiting\(\)/!j.isWaiting()/'    # our own jobs leave the line too
rule rule_slotless_stay rules 's/if (j\.Held \|\| j\.InLine && j\.wasAsked\(now, AskLasts\)) \{/if j.Busy \&\& ($1) {/'   # a job without a slot stays in the line
rule rule_slotless_line_up rules 's/slots < 1:/slots < 1 \&\& lacks == None:/'            # or gets there
rule rule_asked_once rules 's/case !lacksGroup && j\.Held, /case /'                      # a worker asks for the first only, not for what has waited longer
rule rule_asks_for_all rules 's/isFirstOfOurs && !j\.InLine/(isFirstOfOurs || j.Weight > 0) \&\& !j.InLine/'  # all of a worker's jobs line up
rule rule_asks_always rules 's/ && !j\.wasAsked\(now, AskEvery\)//'                       # each round asks for them again
rule rule_asks_for_others rules 's/isFirst && j\.Held/isFirst/'                # what nobody runs is asked for again and again
rule rule_others_asked_behind rules 's/isFirst && j\.Held/j.Held/'   # what isn't first is asked for
rule rule_held_beside_room rules 's/j\.InLine && !limit\.HasRoom\(1\)/j.InLine/'                      # what was let in is held again although there is room
rule rule_cut_unknown rules 's/limit\.noteWaiter\(1\) \/\/ of/_ = limit \/\/ of/'    # what follows overtakes what wasn't read
rule rule_gone_holds rules 's/case j\.Elsewhere && !j\.isWaiting\(\):/case false:/'              # a job that runs already holds up the others
rule rule_ours_dont_close rules 's/limit\.oursWaits = true/_ = limit/' # a round reads on in vain
rule rule_windows_end rules 's/case j\.Opens\.After\(now\):/case j.Opens.After(now) \&\& !j.isWaiting():/' # what waits starts after its window
rule rule_invalid rules 's/case j\.Invalid:/case j.Invalid \&\& j.Ours:/'                 # an invalid row of another worker holds up others

mutant first_overtaken # nobody reads who is in line
first_overtaken() {
  queue='FirstIsNotOvertaken|SecondIsNotOvertaken' worker=HeavyJobInALaneOfItsOwn
  edit internal/store/claim_turn.go 's/queries := \[\]engine\.Query\{t\.lineOf\(\)\}/var queries []engine.Query/'
}

mutant first_not_noted # nobody lines up
first_not_noted() {
  queue='FirstIsNotOvertaken|SecondIsNotOvertaken' worker=HeavyJobInALaneOfItsOwn
  edit internal/store/claim_decide.go 's/asked_time = \?", \[\]any\{engine\.At\(c\.tx\.Now\)\}/asked_time = NULL", nil/'
}

mutant freed_room_unnoted # whoever frees a group's weight lets nobody in: a held job waits for the search that finds all
freed_room_unnoted() {
  queue='HeldJobsFollowEachOther|ManyHeldJobs'
  edit internal/store/claim_groups.go 's/return q\.letIn\(ctx, tx, groups\)\n}\n\n\/\/ takeTurnsOf/return nil\n}\n\n\/\/ takeTurnsOf/'
}

mutant freed_room_without_turn # room is noted while another round, which saw the group full, has a job held
freed_room_without_turn() {
  queue=RoomWhileAnotherRoundHolds worker=DrainsAllShards
  edit internal/store/claim_groups.go 's/if len\(groups\) == 0 \|\| q\.db\.SQL\.Writers == 1/if true/'
}

mutant any_held_let_in # room in a group lets in a job of its first type, which then waits behind others
any_held_let_in() {
  queue=FirstHeldJobIsLetIn
  edit internal/store/claim_groups.go 's/gaps = next/gaps = nil/'
}

mutant ends_beside_who_asks # a tick doesn't wait for the job before its own that another worker asks for
ends_beside_who_asks() {
  worker=TickWaitsForAnotherWorkersJob
  edit internal/store/upkeep.go 's/waits && !l\.RoomMayCome && !paused/waits \&\& l.RoomMayCome \&\& !paused/'
}

mutant sum_only_grows # answers never make room in the sum of what awaits answers
sum_only_grows() {
  queue=AsynchronousJobsCount
  edit internal/store/claim_turn.go 's/age >= recountAfter/age >= 100*recountAfter/'
}

mutant shares_from_nothing # a share grows by what no other has given away
shares_from_nothing() {
  rules='OnlyWhatIsFreeMoves|SharesKeepTheLimit' queue=LimitAndRateOverShards
  edit internal/policy/shards.go 's/\t\tfree -= max\(share-p\.used, 0\)\n//'
}

mutant shares_in_use # what runs in a shard is given to another
shares_in_use() {
  rules='OnlyWhatIsFreeMoves|SharesKeepTheLimit'
  edit internal/policy/shards.go 's/min\(p\.target, max\(p\.used\+free, 0\)\)/p.target/'
}

mutant shares_kept # what one shard gets isn't taken from the one that had it
shares_kept() {
  queue=LimitAndRateOverShards
  edit internal/store/shards_divide.go 's/\t\tif r\.Share == shares\[i\] &&/\t\tif r.Share > shares[i] || r.Share == shares[i] \&\&/'
}

mutant shares_ignored # each shard has the whole limit
shares_ignored() {
  queue=LimitAndRateOverShards proof=(mariadb:8)
  edit internal/store/claim_turn.go 's/l\[claim\.Queue\]\.Max, l/_, l/'
}

mutant wait_for_others # for locks, as long as the server lets everybody wait
wait_for_others() {
  worker='UpkeepThatIsHeldUp|TableThatIsLocked'
  edit schema/mysql.go 's/innodb_lock_wait_timeout = 3, lock_wait_timeout = 5/innodb_lock_wait_timeout = 50, lock_wait_timeout = 86400/'
}

mutant wait_for_the_dead # the server keeps the locks of those who are gone
wait_for_the_dead() {
  queue=HeldTurns
  edit schema/mysql.go 's/idle_transaction_timeout = 10/idle_transaction_timeout = 0/'
}

mutant wait_in_line # jobs whose rows are held are waited for
wait_in_line() {
  queue=RoundWaitsForNoRow
  edit internal/engine/dialect.go 's/FOR UPDATE SKIP LOCKED/FOR UPDATE/'
}

mutant repeat_for_ever # what can't be done now
repeat_for_ever() {
  crash=Waits/mysql
  edit internal/engine/repeat.go 's/patience = 22 \* time\.Second/patience = 22 * time.Minute/'
}

mutant tick_without_end # as long as its lock holds
tick_without_end() {
  worker=TimeIsUpAndTheDatabaseIsSilent
  edit queue/worker/trouble.go 's/return max\(l\.Grace, 10\*time\.Second\)/return time.Hour/'
}

mutant procedures_without_token # while the worker is still compared: one that comes too late settles its own next attempt
procedures_without_token() {
  queue='Procedures(Life|Refuse)'
  edit schema/sql/mysql/procedures/instance/check_holder.sql 's/ OR p_lock <> v_token THEN/ THEN/' \
    's/ELSEIF p_attempt = v_token AND p_holder = p_worker AND/ELSEIF FALSE AND/'
}

mutant procedures_without_fence # whoever comes too late settles another's attempt
procedures_without_fence() {
  proof=(mariadb:2)
  edit schema/sql/mysql/procedures/instance/check_holder.sql 's/ OR p_holder <> p_worker OR p_lock <> v_token THEN/ THEN/' \
    's/ELSEIF p_attempt = v_token AND p_holder = p_worker AND/ELSEIF FALSE AND/'
}

mutant procedures_limit_ignored # what doesn't fit is grabbed all the same
procedures_limit_ignored() {
  queue=ProceduresKeepTheLimit proof=(mariadb:7)
  edit schema/sql/mysql/procedures/queue/grab.sql 's/SET v_full = v_used > 0 AND v_used \+ v_factor > v_limit/SET v_full = FALSE/'
}

mutant procedures_limit_forgets_grabbed # what is locked and not started has no weight
procedures_limit_forgets_grabbed() {
  queue=ProceduresKeepTheLimit
  edit schema/sql/mysql/procedures/queue/grab.sql 's/AND \{counts\}/AND {counts} AND j.state = \x27running\x27/g'
}

mutant procedures_overtake # what comes behind the first without room, of another type
procedures_overtake() {
  queue=ProceduresFirstIsNotOvertaken
  edit schema/sql/mysql/procedures/queue/grab.sql 's/OR EXISTS \(SELECT 1 FROM \{jobs\}/OR FALSE AND EXISTS (SELECT 1 FROM {jobs}/'
}

mutant answer_without_token # an answer to one attempt settles the next
answer_without_token() {
  queue='ProceduresOperateAsCommands|ProceduresRelease'
  edit schema/sql/mysql/procedures/queue/answer.sql 's/COALESCE\(LENGTH\(p_token\) > 36 OR LEFT\(p_token, 36\) <> v_token, FALSE\)/FALSE/'
}

mutant release_counts # each release is an attempt
release_counts() {
  queue=ProceduresRelease
  edit schema/sql/mysql/procedures/inline/end.sql 's/uncounted = uncounted \+ \([^)]*\(p_count, FALSE\)\), //'
}

mutant cancel_closes_the_line # nobody comes after a cancelled job
cancel_closes_the_line() {
  queue='LeavingTheLineLetsIn|ProceduresLetHeldJobsIn'
  edit schema/sql/mysql/procedures/queue/cancel.sql 's/    CALL \{jobs\}\$let_in\(p_own, v_shard, v_group, v_factor\);\n//'
}

mutant answer_closes_the_line # nor after an answered one
answer_closes_the_line() {
  queue=LeavingTheLineLetsIn
  edit schema/sql/mysql/procedures/queue/answer.sql 's/, \x27throttled\x27\) THEN/) THEN/'
}

mutant replace_closes_the_line # nor after a replaced one
replace_closes_the_line() {
  queue=LeavingTheLineLetsIn
  edit internal/store/add_tx.go 's/q\.LetIn\(ctx, tx, a\.left\.\.\.\)/nil/'
}

mutant submit_overwrites # a duplicate replaces the job without being asked to
submit_overwrites() {
  queue=ProceduresOnDuplicate
  edit schema/sql/mysql/procedures/queue/submit.sql 's/IF v_mode = \x27replace\x27 THEN/IF v_mode <> \x27error\x27 THEN/'
}

mutant submit_many_ignores_duplicates # it says that all are new
submit_many_ignores_duplicates() {
  queue=ProceduresOnDuplicate
  edit schema/sql/mysql/procedures/queue/submit_many.sql 's/v_duplicate \+ 0/0/'
}

mutant reschedule_what_runs # also what has started
reschedule_what_runs() {
  queue=ProceduresOperateAsCommands
  edit schema/sql/mysql/procedures/inline/waits.sql 's/p_state IN \(\x27running\x27, \x27error\x27\) AND NOT p_running/FALSE/'
}

mutant no_rest # jobs start for a handler that can't begin any
no_rest() {
  worker=HandlerRests
  edit queue/worker/dispatcher.go 's/\t\td\.rest\(s, a\)\n//'
}

mutant poll_alone # a round is followed by another only after a poll
poll_alone() {
  proof=(sqlite:6)
  edit queue/worker/shard.go 's/(r\.shard\.notBefore = done\.WaitsForLimit), time\.Time\{\}/$1, time.Now().Add(pollEvery)/'
}

mutant idle_share # a shard keeps room of the limit that it can't use, because it waits for the rate
idle_share() {
  rules=HaveIdle proof=(sqlite:8)
  edit internal/policy/shards.go 's/waits\[lacks\] = true/waits[lacks] = false/'
}

mutant no_news # what a poll has found isn't looked for before the jobs that were read ahead
no_news() {
  queue='DueBeforeWhatWasRead|RoundStartsWhatItSettles'
  edit internal/store/claim_candidates.go 's/return c\.newsAt\.After\(c\.askedAt\)/return false/'
}

mutant news_in_vain # rounds follow each other while a job is in line
news_in_vain() {
  queue=RoundBesideTheLine
  edit internal/store/claim.go 's/len\(taken\) == 0 && (c\.round\.Candidates\.lookAgain)/len(taken) > 0 \&\& $1/'
}

# tests gives the commands that run a mutant's tests, a line each.
tests() {
  local round
  [[ ! $queue ]] || echo "go test -count=1 -timeout 5m -run '^Test($queue)\$' ./internal/store"
  [[ ! $worker ]] || echo "go test -count=1 -timeout 5m -run '^Test($worker)\$' ./queue/worker"
  [[ ! $rules ]] || echo "go test -count=1 -timeout 5m -run '^Test($rules)\$' ./internal/policy ./internal/claim"
  [[ ! $crash ]] || echo "go test -count=1 -timeout 5m -run '^Test$crash\$' ./internal/crash -short"
  if [[ ${NARROW:-} && $queue$worker$rules ]]; then return; fi
  for round in "${proof[@]}"; do
    echo "go test -count=1 -timeout 15m -run '^TestTurn\$' ./internal/proof -proof.turn signals/${round%:*}/1 -proof.round ${round#*:}"
  done
}

run() { (cd "$copy" && eval "$1") >"$copy.log" 2>&1; }

declare -A green # by command
try() { # MUTANT
  local name=$1 command went='' queue='' worker='' rules='' crash='' proof=()
  mend
  "$name"
  local built='./...'
  if [[ ${EDIT_ONLY:-} ]]; then built=$(printf './%s\n' "${edited[@]%/*.go}" | sed '/\.sql$/d' | sort -u); fi
  # shellcheck disable=SC2086 # packages
  if [[ $built ]]; then (cd "$copy" && go build $built) || { echo "$name does not compile" >&2 && exit 1; }; fi
  if [[ ${EDIT_ONLY:-} ]]; then return; fi
  mapfile -t commands < <(tests)
  for command in "${commands[@]}"; do
    if run "$command"; then survivors+="$name: $command"$'\n'; else
      went+=" $(sed -E "s/.*-run '([^']*)' ([^ ]*)( -proof.turn )?/\1\3/; s/ -short//; s/ -proof.round /:/" <<<"$command")"
    fi
    if [[ ${KEEP_LOGS:-} ]]; then cp "$copy.log" "$KEEP_LOGS/$name-$((++logs)).log"; fi
  done
  printf '%-26s red:%s\n' "$name" "${went:- nothing}"
  mend
  for command in "${commands[@]}"; do
    if [[ ! ${green[$command]:-} ]]; then
      run "$command" || { cat "$copy.log" && echo "red without any mutant: $command" >&2 && exit 1; }
      green[$command]=1
    fi
  done
}

results=$root/internal/proof/testdata/mutants.jsonl
turns=${TURNS:-signals/mariadb features/mariadb signals/sqlite features/sqlite outages/mariadb servers/mariadb calls/sqlite packets/mariadb}

# first prints in short what the log says is wrong first.
first() {
  { sed -nE 's/.*\[rapid\] [a-z]+ after [0-9]+ tests: //p; s/^ *Original traceback \((.*)/\1/p' "$copy.log"
    sed -nE 's/^ *checks_test\.go:[0-9]+: //p' "$copy.log"
    sed -nE 's/^ *[a-z_]+_test\.go:[0-9]+: //p' "$copy.log" | tail -1
    echo red; } | sed -E 's,/tmp/[^ ]*/,,g; s/^(.{160}).*/\1/' | sed -n 1p | tr -d '\000-\037' | sed 's/[\"]/\\&/g'
}

# finds says whether a turn finds a mutant, or anything in what is sound. An error of another kind ends the script.
finds() { # MUTANT KIND/ENGINE[:ROUND]
  local bound=(-proof.for 90s) began=$SECONDS status=0 what='' line
  if ! line=$(grep -F "{\"mutant\":\"$1\",\"turn\":\"$2\"," "$results"); then
    if [[ $2 == *:* ]]; then bound=(-proof.round "${2#*:}"); fi
    mend
    $1
    (cd "$copy" && go build ./...) || { echo "$1 does not compile" >&2 && exit 1; }
    (cd "$copy/internal/proof" && exec timeout 15m "$copy.test" -test.run '^TestTurn$' -test.failfast -proof.turn "${2%:*}/1" "${bound[@]}" \
      -rapid.shrinktime 1s) >"$copy.log" 2>&1 || status=$?
    if ((status > 1)); then cat "$copy.log" && echo "the turn $2 did not end: $status" >&2 && exit 1; fi
    if ((status)); then what=$(first); fi
    line=$(printf '{"mutant":"%s","turn":"%s","seconds":%d,"commit":"%s","violation":"%s"}' \
      "$1" "$2" $((SECONDS - began)) "$(git -C "$root" rev-parse --short HEAD)" "$what")
    echo "$line" | tee -a "$results"
  fi
  [[ $line != *'"violation":""}' ]]
}

# campaign looks for a mutant until a turn finds it.
campaign() { # MUTANT
  local turn queue='' worker='' rules='' crash='' proof=()
  mend
  "$1"
  for turn in "${proof[@]/#/signals/}" $turns; do
    if finds "$1" "$turn"; then
      if finds '' "$turn"; then echo "red without any mutant: $turn" >&2 && exit 1; fi
      return
    fi
  done
}

survivors='' logs=0
if [[ ${1:-} == --proof ]]; then
  shift
  export CGO_ENABLED=0 HIPQ_TEST_REQUIRE_MYSQL=1
  (cd "$copy" && go test -vet=off -c -o "$copy.test" ./internal/proof)
  touch "$results"
  if (($#)); then mutants=("$@"); fi
  for m in "${mutants[@]}"; do campaign "$m"; done
  exit
fi
if (($#)); then mutants=("$@"); fi
for m in "${mutants[@]}"; do try "$m"; done
if [[ $survivors ]]; then printf 'not red, but should be:\n%s' "$survivors" >&2 && exit 1; fi
