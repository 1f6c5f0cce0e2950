<?php

namespace Hipq\Messenger;

use Symfony\Component\Messenger\Stamp\NonSendableStampInterface;

/** More columns of one message's row: new HipqStamp(key: 'order-4711'). The columns are explained in hipq's "Enqueue jobs". */
final class HipqStamp implements NonSendableStampInterface
{
    /** @param list<string>|null $windows */
    public function __construct(
        public readonly ?string $key = null,
        public readonly ?int $priority = null,
        public readonly ?int $timeout = null,
        public readonly ?int $weight = null,
        public readonly ?array $windows = null,
        public readonly ?string $shardKey = null,
        public readonly ?string $type = null,
    ) {
    }
}
