<?php

namespace Hipq\Laravel;

use Illuminate\Queue\Connectors\ConnectorInterface;
use Illuminate\Queue\Events\JobExceptionOccurred;
use Illuminate\Queue\Events\WorkerStopping;
use Illuminate\Support\ServiceProvider;

class HipqServiceProvider extends ServiceProvider implements ConnectorInterface
{
    public function register()
    {
        $this->mergeConfigFrom(__DIR__.'/../config/hipq.php', 'queue.connections.hipq');
        // Failures of hipq's jobs are in hipq; the provider that was configured keeps those of other connections.
        $this->app->extend('queue.failer', fn ($others) => new HipqFailedJobProvider($this->app['queue'], $others));
    }

    public function boot()
    {
        $this->callAfterResolving('queue', fn ($queue) => $queue->addConnector('hipq', fn () => $this));
        $this->app['events']->listen(JobExceptionOccurred::class, function ($event) {
            if ($event->job instanceof HipqJob) {
                $event->job->caught($event->exception);
            }
        });
        // Laravel's worker says this before it ends: also before it kills itself because a job has timed out.
        $this->app['events']->listen(WorkerStopping::class, fn () => HipqJob::answer(true));
    }

    public function connect(array $config)
    {
        return new HipqQueue($this->app['db']->connection($config['connection'] ?? null), $config);
    }
}
