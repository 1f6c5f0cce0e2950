<?php
// A worker in PHP that uses only hipq's stored procedures. Copy it, and insert your handlers and your database.
//
//     DB_HOST=127.0.0.1 DB_USER=shop DB_PASSWORD=secret DB_NAME=shop php -d mysqlnd.net_read_timeout=15 worker.php emails
//
// It works until SIGTERM or SIGINT: then it finishes the current job, gives back what it has grabbed, and exits with 0. If it
// loses its lock, its jobs belong to others, and it exits with 75: have a supervisor restart it. It needs pdo_mysql and pcntl.
declare(strict_types=1);

/** hipq refuses, with its own error code: for example, the job belongs to another worker. */
final class Refused extends RuntimeException
{
    public const LOCK_LOST = 31006;
    public const STARTED = 31009;
    public const TAKEN = 31014;
}

/** For handlers: don't retry this job. */
final class Last extends RuntimeException {}

/** For handlers: new Later('over quota', '5m') retries after that time. */
final class Later extends RuntimeException
{
    public function __construct(string $why, public readonly string $after) { parent::__construct($why); }
}

final class Timeout extends RuntimeException {}

/** Calls the procedures of an instance, on its own connection. */
class Hipq
{
    // deadlocks and the like: the call is undone, and may be repeated
    private const IN_THE_WAY = [1020, 1047, 1180, 1205, 1213];
    private const LOST = [2002, 2006, 2013, 1053, 1317, 1927, 1969]; // or the call was interrupted
    private ?PDO $db = null;
    public bool $doubt = false;
    public float $sent = 0; // when the last call, or its repetition, was sent

    public function __construct(private Closure $connect, private string $instance, private int $patience) {}

    public function call(string $procedure, mixed ...$args): array
    {
        $until = hrtime(true) + $this->patience * 1e9;
        while (true) {
            try {
                $this->db ??= ($this->connect)($this->patience);
                $this->sent = hrtime(true) / 1e9;
                $marks = implode(', ', array_fill(0, count($args), '?'));
                $answer = $this->db->prepare("CALL {$this->instance}_$procedure($marks)");
                $answer->execute($args);
                $rows = $answer->columnCount() > 0 ? $answer->fetchAll(PDO::FETCH_ASSOC) : [];
                $answer->closeCursor(); // after the rows comes the end of the call
                return $rows;
            } catch (PDOException $e) {
                [$state, $code] = ($e->errorInfo ?? []) + ['HY000', 0];
                if ($state === '45000') {
                    throw new Refused($e->errorInfo[2], $code);
                }
                if (in_array($code, self::LOST, true)) {
                    // The call may have been done. Starting or settling a job again is harmless: its token allows that only
                    // once. Deregistering this worker cleans up all else: see Worker::work.
                    $this->db = null;
                    $this->doubt = true;
                } elseif (!in_array($code, self::IN_THE_WAY, true)) {
                    throw $e;
                }
                if (hrtime(true) > $until) {
                    throw $e;
                }
                usleep(random_int(50_000, 500_000));
            }
        }
    }
}

/** Runs the jobs of one queue in turn. $handlers: a function per job type, which returns the result. */
class Worker
{
    protected Hipq $hipq;
    protected Hipq $pulse;
    protected string $secret = '';
    protected bool $ending = false;
    private float $alive = 0; // when the lock was renewed
    private float $alarm = 0; // when the alarm comes
    private float $overdue = INF; // when the current job times out

    public function __construct(Closure $connect, protected string $queue, private array $handlers,
        string $instance = 'shop', private int $lockSeconds = 60, private int $grab = 1)
    {
        $this->hipq = new Hipq($connect, $instance, 60);
        $this->pulse = new Hipq($connect, $instance, max(1, intdiv($lockSeconds, 4)));
    }

    public function work(): void
    {
        pcntl_async_signals(true);
        foreach ([SIGTERM, SIGINT] as $signal) {
            pcntl_signal($signal, function () { $this->ending = true; });
        }
        pcntl_signal(SIGALRM, fn () => $this->keepAlive());
        $this->register();
        $this->setAlarm();
        while (!$this->ending) {
            if ($this->hipq->doubt) {
                $this->deregister();
                $this->register();
            }
            $types = json_encode(array_keys($this->handlers), JSON_THROW_ON_ERROR);
            try {
                $jobs = $this->job('grab', $types, $this->grab);
            } catch (Refused $e) {
                if ($e->getCode() === Refused::LOCK_LOST) {
                    self::giveUp($e->getMessage());
                }
                throw $e;
            }
            foreach ($jobs as $job) {
                if ($this->ending) {
                    break;
                }
                $this->run($job);
            }
            if (!$jobs) {
                usleep(random_int(500_000, 1_500_000)); // a signal ends it
            }
        }
        $this->deregister();
        pcntl_alarm(0); // it would end the program by its default action
    }

    private function register(): void
    {
        $new = bin2hex(random_bytes(16));
        try {
            $this->hipq->call('worker_register', $new, gethostname(), getmypid(), $this->lockSeconds);
        } catch (Refused $e) {
            if ($e->getCode() !== Refused::TAKEN) { // by this worker: the secret is random, and the answer to the first call was lost
                throw $e;
            }
        }
        $this->hipq->call('worker_heartbeat', $new); // the lock may date from the first of several calls
        [$this->alive, $this->secret] = [$this->hipq->sent, $new];
        $this->hipq->doubt = false;
    }

    private function deregister(): void
    {
        [$worker, $this->secret] = [$this->secret, ''];
        try {
            $this->hipq->call('worker_deregister', $worker); // jobs that were grabbed but not started go back at no cost
        } catch (Refused $e) {
            fwrite(STDERR, $e->getMessage()."\n"); // it counts as dead already, so others have its jobs
        }
    }

    /**
     * Renews the lock four times in its life, on its own connection. PHP calls this between any two steps of a handler,
     * but not while a built-in function waits: so give curl and the like a timeout well below the lock's.
     */
    private function keepAlive(): void
    {
        $now = self::now();
        if ($this->secret !== '' && $now > $this->alive + $this->lockSeconds * 0.8) {
            self::giveUp('not renewed in time');
        }
        if ($this->secret !== '' && $now > $this->alive + $this->lockSeconds / 4 - 1) {
            try {
                $this->heartbeat();
                $this->alive = $now;
            } catch (Refused $e) {
                self::giveUp($e->getMessage());
            } catch (PDOException $e) {
                fwrite(STDERR, 'heartbeat: '.$e->getMessage()."\n");
            }
        }
        $this->setAlarm();
        if ($now >= $this->overdue) {
            $this->overdue = INF;
            throw new Timeout();
        }
    }

    protected function heartbeat(): void { $this->pulse->call('worker_heartbeat', $this->secret); }

    /** Sets the only alarm, for the next heartbeat or the job's timeout. A job never delays a set alarm. */
    private function setAlarm(): void
    {
        $now = self::now();
        $seconds = (int) max(1, min(floor($this->alive + $this->lockSeconds / 4 - $now), ceil($this->overdue - $now)));
        if ($this->alarm <= $now || $this->alarm > $now + $seconds) {
            pcntl_alarm($seconds);
            $this->alarm = $now + $seconds;
        }
    }

    /** Calls a procedure of this queue: the right to those suffices. */
    private function job(string $what, mixed ...$args): array
    {
        return $this->hipq->call("{$this->queue}\$job_$what", $this->secret, ...$args);
    }

    private function run(array $job): void
    {
        $mine = [$job['id'], $job['token']];
        try {
            $job['attempt'] = $this->job('start', ...$mine)[0]['attempt'];
        } catch (Refused $e) {
            if ($e->getCode() !== Refused::STARTED) {
                $this->say($job, $e);
                return;
            }
            $job['attempt']++; // by this worker: the answer to the first call was lost
        }
        $job['queue'] = $this->queue;
        try {
            $this->overdue = self::now() + $job['timeout'];
            $this->setAlarm();
            try {
                $result = $this->handlers[$job['job_type']]($job);
            } finally {
                $this->overdue = INF;
            }
            $settle = ['complete', ...$mine, $result === null ? null : json_encode($result, JSON_THROW_ON_ERROR)];
        } catch (Timeout) {
            $settle = ['fail', ...$mine, "timeout after {$job['timeout']}s", null];
        } catch (Last $e) {
            $settle = ['fail', ...$mine, $e->getMessage(), '{"final": true}'];
        } catch (Later $e) {
            $settle = ['fail', ...$mine, $e->getMessage(), json_encode(['retry_after' => $e->after], JSON_THROW_ON_ERROR)];
        } catch (Throwable $e) {
            $settle = ['fail', ...$mine, $e::class.': '.$e->getMessage(), null];
        }
        try {
            $this->job(...$settle);
        } catch (Refused $e) { // too late: it changes nothing
            $this->say($job, $e);
        }
    }

    private static function now(): float { return hrtime(true) / 1e9; }

    private function say(array $job, Throwable $what): void
    {
        fwrite(STDERR, "{$this->queue} {$job['id']}: {$what->getMessage()}\n");
    }

    /** Ends the process with the running handler, because another worker may run the job now. */
    private static function giveUp(string $why): never
    {
        fwrite(STDERR, "worker lost its lock: $why\n");
        pcntl_alarm(0); // as at the end of work
        exit(75);
    }
}

function connect(int $patience): PDO
{
    $of = fn (string $name, string $default) => getenv($name) === false ? $default : getenv($name);
    return new PDO(
        "mysql:host={$of('DB_HOST', '127.0.0.1')};port={$of('DB_PORT', '3306')};dbname={$of('DB_NAME', 'shop')};charset=utf8mb4",
        $of('DB_USER', 'shop'), $of('DB_PASSWORD', ''),
        [PDO::ATTR_ERRMODE => PDO::ERRMODE_EXCEPTION, PDO::ATTR_TIMEOUT => $patience],
    );
}

// Keep the code above as it is; your application follows.

function send(array $job): array
{
    $data = json_decode($job['job_data'] ?? '{}', true, flags: JSON_THROW_ON_ERROR);
    if (!str_contains($data['to'] ?? '', '@')) {
        throw new Last("no address: {$job['job_data']}");
    }
    echo "to {$data['to']}, attempt {$job['attempt']}\n";
    return ['sent_to' => $data['to']];
}

if (realpath($argv[0]) === __FILE__) {
    (new Worker(connect(...), $argv[1] ?? 'emails', ['send' => send(...)]))->work();
}
