<?php
function connect(): void
{
    throw new UnexpectedValueException("SQLSTATE[HY000] [2002] Connection refused");
}
try {
    connect();
} catch (UnexpectedValueException $e) {
    throw new RuntimeException("the order can't be stored", 0, $e);
}
