print "sending\n";
die "no route to example.org";
