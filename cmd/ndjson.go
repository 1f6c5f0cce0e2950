package cmd

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/hipq/hipq/internal/texts"
	"github.com/hipq/hipq/queue"
	"github.com/hipq/hipq/queue/job"
	"github.com/hipq/hipq/schema"
)

// batchLines and batchBytes bound a batch, so that memory stays bounded for any stream.
const (
	batchLines = 500
	batchBytes = 2 << 20
	// maxLine has room for the largest job data with every byte escaped.
	maxLine = 6*job.MaxDataBytes + 64<<10
)

// byteOrderMark is what some editors put before UTF-8 text.
const byteOrderMark = "\ufeff"

type ndjson struct {
	cmd  *cobra.Command
	i    *instance
	file string
	// again is set if the file can be read again.
	again  bool
	queues map[string]*queue.Queue
	types  map[string]accepted

	onDuplicate job.OnDuplicate
	// would has the queue, type and key of each job that a dry run would add; nil without --dry-run.
	would map[[3]string]bool
	// pending has the jobs of lines that were read and not added yet, all of one queue.
	pending []job.Params
	lines   []int
	to      *queue.Queue
	size    int
	// line is the last line that was read. All lines up to in are added.
	line, in int
	// added is called with in.
	added func(line int)
	// mend names the line to correct before continuing, if one is bad.
	mend string
	// taken is the line of a job that was refused because another has its key; 0 if there is none.
	taken  int
	counts counts
}

type counts struct {
	// Added is the number of new jobs.
	Added int `json:"added"`
	// Duplicates is the number of lines whose key a live job had.
	Duplicates int `json:"duplicates"`
	// replaced is how many of the duplicates were replaced.
	replaced int
	// DryRun is true if nothing was added. The exit code is then 1 if nothing would be added or replaced.
	DryRun bool `json:"dry_run,omitempty"`
}

func (a *app) enqueueNDJSON(cmd *cobra.Command, o enqueueOptions) error {
	file := o.ndjson
	from, again, all := a.in, false, 0
	if file != "-" {
		f, err := openFile(cmd.Context(), file)
		if err != nil {
			return usagef("--ndjson: %w", err)
		}
		defer func() { _ = f.Close() }()
		info, unknown := f.file.Stat()
		if from, again = f, unknown == nil && info.Mode().IsRegular(); again && a.showsBar() {
			all = f.lines()
		}
	}
	return a.open(cmd, brief, func(i *instance) error {
		n := &ndjson{
			cmd: cmd, onDuplicate: job.OnDuplicate(o.onDuplicate), i: i, file: file, again: again, added: a.moveBar,
			queues: map[string]*queue.Queue{}, types: map[string]accepted{},
		}
		if o.dryRun {
			n.would, n.counts.DryRun = map[[3]string]bool{}, true
		}
		a.startBar("enqueue", all)
		err := n.read(from)
		if a.endBar(); err != nil {
			return n.stopped(err)
		}
		var nothing error
		if o.dryRun && n.counts.Added+n.counts.replaced == 0 {
			nothing = fmt.Errorf("enqueue: nothing would be added (duplicates %d)", n.counts.Duplicates)
		}
		if nothing != nil && !a.json {
			return nothing
		}
		did := map[bool]string{true: "would add", false: "added"}[o.dryRun]
		return errors.Join(nothing, a.print(n.counts, "%s %d, duplicates %d", did, n.counts.Added, n.counts.Duplicates))
	})
}

// read adds every line up to the first bad one. Lines before it are added in any case.
func (n *ndjson) read(from io.Reader) error {
	lines := bufio.NewReaderSize(from, 256<<10)
	if mark, _ := lines.Peek(len(byteOrderMark)); string(mark) == byteOrderMark { // the first line returns the error again
		_, _ = lines.Discard(len(byteOrderMark))
	}
	for {
		text, err := readLine(lines)
		if errors.Is(err, io.EOF) {
			return n.flush(n.cmd.Context())
		}
		n.line++
		switch {
		case errors.Is(err, context.Canceled):
		case err != nil:
			err = n.bad(err)
		default:
			err = n.parse(text)
		}
		if err != nil {
			// The context may have ended, but what was read must be added.
			if failed := n.flush(context.WithoutCancel(n.cmd.Context())); failed != nil {
				return failed
			}
			return err
		}
	}
}

func readLine(r *bufio.Reader) ([]byte, error) {
	var line []byte
	for {
		part, err := r.ReadSlice('\n')
		line = append(line, part...)
		switch {
		case err == nil, errors.Is(err, io.EOF) && len(line) > 0:
			return bytes.TrimSpace(line), nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, err
		case len(line) > maxLine:
			return nil, fmt.Errorf("the line is longer than %d bytes; job_data may have %d", maxLine, job.MaxDataBytes)
		}
	}
}

// bad adds the line number. It doesn't wrap the error, because a bad line is not a usage error of the command.
func (n *ndjson) bad(err error) error {
	n.mend = fmt.Sprintf("fix line %d; ", n.line)
	return fmt.Errorf("%s: line %d: %s", n.file, n.line, err.Error())
}

// refused is bad, unless a signal came or the database failed (for example its clock).
func (n *ndjson) refused(err error) error {
	if trouble, _ := schema.Diagnose(err); trouble == schema.NoTrouble && !errors.Is(err, context.Canceled) {
		return n.bad(err)
	}
	return fmt.Errorf("%s: line %d: %w", n.file, n.line, err)
}

func (n *ndjson) parse(text []byte) error {
	if len(text) == 0 {
		return nil
	}
	if !utf8.Valid(text) {
		return n.bad(errors.New("it is not valid UTF-8"))
	}
	l, err := readJobLine(text)
	if err != nil {
		return n.bad(err)
	}
	q, err := n.queue(l.Queue)
	if err != nil {
		return n.refused(err)
	}
	j, err := l.job(func(text string) (time.Time, error) { return n.i.parseTime(n.cmd, text) })
	if err == nil {
		err = q.Check(j)
	}
	if err == nil {
		err = n.types[q.Name].check(j.Type)
	}
	if err != nil {
		return n.refused(err)
	}
	j.OnDuplicate = n.onDuplicate
	if n.to != nil && n.to != q || len(n.pending) == batchLines || n.size > batchBytes {
		if err := n.flush(n.cmd.Context()); err != nil {
			return err
		}
	}
	n.to, n.pending, n.lines, n.size = q, append(n.pending, j), append(n.lines, n.line), n.size+len(text)
	return nil
}

func (n *ndjson) queue(name string) (*queue.Queue, error) {
	if name == "" {
		return nil, errors.New("queue is missing")
	}
	if q, ok := n.queues[name]; ok {
		return q, nil
	}
	q, err := n.i.queue(n.cmd.Context(), name)
	if err != nil {
		return nil, err
	}
	n.queues[name] = q
	n.types[name], err = n.i.accepted(n.cmd.Context(), q)
	return q, err
}

func (n *ndjson) flush(ctx context.Context) error {
	if len(n.pending) == 0 {
		return nil
	}
	jobs, lines := n.pending, n.lines
	n.pending, n.lines, n.size = nil, nil, 0
	enqueue := n.to.EnqueueMany
	if n.would != nil {
		enqueue = n.wouldEnqueue
	}
	added, err := enqueue(ctx, jobs)
	for _, a := range added {
		switch {
		case a.Replaced:
			n.counts.replaced++
			fallthrough
		case a.Duplicate:
			n.counts.Duplicates++
		default:
			n.counts.Added++
		}
	}
	if len(added) > 0 {
		n.in = lines[len(added)-1]
		n.added(n.in)
	}
	if taken, ok := errors.AsType[*job.DuplicateError](err); ok && taken.Index == len(added) {
		n.taken = lines[taken.Index]
		n.mend = fmt.Sprintf("skip line %d; ", n.taken)
	}
	if errors.Is(err, job.ErrInvalid) { // only the database could detect it; see bad
		err = fmt.Errorf("%s: lines %d to %d: %s", n.file, lines[len(added)], lines[len(lines)-1], err.Error())
	}
	return err
}

// wouldEnqueue predicts the results of jobs, assuming that the earlier lines were added. It keeps all keys in memory.
func (n *ndjson) wouldEnqueue(ctx context.Context, jobs []job.Params) ([]job.Added, error) {
	added, err := n.to.WouldEnqueue(ctx, jobs)
	for i := range added {
		key := [3]string{n.to.Name, jobs[i].Type, jobs[i].Key}
		switch {
		case jobs[i].Key == "" || added[i].Duplicate:
		case !n.would[key]:
			n.would[key] = true
		case n.onDuplicate == job.RefuseDuplicate:
			return added[:i], fmt.Errorf("enqueue in %s: %w", n.to.Name, &job.DuplicateError{Index: i, Key: jobs[i].Key})
		default:
			added[i].Duplicate, added[i].Replaced = true, n.onDuplicate == job.ReplaceDuplicate
		}
	}
	return added, err
}

func (n *ndjson) stopped(err error) error {
	if errors.Is(err, context.Canceled) {
		err = errInterrupted // the advice says more
	}
	if n.would != nil {
		return advised{err, fmt.Sprintf("the lines before line %d would be done (added %d, duplicates %d)", n.in+1, n.counts.Added, n.counts.Duplicates)}
	}
	from := max(n.in, n.taken) + 1
	next := fmt.Sprintf("tail -n +%d %s | hipq --config %s enqueue --ndjson -", from, texts.ShellWord(n.file), texts.ShellWord(n.i.File))
	if n.onDuplicate != job.IgnoreDuplicate {
		next += " --on-duplicate " + string(n.onDuplicate)
	}
	if !n.again {
		next = fmt.Sprintf("begin with line %d", from)
	}
	return advised{err, fmt.Sprintf("the lines before line %d are done (added %d, duplicates %d); %sto continue: %s",
		n.in+1, n.counts.Added, n.counts.Duplicates, n.mend, next)}
}
