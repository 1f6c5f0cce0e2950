<?php

// Dispatches the jobs of the scenarios.
$app = require __DIR__.'/shop.php';
$app->make(Illuminate\Contracts\Console\Kernel::class)->bootstrap();

use App\{Big, Dies, Encrypted, Exits, FailsOnTimeout, Gives, Leaks, Limited, Long, LosesConnection, Many, MaxExceptions, OneTry, Order, Ordered, Overlaps, Plain, Quick, Releases,
    ReleasesTooOften, Skips, Slow, Steady, Throttles, TimesOut, Tries, Unique, UniqueUntil, Until, WithModel, WithoutModel};
use Illuminate\Support\Facades\Bus;
use Illuminate\Support\Facades\DB;

[, $what, $count] = $argv + [2 => '', 1 => ''];
if ($what === 'feed') {
    feed(fn ($n) => Long::dispatch($n), fn () => DB::disconnect());
    exit;
}
if ($what !== '') { // for tests other than that of the scenarios
    foreach (range(1, (int) ($count ?: 3)) as $n) {
        match ($what) {
            'many' => Many::dispatch("many $n"),
            'steady' => Steady::dispatch((string) $n),
            'slow' => Slow::dispatch('slow '.[3, 8][$n - 1]),
            'quick' => Quick::dispatch('quick'),
            'failing' => OneTry::dispatch("one try $n") && Plain::dispatch('later')->delay($n < 3 ? 3600 : 0),
        };
    }
    exit;
}
try {
    DB::transaction(function () {
        Order::create(['number' => 1]);
        Plain::dispatch('rolled back');
        throw new Exception('no');
    });
} catch (Exception $e) {
}
DB::transaction(function () {
    Order::create(['number' => 2]);
    Plain::dispatch('committed');
    Plain::dispatch('after commit')->afterCommit();
});
Plain::dispatch('on a queue')->onQueue('emails');
Plain::dispatch('delayed')->delay(1);
Plain::dispatch('delayed until')->delay(now()->addSeconds(2));
Plain::dispatch('tomorrow')->delay(now()->addDay());
Tries::dispatch('tries');
OneTry::dispatch('one try');
MaxExceptions::dispatch('max exceptions');
Until::dispatch('until');
Releases::dispatch('releases');
ReleasesTooOften::dispatch('releases too often');
Gives::dispatch('gives up');
TimesOut::dispatch('times out');
FailsOnTimeout::dispatch('fails on timeout');
Unique::dispatch('unique');
Unique::dispatch('unique');
UniqueUntil::dispatch('until 1');
Encrypted::dispatch('encrypted');
Overlaps::dispatch('overlaps 1');
Overlaps::dispatch('overlaps 2');
foreach (range(1, 4) as $n) {
    Limited::dispatch("limited $n")->delay($n); // two at the same moment could both pass Laravel's limiter
}
Throttles::dispatch('throttles');
Skips::dispatch('skips');
Bus::chain([new Plain('chain 1'), (new Plain('chain 2'))->onQueue('emails'), new Plain('chain 3')])->dispatch();
Bus::chain([new Gives('broken chain 1'), new Plain('broken chain 2')])->catch(fn ($e) => App\trace('broken chain', 'catch '.$e->getMessage()))->dispatch();
Bus::batch([new Plain('batch 1'), new Plain('batch 2'), new Gives('batch 3')])->allowFailures()
    ->then(fn () => App\trace('batch', 'then'))->catch(fn () => App\trace('batch', 'catch'))
    ->finally(fn ($batch) => App\trace('batch', "finally {$batch->processedJobs()} {$batch->failedJobs}"))->dispatch();
dispatch(fn () => App\trace('closure', 'runs'));
app('queue')->bulk([new Plain('bulk 1'), (new Plain('bulk 2'))->delay(1), new Plain('bulk 3')]);
Dies::dispatch('dies');
Exits::dispatch('exits');
if (! getenv('DB_SQLITE')) {
    LosesConnection::dispatch('loses its connection');
}
Big::dispatch('big');
$gone = Order::create(['number' => 3]);
WithModel::dispatch('model', Order::create(['number' => 4]));
WithModel::dispatch('without its model', $gone);
WithoutModel::dispatch('deleted without its model', $gone);
$gone->delete();
event(new Ordered(2));
if (getenv('QUEUE_CONNECTION') === 'hipq') { // Laravel's own driver loses what runs next
    Leaks::dispatch('leaks');
}
Plain::dispatch('after all');
