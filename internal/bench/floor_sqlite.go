package bench

import (
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"net/url"
	"strconv"
	"time"

	_ "modernc.org/sqlite" // registers the driver "sqlite"
)

var floorTablesSQLite = []string{
	`CREATE TABLE floor_jobs (
		id INTEGER PRIMARY KEY,
		state INTEGER NOT NULL,
		priority INTEGER NOT NULL,
		run_at INTEGER NOT NULL,
		attempt INTEGER NOT NULL,
		token INTEGER,
		lease_until INTEGER,
		kind TEXT NOT NULL,
		payload TEXT NOT NULL,
		created_at INTEGER NOT NULL,
		finished_at INTEGER)`,
	`CREATE INDEX due ON floor_jobs (state, priority, run_at, id)`,
	`CREATE TABLE floor_log (
		id INTEGER PRIMARY KEY,
		job_id INTEGER NOT NULL,
		at INTEGER NOT NULL,
		what INTEGER NOT NULL,
		note TEXT NOT NULL)`,
	`CREATE INDEX by_job ON floor_log (job_id, id)`,
}

// sqliteFloor has one connection, however many are requested, because the file has one writer. Its durability equals
// hipq's.
type sqliteFloor struct{ floorDB }

// openSQLiteFloor creates a file with the floor's tables.
func openSQLiteFloor(ctx context.Context, path string) (sqliteFloor, error) {
	db, err := sql.Open("sqlite", "file:"+path+"?"+url.Values{
		"_txlock": {"immediate"},
		"_pragma": {"journal_mode(wal)", "synchronous(full)", "cache_size(-65536)"},
	}.Encode())
	if err != nil {
		return sqliteFloor{}, err
	}
	db.SetMaxOpenConns(1)
	for _, table := range floorTablesSQLite {
		if _, err := db.ExecContext(ctx, table); err != nil {
			_ = db.Close()
			return sqliteFloor{}, err
		}
	}
	return sqliteFloor{floorDB{db}}, nil
}

func (f sqliteFloor) tx(ctx context.Context, do func(*sql.Tx) error) error {
	tx, err := f.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if err := do(tx); err != nil {
		return err
	}
	return tx.Commit()
}

// sqliteFloorNow is the time as a literal, because there is no server clock.
func sqliteFloorNow() string { return strconv.FormatInt(time.Now().UnixMicro(), 10) }

func (f sqliteFloor) enqueueMany(ctx context.Context, n int) error {
	for from := 0; from < n; from += perTransaction {
		k := min(perTransaction, n-from)
		err := f.tx(ctx, func(tx *sql.Tx) error {
			now := sqliteFloorNow()
			insert, args := floorJobs(from, k, now)
			res, err := tx.ExecContext(ctx, insert, args...)
			if err != nil {
				return err
			}
			last, err := res.LastInsertId()
			if err != nil {
				return err
			}
			_, err = tx.ExecContext(ctx, floorLog(inARow(last-int64(k-1), k), floorAdded, now))
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (f sqliteFloor) drain(ctx context.Context, _ int) error {
	for {
		ids, token, err := f.claim(ctx)
		if err != nil || len(ids) == 0 {
			return err
		}
		if err := f.finish(ctx, ids, token); err != nil {
			return err
		}
	}
}

// claim leases and starts jobs. It starts at the head of the index each time: in SQLite, removed entries don't slow it down.
func (f sqliteFloor) claim(ctx context.Context) (ids []int64, token int64, err error) {
	token = rand.Int64()
	err = f.tx(ctx, func(tx *sql.Tx) error {
		now := sqliteFloorNow()
		ids, err = f.start(ctx, tx, now, token)
		if err != nil || len(ids) == 0 {
			return err
		}
		_, err = tx.ExecContext(ctx, floorLog(ids, floorStarted, now))
		return err
	})
	return ids, token, err
}

func (f sqliteFloor) start(ctx context.Context, tx *sql.Tx, now string, token int64) (ids []int64, err error) {
	rows, err := tx.QueryContext(ctx, fmt.Sprintf("UPDATE floor_jobs SET state = %d, attempt = attempt + 1, token = %d, lease_until = %s + 60000000"+
		" WHERE id IN (SELECT id FROM floor_jobs WHERE state = %d AND run_at <= %s ORDER BY priority, run_at, id LIMIT %d)"+
		" RETURNING id, kind, payload", floorRunning, token, now, floorReady, now, floorBatch))
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var id int64
		var kind, payload string
		if err := rows.Scan(&id, &kind, &payload); err != nil {
			return nil, err
		}
		ids = append(ids, id)
	}
	return ids, rows.Err()
}

func (f sqliteFloor) finish(ctx context.Context, ids []int64, token int64) error {
	return f.tx(ctx, func(tx *sql.Tx) error {
		now := sqliteFloorNow()
		_, err := tx.ExecContext(ctx, fmt.Sprintf("UPDATE floor_jobs SET state = %d, token = NULL, lease_until = NULL, finished_at = %s%s AND token = %d",
			floorDone, now, floorIDs(ids), token))
		if err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, floorLog(ids, floorFinished, now))
		return err
	})
}
