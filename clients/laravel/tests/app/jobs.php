<?php

namespace App;

use Illuminate\Bus\Batchable;
use Illuminate\Bus\Queueable;
use Illuminate\Contracts\Queue\ShouldBeEncrypted;
use Illuminate\Contracts\Queue\ShouldBeUnique;
use Illuminate\Contracts\Queue\ShouldBeUniqueUntilProcessing;
use Illuminate\Contracts\Queue\ShouldQueue;
use Illuminate\Database\Eloquent\Model;
use Illuminate\Foundation\Bus\Dispatchable;
use Illuminate\Queue\InteractsWithQueue;
use Illuminate\Queue\Middleware\RateLimited;
use Illuminate\Queue\Middleware\ThrottlesExceptions;
use Illuminate\Queue\Middleware\WithoutOverlapping;
use Illuminate\Queue\SerializesModels;
use Illuminate\Support\Facades\DB;

function trace(string $job, string $note): void
{
    DB::table('trace')->insert(['job' => $job, 'note' => $note]);
}

abstract class Job implements ShouldQueue
{
    use Batchable, Dispatchable, InteractsWithQueue, Queueable, SerializesModels;

    private $secret = "nul\0ü€"; // private properties have NULs in serialized objects

    public function __construct(public string $name) {}

    public function handle()
    {
        echo "{\"id\": 1, \"outcome\": \"failed\"}\n";
        trace($this->name, "runs {$this->attempts()} ".($this->secret === "nul\0ü€" ? 'whole' : 'broken'));
    }

    public function failed($e)
    {
        trace($this->name, 'failed '.class_basename($e).': '.$e->getMessage());
    }

    protected function throws()
    {
        trace($this->name, "try {$this->attempts()}");
        throw new \RuntimeException('no connection to the mail server');
    }
}

class Plain extends Job {}

class Many extends Job
{
    public $tries = 3;
    public function handle() { usleep(10000); trace($this->name, 'runs'); }
}

class Steady extends Job // of robust.py
{
    public $tries = 3;
    public function handle() { steady($this->name, $this->attempts(), fn () => trace($this->name, 'runs')); }
    public function failed($e) { file_put_contents(getenv('STEADY'), "$this->name failed\n", FILE_APPEND); }
}

class Long extends Job // of others.py
{
    public function handle() { steady($this->name, $this->attempts(), fn () => null); }
}

class Slow extends Job // has one try
{
    public function handle()
    {
        trace($this->name, "begins {$this->attempts()}");
        for ($end = microtime(true) + (int) substr($this->name, 5); microtime(true) < $end; usleep(50000)) {
        }
        trace($this->name, "ends {$this->attempts()}");
    }
}

class Quick extends Job
{
    public function handle() {}
}

class Tries extends Job
{
    public $tries = 3;
    public $backoff = [1, 2];
    public function handle() { $this->throws(); }
}

class OneTry extends Job
{
    public function handle() { $this->throws(); }
}

class MaxExceptions extends Job
{
    public $tries = 10;
    public $maxExceptions = 2;
    public function handle() { $this->throws(); }
}

class Until extends Job
{
    public $backoff = 8;
    public function retryUntil() { return now()->addSeconds(5); }
    public function handle() { $this->throws(); }
}

class Releases extends Job
{
    public $tries = 2;
    public function handle() { $this->attempts() === 1 ? $this->release(1) : trace($this->name, 'after a release '.$this->attempts()); }
}

class ReleasesTooOften extends Job
{
    public $tries = 2;
    public function handle() { trace($this->name, 'releases '.$this->attempts()); $this->release(1); }
}

class Gives extends Job
{
    public function handle() { $this->fail(new \LogicException('no such customer')); }
}

class TimesOut extends Job
{
    public $timeout = 1;
    public $tries = 2;
    public function handle() { trace($this->name, 'sleeps '.$this->attempts()); sleep(10); }
}

class FailsOnTimeout extends TimesOut
{
    public $failOnTimeout = true;
}

class Unique extends Job implements ShouldBeUnique
{
    public function uniqueId() { return $this->name; }
}

class UniqueUntil extends Job implements ShouldBeUniqueUntilProcessing
{
    public function uniqueId() { return 'one'; }
    public function handle() { trace($this->name, 'runs'); $this->name === 'until 1' && self::dispatch('until 2'); }
}

class Encrypted extends Job implements ShouldBeEncrypted {}

class Overlaps extends Job
{
    public $tries = 30;
    public function middleware() { return [(new WithoutOverlapping('stock'))->releaseAfter(1)]; }
    public function handle() { trace('overlaps', 'begins'); usleep(300000); trace('overlaps', 'ends'); }
}

class Limited extends Job
{
    public $tries = 50;
    public function middleware() { return [new RateLimited('two')]; }
    public function handle() { trace('limited', 'runs'); }
}

class Throttles extends Job
{
    public $tries = 2;
    public function middleware() { return [(new ThrottlesExceptions(5, 1))->backoff(0)]; }
    public function handle() { $this->throws(); }
}

class Skips extends Job
{
    public function middleware() { return [fn ($job, $next) => trace($job->name, 'a middleware skips it')]; }
}

class Dies extends Job
{
    public $tries = 2;
    public function handle() { trace($this->name, 'dies '.$this->attempts()); posix_kill(getmypid(), SIGKILL); }
}

class Exits extends Job
{
    public $tries = 2;
    public function handle() { trace($this->name, 'exits '.$this->attempts()); exit(3); }
}

class LosesConnection extends Job
{
    public $tries = 3;
    public function handle()
    {
        try {
            DB::statement('KILL CONNECTION_ID()');
        } catch (\Throwable $e) {
        }
        trace($this->name, 'reconnected '.$this->attempts());
    }
}

class Big extends Job
{
    public function handle() { $GLOBALS['big'] = str_repeat('x', 140 << 20); trace($this->name, 'is over the memory limit'); }
}

class Leaks extends Job
{
    public $tries = 2;
    public function handle() { DB::beginTransaction(); trace($this->name, 'is lost'); }
}

class Order extends Model
{
    public $timestamps = false;
    protected $fillable = ['number'];
}

class WithModel extends Job
{
    public function __construct(string $name, public Order $order) { parent::__construct($name); }
    public function handle() { trace($this->name, "order {$this->order->number}"); }
}

class WithoutModel extends WithModel
{
    public $deleteWhenMissingModels = true;
}

class Ordered
{
    public function __construct(public int $number) {}
}

class MailOrder implements ShouldQueue
{
    use InteractsWithQueue;
    public $tries = 2;
    public function handle(Ordered $event) { trace('listener', "order $event->number, attempt {$this->attempts()}"); $this->attempts() > 1 || throw new \RuntimeException('once more'); }
}
