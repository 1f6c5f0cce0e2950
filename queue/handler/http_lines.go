package handler

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"mime"
	"net/http"
	"slices"

	"github.com/hipq/hipq/queue/job"
)

// comesAsLines says whether an answer is lines of JSON, which the endpoint writes while it works: the last is its reply.
func comesAsLines(answer *http.Response) bool {
	kind, _, _ := mime.ParseMediaType(answer.Header.Get("Content-Type"))
	return kind == "application/x-ndjson"
}

// readAnswer reads the body of an answer, up to a byte more than it may have. Of one that comes as lines it is the last; log is
// what came before it and is no word of progress.
func readAnswer(ctx context.Context, answer *http.Response, j *job.Job) (body []byte, log *output, err error) {
	if !comesAsLines(answer) {
		body, err = io.ReadAll(io.LimitReader(answer.Body, maxBody+1))
		return body, nil, err
	}
	limited := &io.LimitedReader{R: answer.Body}
	from, take := bufio.NewReader(limited), progressIn(ctx, j)
	var line streamLine
	for {
		limited.N = maxBody + 2*int64(from.Size()) // beyond that a line is too long, however it goes on
		line, err = readLine(from, line.text)
		switch {
		case errors.Is(err, io.EOF):
			return body, log, nil
		case err != nil:
			if len(body) > 0 { // it was no reply, but the last that came before the connection broke
				log = logged(log, append(slices.Clip(body), '\n'))
			}
			return body, log, err
		case line.rest != nil:
			return append(line.text, '\n'), log, nil
		case len(bytes.TrimSpace(line.text)) == 0, take != nil && take(line.text):
			continue
		}
		if len(body) > 0 {
			log = logged(log, append(body, '\n'))
		}
		body = append(body[:0], line.text...)
	}
}
