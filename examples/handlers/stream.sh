#!/bin/sh
# Counts the words of texts and writes a report for each. handler: {stream: [sh, stream.sh], env: [PAUSE]}
# It starts jq for each job, so it is hardly faster than exec.sh; if that matters, use another language.
set -u

say() { echo "{\"id\":$id,$1}"; } # one echo writes a whole line

count() {
	report=report-$id.txt part=report-$id.$attempt.part
	if [ "$attempt" -gt 1 ]; then # an earlier attempt was killed or told to stop, at an unknown point
		rm -f report-"$id".*.part
		if [ -f "$report" ]; then finished && return; fi # it had done everything but report it
	fi
	if [ ! -f "$file" ]; then # a retry won't help
		jq -cn --argjson id "$id" --arg error "no such text: $file" '{id: $id, outcome: "failed", error: $error}'
		return
	fi
	words=0 line=0 told=0
	lines=$(wc -l < "$file")
	: > "$part" || return
	set -f # * is a word, not a list of files
	while IFS= read -r text || [ -n "$text" ]; do
		set -- $text
		words=$((words + $#)) line=$((line + 1))
		sleep "${PAUSE:-0}" # simulates slow work
		percent=$((line < lines ? line * 100 / lines : 100))
		if [ "$percent" -gt "$told" ]; then
			told=$percent
			say "\"progress\":$told,\"note\":\"$words words\""
		fi
	done < "$file"
	set +f
	echo "$words words in $file" > "$part" && mv "$part" "$report" && finished # atomically
}

finished() {
	read -r words rest < "$report" && say "\"outcome\":\"finished\",\"result\":{\"words\":$words}"
}

# hipq sends TERM at a job's timeout, and when its worker must end; sleep gets it too, because the shell handles it only after sleep
part=
trap 'rm -f "$part"; echo told to stop >&2; exit 75' TERM

while IFS= read -r job; do # ends when hipq has no more jobs
	eval "$(printf '%s\n' "$job" | jq -r '@sh "id=\(.id) attempt=\(.attempt) file=\((.job_data.file? | strings) // "")"')" # jq quotes
	count || say '"outcome":"retry","error":"it could not write its report"'
done
