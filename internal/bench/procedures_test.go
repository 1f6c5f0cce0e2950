package bench

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"testing"

	"github.com/go-sql-driver/mysql"

	"github.com/hipq/hipq/internal/dbtest"
	"github.com/hipq/hipq/queue"
	"github.com/hipq/hipq/schema"
)

// BenchmarkProcedures drains a queue with one Python client: by the stored procedures, with one and ten jobs per grab,
// and by hand-written SQL on the same table: in three transactions per job, and in four statements. It is skipped
// without Python and PyMySQL.
func BenchmarkProcedures(b *testing.B) {
	const ways, roundsEach, chunk = 5, 60, 10
	python, source := dbtest.Client(b, "python"), dbtest.MySQL(b)
	db := dbtest.Open(b, "mysql", source)
	q := open(b, db, Plain("bench"))
	dbtest.Must(db.MakeProcedures(b.Context(), []schema.Queue{queue.Options(q.Options).Table()}))(b)
	c, err := mysql.ParseDSN(source)
	dbtest.OK(b, err)
	host, port, err := net.SplitHostPort(c.Addr)
	dbtest.OK(b, err)
	for b.Loop() {
		dbtest.OK(b, q.Fill(b.Context(), ways*roundsEach*chunk))
		cmd := exec.CommandContext(b.Context(), python, "testdata/procedures.py", strconv.Itoa(roundsEach), strconv.Itoa(chunk))
		cmd.Env = append(os.Environ(), "DB_HOST="+host, "DB_PORT="+port, "DB_USER="+c.User, "DB_PASSWORD="+c.Passwd, "DB_NAME="+c.DBName)
		cmd.Stderr = os.Stderr
		out := dbtest.Must(cmd.Output())(b)
		r := map[string]float64{}
		for line := range bytes.Lines(out) {
			var name string
			var rate float64
			dbtest.Must(fmt.Sscan(string(line), &name, &rate))(b)
			r[name] = rate
			b.ReportMetric(rate, name+"/s")
		}
		b.ReportMetric(0, "ns/op")
		b.ReportMetric(r["calls-n1"]/r["four"], "n1/four")
		b.ReportMetric(r["calls-n10"]/r["four"], "n10/four")
		b.ReportMetric(r["calls-n1"]/r["steps-n1"], "n1/steps")
		b.ReportMetric(r["calls-n10"]/r["steps-n10"], "n10/steps")
	}
}
