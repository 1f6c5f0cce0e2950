<?php
try {
    try {
        intdiv(1, 0);
    } catch (DivisionByZeroError $e) {
        throw new DomainException('no average', 0, $e);
    }
} catch (Throwable $e) {
    fwrite(STDERR, $e . "\n");
    exit(75);
}
