package proof

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/hipq/hipq/internal/dbtest"
)

// sqlWorkers are the Python and PHP workers of examples/sql, which use only the stored procedures, beside hipq work.
type sqlWorkers struct {
	*round
	// commands start them: an interpreter with its script.
	commands [][]string
	env      []string
	mu       sync.Mutex
	ticks    []*tick
}

func (r *round) sqlWorkers() *sqlWorkers {
	s := &sqlWorkers{round: r}
	if r.driver == "sqlite" {
		return s
	}
	for _, language := range [][2]string{{"python", "worker.py"}, {"php", "worker.php"}} {
		s.commands = append(s.commands, []string{dbtest.Client(r.t, language[0]), filepath.Join("testdata", "sql", language[1])})
	}
	c := dbtest.Must(mysql.ParseDSN(r.source))(r.t)
	host, port, err := net.SplitHostPort(c.Addr)
	dbtest.OK(r.t, err)
	// HIPQ_CONFIG marks the process as one of this round.
	s.env = append(os.Environ(), "HIPQ_CONFIG="+r.config,
		"DB_HOST="+host, "DB_PORT="+port, "DB_USER="+c.User, "DB_PASSWORD="+c.Passwd, "DB_NAME="+c.DBName)
	return s
}

// keep starts one worker after the other in each language until ctx ends, and then waits for them.
func (s *sqlWorkers) keep(ctx context.Context) {
	served := queues[1:]
	if s.settings.rate == 0 && s.settings.shards == 1 && s.settings.groups == nil { // otherwise the queue is for hipq work
		served = queues
	}
	examples := dbtest.Must(filepath.Abs("../../examples/sql"))(s.t)
	var crew sync.WaitGroup
	for i, command := range s.commands {
		rng := s.random(uint64(20 + i))
		crew.Go(func() {
			for ctx.Err() == nil {
				cmd := exec.Command(command[0], command[1], examples, s.ledger, served[rng.IntN(len(served))],
					fmt.Sprint(lockFor.Seconds()), fmt.Sprint(2+rng.IntN(2*runFor)))
				cmd.Env = s.env
				t := s.hire(cmd)
				s.mu.Lock()
				s.ticks = append(s.ticks, t)
				s.mu.Unlock()
				<-t.ended
			}
		})
	}
	crew.Wait()
}

// bites waits until workers in each language have done some jobs, and one has settled a job when another ran it already. All
// other checks show that this changed nothing.
func (s *sqlWorkers) bites() {
	const share = 5
	for limit := time.Now().Add(time.Minute); len(s.commands) > 0; time.Sleep(200 * time.Millisecond) {
		done, late := s.done()
		enough := late > 0 && len(done) == len(s.commands)
		for _, n := range done {
			enough = enough && n >= share
		}
		if enough {
			s.t.Logf("workers in SQL did %v jobs, and %d came late", done, late)
			return
		}
		if time.Now().After(limit) {
			s.violates("workers in SQL did only %v jobs, and %d came late: the round has lost its bite", done, late)
			return
		}
	}
}

// done counts the jobs done by each program, and how often one that has ended came late.
func (s *sqlWorkers) done() (done map[string]int, late int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	program := map[int]string{}
	for _, t := range s.ticks {
		program[t.cmd.Process.Pid] = filepath.Base(t.cmd.Path)
		select {
		case <-t.ended:
			late += strings.Count(t.said.String(), "late for ")
		default:
		}
	}
	done = map[string]int{}
	notes, err := readNotes(s.ledger)
	dbtest.Ensure(s.t, err == nil, "%v", err)
	for _, n := range notes {
		if name, is := program[n.pid]; is && n.event == "done" {
			done[name]++
		}
	}
	return done, late
}
