#!/bin/sh
# Counts the words of a text and writes a report. handler: {exec: [sh, exec.sh], env: [PAUSE]}
# jq reads the job. A handler can do without where the job's key says it all: that is in $HIPQ_JOB_KEY.
set -u

file=$(jq -r '(.job_data.file? | strings) // ""') || exit
id=$HIPQ_JOB_ID attempt=$HIPQ_ATTEMPT
report=report-$id.txt part=report-$id.$attempt.part

finished() {
	read -r words rest < "$report"
	echo "{\"outcome\":\"finished\",\"result\":{\"words\":$words}}"
	exit
}

if [ "$attempt" -gt 1 ]; then # an earlier attempt was killed, or told to stop, at an unknown point
	rm -f report-"$id".*.part
	if [ -f "$report" ]; then finished; fi # it had done all but say so
fi
[ -f "$file" ] || { echo "no such text: $file"; exit 65; } # no retry will help

# hipq says TERM at the timeout, and when its worker must end; to sleep as well, on which the shell waits before it listens
trap 'rm -f "$part"' EXIT
trap 'echo "{\"outcome\":\"retry\",\"error\":\"told to stop\"}"; exit 75' TERM

words=0 line=0 told=0
lines=$(wc -l < "$file")
: > "$part" || exit
set -f # a * is a word, and no list of files
while IFS= read -r text || [ -n "$text" ]; do
	set -- $text
	words=$((words + $#)) line=$((line + 1))
	sleep "${PAUSE:-0}" # as work that is slow
	percent=$((line < lines ? line * 100 / lines : 100))
	if [ "$percent" -gt "$told" ]; then
		told=$percent
		echo "{\"progress\":$told,\"note\":\"$words words\"}"
	fi
done < "$file"
echo "$words words in $file" > "$part" || exit
mv "$part" "$report" || exit # whole, or not at all
finished
