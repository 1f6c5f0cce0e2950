use strict;
$total = 1;
