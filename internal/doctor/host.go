package doctor

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/hipq/hipq/internal/files"
	"github.com/hipq/hipq/internal/scheduler"
	"github.com/hipq/hipq/monitor"
)

// lookAtConfig reports the config's warnings: mostly, who else can read a password.
func lookAtConfig(_ context.Context, p *patient) Finding {
	f := found(OK, p.Config.File)
	if info, err := os.Stat(p.Config.File); err == nil {
		f.Found = info.Mode().String() + " " + f.Found
	}
	for _, w := range p.Config.Warnings { // what is wrong, a colon, and the remedy
		what, remedy := w, ""
		if cut := strings.LastIndex(w, ": "); cut >= 0 {
			what, remedy = w[:cut], w[cut+2:]
		}
		f.add(Wrong, what, remedy)
	}
	return f
}

// lookAtHandlers reports handlers whose programs can't run here, so their job types are left out, or are another user's.
func lookAtHandlers(_ context.Context, p *patient) Finding {
	wrong, foreign := p.Handlers()
	switch said := strings.Join(append(wrong, foreign...), "; "); {
	case len(wrong) > 0:
		return found(Wrong, said).but("fix it, and run hipq config check; or run hipq doctor as the user of the crontab")
	case len(foreign) > 0:
		return found(Warning, said).but("fix it, or set allow_foreign_handlers")
	}
	return found(OK, "all can run here")
}

const noFile = "mount its disk, or correct database.path; if there never was a database, run hipq init"

// lookAtFile checks whether others could have written SQLite's files, and compares their permissions with database.mode.
func lookAtFile(_ context.Context, p *patient) Finding {
	path := p.Config.Database.Path
	info, err := os.Stat(path)
	if err != nil {
		return found(Wrong, err.Error()).but(noFile)
	}
	err = cmp.Or(p.Config.Database.Check(), files.Writable(path), files.Writable(filepath.Dir(path)))
	if err != nil {
		what, remedy, _ := strings.Cut(err.Error(), "; ")
		return found(Wrong, what).but(remedy)
	}
	for _, name := range []string{path, path + "-wal", path + "-shm"} {
		beside, err := os.Stat(name)
		if err != nil {
			continue // the last two exist while the first is in use
		}
		if more := beside.Mode().Perm() &^ p.Config.Database.Mode; more&0o077 != 0 {
			return found(Wrong, fmt.Sprintf("%s %s: more users may read or write the jobs than database.mode allows (%04o)", beside.Mode(), name, p.Config.Database.Mode)).
				but(fmt.Sprintf("chmod %04o %s", p.Config.Database.Mode, name))
		}
	}
	return found(OK, info.Mode().String()+" "+path)
}

func lookAtDisk(_ context.Context, p *patient) Finding {
	v, err := monitor.DiskOf(filepath.Dir(p.Config.Database.Path))
	if err != nil {
		return found(Unknown, err.Error())
	}
	what := v.String()
	switch {
	case v.Shared:
		return found(Wrong, what+", which is a network file system: SQLite needs a local one").
			but("move database.path to a local disk, or use MariaDB or MySQL")
	case v.Full():
		return found(Wrong, what).but("free disk space outside the database, then hipq purge --older-than 3d")
	case v.Memory:
		return found(Warning, what+", which is memory: all jobs are gone when this host restarts").but("move database.path to a disk")
	case v.Scarce():
		return found(Warning, what).but("make room, or hipq purge --older-than 3d")
	}
	return found(OK, what)
}

func lookAtSchedules(ctx context.Context, p *patient) Finding {
	if len(p.Config.Schedules) == 0 {
		return found(OK, "the config has none")
	}
	rows, err := scheduler.New(p.db, p.Config.Schedules).Own(ctx)
	if err != nil {
		return trouble(err)
	}
	var late, inTurn []string
	paused := 0
	for _, r := range rows {
		if r.Paused {
			paused++
		}
		if by := r.Overdue(); by > scheduler.OverdueFor {
			late = append(late, fmt.Sprintf("%s for %s", r.Name, by.Round(time.Second)))
		}
		if r.InTurn() {
			inTurn = append(inTurn, fmt.Sprintf("%s as %s and as %s", r.Name, r.FormerSpec, r.Spec))
		}
	}
	if len(late) > 0 {
		return found(Wrong, "no worker enqueues slots that are due: "+strings.Join(late, ", ")).
			but("make sure that hipq work runs with this config, for the queues of these schedules")
	}
	if len(inTurn) > 0 {
		return found(Wrong, "two configs have schedules with different slots, which keep starting over and may lose slots: "+strings.Join(inTurn, ", ")).
			but("give all hosts the same when and zone, or each schedule its own name")
	}
	return found(OK, fmt.Sprintf("%d, %d of them paused; none is overdue", len(p.Config.Schedules), paused))
}
