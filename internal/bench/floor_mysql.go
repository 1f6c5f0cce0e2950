package bench

import (
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"

	"github.com/go-sql-driver/mysql"
)

var floorTablesMySQL = []string{
	`CREATE TABLE floor_jobs (
		id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY,
		state TINYINT NOT NULL,
		priority SMALLINT NOT NULL,
		run_at DATETIME(6) NOT NULL,
		attempt SMALLINT NOT NULL,
		token BIGINT UNSIGNED NULL,
		lease_until DATETIME(6) NULL,
		kind VARCHAR(64) NOT NULL,
		payload VARCHAR(4000) NOT NULL,
		created_at DATETIME(6) NOT NULL,
		finished_at DATETIME(6) NULL,
		KEY due (state, priority, run_at, id))`,
	`CREATE TABLE floor_log (
		id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY,
		job_id BIGINT UNSIGNED NOT NULL,
		at DATETIME(6) NOT NULL,
		what TINYINT NOT NULL,
		note VARCHAR(255) NOT NULL,
		KEY by_job (job_id, id))`,
}

// mysqlFloor sends statements in one round trip if it needs no answer in between.
type mysqlFloor struct{ floorDB }

// openMySQLFloor creates the floor's tables in an empty database.
func openMySQLFloor(ctx context.Context, dsn string) (mysqlFloor, error) {
	cfg, err := mysql.ParseDSN(dsn)
	if err != nil {
		return mysqlFloor{}, err
	}
	cfg.MultiStatements, cfg.InterpolateParams = true, true
	connector, err := mysql.NewConnector(cfg)
	if err != nil {
		return mysqlFloor{}, err
	}
	f := mysqlFloor{floorDB{sql.OpenDB(connector)}}
	f.db.SetMaxIdleConns(16) // all that it uses, so that only the first round pays for connecting
	for _, table := range floorTablesMySQL {
		if _, err := f.db.ExecContext(ctx, table); err != nil {
			_ = f.db.Close()
			return mysqlFloor{}, err
		}
	}
	return f, nil
}

// conn runs do on its own connection.
func (f mysqlFloor) conn(ctx context.Context, do func(*sql.Conn) error) error {
	c, err := f.db.Conn(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	// the name of the variable for a DSN differs between the servers
	if _, err := c.ExecContext(ctx, "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED"); err != nil {
		return err
	}
	return do(c)
}

func (f mysqlFloor) enqueueMany(ctx context.Context, n int) error {
	return f.conn(ctx, func(c *sql.Conn) error {
		for from := 0; from < n; from += perTransaction {
			k := min(perTransaction, n-from)
			insert, args := floorJobs(from, k, "NOW(6)")
			res, err := c.ExecContext(ctx, "BEGIN;"+insert, args...)
			if err != nil {
				return err
			}
			// one insert of known length gets consecutive ids, and reports the first
			first, err := res.LastInsertId()
			if err != nil {
				return err
			}
			if _, err := c.ExecContext(ctx, floorLog(inARow(first, k), floorAdded, "NOW(6)")+";COMMIT"); err != nil {
				return err
			}
		}
		return nil
	})
}

func (f mysqlFloor) drain(ctx context.Context, connections int) error {
	return together(connections, func(int) error {
		return f.conn(ctx, func(c *sql.Conn) error {
			w := mysqlFloorWorker{c: c}
			for {
				ids, token, err := w.claim(ctx)
				if err != nil || len(ids) == 0 {
					return err
				}
				if err := w.finish(ctx, ids, token); err != nil {
					return err
				}
			}
		})
	})
}

// mysqlFloorWorker claims from the end of its last claim: InnoDB keeps index entries of jobs that are no longer ready
// until its purge, and each claim from the head would scan them all.
type mysqlFloorWorker struct {
	c     *sql.Conn
	after *floorEntry
}

// floorEntry is an entry of the index due.
type floorEntry struct {
	priority int
	runAt    string
	id       int64
}

// claim leases and starts jobs. If it returns none, none are left.
func (w *mysqlFloorWorker) claim(ctx context.Context) (ids []int64, token uint64, err error) {
	ids, err = w.ready(ctx)
	if err == nil && len(ids) == 0 && w.after != nil {
		w.after = nil // jobs that others had locked may remain before this point
		if _, err = w.c.ExecContext(ctx, "COMMIT"); err == nil {
			ids, err = w.ready(ctx)
		}
	}
	if err != nil {
		return nil, 0, err
	}
	if len(ids) == 0 {
		_, err = w.c.ExecContext(ctx, "COMMIT")
		return nil, 0, err
	}
	token = rand.Uint64()
	_, err = w.c.ExecContext(ctx, fmt.Sprintf(
		"UPDATE floor_jobs SET state = %d, attempt = attempt + 1, token = %d, lease_until = NOW(6) + INTERVAL 60 SECOND%s;%s;COMMIT",
		floorRunning, token, floorIDs(ids), floorLog(ids, floorStarted, "NOW(6)")))
	return ids, token, err
}

// ready locks the next jobs in a new transaction, and reads what a handler would need.
func (w *mysqlFloorWorker) ready(ctx context.Context) (ids []int64, err error) {
	query := fmt.Sprintf("BEGIN;SELECT id, kind, payload, priority, run_at FROM floor_jobs FORCE INDEX (due)"+
		" WHERE state = %d AND run_at <= NOW(6)", floorReady)
	var args []any
	if a := w.after; a != nil {
		query += " AND (priority > ? OR (priority = ? AND run_at > ?) OR (priority = ? AND run_at = ? AND id > ?))"
		args = []any{a.priority, a.priority, a.runAt, a.priority, a.runAt, a.id}
	}
	query += fmt.Sprintf(" ORDER BY priority, run_at, id LIMIT %d FOR UPDATE SKIP LOCKED", floorBatch)
	rows, err := w.c.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var last floorEntry
	for rows.Next() {
		var kind, payload string
		if err := rows.Scan(&last.id, &kind, &payload, &last.priority, &last.runAt); err != nil {
			return nil, err
		}
		ids = append(ids, last.id)
	}
	if len(ids) > 0 {
		w.after = &last
	}
	return ids, rows.Err()
}

func (w *mysqlFloorWorker) finish(ctx context.Context, ids []int64, token uint64) error {
	_, err := w.c.ExecContext(ctx, fmt.Sprintf(
		"BEGIN;UPDATE floor_jobs SET state = %d, token = NULL, lease_until = NULL, finished_at = NOW(6)%s AND token = %d;%s;COMMIT",
		floorDone, floorIDs(ids), token, floorLog(ids, floorFinished, "NOW(6)")))
	return err
}
