// Command idle is the floor of an idle tick: a static binary that connects, selects and ends.
package main

import (
	"database/sql"
	"os"

	_ "github.com/go-sql-driver/mysql"
	_ "modernc.org/sqlite"
)

func main() {
	if err := run(os.Args[1], os.Args[2]); err != nil {
		panic(err)
	}
}

func run(driver, source string) error {
	db, err := sql.Open(driver, source)
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }()
	var one int
	return db.QueryRow("SELECT 1").Scan(&one)
}
