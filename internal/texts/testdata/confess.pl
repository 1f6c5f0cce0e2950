use Carp;
sub deliver { confess "no route to $_[0]" }
sub send_all { deliver("example.org") }
eval { send_all(); 1 } or die $@;
