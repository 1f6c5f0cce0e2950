#!/bin/sh
# Counts the words of texts and writes a report of each. handler: {stream: [sh, stream.sh], env: [PAUSE]}
# It starts jq for each job, so it is hardly faster than exec.sh; where that matters, take another language.
set -u

say() { echo "{\"id\":$id,$1}"; } # one echo is one line, whole

count() {
	report=report-$id.txt part=report-$id.$attempt.part
	if [ "$attempt" -gt 1 ]; then # an earlier attempt was killed, or told to stop, at an unknown point
		rm -f report-"$id".*.part
		if [ -f "$report" ]; then finished && return; fi # it had done all but say so
	fi
	if [ ! -f "$file" ]; then # no retry will help
		jq -cn --argjson id "$id" --arg error "no such text: $file" '{id: $id, outcome: "failed", error: $error}'
		return
	fi
	words=0 line=0 told=0
	lines=$(wc -l < "$file")
	: > "$part" || return
	set -f # a * is a word, and no list of files
	while IFS= read -r text || [ -n "$text" ]; do
		set -- $text
		words=$((words + $#)) line=$((line + 1))
		sleep "${PAUSE:-0}" # as work that is slow
		percent=$((line < lines ? line * 100 / lines : 100))
		if [ "$percent" -gt "$told" ]; then
			told=$percent
			say "\"progress\":$told,\"note\":\"$words words\""
		fi
	done < "$file"
	set +f
	echo "$words words in $file" > "$part" && mv "$part" "$report" && finished # whole, or not at all
}

finished() {
	read -r words rest < "$report" && say "\"outcome\":\"finished\",\"result\":{\"words\":$words}"
}

# hipq says TERM at a job's timeout, and when its worker must end; to sleep as well, on which the shell waits before it listens
part=
trap 'rm -f "$part"; echo told to stop >&2; exit 75' TERM

while IFS= read -r job; do # it ends when hipq has no more jobs
	eval "$(printf '%s\n' "$job" | jq -r '@sh "id=\(.id) attempt=\(.attempt) file=\((.job_data.file? | strings) // "")"')" # jq quotes
	count || say '"outcome":"retry","error":"it could not write its report"'
done
