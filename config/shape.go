package config

// shape is hipq.yaml as written: each value is its text; empty means that the key is absent. It defines the known keys.
type shape struct {
	Name     string          `mapstructure:"name" required:"yes"`
	Tables   string          `mapstructure:"tables"`
	Database databaseSection `mapstructure:"database"`
	Timezone string          `mapstructure:"timezone"`
	Worker   workerSection   `mapstructure:"worker"`
	Activity activitySection `mapstructure:"activity"`
	Metrics  metricsSection  `mapstructure:"metrics"`
	Monitor  monitorSection  `mapstructure:"monitor"`
	Purge    purgeSection    `mapstructure:"purge"`
	Timeout  string          `mapstructure:"timeout"`
	Retry    retrySection    `mapstructure:"retry"`
	// RetryHandler is nil if absent, which differs from an empty section.
	RetryHandler    *retryHandlerSection `mapstructure:"retry_handler"`
	DefaultPriority string               `mapstructure:"default_priority"`
	StrictTypes     string               `mapstructure:"strict_types"`
	// AllowForeign is for the programs of all handlers.
	AllowForeign string            `mapstructure:"allow_foreign_handlers"`
	Alert        alertSection      `mapstructure:"alert"`
	Mail         string            `mapstructure:"mail"`
	Queues       []queueSection    `mapstructure:"queues"`
	Schedules    []scheduleSection `mapstructure:"schedules"`
}

type databaseSection struct {
	Driver  string   `mapstructure:"driver"`
	Path    string   `mapstructure:"path"`
	DSN     string   `mapstructure:"dsn"`
	DSNFile string   `mapstructure:"dsn_file"`
	Nodes   []string `mapstructure:"nodes"`
	Mode    string   `mapstructure:"mode"`
	// TLS is nil if absent.
	TLS *tlsSection `mapstructure:"tls"`
}

type tlsSection struct {
	CA         string `mapstructure:"ca"`
	Cert       string `mapstructure:"cert"`
	Key        string `mapstructure:"key"`
	ServerName string `mapstructure:"server_name"`
}

type workerSection struct {
	Concurrency string `mapstructure:"concurrency"`
	Batch       string `mapstructure:"batch"`
	RunFor      string `mapstructure:"run_for"`
	Linger      string `mapstructure:"linger"`
	Poll        string `mapstructure:"poll"`
	LockFor     string `mapstructure:"lock_for"`
	Grace       string `mapstructure:"grace"`
}

type activitySection struct {
	Keep string `mapstructure:"keep"`
}

type metricsSection activitySection

type monitorSection struct {
	PingURL string `mapstructure:"ping_url"`
}

type purgeSection monitorSection

type alertSection struct {
	Over            string `mapstructure:"over"`
	jobAlertSection `mapstructure:",squash"`
	DeadWorkers     countLimitsSection `mapstructure:"dead_workers"`
	NoTickFor       timeLimitsSection  `mapstructure:"no_tick_for"`
	MissedHours     countLimitsSection `mapstructure:"missed_hours"`
}

type jobAlertSection struct {
	ErrorRate partLimitsSection  `mapstructure:"error_rate"`
	Failed    countLimitsSection `mapstructure:"failed"`
	OldestDue timeLimitsSection  `mapstructure:"oldest_due"`
	WaitP95   timeLimitsSection  `mapstructure:"wait_p95"`
	RunP95    timeLimitsSection  `mapstructure:"run_p95"`
	Backlog   countLimitsSection `mapstructure:"backlog"`
}

// The three differ in their kinds of values.
type (
	partLimitsSection  limitsSection
	countLimitsSection limitsSection
	timeLimitsSection  limitsSection
)

type limitsSection struct {
	Warning  string `mapstructure:"warning"`
	Critical string `mapstructure:"critical"`
}

type retrySection struct {
	Attempts string `mapstructure:"attempts"`
	Delay    string `mapstructure:"delay"`
	Backoff  string `mapstructure:"backoff"`
	MaxDelay string `mapstructure:"max_delay"`
	Jitter   string `mapstructure:"jitter"`
}

type queueSection struct {
	Name            string               `mapstructure:"name" required:"yes"`
	ThrottleLimit   string               `mapstructure:"throttle_limit"`
	ThrottleGroups  *groupsSection       `mapstructure:"throttle_groups"`
	AllowWeightless string               `mapstructure:"allow_weightless"`
	Rate            string               `mapstructure:"rate"`
	Shards          string               `mapstructure:"shards"`
	Concurrency     string               `mapstructure:"concurrency"`
	Order           string               `mapstructure:"order"`
	PriorityOrder   string               `mapstructure:"priority_order"`
	DefaultPriority string               `mapstructure:"default_priority"`
	StrictTypes     string               `mapstructure:"strict_types"`
	KeepFinished    string               `mapstructure:"keep_finished"`
	KeepFailed      string               `mapstructure:"keep_failed"`
	Timeout         string               `mapstructure:"timeout"`
	Retry           retrySection         `mapstructure:"retry"`
	RetryHandler    *retryHandlerSection `mapstructure:"retry_handler"`
	Alert           jobAlertSection      `mapstructure:"alert"`
	JobTypes        []jobTypeSection     `mapstructure:"job_types"`
}

// groupsSection has limits by values of jobs, so their keys are not checked.
type groupsSection struct {
	By     string            `mapstructure:"by"`
	Limits map[string]string `mapstructure:"limits"`
}

type jobTypeSection struct {
	Name           string               `mapstructure:"name" required:"yes"`
	Timeout        string               `mapstructure:"timeout"`
	Retry          retrySection         `mapstructure:"retry"`
	RetryHandler   *retryHandlerSection `mapstructure:"retry_handler"`
	Alert          jobAlertSection      `mapstructure:"alert"`
	Priority       string               `mapstructure:"priority"`
	ThrottleFactor string               `mapstructure:"throttle_factor"`
	TimeWindows    []string             `mapstructure:"time_windows"`
	Async          string               `mapstructure:"async"`
	Concurrency    string               `mapstructure:"concurrency"`
	Handler        *handlerSection      `mapstructure:"handler"`
}

type scheduleSection struct {
	Name           string `mapstructure:"name" required:"yes"`
	When           string `mapstructure:"when" required:"yes"`
	Zone           string `mapstructure:"zone"`
	Queue          string `mapstructure:"queue" required:"yes"`
	Type           string `mapstructure:"type" required:"yes"`
	Data           string `mapstructure:"data"`
	Key            string `mapstructure:"key"`
	Jitter         string `mapstructure:"jitter"`
	Missed         string `mapstructure:"missed"`
	Priority       string `mapstructure:"priority"`
	Timeout        string `mapstructure:"timeout"`
	ThrottleFactor string `mapstructure:"throttle_factor"`
}

// handlerSection lists in "of" the kinds of handler that a key is for; without it, the key is for all.
type handlerSection struct {
	Exec         []string `mapstructure:"exec"`
	Stream       []string `mapstructure:"stream"`
	Processes    string   `mapstructure:"processes" of:"stream"`
	InFlight     string   `mapstructure:"in_flight" of:"stream"`
	Ahead        string   `mapstructure:"ahead" of:"stream"`
	StartTimeout string   `mapstructure:"start_timeout" of:"stream"`
	MaxJobs      string   `mapstructure:"max_jobs" of:"stream"`
	MaxMemory    string   `mapstructure:"max_memory" of:"stream"`
	RestartOn    []string `mapstructure:"restart_on" of:"stream"`
	// HTTP is nil if absent.
	HTTP           *httpSection `mapstructure:"http"`
	DashArguments  string       `mapstructure:"dash_arguments" of:"exec"`
	Unsafe         string       `mapstructure:"unsafe_arguments" of:"exec"`
	programSection `mapstructure:",squash"`
}

type retryHandlerSection struct {
	Exec           []string `mapstructure:"exec"`
	programSection `mapstructure:",squash"`
}

// programSection is how a program runs: as which user, where, and with which limits.
type programSection struct {
	Dir        string               `mapstructure:"dir" of:"exec stream"`
	Env        []string             `mapstructure:"env" of:"exec stream" word:"all"`
	User       string               `mapstructure:"user" of:"exec stream"`
	NoNewPrivs string               `mapstructure:"no_new_privs" of:"exec stream"`
	Limits     programLimitsSection `mapstructure:"limits" of:"exec stream"`
	Nice       string               `mapstructure:"nice" of:"exec stream"`
	Umask      string               `mapstructure:"umask" of:"exec stream"`
}

type programLimitsSection struct {
	Memory    string `mapstructure:"memory"`
	OpenFiles string `mapstructure:"open_files"`
	CPU       string `mapstructure:"cpu"`
	FileSize  string `mapstructure:"file_size"`
}

// httpSection has headers of any name, so their keys are not checked.
type httpSection struct {
	URL         string            `mapstructure:"url"`
	Method      string            `mapstructure:"method"`
	Headers     map[string]string `mapstructure:"headers"`
	HeaderFiles map[string]string `mapstructure:"header_files"`
	SecretFile  string            `mapstructure:"secret_file"`
	Networks    []string          `mapstructure:"networks"`
	CA          string            `mapstructure:"ca"`
	Proxy       string            `mapstructure:"proxy"`
}
