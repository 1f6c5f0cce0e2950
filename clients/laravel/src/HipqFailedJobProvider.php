<?php

namespace Hipq\Laravel;

use DateTimeInterface;
use Hipq\HipqError;
use Illuminate\Queue\Failed\FailedJobProviderInterface;
use Illuminate\Queue\Failed\NullFailedJobProvider;
use Illuminate\Queue\Failed\PrunableFailedJobProvider;
use Illuminate\Queue\QueueManager;

/** The failed jobs of the connection "hipq" are those of `hipq failures`; another provider has those of other connections. */
class HipqFailedJobProvider implements FailedJobProviderInterface, PrunableFailedJobProvider
{
    public function __construct(private QueueManager $manager, private FailedJobProviderInterface $others) {}

    public function log($connection, $queue, $payload, $exception)
    {
        if (! $this->manager->connection($connection) instanceof HipqQueue) {
            return $this->others->log($connection, $queue, $payload, $exception);
        }

        return json_decode($payload, true)['uuid'] ?? null; // hipq is told with the job's outcome
    }

    public function all()
    {
        return [...array_map([$this, 'record'], $this->failures()), ...$this->others->all()];
    }

    public function find($id)
    {
        return ($found = $this->failures($id)) ? $this->record($found[0]) : $this->others->find($id);
    }

    public function ids($queue = null)
    {
        return collect($this->all())->when($queue !== null, fn ($all) => $all->where('queue', $queue))->pluck('id')->values()->all();
    }

    public function count($connection = null, $queue = null)
    {
        return collect($this->all())->when($connection !== null, fn ($all) => $all->where('connection', $connection))
            ->when($queue !== null, fn ($all) => $all->where('queue', $queue))->count();
    }

    public function forget($id)
    {
        return $this->dismiss($this->failures($id)) > 0 || ! $this->others instanceof NullFailedJobProvider && $this->others->forget($id);
    }

    public function flush($hours = null)
    {
        $this->dismiss($this->failures(null, $hours === null ? null : now()->subHours((int) $hours)));
        $this->others->flush($hours);
    }

    public function prune(DateTimeInterface $before)
    {
        return $this->dismiss($this->failures(null, $before))
            + ($this->others instanceof PrunableFailedJobProvider ? $this->others->prune($before) : 0);
    }

    private function failures($uuid = null, ?DateTimeInterface $before = null): array
    {
        $all = [];
        $hipq = $this->hipq();
        foreach ($hipq->queues() as $queue) {
            $failures = $hipq->jobs($queue, 'failures')->orderByDesc('id');
            if ($uuid !== null) {
                $failures->where('job_key', $uuid);
            }
            if ($before !== null) {
                $failures->where('update_time', '<', gmdate('Y-m-d H:i:s', $before->getTimestamp()));
            }
            $all = [...$all, ...$failures->get()->each(fn ($job) => $job->queue = $queue)->all()];
        }

        return $all;
    }

    private function record(object $job): object
    {
        return (object) [
            'id' => $job->job_key, 'connection' => 'hipq', 'queue' => $job->queue, 'payload' => (string) $job->job_data,
            'exception' => (string) $job->error, 'failed_at' => date('Y-m-d H:i:s', strtotime("$job->update_time UTC")),
        ];
    }

    private function dismiss(array $failures): int
    {
        $count = 0;
        foreach ($failures as $job) {
            try {
                $this->hipq()->client()->dismiss($job->queue, (int) $job->id);
                $count++;
            } catch (HipqError $e) {
                // another process did it, or deleted the job
            }
        }

        return $count;
    }

    private function hipq(): HipqQueue
    {
        return $this->manager->connection('hipq');
    }
}
