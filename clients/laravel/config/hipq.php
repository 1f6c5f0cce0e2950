<?php

// The connection "hipq" of config/queue.php. What you set there under connections.hipq wins.
return [
    'driver' => 'hipq',
    'connection' => env('HIPQ_DB_CONNECTION'), // of config/database.php; null is the default one
    'instance' => env('HIPQ_INSTANCE', 'app'), // "name" in hipq.yaml
    'queue' => env('HIPQ_QUEUE', 'default'),
    'type' => null, // the job type; null is the job's class, for which hipq.yaml has the type "*"
    'tables' => [], // a queue's table, if hipq.yaml has the setting tables: ['default' => 'jobs_default']
    'command' => 'hipq', // on SQLite, queue:clear, queue:forget and queue:retry run it
    'config' => env('HIPQ_CONFIG'),
    'after_commit' => false, // the job's row is in your transaction
];
