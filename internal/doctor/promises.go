package doctor

import (
	"context"
	"runtime"
	"strings"
)

// The promises are those of the README. Each check says whether one holds on this engine and with these settings.

func promiseNoJobLost(_ context.Context, p *patient) Finding {
	durable := p.known["durability"]
	switch {
	case durable.Result == Wrong:
		return found(Wrong, "does not hold: "+durable.Found).but("see durability")
	case durable.Result == Unknown:
		return found(Unknown, "nobody knows: see durability")
	case p.isSQLite():
		return found(OK, "holds, also if hipq or this host crashes; not if its disk is lost")
	case p.isGalera():
		return found(OK, "holds, also if hipq, a node or its host crashes, and on the other nodes")
	}
	return found(OK, "holds, also if hipq, the server or its host crashes; a failover to a replica that lags behind loses what it had not got yet")
}

func promiseOneWorker(_ context.Context, p *patient) Finding {
	switch {
	case p.known["isolation"].Result == Wrong:
		return found(Wrong, "does not hold: "+p.known["isolation"].Found).but("see isolation")
	case p.isSQLite():
		return found(OK, "holds, for all workers of this host: a file is for one host")
	case p.known["node_clocks"].Result == Wrong || p.known["nodes"].Result == Wrong:
		return found(Wrong, "does not hold: see nodes and node_clocks").but("see nodes and node_clocks")
	}
	return found(OK, "holds, on all hosts")
}

func promiseLimits(_ context.Context, p *patient) Finding {
	var lets []string
	for _, q := range p.Config.Queues {
		if (q.ThrottleLimit > 0 || q.ThrottleGroups != nil) && !q.RefuseWeightless {
			lets = append(lets, q.Name)
		}
	}
	if len(lets) > 0 {
		return found(OK, "holds over all workers; jobs of weight 0 pass by the throttle limits of "+strings.Join(lets, ", ")+" (allow_weightless)")
	}
	return found(OK, "holds over all workers")
}

func promiseOrder(_ context.Context, p *patient) Finding {
	if p.isGalera() {
		return found(OK, "holds; among jobs alike in priority and time, for those of one node: ids of several nodes say nothing of when they came")
	}
	return found(OK, "holds")
}

func promiseClock(_ context.Context, p *patient) Finding {
	clocks := p.known["node_clocks"]
	switch {
	case clocks.Result == Wrong || clocks.Result == Warning:
		return found(clocks.Result, "holds for each node by its own clock, and the nodes' differ").but("see node_clocks")
	case p.isGalera():
		return found(OK, "holds for each node by its own clock: keep the nodes' clocks together by NTP")
	}
	return found(OK, "holds: this host's clock decides nothing")
}

func promiseNoStrays(_ context.Context, _ *patient) Finding {
	if runtime.GOOS == "linux" {
		return found(OK, "holds: what a handler has started ends with its worker")
	}
	return found(OK, "holds for a handler's process group; what has left that can be found on Linux only")
}
