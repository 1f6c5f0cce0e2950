package config

import (
	"time"

	"github.com/hipq/hipq/monitor"
	"github.com/hipq/hipq/queue"
	"github.com/hipq/hipq/queue/handler"
	"github.com/hipq/hipq/queue/job"
	"github.com/hipq/hipq/queue/schedule"
	"github.com/hipq/hipq/queue/worker"
	"github.com/hipq/hipq/schema"
)

// shape is hipq.yaml. Each field is a key, whose kind of value is the field's type: an int64 is a size. The tags are:
//
//	key        its name
//	default    its value if the key is absent. Otherwise it inherits its value, or has that of defaultShape.
//	from, to   the bounds of a number, a duration or a size. A default below from means none.
//	whole      the unit in which a duration must be whole
//	words      the only words allowed, the first of which is the default
//	limit      the kind of its two limits, a key of limitKinds
//	file       it is a path, relative to the config's folder
//	inherits   the key of the section outside whose value it has by default
//	of         the kinds of handler that it is for; without it, all
//	word       a word that may stand in place of the list
//	hide       how to show the value without a secret: a key of hiding
//	required   it may not be empty
//
// A section that another package has says its keys there.
type shape struct {
	Name         string               `key:"name" required:"yes"`
	Tables       string               `key:"tables"`
	Database     databaseSection      `key:"database"`
	Timezone     string               `key:"timezone" default:"UTC"`
	Worker       worker.Options       `key:"worker"`
	Activity     activitySection      `key:"activity"`
	Metrics      metricsSection       `key:"metrics"`
	Monitor      monitorSection       `key:"monitor"`
	Purge        purgeSection         `key:"purge"`
	Timeout      time.Duration        `key:"timeout" from:"1s" whole:"1s"`
	Retry        job.RetryPolicy      `key:"retry"`
	RetryHandler *retryHandlerSection `key:"retry_handler"`
	Priority     int                  `key:"default_priority" from:"-2147483647"`
	StrictTypes  bool                 `key:"strict_types"`
	AllowForeign bool                 `key:"allow_foreign_handlers"`
	Alert        monitor.Alert        `key:"alert"`
	Mail         bool                 `key:"mail" default:"true"`
	Queues       []queueSection       `key:"queues"`
	Schedules    []scheduleSection    `key:"schedules"`
}

// defaultShape has the defaults that other packages define.
func defaultShape() *shape {
	t := job.DefaultType("")
	return &shape{
		Tables: schema.DefaultTemplate, Worker: worker.DefaultOptions, Alert: monitor.DefaultAlert(),
		Timeout: t.Timeout, Retry: t.Retry, Priority: t.Priority,
	}
}

type databaseSection struct {
	schema.Options
	Mode string `key:"mode" default:"0600"`
}

type activitySection struct {
	Keep time.Duration `key:"keep" whole:"1s" default:"14d"`
}

type metricsSection struct {
	Keep time.Duration `key:"keep" from:"2w" whole:"1s" default:"730d"`
}

type monitorSection struct {
	PingURL string `key:"ping_url" hide:"url"`
}

type purgeSection monitorSection

type queueSection struct {
	queue.Options
	AllowWeightless bool                 `key:"allow_weightless" default:"true"`
	Rate            string               `key:"rate"`
	Priority        int                  `key:"default_priority" from:"-2147483647" inherits:"default_priority"`
	Timeout         time.Duration        `key:"timeout" from:"1s" whole:"1s" inherits:"timeout"`
	Retry           job.RetryPolicy      `key:"retry" inherits:"retry"`
	RetryHandler    *retryHandlerSection `key:"retry_handler" inherits:"retry_handler"`
	Alert           monitor.JobAlert     `key:"alert" inherits:"alert"`
	JobTypes        []jobTypeSection     `key:"job_types"`
}

type jobTypeSection struct {
	Name           string               `key:"name" required:"yes"`
	Timeout        time.Duration        `key:"timeout" from:"1s" whole:"1s" inherits:"timeout"`
	Retry          job.RetryPolicy      `key:"retry" inherits:"retry"`
	RetryHandler   *retryHandlerSection `key:"retry_handler" inherits:"retry_handler"`
	Alert          monitor.JobAlert     `key:"alert" inherits:"alert"`
	Priority       int                  `key:"priority" from:"-2147483647" inherits:"default_priority"`
	ThrottleFactor int                  `key:"throttle_factor" default:"1"`
	TimeWindows    []string             `key:"time_windows"`
	Async          bool                 `key:"async"`
	Concurrency    int                  `key:"concurrency" from:"1" to:"10000"`
	Handler        *handlerSection      `key:"handler"`
}

type scheduleSection struct {
	Name           string          `key:"name" required:"yes"`
	When           string          `key:"when" required:"yes"`
	Zone           string          `key:"zone" inherits:"timezone"`
	Queue          string          `key:"queue" required:"yes"`
	Type           string          `key:"type" required:"yes"`
	Data           string          `key:"data"`
	Key            string          `key:"key"`
	Jitter         time.Duration   `key:"jitter" whole:"1s"`
	Missed         schedule.Missed `key:"missed" words:"latest skip all"`
	Priority       int             `key:"priority" from:"-2147483647" default:"-2147483648"`
	Timeout        time.Duration   `key:"timeout" from:"1s" whole:"1s"`
	ThrottleFactor int             `key:"throttle_factor" default:"-1"`
}

type handlerSection struct {
	Exec          []string      `key:"exec" of:"exec"`
	Stream        []string      `key:"stream" of:"stream"`
	Processes     int           `key:"processes" of:"stream" from:"1" to:"10000"`
	InFlight      int           `key:"in_flight" of:"stream" from:"1" to:"10000" default:"1"`
	Ahead         int           `key:"ahead" of:"stream" to:"10000"`
	StartTimeout  time.Duration `key:"start_timeout" of:"stream" from:"1s" whole:"1s"`
	MaxJobs       int           `key:"max_jobs" of:"stream" from:"1"`
	MaxMemory     int64         `key:"max_memory" of:"stream" from:"1MiB"`
	RestartOn     []string      `key:"restart_on" of:"stream" file:"yes"`
	HTTP          *HTTP         `key:"http" of:"http"`
	DashArguments bool          `key:"dash_arguments" of:"exec"`
	Unsafe        bool          `key:"unsafe_arguments" of:"exec"`
	programSection
}

type retryHandlerSection struct {
	Exec []string `key:"exec"`
	programSection
}

// programSection is how a program runs: as which user, where, and with which limits.
type programSection struct {
	Dir        string         `key:"dir" of:"exec stream" file:"yes" default:"."`
	Env        []string       `key:"env" of:"exec stream" word:"all" hide:"env"`
	User       string         `key:"user" of:"exec stream"`
	NoNewPrivs bool           `key:"no_new_privs" of:"exec stream" default:"true"`
	Limits     handler.Limits `key:"limits" of:"exec stream"`
	Nice       int            `key:"nice" of:"exec stream" from:"-20" to:"19"`
	Umask      string         `key:"umask" of:"exec stream"`
}
