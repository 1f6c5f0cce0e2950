package schema

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/hipq/hipq/internal/engine"
	"github.com/hipq/hipq/internal/texts"
)

// ClaimIndex is the name of the index for claims. It has a range for each status, shard, part and job type; in a range,
// jobs are in the order of claims.
const ClaimIndex = "claim"

// Position is a job's position in the order of claims.
type Position struct {
	Rank int64
	At   string // the scheduled run time as text, as in the table
	ID   int64
}

// Into returns scan targets for the columns of PositionOf. A row without a rank can't be a job's: it comes first, as in the index.
func (p *Position) Into() []any { return []any{(*rank)(&p.Rank), &p.At, &p.ID} }

// Compare is negative if a job at p is claimed before one at other.
func (p Position) Compare(other Position) int {
	return cmp.Or(cmp.Compare(p.Rank, other.Rank), strings.Compare(p.At, other.At), cmp.Compare(p.ID, other.ID))
}

type rank int64

func (r *rank) Scan(src any) error {
	var n sql.NullInt64
	err := n.Scan(src)
	if *r = math.MinInt64; n.Valid {
		*r = rank(n.Int64)
	}
	return err
}

const (
	// ClaimOrder is the order of claims, for ORDER BY. Position, Behind and Ahead follow it, and so do the procedures grab and let_in.
	ClaimOrder = "run_rank, scheduled_run_time, id"
	// Behind is the condition for jobs claimed after a Position. Its parameters are Args. It is spelled out, because MySQL can't use
	// an index range for (a, b, c) > (x, y, z).
	Behind = "(run_rank > ? OR run_rank = ? AND scheduled_run_time > ? OR run_rank = ? AND scheduled_run_time = ? AND id > ?)"
	// Ahead is the condition for jobs claimed before a Position. Its parameters are Args.
	Ahead = "(" + ahead1 + " OR " + ahead2 + " OR " + ahead3 + ")"

	ahead1 = "run_rank < ?"
	ahead2 = "run_rank = ? AND scheduled_run_time < ?"
	ahead3 = "run_rank = ? AND scheduled_run_time = ? AND id < ?"
	// the attempt is for counts of jobs that wait for a retry, which would otherwise read each row
	claimColumns = "(" + RangeColumns + ", " + ClaimOrder + ", attempt)"
)

// Args are the parameters of Behind and Ahead.
func (p Position) Args() []any { return []any{p.Rank, p.Rank, p.At, p.Rank, p.At, p.ID} }

// TermsAhead are Ahead's terms and their parameters. Each is a range of the index in a Range, but not each engine uses the index
// for a condition with OR.
func (p Position) TermsAhead() map[string][]any {
	return map[string][]any{ahead1: {p.Rank}, ahead2: {p.Rank, p.At}, ahead3: {p.Rank, p.At, p.ID}}
}

// Range is a range of the claim index in which jobs are in the order of claims.
type Range struct {
	Status  string
	Place   int `db:"shard"`
	Part    string
	JobType string `db:"job_type"`
}

const (
	// RangeColumns are the columns of a Range.
	RangeColumns = "status, shard, part, job_type"
	// InRange is the condition for the jobs of a Range. Its parameters are Args.
	InRange = "status = ? AND shard = ? AND part = ? AND job_type = ?"
)

// Args are the parameters of InRange.
func (r Range) Args() []any { return []any{r.Status, r.Place, r.Part, r.JobType} }

// PositionOf lists the columns for Into, of a table or of a subquery with them.
func (db *DB) PositionOf(table string) string {
	return table + ".run_rank, " + db.SQL.TimeText(table+".scheduled_run_time") + ", " + table + ".id"
}

// Queue is a queue with a table.
type Queue struct {
	Name string
	// Order is the order in which its jobs are claimed; empty is OrderLowest.
	Order Order
}

// Order is an order in which jobs are claimed. Each table has one, the default of its column rank_sign, so applications that
// add jobs needn't know it.
type Order string

// The orders.
const (
	// OrderLowest: the lowest priority first, then the scheduled run time, then the id.
	OrderLowest Order = ""
	// OrderHighest: the highest priority first, then as in OrderLowest.
	OrderHighest Order = "highest"
	// OrderSchedule: the scheduled run time first, then the id. Priorities don't count.
	OrderSchedule Order = "schedule"
	// OrderAny is the order that the table has, for programs that only read.
	OrderAny Order = "any"

	// changing is recorded for a table whose live jobs haven't all got the ranks of a new order. Workers use it as it is.
	changing Order = "changing"
)

// signs are the factors of the priority in run_rank, by order.
var signs = map[Order]int{OrderLowest: 1, OrderHighest: -1, OrderSchedule: 0, OrderAny: 1}

const reorderBatch = 500 // jobs a statement

// reorder changes the order of a queue's table while others use it. New rows are in the new order at once; then the live ones get
// their new ranks, few at a time. A final row keeps its rank, because no worker claims it. It may be interrupted and repeated.
func (m migration) reorder(ctx context.Context, u unit) error {
	table, sign := u.tables[0], signs[u.order]
	note := func(o Order) string {
		return fmt.Sprintf("UPDATE "+ownersTable+" SET claim_order = '%s' WHERE table_name = '%s'", o, table)
	}
	err := m.exec(ctx, append([]string{note(changing)}, cutStatements(u.replace.Replace(m.db.SQL.SetSign))...))
	var live []int64
	if err == nil {
		err = m.read(ctx, func() error {
			live = nil
			return m.conn.SelectContext(ctx, &live, "SELECT id FROM "+table+" "+m.db.SQL.Index(table, ClaimIndex)+" WHERE status IN ('submitted',"+
				" 'available', 'scheduled', 'throttled', 'locked', 'running', 'answered', 'deciding', 'awaiting', 'undecided')")
		})
	}
	slices.Sort(live)
	for ids := range slices.Chunk(live, reorderBatch) {
		began := time.Now()
		if err == nil {
			err = m.write(ctx, "UPDATE "+table+" "+m.db.SQL.ByID+" SET rank_sign = ? WHERE rank_sign <> ? AND live = 1 AND id IN "+engine.In(len(ids)),
				append([]any{sign, sign}, engine.Args(ids)...)...)
		}
		if err == nil {
			err = m.yield(ctx, time.Since(began))
		}
	}
	if err != nil {
		return fmt.Errorf("change the order of %s: %w", table, err)
	}
	return m.exec(ctx, []string{note(u.order)})
}

const (
	// Counts is the condition for a job that counts against the limits. A job that is being decided no longer does.
	Counts = "status IN ('locked', 'running', 'answered', 'awaiting')"
	// Runs is the condition for those of them that a worker has.
	Runs = "status IN ('locked', 'running', 'answered')"
	// Awaits is the condition for those of them that no worker has.
	Awaits = "status = 'awaiting'"
	// HasWorker is the condition for a job that a worker has locked.
	HasWorker = "status IN ('locked', 'running', 'answered', 'deciding')"
)

type index struct{ table, name, create string }

func newIndex(unique, table, name, columns string) index {
	full := table + "$" + name
	return index{table, full, "CREATE " + unique + "INDEX " + full + " ON " + table + " " + columns}
}

// replaceIndex returns the statements for an index with other columns. Workers never miss it: SQLite's migration is one
// transaction.
func (db *DB) replaceIndex(i index) []string {
	if db.SQL.Engine == engine.SQLite.Engine {
		return []string{"DROP INDEX " + i.name, i.create}
	}
	add := strings.Replace(strings.TrimPrefix(i.create, "CREATE "), " ON "+i.table, "", 1)
	return []string{"ALTER TABLE " + i.table + " DROP INDEX " + i.name + ", ADD " + add}
}

// indexes are the secondary indexes of a unit's tables. They repeat the SQL files, to recreate a dropped index.
func (db *DB) indexes(u unit) []index {
	if u.kind != queueKind {
		return []index{
			newIndex("", db.Activity(), "at", "(at)"),
			newIndex("", db.Activity(), "job", "(job_id, queue)"),
			newIndex("", db.Workers(), "state", "(state, lock_until)"),
			newIndex("", db.Workers(), "start", "(start_time)"),
		}
	}
	wake := "(wake_time)"
	if db.SQL.Engine == engine.SQLite.Engine {
		wake += " WHERE wake_time IS NOT NULL"
	}
	return []index{
		newIndex("UNIQUE ", u.tables[0], "live", "(job_type, job_key, live)"),
		newIndex("", u.tables[0], "wake", wake),
		newIndex("", u.tables[0], ClaimIndex, claimColumns),
	}
}

// Stretch is a part of a Range in which jobs are in the order of their run times.
type Stretch struct {
	Range
	Rank sql.NullInt64 `db:"run_rank"` // NULL if plain SQL leaves it to the job type
	// Since is the earliest run time.
	Since engine.Time
}

// Where selects the jobs of a stretch.
func (s Stretch) Where() (w engine.Where) {
	w.And(InRange, s.Args()...)
	if s.Rank.Valid {
		w.And("run_rank = ?", s.Rank.Int64)
	} else {
		w.And("run_rank IS NULL")
	}
	return w
}

// Stretches returns up to most stretches of a status in a table, and one more if there are more. It jumps from one to the next, which
// takes a fraction of a millisecond for each, because MariaDB reads a whole index for a GROUP BY.
func (db *DB) Stretches(ctx context.Context, table, status string, most int) (all []Stretch, err error) {
	columns := RangeColumns + ", run_rank, " + db.SQL.TimeText("scheduled_run_time") + " AS since"
	// MariaDB would sort if a column with one value were in ORDER BY.
	s, wheres, args := Stretch{}, []string{"status = ? ORDER BY shard, part, job_type, "}, []any{status}
	for len(all) <= most {
		parts := texts.Map(wheres, func(where string) string {
			return "SELECT * FROM (SELECT " + columns + " FROM " + table + " " + db.SQL.Index(table, ClaimIndex) + " WHERE " + where + "run_rank, scheduled_run_time LIMIT 1) AS a"
		})
		err := db.SQL.GetContext(ctx, &s, strings.Join(parts, " UNION ALL ")+" LIMIT 1", args...)
		if errors.Is(err, sql.ErrNoRows) {
			return all, nil
		} else if err != nil {
			return nil, err
		}
		all = append(all, s)
		rank, ranks := "run_rank IS NOT NULL", []any(nil)
		if s.Rank.Valid {
			rank, ranks = "run_rank > ?", []any{s.Rank.Int64}
		}
		wheres = []string{
			InRange + " AND " + rank + " ORDER BY ",
			"status = ? AND shard = ? AND part = ? AND job_type > ? ORDER BY job_type, ",
			"status = ? AND shard = ? AND part > ? ORDER BY part, job_type, ", "status = ? AND shard > ? ORDER BY shard, part, job_type, ",
		}
		args = slices.Concat(s.Args(), ranks, s.Args(), []any{status, s.Place, s.Part, status, s.Place})
	}
	return all, nil
}
