<?php

// Dispatches the messages of the scenarios.
use App\{Batched, Both, Email, Work};
use Hipq\Messenger\HipqStamp;
use Symfony\Component\Messenger\Stamp\DelayStamp;

$kernel = require __DIR__.'/shop.php';
$kernel->boot();
$bus = $kernel->getContainer()->get('bus');
$db = $kernel->getContainer()->get('doctrine')->getConnection();

[, $what, $count] = $argv + [2 => 0, 1 => ''];
if ('count' === $what) {
    exit((string) $kernel->getContainer()->get('transport')->getMessageCount());
}
if ('feed' === $what) {
    feed(fn ($n) => $bus->dispatch(new Work("steady $n", 'steady')), fn () => $db->close());
    exit;
}
if ('' !== $what) { // for tests other than that of the scenarios
    for ($n = 1; $n <= $count; ++$n) {
        $bus->dispatch(new Work("$what $n", $what));
    }
    exit;
}
try {
    $db->transactional(function () use ($bus) {
        $bus->dispatch(new Work('rolled back'));
        throw new Exception('no');
    });
} catch (Exception) {
}
$db->transactional(fn () => $bus->dispatch(new Work('committed')));
$bus->dispatch(new Email('an email'));
$bus->dispatch(new Work('delayed'), [new DelayStamp(1500)]);
$bus->dispatch(new Work('tomorrow'), [new DelayStamp(86400_000)]);
foreach (['throws', 'throws once', 'unrecoverable', 'recoverable', 'dies', 'exits', 'dispatches', 'throws in a transaction', 'loses its connection'] as $how) {
    $bus->dispatch(new Work($how, $how));
}
$bus->dispatch(new Both('both'));
foreach ([1, 2, 3] as $n) {
    $bus->dispatch(new Batched("batch $n"));
}
if ('hipq' === getenv('QUEUE')) { // on Doctrine's transport these swallow what comes next
    $bus->dispatch(new Work('leaks', 'leaks'));
    $bus->dispatch(new Work('throws and leaks', 'throws and leaks'));
    foreach ([1, 2] as $n) {
        try {
            $bus->dispatch(new Work('keyed'), [new HipqStamp(key: 'order-4711', priority: 50, timeout: 20)]);
        } catch (Hipq\DuplicateJob $e) {
            $db->insert('trace', ['job' => 'keyed', 'note' => 'a duplicate']);
        }
    }
}
$bus->dispatch(new Work('after all'));
