package admin

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/internal/store"
	"github.com/hipq/hipq/internal/texts"
	"github.com/hipq/hipq/queue"
	"github.com/hipq/hipq/queue/job"
)

// Search is what Find looks for.
type Search struct {
	// Text is an id, queue/id, a key, or a text in a job's key, data, error, result or note of its progress, in either case.
	Text string
	// After is the Next of the part before; empty begins with the newest jobs.
	After string
	// Limit is how many hits end a part; 0 means 50.
	Limit int
	// Within is how long a part may take; 0 means 1 s.
	Within time.Duration
}

// Hit is a job that Find found.
type Hit struct {
	Job *job.Job
	// In is where the text is: "id", "key", "data", "error", "result" or "note".
	In string
	// Text is the text with some of what is around it, in one line.
	Text string
}

// Found is a part of the jobs that Find found.
type Found struct {
	// Hits are the newest first, after those that an index finds. A queue's next 500 jobs or more are searched before another's, so the
	// next part may have hits that are a little newer.
	Hits []Hit
	// Next is the After of the next part; empty if all has been searched.
	Next string
	// Looked is how many jobs this part passed, and Left is about how many are left.
	Looked, Left int64
	// Back is when the last job that was passed was added.
	Back time.Time
}

// searched are the columns that Find searches, with what Hit calls them.
var searched = []struct {
	column, in string
	of         func(*job.Job) string
}{
	{"CAST(job_key AS CHAR)", "key", func(j *job.Job) string { return j.Key }},
	{"error", "error", func(j *job.Job) string { return j.Error }},
	{"job_data", "data", func(j *job.Job) string { return j.Data }},
	{"result", "result", func(j *job.Job) string { return j.Result }},
	{"progress_note", "note", func(j *job.Job) string { return j.Progress.Note }},
}

// front is where the search is in a queue.
type front struct {
	*Queue
	// Below is the id that the next step ends before; 0 if all is searched. Low is the lowest id.
	Below, Low int64
	// at is when the last job that was passed was added.
	at time.Time
}

// searchStep is how many ids a step searches at first. A step that is short doubles it.
const searchStep, searchStepMost = 500, 32_000

// Find searches queues of one database for a text. The first part has only what an id and a whole key find by indexes, if that is
// something; then all jobs are searched, the newest first over all queues. A part ends when it has enough hits or the time is over. It locks nothing.
func Find(ctx context.Context, queues []*queue.Queue, s Search) (f Found, err error) {
	s.Limit, s.Within = cmp.Or(max(s.Limit, 0), 50), cmp.Or(s.Within, time.Second)
	if s.Text == "" || !utf8.ValidString(s.Text) {
		return f, ErrPage
	}
	deadline, at := time.Now().Add(s.Within), map[string]int64{}
	if s.After != "" && json.Unmarshal([]byte(s.After), &at) != nil {
		return f, ErrPage
	}
	var fronts []*front
	for _, of := range queues {
		q := &front{Queue: Of(of)}
		if s.After == "" {
			hits, err := q.exactly(ctx, s.Text)
			if err != nil {
				return f, texts.Wrap(err, "search in %s", of.Name)
			}
			f.Hits = append(f.Hits, hits...)
		}
		if err := q.begin(ctx, at, s.After == ""); err != nil {
			return f, texts.Wrap(err, "search in %s", of.Name)
		}
		fronts = append(fronts, q)
	}
	exact := len(f.Hits)
	for step := int64(searchStep); len(f.Hits) < s.Limit && (s.After != "" || exact == 0); {
		q := slices.MaxFunc(fronts, func(a, b *front) int {
			return cmp.Or(cmp.Compare(min(a.Below, 1), min(b.Below, 1)), a.at.Compare(b.at))
		})
		if q.Below == 0 {
			break
		}
		began, before := time.Now(), q.Below
		hits, err := q.step(ctx, s.Text, step, s.Limit-len(f.Hits))
		if err != nil {
			return f, texts.Wrap(err, "search in %s", q.s.Name)
		}
		f.Hits, f.Looked, f.Back = append(f.Hits, hits...), f.Looked+before-max(q.Below, q.Low), q.at
		if time.Since(began) < s.Within/8 {
			step = min(2*step, searchStepMost)
		}
		if time.Now().After(deadline) {
			break
		}
	}
	slices.SortStableFunc(f.Hits[exact:], func(a, b Hit) int { return b.Job.CreateTime.Compare(a.Job.CreateTime) })
	for _, q := range fronts {
		if q.Below > 0 {
			at[q.s.Name] = q.Below
			f.Left += q.Below - q.Low
		} else {
			at[q.s.Name] = 0
		}
	}
	if f.Left > 0 {
		next, _ := json.Marshal(at) // numbers by names
		f.Next = string(next)
	}
	return f, nil
}

// exactly finds the job with an id, as ID or QUEUE/ID, and those with a key.
func (q *Queue) exactly(ctx context.Context, text string) (hits []Hit, err error) {
	name, number, of := strings.Cut(text, "/")
	if !of {
		name, number = q.s.Name, text
	}
	if id, bad := strconv.ParseInt(number, 10, 64); bad == nil && name == q.s.Name {
		err = q.each(ctx, Filter{}, []int64{id}, store.AllColumns, func(j *job.Job) error {
			hits = append(hits, Hit{j, "id", text})
			return nil
		})
	}
	if err == nil && len(text) <= 255 {
		var ids []int64
		if ids, err = q.FindIDs(ctx, Filter{Key: text}); err == nil {
			slices.Reverse(ids)
			err = q.each(ctx, Filter{}, ids, store.AllColumns, func(j *job.Job) error {
				if !slices.ContainsFunc(hits, func(h Hit) bool { return h.Job.ID == j.ID }) {
					hits = append(hits, Hit{j, "key", text})
				}
				return nil
			})
		}
	}
	return hits, err
}

// begin sets where the search goes on: at the newest job, or where it was. A queue that is new since then isn't searched.
func (q *front) begin(ctx context.Context, at map[string]int64, first bool) error {
	low, high, err := q.span(ctx, Filter{})
	if q.Low, q.Below = low, at[q.s.Name]; first {
		q.Below = high
	}
	if err == nil && q.Below <= q.Low {
		q.Below = 0
	}
	if err == nil && q.Below > 0 {
		err = q.time(ctx)
	}
	return err
}

// time goes to the newest job that isn't searched, and reads when it was added.
func (q *front) time(ctx context.Context) error {
	var newest struct {
		ID int64
		At engine.Time
	}
	err := q.s.DB().SQL.GetContext(ctx, &newest, "SELECT id, "+q.s.DB().SQL.TimeText("create_time")+" AS at FROM "+q.s.Table()+" "+q.s.DB().SQL.ByID+
		" WHERE id < ? ORDER BY id DESC LIMIT 1", q.Below)
	if errors.Is(err, sql.ErrNoRows) { // the rest has been purged meanwhile
		q.Below = 0
		return nil
	}
	q.at, q.Below = newest.At.Time, newest.ID+1
	return err
}

// step searches the next ids, until it has most hits.
func (q *front) step(ctx context.Context, text string, step int64, most int) (hits []Hit, err error) {
	from := max(q.Low, q.Below-step)
	var w engine.Where
	w.And("id >= ?", from)
	w.And("id < ?", q.Below)
	w.And("job_key <> ?", text) // found before
	if id, bad := strconv.ParseInt(text, 10, 64); bad == nil {
		w.And("id <> ?", id)
	}
	var places []string
	for _, in := range searched {
		places = append(places, engine.Contains(in.column))
	}
	w.And("("+strings.Join(places, " OR ")+")", engine.Args(slices.Repeat([]string{text}, len(places)))...)
	query := "SELECT id FROM " + q.s.Table() + " " + q.s.DB().SQL.ByID + w.SQL() + " ORDER BY id DESC LIMIT ?"
	var ids []int64
	if err := q.s.DB().SQL.SelectContext(ctx, &ids, query, append(w.Args, most)...); err != nil {
		return nil, err
	}
	err = q.each(ctx, Filter{}, ids, store.AllColumns, func(j *job.Job) error {
		for _, in := range searched {
			if n := strings.Index(strings.ToLower(in.of(j)), strings.ToLower(text)); n >= 0 {
				hits = append(hits, Hit{j, in.in, around(in.of(j), n, len(text))})
				break
			}
		}
		return nil
	})
	if q.Below = from; len(ids) == most {
		q.Below = ids[most-1]
	}
	if q.Below <= q.Low {
		q.Below = 0
		return hits, err
	}
	return hits, cmp.Or(err, q.time(ctx))
}

// around is a part of a text, with 40 bytes before and 80 after a place.
func around(text string, at, n int) string {
	from, to := min(max(0, at-40), len(text)), min(len(text), at+n+80) // in lower case, some letters are longer
	part := strings.Join(strings.Fields(strings.ToValidUTF8(text[from:to], "")), " ")
	return map[bool]string{true: "…"}[from > 0] + part + map[bool]string{true: "…"}[to < len(text)]
}
