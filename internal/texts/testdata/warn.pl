print "sending\n";
warn "slow";
open(my $order, "<", "nowhere.txt") or die "no order: $!";
