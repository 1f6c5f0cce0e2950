<?php
// The example's worker in PHP, for the test: it does what a job's data says, and keeps the ledger, as the handler does.
// Usage: worker.php EXAMPLES LEDGER QUEUE LOCK_SECONDS SECONDS, of which the last says after how long it ends in order.
declare(strict_types=1);

[, $examples, $file, $queue, $lockSeconds, $seconds] = $argv;
require "$examples/worker.php";

$ledger = fopen($file, 'a');
stream_set_write_buffer($ledger, 0);

function note(array $job, string $event): void
{
    $now = hrtime(true); // the handler's clock too, unless the machine was suspended
    fwrite($GLOBALS['ledger'], "\n$event {$job['queue']} {$job['id']} {$job['attempt']} {$job['token']} ".getmypid().' '.posix_getppid()." $now .");
}

/** Takes its time between grab and start now and then, to be killed there. */
final class Dawdler extends Hipq
{
    public function call(string $procedure, mixed ...$args): array
    {
        if ($procedure === 'job_start' && random_int(1, 10) === 1) {
            usleep(300_000);
        }
        return parent::call($procedure, ...$args);
    }
}

final class Crew extends Worker
{
    private float $end;
    private bool $late = false;

    public function __construct(string $queue, int $lockSeconds, float $seconds)
    {
        $types = ['plain', 'brief', 'fragile', 'asked', 'sent'];
        parent::__construct(connect(...), $queue, array_fill_keys($types, $this->do(...)), 'proof', $lockSeconds, 3);
        $this->hipq = new Dawdler(connect(...), 'proof', 60);
        $this->end = microtime(true) + $seconds;
    }

    protected function heartbeat(): void
    {
        if ($this->late) {
            return;
        }
        parent::heartbeat();
        if (microtime(true) > $this->end) {
            posix_kill(getmypid(), SIGTERM);
        }
    }

    private function do(array $job): void
    {
        note($job, 'start');
        $steps = json_decode($job['job_data'], true)['steps'];
        $step = $steps[min($job['attempt'], count($steps)) - 1];
        $until = microtime(true) + ($step['ms'] ?? 0) / 1000;
        while (($left = $until - microtime(true)) > 0) {
            usleep((int) (min($left, 0.005) * 1e6));
            note($job, 'beat');
        }
        if ($step['do'] === 'crash') {
            throw new Later('killed by signal 9 (SIGKILL), as it were', '1s');
        }
        while ($step['do'] === 'hang') {
            usleep(100_000);
        }
        note($job, $step['do']);
        match ($step['do']) {
            'fatal' => throw new Last('failed for good on purpose'),
            'fail' => throw new Exception('failed on purpose'),
            default => null,
        };
        if ($step['do'] === 'late') {
            $this->beLate($job);
        }
    }

    /** Comes back, without a heartbeat meanwhile, when another runs the job. */
    private function beLate(array $job): void
    {
        $this->late = true;
        $look = connect(60)->prepare("SELECT state, attempt FROM proof_{$this->queue} WHERE id = ?");
        do {
            usleep(10_000);
            $look->execute([$job['id']]);
            [$state, $attempt] = $look->fetch(PDO::FETCH_NUM);
        } while ($attempt <= $job['attempt']);
        fwrite(STDERR, "late for {$this->queue} {$job['id']}, which is $state in attempt $attempt\n");
        $this->late = false;
    }
}

(new Crew($queue, (int) $lockSeconds, (float) $seconds))->work();
