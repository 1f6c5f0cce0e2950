<?php
// Takes an order and enqueues a job for it in one transaction: afterwards both exist, or neither.
//
//     DB_HOST=127.0.0.1 DB_USER=shop DB_PASSWORD=secret DB_NAME=shop php enqueue.php 4711 ann@example.org
declare(strict_types=1);

/** Enqueues a job; returns its id, and whether a live job already had that key. $options: priority, at, in, timeout, … */
function submit(PDO $db, string $queue, string $type, ?string $key = null, mixed $data = null, array $options = []): array
{
    $call = $db->prepare('CALL shop_job_submit(?, ?, ?, ?, ?)');
    $data = $data === null ? null : json_encode($data, JSON_THROW_ON_ERROR); // else invalid UTF-8 becomes false
    $call->execute([$queue, $type, $key, $data, json_encode((object) $options, JSON_THROW_ON_ERROR)]);
    [$id, $duplicate] = $call->fetch(PDO::FETCH_NUM);
    $call->closeCursor();
    return [(int) $id, (bool) $duplicate];
}

function takeOrder(PDO $db, int $number, string $customer): array
{
    $db->beginTransaction();
    $db->prepare('INSERT INTO orders (number, customer) VALUES (?, ?)')->execute([$number, $customer]);
    $job = submit($db, 'emails', 'send', "order-$number", ['to' => $customer, 'order' => $number], ['timeout' => 30]);
    $db->commit();
    return $job;
}

$of = fn (string $name, string $default) => getenv($name) === false ? $default : getenv($name);
$db = new PDO(
    "mysql:host={$of('DB_HOST', '127.0.0.1')};port={$of('DB_PORT', '3306')};dbname={$of('DB_NAME', 'shop')};charset=utf8mb4",
    $of('DB_USER', 'shop'), $of('DB_PASSWORD', ''),
    [PDO::ATTR_ERRMODE => PDO::ERRMODE_EXCEPTION],
);
[$id, $duplicate] = takeOrder($db, (int) $argv[1], $argv[2]);
echo "job $id", $duplicate ? ', which was there already' : '', "\n";
