#!/bin/sh
# Counts the words of a text and writes a report. handler: {exec: [sh, exec.sh], env: [PAUSE]}
# jq parses the job. A handler needs no jq if the job's key is enough: it is in $HIPQ_JOB_KEY.
set -u

file=$(jq -r '(.job_data.file? | strings) // ""') || exit
id=$HIPQ_JOB_ID attempt=$HIPQ_ATTEMPT
report=report-$id.txt part=report-$id.$attempt.part

finished() {
	read -r words rest < "$report"
	echo "{\"outcome\":\"finished\",\"result\":{\"words\":$words}}"
	exit
}

if [ "$attempt" -gt 1 ]; then # an earlier attempt was killed or told to stop, at an unknown point
	rm -f report-"$id".*.part
	if [ -f "$report" ]; then finished; fi # it had done everything but report it
fi
[ -f "$file" ] || { echo "no such text: $file"; exit 65; } # a retry won't help

# hipq sends TERM at the timeout, and when its worker must end; sleep gets it too, because the shell handles it only after sleep
trap 'rm -f "$part"' EXIT
trap 'echo "{\"outcome\":\"retry\",\"error\":\"told to stop\"}"; exit 75' TERM

words=0 line=0 told=0
lines=$(wc -l < "$file")
: > "$part" || exit
set -f # * is a word, not a list of files
while IFS= read -r text || [ -n "$text" ]; do
	set -- $text
	words=$((words + $#)) line=$((line + 1))
	sleep "${PAUSE:-0}" # simulates slow work
	percent=$((line < lines ? line * 100 / lines : 100))
	if [ "$percent" -gt "$told" ]; then
		told=$percent
		echo "{\"progress\":$told,\"note\":\"$words words\"}"
	fi
done < "$file"
echo "$words words in $file" > "$part" || exit
mv "$part" "$report" || exit # atomically
finished
